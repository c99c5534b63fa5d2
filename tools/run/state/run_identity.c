/* Identities of runs. */
#include "tools/run/state/run_identity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "stage/text/text_stream.h"
#include "tools/config/options.h"
#include "tools/config/training.h"

#define TOLD_MAX 3u             /* differences that are named */
#define VALUE_SHOWN 60          /* bytes of a value */
#define CONTENT_OF "the content of "

/* Sections that decide, but for some of their keys; "" = all the others of the section. */
static const struct { enum section section; bool decides; const char *others; } rules[] = {
    { SECTION_RUN, false, " seed " },
    { SECTION_DATA, true, " train validation allow_overlap class_names index_cache on_corrupt max_corrupt " },
    { SECTION_INPUT, false, " source " },
    { SECTION_AUGMENT, true, "" },
    { SECTION_MODEL, true, " file " },
    { SECTION_TRAIN, true, " epochs steps batch batch_per_tower max_time stop_at patience on_nan " },
    { SECTION_DEVICES, false, " precision " },
    { SECTION_SYNC, false, " mode consistency wire every average max_staleness staleness_rate " },
};

static bool is_decisive(const struct option_row *option)
{
    char word[64];
    snprintf(word, sizeof(word), " %s ", option->key);
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (rules[i].section == option->section)
            return (strstr(rules[i].others, word) == NULL) == rules[i].decides;
    return false;
}

/* Where towers take turns, how they do decides, too; states from before there was anything to set do not say. */
static bool is_of_no_use(const struct option_row *option, const struct settings *settings)
{
    const struct { const char *key; enum sync_mode of; } keys[] = {
        { "max_staleness", SYNC_ASYNC }, { "staleness_rate", SYNC_ASYNC },
        { "consistency", settings->sync.consistency == CONSISTENCY_RELAXED ? settings->sync.mode : SYNC_REPLICATED },
        { "average", SYNC_AVERAGING },
    };
    const bool is_initial = settings->sync.consistency == CONSISTENCY_STRONG &&
                            settings->sync.average == AVERAGED_ALL && settings->sync.mode != SYNC_ASYNC;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (option->section == SECTION_SYNC && strcmp(option->key, keys[i].key) == 0)
            return is_initial || settings->sync.mode != keys[i].of;
    return option->section == SECTION_SYNC && strcmp(option->key, "wire") == 0 && !settings_use_bf16_grads(settings);
}

static void write_options(const struct settings *settings, FILE *out)
{
    struct option_text text;
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (is_decisive(option) && !is_of_no_use(option, settings))
            fprintf(out, "%s.%s = %s\n", section_name(option->section), option->key,
                    option_format(option, settings, &text));
}

static void write_data(const struct run_plan *plan, const struct dataset *const *datasets, FILE *out)
{
    static const char *const names[PHASE_COUNT] = { [PHASE_TRAIN] = "data.train",
                                                    [PHASE_EVALUATE] = "data.validation" };
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *const dataset = datasets[phase];
        fprintf(out, "%s = %" PRIu64 " records, %016" PRIx64 "\n", names[phase], plan->schedule.records[phase],
                dataset != NULL ? dataset->fingerprint : 0);
        if (dataset != NULL)
            fprintf(out, CONTENT_OF "%s = %016" PRIx64 "\n", names[phase], dataset->contents);
    }
}

int run_identity_open(char **identity_out, const struct settings *settings, const struct run_plan *plan,
                      const struct dataset *const *datasets)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    write_options(settings, out);
    fprintf(out, "train.batch = %" PRIu32 "\n", plan->schedule.batch);
    if (settings->model_text != NULL)
        fprintf(out, "model.file = %016" PRIx64 "\n",
                (uint64_t)XXH3_64bits(settings->model_text, settings->model_bytes));
    write_data(plan, datasets, out);
    const int rc = text_stream_end(out, &text);
    if (rc == 0)
        *identity_out = text;
    return rc;
}

/* ---- comparing ---- */

/* The value of the line that begins as `line` does, up to its " = "; NULL: there is none. */
static const char *find_value(const char *text, const char *line, size_t key_bytes)
{
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, line, key_bytes) == 0)
            return at + key_bytes;
    return NULL;
}

/* A value up to the end of its line. */
struct shown { int bytes; const char *text; };

static struct shown shown_of(const char *value)
{
    const size_t bytes = value != NULL ? strcspn(value, "\n") : 0;
    if (bytes == 0)
        return (struct shown){ 4, "none" };
    return (struct shown){ bytes < VALUE_SHOWN ? (int)bytes : VALUE_SHOWN, value };
}

static void add_difference(const char *line, size_t key_bytes, const char *theirs, uint32_t told, char *words,
                           size_t words_size)
{
    const size_t used = strlen(words);
    const struct shown here = shown_of(line + key_bytes), there = shown_of(theirs);
    if (told < TOLD_MAX)
        snprintf(words + used, words_size - used, "%s%.*s is %.*s, there %.*s", used == 0 ? "" : "; ",
                 (int)key_bytes - 3, line, here.bytes, here.text, there.bytes, there.text);
    else if (told == TOLD_MAX)
        snprintf(words + used, words_size - used, "; ...");
}

/* Is the line's value what a version that did not know the key would have had, as far as one can tell? */
static bool may_be_initial(const char *line, size_t key_bytes, size_t value_bytes)
{
    if (strncmp(line, CONTENT_OF, sizeof(CONTENT_OF) - 1) == 0)
        return true;
    for (const struct option_row *row = option_table; row->key != NULL; row++) {
        char begin[96];
        const int bytes = snprintf(begin, sizeof(begin), "%s.%s = ", section_name(row->section), row->key);
        if ((size_t)bytes == key_bytes && strncmp(line, begin, key_bytes) == 0)
            return strlen(row->initial) == value_bytes && strncmp(row->initial, line + key_bytes, value_bytes) == 0;
    }
    return false;
}

bool run_identity_differs(const char *ours, const char *theirs, char *words, size_t words_size)
{
    uint32_t told = 0;
    *words = '\0';
    for (const char *line = ours; *line != '\0'; line += strcspn(line, "\n") + 1) {
        const size_t key_bytes = (size_t)(strstr(line, " = ") - line) + 3;
        const size_t value_bytes = strcspn(line + key_bytes, "\n");
        const char *const value = find_value(theirs, line, key_bytes);
        const bool is_same = value != NULL ? strncmp(value, line + key_bytes, value_bytes + 1) == 0
                                           : may_be_initial(line, key_bytes, value_bytes);
        if (!is_same)
            add_difference(line, key_bytes, value, told++, words, words_size);
    }
    return told > 0;
}
