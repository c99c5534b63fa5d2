/* Compares the class names in records with a list. Called while a data set is opened, and by tools for all records. */
#include "loader/class_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "stage/log.h"

/* Features of ImageNet's records; a list may have the names of either one. */
static const char *const text_keys[] = { "image/class/text", "image/class/synset" };
#define TEXT_KEYS (sizeof(text_keys) / sizeof(*text_keys))

static char fold_char(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '_' || c == '-' ? ' ' : c;
}

/* Write the first synonym of a text in lower case. Returns its length. */
static size_t fold(const char *text, size_t bytes, char *out)
{
    size_t length = 0;
    for (size_t i = 0; i < bytes && text[i] != ',' && text[i] != '\0'; i++)
        out[length++] = fold_char(text[i]);
    while (length > 0 && (out[length - 1] == ' ' || out[length - 1] == '\n' || out[length - 1] == '\r'))
        length--;
    out[length] = '\0';
    return length;
}

int class_texts_open(struct class_texts *texts_out, const struct class_names *names)
{
    size_t bytes = 0;
    for (uint32_t c = 0; c < names->count; c++)
        bytes += strlen(names->names[c]) + 1;
    char *const text = malloc(bytes + 1);
    const char **const folded = calloc((size_t)names->count + 1, sizeof(*folded));
    struct class_texts texts = { .names = names };
    int rc = text != NULL && folded != NULL ? 0 : -ENOMEM;
    for (uint32_t c = 0, at = 0; c < names->count && rc == 0; c++) {
        folded[c] = text + at;
        at += (uint32_t)fold(names->names[c], strlen(names->names[c]), text + at) + 1;
    }
    if (rc == 0)
        rc = class_names_make(&texts.folded, folded, names->count, 0);
    free(text);
    free(folded);
    if (rc == 0)
        *texts_out = texts;
    return rc;
}

void class_texts_close(struct class_texts *texts)
{
    class_names_release(&texts->folded);
    *texts = (struct class_texts){ .names = NULL };
}

/* Is the name the text with a number appended? Lists of ImageNet have "crane" and "crane2" where records have "crane"
 * for both. A number after a digit makes another name: "class11" is not "class1". */
static bool is_numbered(const char *name, const char *text, size_t bytes)
{
    const char last = text[bytes - 1];
    return strncmp(name, text, bytes) == 0 && (last < '0' || last > '9') &&
           strspn(name + bytes, "0123456789") == strlen(name + bytes);
}

/* Returns 1 if the text is the name of the class, -1 if it is the name of another class, 0 if it is no known name. The
 * whole name of another class has priority over a part of the own name: "male" is a part of "female". */
static int judge(const struct class_texts *texts, uint32_t label, const struct feature *feature)
{
    char text[256];
    uint32_t other;
    if (feature->kind != FEATURE_BYTES || feature->value_count != 1 || feature->byte_count >= sizeof(text))
        return 0;
    const size_t bytes = fold((const char *)feature->bytes, feature->byte_count, text);
    const char *const own = texts->folded.names[label];
    if (bytes == 0 || *own == '\0')
        return 0;
    if (class_names_find(&texts->folded, (const uint8_t *)text, bytes, &other) == 0 && other != label)
        return is_numbered(own, text, bytes) ? 0 : -1;
    return strstr(text, own) != NULL || strstr(own, text) != NULL;
}

static void note_wrong(struct class_text_counts *counts, uint64_t record, uint32_t label, const struct feature *feature)
{
    if (counts->wrong++ > 0 && counts->record <= record)
        return;
    counts->record = record;
    counts->label = label;
    log_escape((const char *)feature->bytes, feature->byte_count, counts->text, sizeof(counts->text));
}

void class_texts_compare(const struct class_texts *texts, uint64_t record, int64_t number, const uint8_t *payload,
                         size_t bytes, struct class_text_counts *counts)
{
    const size_t name_bytes[TEXT_KEYS] = { strlen(text_keys[0]), strlen(text_keys[1]) };
    const struct example_query query = { text_keys, name_bytes, TEXT_KEYS };
    struct feature features[TEXT_KEYS];
    const struct feature *wrong = NULL;
    size_t bad_offset;
    if (number < 0 || number >= texts->folded.count || example_find(payload, bytes, &query, features, &bad_offset) < 0)
        return;
    const uint32_t label = (uint32_t)number;
    for (size_t i = 0; i < TEXT_KEYS; i++) {
        const int verdict = judge(texts, label, &features[i]);
        if (verdict > 0) {
            counts->right++;
            return;
        }
        if (verdict < 0 && wrong == NULL)
            wrong = &features[i];
    }
    if (wrong != NULL)
        note_wrong(counts, record, label, wrong);
    else
        counts->unknown += features[0].kind == FEATURE_BYTES && features[0].value_count == 1;
}

void class_text_read(const uint8_t *payload, size_t bytes, char text_out[static CLASS_TEXT_BYTES])
{
    const size_t name_bytes = strlen(text_keys[0]);
    const struct example_query query = { text_keys, &name_bytes, 1 };
    struct feature feature;
    size_t bad_offset;
    text_out[0] = '\0';
    if (example_find(payload, bytes, &query, &feature, &bad_offset) == 0 && feature.kind == FEATURE_BYTES &&
        feature.value_count == 1 && feature.byte_count < CLASS_TEXT_BYTES)
        (void)fold((const char *)feature.bytes, feature.byte_count, text_out);
}

void class_text_counts_join(struct class_text_counts *counts, const struct class_text_counts *other)
{
    const uint64_t right = counts->right + other->right, wrong = counts->wrong + other->wrong;
    const uint64_t unknown = counts->unknown + other->unknown;
    if (other->wrong > 0 && (counts->wrong == 0 || other->record < counts->record))
        *counts = *other;
    counts->right = right;
    counts->wrong = wrong;
    counts->unknown = unknown;
}

void class_text_counts_describe(const struct class_text_counts *counts, const struct class_texts *texts, int64_t stored,
                               const char *path, const char *where, char *text_out, size_t text_size)
{
    const char *const name = texts->names->names[counts->label];
    char shown[CLASS_TEXT_BYTES];
    log_escape(name, strlen(name), shown, sizeof(shown));
    snprintf(text_out, text_size,
             "label %" PRId64 " is %s in %s, but %s in %s (%" PRIu64 " of %" PRIu64 " records name "
             "another class than their label)",
             stored, shown, path, counts->text, where, counts->wrong, counts->wrong + counts->right);
}
