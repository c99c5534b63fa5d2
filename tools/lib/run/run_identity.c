/* Writes and compares identities of runs. */
#include "tools/lib/run/run_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "stage/text/text_stream.h"
#include "stage/text/utf8.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/settings.h"

#define SHOWN_MAX 3u            /* the most differences in a message */
#define VALUE_SHOWN 60          /* the most bytes of a value in a message */
#define CONTENT_OF "the content of "

static bool has_line(const struct option_row *option, const struct settings *settings)
{
    switch (option->line) {
    case LINE_ALWAYS: return true;
    case LINE_IF_USED: return option_is_used(option, settings);
    case LINE_IF_CPU: return settings->devices.kind == DEVICE_CHOICE_CPU;
    case LINE_IF_TOWERS: return settings_towers(settings) > 1;
    case LINE_ELSEWHERE: break;
    }
    return false;
}

static enum option_effect effect_of(const struct option_row *option, const struct settings *settings)
{
    return option->decides_slices && settings->train.slices > 0 ? EFFECT_RUN : option->effect;
}

static void write_options(const struct settings *settings, enum option_effect effect, FILE *out)
{
    struct option_text text;
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (effect_of(option, settings) == effect && has_line(option, settings))
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

/* Hash a file. False if it cannot be read, for example because it was removed after the run had begun. */
static bool hash_file(const char *path, uint64_t *hash_out)
{
    uint8_t buffer[1 << 16];
    ssize_t bytes = -1;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    XXH3_state_t *const state = XXH3_createState();
    if (fd >= 0 && state != NULL && XXH3_64bits_reset(state) == XXH_OK)
        while ((bytes = read(fd, buffer, sizeof(buffer))) > 0)
            XXH3_64bits_update(state, buffer, (size_t)bytes);
    if (bytes == 0)
        *hash_out = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    if (fd >= 0)
        close(fd);
    return bytes == 0;
}

#define WEIGHTS_KEY CONTENT_OF "model.weights"
#define WEIGHTS_DIGITS 16
#define WEIGHTS_UNKNOWN "0000000000000000"

/* Write the hash of the file of initial weights, because it may be replaced or removed. */
static void write_weights(const char *path, FILE *out)
{
    uint64_t hash;
    if (*path != '\0' && hash_file(path, &hash))
        fprintf(out, WEIGHTS_KEY " = %016" PRIx64 "\n", hash);
    else
        fprintf(out, WEIGHTS_KEY " = " WEIGHTS_UNKNOWN "\n");
}

/* Write the backend, on which results depend as on the device: "backend = onednn with AVX2". */
static void write_backend(const struct backend_ops *backend, FILE *out)
{
    const bool is_known = backend->instructions != NULL;
    fprintf(out, "backend = %s%s%s\n", backend->name, is_known ? " with " : "",
            is_known ? instructions_name(backend->instructions()) : "");
}

/* The settings with the values that the plan has chosen for those left open. The texts are borrowed. */
static struct settings effective_settings(const struct settings *settings, const struct run_plan *plan,
                                          const struct dataset *const *datasets)
{
    struct settings effective = *settings;
    if (settings->input.source == INPUT_CACHED)
        effective.input.source = INPUT_REAL;
    if (datasets[PHASE_TRAIN] != NULL)
        effective.data.shuffle_window = (int64_t)run_plan_loader(plan, settings, datasets).window_bytes;
    effective.train.batch = plan->schedule.batch;
    if (plan->devices.backend->computes)
        effective.devices.kind = plan->devices.ops->host_memory ? DEVICE_CHOICE_CPU : DEVICE_CHOICE_CUDA;
    effective.devices.towers = plan->schedule.towers;
    effective.devices.threads_per_tower = plan->threads_per_tower;
    return effective;
}

int run_identity_make(struct run_identity *identity_out, const struct settings *settings, const struct run_plan *plan,
                      const struct dataset *const *datasets)
{
    const struct settings effective = effective_settings(settings, plan, datasets);
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    write_options(&effective, EFFECT_RUN, out);
    if (settings->model_text != NULL)
        fprintf(out, "model.file = %016" PRIx64 "\n",
                (uint64_t)XXH3_64bits(settings->model_text, settings->model_bytes));
    if (plan->class_weights != NULL)
        fprintf(out, CONTENT_OF "train.class_weights = %016" PRIx64 "\n", plan->class_weights_hash);
    write_data(plan, datasets, out);
    const long decisive = ftell(out);
    write_weights(settings->model.weights, out);
    write_options(&effective, EFFECT_REPORTED, out);
    write_backend(plan->devices.backend, out);
    const int rc = text_stream_end(out, &text);
    if (rc == 0)
        *identity_out = (struct run_identity){ text, (size_t)decisive };
    return rc;
}

void run_identity_release(struct run_identity *identity)
{
    free(identity->text);
    *identity = (struct run_identity){ .text = NULL };
}

/* ---- comparing ---- */

/* The value in the line of `text` that begins with the key of `line`; NULL: there is none. */
static const char *find_value(const char *text, const char *line, size_t key_bytes)
{
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, line, key_bytes) == 0)
            return at + key_bytes;
    return NULL;
}

const char *run_identity_value(const char *text, const char *key)
{
    char begin[96];
    const int bytes = snprintf(begin, sizeof(begin), "%s = ", key);
    return find_value(text, begin, (size_t)bytes);
}

/* A value without the rest of the text, shortened at the end of a character. */
struct shown { int bytes; const char *text; };

