/* The table of options that depend on others, and the warning. Combinations that would give wrong results are errors
 * instead, reported where the settings are checked. */
#include "tools/config/option_needs.h"

#include <string.h>

#include "stage/log.h"

#define VALUE_BYTES 60

/* A row for each key, even if several keys of a section depend on the same option. */
#define OPTIMIZER(key, values) { SECTION_TRAIN, key, SECTION_TRAIN, "optimizer", values }
#define SCHEDULE(key, values) { SECTION_TRAIN, key, SECTION_TRAIN, "schedule", values }
#define MODE(key, values) { SECTION_SYNC, key, SECTION_SYNC, "mode", values }
#define KIND(key, values) { SECTION_DEVICES, key, SECTION_DEVICES, "kind", values }

const struct option_need option_needs[] = {
    OPTIMIZER("momentum", "momentum nesterov rmsprop lars"),
    OPTIMIZER("rho", "adadelta rmsprop rmsprop_keras"),
    OPTIMIZER("betas", "adam adamw"),
    OPTIMIZER("epsilon", "adadelta rmsprop rmsprop_keras adam adamw"),
    OPTIMIZER("trust", "lars"),
    { SECTION_TRAIN, "decay_scope", SECTION_TRAIN, "weight_decay", NULL },
    SCHEDULE("schedule_epochs", "cosine polynomial one_cycle"),
    SCHEDULE("boundaries", "piecewise"),
    SCHEDULE("factors", "piecewise"),
    SCHEDULE("decay_factor", "exponential"),
    SCHEDULE("decay_epochs", "exponential"),
    SCHEDULE("staircase", "exponential"),
    SCHEDULE("rate_decay", "inverse_time"),
    SCHEDULE("final_rate", "cosine polynomial"),
    SCHEDULE("power", "polynomial"),
    SCHEDULE("peak", "one_cycle"),
    MODE("every", "averaging"),
    MODE("average", "averaging"),
    MODE("server", "parameter_server"),
    MODE("max_staleness", "async"),
    MODE("staleness_rate", "async"),
    { SECTION_DATA, "shuffle_window", SECTION_DATA, "shuffle", "block" },
    { SECTION_INPUT, "read_block", SECTION_DATA, "shuffle", "block" },
    { SECTION_DATA, "max_corrupt", SECTION_DATA, "on_corrupt", "skip" },
    { SECTION_AUGMENT, "pad", SECTION_AUGMENT, "crop", "pad" },
    { SECTION_AUGMENT, "shift", SECTION_AUGMENT, "crop", "shift" },
    { SECTION_AUGMENT, "evaluation_scale", SECTION_AUGMENT, "evaluation", "auto central" },
    { SECTION_AUGMENT, "evaluation_scale", SECTION_AUGMENT, "evaluation_resize", "0" },
    { SECTION_AUGMENT, "evaluation_resize", SECTION_AUGMENT, "evaluation", "auto central" },
    { SECTION_REPORT, "histograms", SECTION_REPORT, "tensorboard", NULL },
    { SECTION_MODEL, "skip", SECTION_MODEL, "weights", NULL },
    KIND("list", "auto cuda"),
    KIND("graph", "auto cuda"),
    KIND("time_plans", "auto cuda"),
    KIND("plan_cache", "auto cuda"),
    KIND("convolution", "auto cpu"),
    { .key = NULL }
};

static bool has_word(const char *words, const char *word)
{
    const size_t bytes = strlen(word);
    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + bytes, word))
        if ((at == words || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

static bool is_default(const struct option_row *row, const struct settings *settings, const struct settings *defaults)
{
    struct option_text ours, theirs;
    return strcmp(option_format(row, settings, &ours), option_format(row, defaults, &theirs)) == 0;
}

static bool is_used(const struct option_need *need, const struct settings *settings, const struct settings *defaults)
{
    const struct option_row *const of = option_find(need->of, need->of_key);
    struct option_text text;
    return need->values != NULL ? has_word(need->values, option_format(of, settings, &text))
                                : !is_default(of, settings, defaults);
}

/* "adam adamw" -> "only adam and adamw use it". */
static void list_users(const char *values, char *text, size_t text_size)
{
    const char *const last = strrchr(values, ' ');
    size_t used = (size_t)snprintf(text, text_size, "only ");
    for (const char *at = values; *at != '\0' && used + 5 < text_size; at++)
        used += (size_t)snprintf(text + used, text_size - used, *at != ' ' ? "%c" : at == last ? " and " : ", ", *at);
    snprintf(text + used, text_size - used, last != NULL ? " use it" : " uses it");
}

/* "run.conf:12: betas = 0.8 0.9 has no effect with train.optimizer = momentum; only adam and adamw use it". */
static void warn(const struct option_need *need, const struct settings *settings)
{
    const struct option_row *const row = option_find(need->section, need->key);
    const struct option_row *const of = option_find(need->of, need->of_key);
    const struct option_origin *const origin = &settings->origins[option_index(row)];
    const char *const section = section_name(need->of);
    char where[300], users[160];
    struct option_text value, other;
    if (origin->origin == ORIGIN_COMMAND)
        snprintf(where, sizeof(where), "--set %s.%s", section_name(need->section), need->key);
    else
        snprintf(where, sizeof(where), "%.256s:%u: %s", settings->config_path, (unsigned)origin->line, need->key);
    if (need->values == NULL) {
        log_message(LOG_RUN, "%s = %.*s has no effect without %s.%s", where, VALUE_BYTES,
                    option_format(row, settings, &value), section, need->of_key);
        return;
    }
    list_users(need->values, users, sizeof(users));
    log_message(LOG_RUN, "%s = %.*s has no effect with %s.%s = %s; %s", where, VALUE_BYTES,
                option_format(row, settings, &value), section, need->of_key, option_format(of, settings, &other),
                users);
}

bool options_are_all_set(const struct settings *settings)
{
    for (const struct option_row *row = option_table; row->key != NULL; row++)
        if (settings->origins[option_index(row)].origin < ORIGIN_FILE)
            return false;
    return true;
}

void option_needs_warn(const struct settings *settings)
{
    struct settings defaults;
    settings_report_followed(settings);
    if (options_are_all_set(settings) || settings_init(&defaults) != 0)
        return;
    for (const struct option_need *need = option_needs; need->key != NULL; need++) {
        const struct option_row *const row = option_find(need->section, need->key);
        if (settings->origins[option_index(row)].origin > ORIGIN_MODEL && !is_default(row, settings, &defaults) &&
            !is_used(need, settings, &defaults))
            warn(need, settings);
    }
    settings_release(&defaults);
}
