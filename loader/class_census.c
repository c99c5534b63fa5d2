/* Counts the class names in records. Called while a data set is opened, and by tools for all records. */
#include "loader/class_census.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "stage/log.h"

#define SAID_MAX ((uint32_t)1 << 16)
#define SAID_FIRST 64u
/* If labels have more texts than this on average, the texts are captions, not names. */
#define TEXTS_OF_LABEL 3u
/* Contradicting records are taken for labels of another data set if they are at least one for every RIGHT_OF_WRONG
 * agreeing records; otherwise they are single wrong labels. */
#define RIGHT_OF_WRONG 4u

/* The slot of this label and text, or the empty slot for them. */
static uint32_t *find_slot(const struct class_census *census, int64_t label, const char *text)
{
    uint64_t at = XXH3_64bits_withSeed(text, strlen(text), (uint64_t)label);
    for (;; at++) {
        uint32_t *const slot = &census->slots[at & (census->slot_count - 1)];
        const struct class_said *const said = &census->said[*slot - 1];
        if (*slot == 0 || (said->label == label && strcmp(said->text, text) == 0))
            return slot;
    }
}

/* Enlarge the hash table so that half of the slots stay empty. */
static int grow(struct class_census *census)
{
    const uint32_t room = census->slot_count > 0 ? census->slot_count : SAID_FIRST;
    struct class_said *const said = reallocarray(census->said, room, sizeof(*said));
    if (said == NULL)
        return -ENOMEM;
    census->said = said;
    uint32_t *const slots = calloc(2 * (size_t)room, sizeof(*slots));
    if (slots == NULL)
        return -ENOMEM;
    free(census->slots);
    census->slots = slots;
    census->slot_count = 2 * room;
    for (uint32_t i = 0; i < census->count; i++)
        *find_slot(census, said[i].label, said[i].text) = i + 1;
    return 0;
}

static int add(struct class_census *census, const struct class_said *more)
{
    if (2 * census->count >= census->slot_count && grow(census) < 0)
        return -ENOMEM;
    uint32_t *const slot = find_slot(census, more->label, more->text);
    if (*slot == 0) {
        census->said[census->count] = *more;
        *slot = ++census->count;
        census->is_full = census->count >= SAID_MAX;
        return 0;
    }
    struct class_said *const said = &census->said[*slot - 1];
    said->count += more->count;
    said->record = more->record < said->record ? more->record : said->record;
    return 0;
}

int class_census_add(struct class_census *census, uint64_t record, int64_t label, const uint8_t *payload, size_t bytes)
{
    struct class_said said = { .label = label, .count = 1, .record = record };
    if (census->is_full)
        return 0;
    class_text_read(payload, bytes, said.text);
    return said.text[0] != '\0' ? add(census, &said) : 0;
}

int class_census_join(struct class_census *census, const struct class_census *other)
{
    int rc = 0;
    for (uint32_t i = 0; i < other->count && rc == 0 && !census->is_full; i++)
        rc = add(census, &other->said[i]);
    census->is_full = census->is_full || other->is_full;
    return rc;
}

/* Sort by label, and each label's texts by frequency, the most frequent first. */
static int by_label(const void *left, const void *right)
{
    const struct class_said *const a = left, *const b = right;
    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return (a->record > b->record) - (a->record < b->record);
}

static int by_text(const void *left, const void *right)
{
    const struct class_said *const *const a = left, *const *const b = right;
    const int order = strcmp((*a)->text, (*b)->text);
    return order != 0 ? order : ((*a)->label > (*b)->label) - ((*a)->label < (*b)->label);
}

/* Do records of another label have the same text? `sorted` has all entries by text. */
static bool is_of_another(const struct class_said *const *sorted, uint32_t count, const struct class_said *said)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (by_text(&sorted[middle], &said) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return (low > 0 && strcmp(sorted[low - 1]->text, said->text) == 0) ||
           (low + 1 < count && strcmp(sorted[low + 1]->text, said->text) == 0);
}

static void judge(struct class_census_result *result, const struct class_said *usual, const struct class_said *said,
                  bool is_of_another)
{
    if (usual == said || strstr(usual->text, said->text) != NULL || strstr(said->text, usual->text) != NULL) {
        result->right += said->count;
        return;
    }
    *(is_of_another ? &result->wrong : &result->other) += said->count;
    if (result->strange != NULL && result->strange->record < said->record)
        return;
    result->usual = usual;
    result->strange = said;
}

struct class_census_result class_census_end(struct class_census *census)
{
    struct class_census_result result = { .right = 0 };
    const struct class_said **const sorted = calloc((size_t)census->count + 1, sizeof(*sorted));
    if (sorted == NULL || census->is_full || census->count == 0) {
        free(sorted);
        return result;
    }
    qsort(census->said, census->count, sizeof(*census->said), by_label);
    for (uint32_t i = 0; i < census->count; i++)
        sorted[i] = &census->said[i];
    qsort(sorted, census->count, sizeof(*sorted), by_text);
    const struct class_said *usual = census->said;
    for (uint32_t i = 0; i < census->count; i++) {
        const struct class_said *const said = &census->said[i];
        usual = said->label != usual->label ? said : usual;
        result.labels += usual == said;
        judge(&result, usual, said, is_of_another(sorted, census->count, said));
    }
    const bool are_names = census->count <= TEXTS_OF_LABEL * (uint64_t)result.labels;
    const uint64_t agreeing = result.right - result.labels;
    result.is_contradiction = are_names && result.wrong > 0 && RIGHT_OF_WRONG * result.wrong >= agreeing;
    result.is_doubtful = are_names && result.wrong + result.other > 0 &&
                         result.wrong + result.other <= RIGHT_OF_WRONG * agreeing;
    free(sorted);
    return result;
}

void class_census_describe(const struct class_census_result *result, const char *here, const char *there,
                           char *text_out, size_t text_size)
{
    char usual[CLASS_TEXT_BYTES], strange[CLASS_TEXT_BYTES];
    log_escape(result->usual->text, strlen(result->usual->text), usual, sizeof(usual));
    log_escape(result->strange->text, strlen(result->strange->text), strange, sizeof(strange));
    snprintf(text_out, text_size, "label %" PRId64 " is %s in %s, but %s in %s (%" PRIu64 " of %" PRIu64
             " records name another class than most of their label)", result->usual->label, usual, here, strange, there,
             result->wrong + result->other, result->right + result->wrong + result->other);
}

void class_census_release(struct class_census *census)
{
    free(census->said);
    free(census->slots);
    *census = (struct class_census){ 0 };
}