static struct shown shown_of(const char *value)
{
    const size_t bytes = value != NULL ? strcspn(value, "\n") : 0;
    if (bytes == 0)
        return (struct shown){ 4, "none" };
    return (struct shown){ utf8_cut(value, bytes < VALUE_SHOWN ? bytes : VALUE_SHOWN), value };
}

/* The option to which the line belongs; NULL: none. */
static const struct option_row *option_of(const char *line, size_t key_bytes)
{
    for (const struct option_row *row = option_table; row->key != NULL; row++) {
        char begin[96];
        const size_t bytes = (size_t)snprintf(begin, sizeof(begin), "%s.%s = ", section_name(row->section), row->key);
        if (bytes == key_bytes && strncmp(line, begin, bytes) == 0)
            return row;
    }
    return NULL;
}

/* The value in the checkpoint; if it lacks the key, the default. */
static struct shown shown_there(const char *line, size_t key_bytes, const char *theirs)
{
    const struct option_row *const option = theirs == NULL ? option_of(line, key_bytes) : NULL;
    return shown_of(option != NULL && !option->unknown_if_missing ? option->initial : theirs);
}

static void add_difference(const char *line, size_t key_bytes, const char *theirs, uint32_t most,
                           struct run_differences *differences)
{
    char *const words = differences->words;
    const size_t used = strlen(words), words_size = sizeof(differences->words);
    const struct shown here = shown_of(line + key_bytes), there = shown_there(line, key_bytes, theirs);
    if (differences->count < most)
        snprintf(words + used, words_size - used, "%s%.*s is %.*s, there %.*s", used == 0 ? "" : "; ",
                 (int)key_bytes - 3, line, here.bytes, here.text, there.bytes, there.text);
    else if (differences->count == most)
        snprintf(words + used, words_size - used, "; ...");
    differences->count++;
}

static bool is_line(const char *line, size_t bytes, const char *text)
{
    return strlen(text) == bytes && strncmp(line, text, bytes) == 0;
}

/* The checkpoint of an earlier version lacks the key. May its value have been ours: because ours is the default, or
 * because the earlier value is unknown? */
static bool may_be_initial(const char *line, size_t key_bytes, size_t value_bytes)
{
    if (strncmp(line, CONTENT_OF, sizeof(CONTENT_OF) - 1) == 0)
        return true;
    const struct option_row *const option = option_of(line, key_bytes);
    return option != NULL && (option->unknown_if_missing || is_line(line + key_bytes, value_bytes, option->initial));
}

/* Is it a value of an earlier version that may have meant the same as ours? */
static bool is_unclear(const char *line, size_t key_bytes, const char *theirs)
{
    const struct option_row *const option = option_of(line, key_bytes);
    return option != NULL && option->unclear != NULL && strcspn(theirs, "\n") == strlen(option->unclear) &&
           strncmp(theirs, option->unclear, strlen(option->unclear)) == 0;
}

static bool line_differs(const char *line, size_t key_bytes, const char *theirs)
{
    const size_t value_bytes = strcspn(line + key_bytes, "\n");
    if (theirs == NULL)
        return !may_be_initial(line, key_bytes, value_bytes);
    return strncmp(theirs, line + key_bytes, value_bytes + 1) != 0 && !is_unclear(line, key_bytes, theirs);
}

/* Compare the lines from `begin` to `end` with `theirs`. */
static bool compare_lines(const char *begin, const char *end, const char *theirs, uint32_t most,
                          bool (*differs)(const char *line, size_t key_bytes, const char *theirs),
                          struct run_differences *differences)
{
    *differences = (struct run_differences){ .count = 0 };
    for (const char *line = begin; line < end; line += strcspn(line, "\n") + 1) {
        const size_t key_bytes = (size_t)(strstr(line, " = ") - line) + 3;
        const char *const value = find_value(theirs, line, key_bytes);
        if (differs(line, key_bytes, value))
            add_difference(line, key_bytes, value, most, differences);
    }
    return differences->count > 0;
}

bool run_identity_differs(const struct run_identity *identity, const char *theirs, struct run_differences *differences)
{
    return compare_lines(identity->text, identity->text + identity->decisive_bytes, theirs, SHOWN_MAX, line_differs,
                         differences);
}

/* Has the value changed? A line that is missing, as in checkpoints of early versions, counts as unchanged. */
static bool line_changed(const char *line, size_t key_bytes, const char *theirs)
{
    return theirs != NULL && strncmp(theirs, line + key_bytes, strcspn(line + key_bytes, "\n") + 1) != 0;
}

bool run_identity_has_changes(const struct run_identity *identity, const char *theirs,
                              struct run_differences *differences)
{
    return compare_lines(identity->text + identity->decisive_bytes, identity->text + strlen(identity->text), theirs,
                         UINT32_MAX, line_changed, differences);
}

/* ---- the weights that a run begins with ---- */

static bool is_known(const char *hash)
{
    return hash != NULL && strncmp(hash, WEIGHTS_UNKNOWN, WEIGHTS_DIGITS) != 0;
}

bool run_identity_has_other_weights(const struct run_identity *identity, const char *theirs)
{
    const char *const ours = run_identity_value(identity->text, WEIGHTS_KEY);
    const char *const there = run_identity_value(theirs, WEIGHTS_KEY);
    return is_known(ours) && is_known(there) && strncmp(ours, there, WEIGHTS_DIGITS) != 0;
}

void run_identity_keep_weights(struct run_identity *identity, const char *theirs)
{
    const char *const there = run_identity_value(theirs, WEIGHTS_KEY);
    char *const ours = (char *)(uintptr_t)run_identity_value(identity->text, WEIGHTS_KEY);
    memcpy(ours, there != NULL ? there : WEIGHTS_UNKNOWN, WEIGHTS_DIGITS);
}
