/* Hints: the right section for a key, or the nearest name. */
#include "tools/config/config_hint.h"

#include <stdio.h>
#include <string.h>

#include "stage/text/nearest.h"

/* A problem with this option is being reported: it needs no second one. */
static void mark_bad(struct settings *settings, const struct option_row *option)
{
    settings->origins[option_index(option)].is_bad = true;
}

/* "[run] or [model]", the sections that have `key`; "" when none has. */
static void sections_with(const char *key, struct settings *settings, char *text, size_t text_size)
{
    size_t used = 0;
    *text = '\0';
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (strcmp(option->key, key) == 0 && used < text_size) {
            used += (size_t)snprintf(text + used, text_size - used, "%s[%s]", used == 0 ? "" : " or ",
                                     section_name(option->section));
            mark_bad(settings, option);
        }
}

/* The option nearest to `key`, of one section or of all (SECTION_COUNT). NULL when none is near. */
static const struct option_row *nearest_option(enum section section, const char *key)
{
    struct nearest nearest = { .name = key };
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (section == SECTION_COUNT || option->section == section)
            nearest_offer(&nearest, option->key, option);
    return nearest.best;
}

/* What an option is called now that had another name; NULL: it had not. */
static const char *new_name(enum section section, const char *key)
{
    static const struct { enum section section; const char *key, *name; } renamed[] = {
        { SECTION_MODEL, "init", "weights" },
    };
    for (size_t i = 0; i < sizeof(renamed) / sizeof(*renamed); i++)
        if (renamed[i].section == section && strcmp(renamed[i].key, key) == 0)
            return renamed[i].name;
    return NULL;
}

void config_hint_key(struct settings *settings, enum section section, const char *key, char *hint, size_t hint_size)
{
    char sections[128];
    const char *const name = new_name(section, key);
    if (name != NULL) {
        mark_bad(settings, option_find(section, name));
        snprintf(hint, hint_size, " (it is called '%s' now)", name);
        return;
    }
    sections_with(key, settings, sections, sizeof(sections));
    if (*sections != '\0') {
        snprintf(hint, hint_size, " (it belongs in %s)", sections);
        return;
    }
    const struct option_row *near = nearest_option(section, key);
    if (near == NULL)
        near = nearest_option(SECTION_COUNT, key);
    *hint = '\0';
    if (near == NULL)
        return;
    mark_bad(settings, near);
    if (near->section == section)
        snprintf(hint, hint_size, " (did you mean '%s'?)", near->key);
    else
        snprintf(hint, hint_size, " (did you mean '%s' in [%s]?)", near->key, section_name(near->section));
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
