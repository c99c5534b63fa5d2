/* Suggestions for misspelt keys and sections. */
#include "tools/lib/config/hints.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stage/text/names.h"

/* Mark an option as reported, so that it gets no second problem. */
static void mark_bad(struct settings *settings, const struct option_row *option)
{
    settings->origins[option_index(option)].is_bad = true;
}

/* May the option be suggested? */
static bool is_offered(const struct settings *settings, const struct option_row *option)
{
    return !settings->only_feeds || option_is_of_feeds(option);
}

/* The sections that have `key`: "[run] or [model]", or "". */
static void sections_with(const char *key, struct settings *settings, char *text, size_t text_size)
{
    size_t used = 0;
    *text = '\0';
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (strcmp(option->key, key) == 0 && is_offered(settings, option) && used < text_size) {
            used += (size_t)snprintf(text + used, text_size - used, "%s[%s]", used == 0 ? "" : " or ",
                                     section_name(option->section));
            mark_bad(settings, option);
        }
}

/* The option nearest to `key` in one section or in all (SECTION_COUNT), or NULL. */
static const struct option_row *nearest_option(const struct settings *settings, enum section section, const char *key)
{
    struct nearest nearest = { .name = key };
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if ((section == SECTION_COUNT || option->section == section) && is_offered(settings, option))
            nearest_offer(&nearest, option->key, option);
    return nearest.best;
}

static const struct option_row *nearest_other_name(const struct settings *settings, const char *key)
{
    struct nearest nearest = { .name = key };
    char name[PATTERN_BYTES];
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        for (const char *at = option->other_names;
             at != NULL && is_offered(settings, option) && patterns_next(&at, name);)
            nearest_offer(&nearest, name, option);
    return nearest.best;
}

/* The option that may be meant, preferably in the same section. */
static const struct option_row *nearest_anywhere(const struct settings *settings, enum section section, const char *key)
{
    const struct option_row *near = nearest_option(settings, section, key);
    if (near == NULL)
        near = nearest_option(settings, SECTION_COUNT, key);
    return near != NULL ? near : nearest_other_name(settings, key);
}

void config_hint_key(struct settings *settings, enum section section, const char *key, char *hint, size_t hint_size)
{
    char sections[128], where[64] = "";
    sections_with(key, settings, sections, sizeof(sections));
    if (*sections != '\0') {
        snprintf(hint, hint_size, " (it belongs in %s)", sections);
        return;
    }
    const struct option_row *same = option_find_other(key);
    if (same != NULL && !is_offered(settings, same))
        same = NULL;
    const struct option_row *const meant = same != NULL ? same : nearest_anywhere(settings, section, key);
    *hint = '\0';
    if (meant == NULL)
        return;
    mark_bad(settings, meant);
    if (meant->section != section)
        snprintf(where, sizeof(where), " in [%s]", section_name(meant->section));
    snprintf(hint, hint_size, same != NULL ? " (pipetrain calls it '%s'%s)" : " (did you mean '%s'%s?)",
             meant->key, where);
}

enum section config_hint_section(const char *name, char *hint, size_t hint_size)
{
    struct nearest nearest = { .name = name };
    for (enum section section = 0; section < SECTION_COUNT; section++)
        nearest_offer(&nearest, section_name(section), section_name(section));
    *hint = '\0';
    if (nearest.best == NULL)
        return SECTION_COUNT;
    snprintf(hint, hint_size, " (did you mean [%s]?)", (const char *)nearest.best);
    return section_find(nearest.best);
}
