/* Finds the options that have an effect, and warns of those that have none. Combinations that would give wrong results
 * are errors instead, which are reported where the settings are checked. */
#include "tools/lib/config/option_needs.h"

#include <string.h>

#include "stage/log.h"
#include "tools/lib/config/settings_model.h"

#define VALUE_BYTES 60

static bool has_word(const char *words, const char *word)
{
    const size_t bytes = strlen(word);
    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + bytes, word))
        if ((at == words || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

const char *option_use_values(const struct option_row *option, const struct option_use *use, struct option_text *text)
{
    const struct option_row *const of = option_find(use->section, use->key);
    const char *name;
    size_t used = 0;
    int choice;
    if (use->keys_of == NULL)
        return use->values;
    *text->text = '\0';
    for (size_t i = 0; (name = option_choice_at(of, i, &choice)) != NULL; i++)
        if (has_word(use->keys_of(choice), option->key))
            used += (size_t)snprintf(text->text + used, sizeof(text->text) - used, "%s%s", used > 0 ? " " : "", name);
    return text->text;
}

static bool is_fulfilled(const struct option_row *option, const struct option_use *use, const struct settings *settings)
{
    const struct option_row *const of = option_find(use->section, use->key);
    struct option_text text, all;
    const char *const values = option_use_values(option, use, &all);
    return values != NULL ? has_word(values, option_format(of, settings, &text)) : !option_is_default(of, settings);
}

bool option_is_used(const struct option_row *option, const struct settings *settings)
{
    for (size_t i = 0; i < OPTION_USES_MAX && option->uses[i].key != NULL; i++)
        if (!is_fulfilled(option, &option->uses[i], settings))
            return false;
    return true;
}

bool option_is_for(const struct option_row *option, const char *value)
{
    struct option_text text;
    return option->uses[0].key != NULL && has_word(option_use_values(option, &option->uses[0], &text), value);
}

/* Write the values as a sentence: "adam adamw" -> "only adam and adamw use it". */
static void list_users(const char *values, char *text, size_t text_size)
{
    const char *const last = strrchr(values, ' ');
    size_t used = (size_t)snprintf(text, text_size, "only ");
    for (const char *at = values; *at != '\0' && used + 5 < text_size; at++)
        used += (size_t)snprintf(text + used, text_size - used, *at != ' ' ? "%c" : at == last ? " and " : ", ", *at);
    snprintf(text + used, text_size - used, last != NULL ? " use it" : " uses it");
}

/* Print a warning such as "run.conf:12: betas = 0.8 0.9 has no effect with train.optimizer = momentum; only adam and
 * adamw use it". */
static void warn(const struct option_row *row, const struct option_use *use, const struct settings *settings)
{
    const struct option_row *const of = option_find(use->section, use->key);
    const struct option_origin *const origin = &settings->origins[option_index(row)];
    const char *const section = section_name(use->section);
    char where[300], users[160];
    struct option_text value, other, all;
    const char *const values = option_use_values(row, use, &all);
    if (origin->origin == ORIGIN_COMMAND)
        snprintf(where, sizeof(where), "%s%s.%s", settings_prefix(settings), section_name(row->section), row->key);
    else
        snprintf(where, sizeof(where), "%.256s:%u: %s", settings->config_path, (unsigned)origin->line, row->key);
    if (values == NULL) {
        log_message(LOG_RUN, "%s = %.*s has no effect without %s.%s", where, VALUE_BYTES,
                    option_format(row, settings, &value), section, use->key);
        return;
    }
    list_users(values, users, sizeof(users));
    log_message(LOG_RUN, "%s = %.*s has no effect with %s.%s = %s; %s", where, VALUE_BYTES,
                option_format(row, settings, &value), section, use->key, option_format(of, settings, &other),
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
    if (options_are_all_set(settings))
        return;
    for (const struct option_row *row = option_table; row->key != NULL; row++) {
        if (settings->origins[option_index(row)].origin <= ORIGIN_MODEL || option_is_default(row, settings))
            continue;
        for (size_t i = 0; i < OPTION_USES_MAX && row->uses[i].key != NULL; i++)
            if (!is_fulfilled(row, &row->uses[i], settings))
                warn(row, &row->uses[i], settings);
    }
}

/* ---- commands without training ---- */

void option_unused_warn(const struct settings *settings, const char *command, unsigned uses)
{
    char names[1024] = "";
    if ((uses & USED_BY_EVALUATE) != 0 && (uses & USED_WITH_CONFIG) != 0)
        uses |= USED_WITH_EVALUATE;
    if (settings->model_text == NULL)
        uses |= USED_BY_NAME;
    for (const struct option_row *row = option_table; row->key != NULL; row++) {
        const size_t used = strlen(names);
        if (settings->origins[option_index(row)].origin == ORIGIN_COMMAND && (row->used_by & uses) == 0)
            snprintf(names + used, sizeof(names) - used, "%s%s.%s", used > 0 ? ", " : "", section_name(row->section),
                     row->key);
    }
    if (*names != '\0')
        log_message(LOG_RUN, "%s does not use %s%s", command, names,
                    strstr(names, "model.weights") != NULL ? "; --weights FILE names weights" : "");
}
