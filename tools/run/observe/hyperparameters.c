/* Settings as hyperparameters: by the names they have in a configuration file. Called when event files are begun. */
#include "tools/run/observe/hyperparameters.h"

#include <stdio.h>
#include <string.h>

#include "tools/config/options.h"

/* Sections that count as wholes, and of others the keys that do. */
static const struct { enum section section; const char *keys; } counted[] = {
    { SECTION_MODEL, NULL },
    { SECTION_AUGMENT, NULL },
    { SECTION_TRAIN, NULL },
    { SECTION_RUN, " seed " },
    { SECTION_DATA, " train limit shuffle " },
    { SECTION_INPUT, " source " },
    { SECTION_DEVICES, " towers precision " },
    { SECTION_SYNC, " mode every " },
};

static bool is_counted(const struct option_row *option)
{
    char word[64];
    snprintf(word, sizeof(word), " %s ", option->key);
    for (size_t i = 0; i < sizeof(counted) / sizeof(*counted); i++)
        if (counted[i].section == option->section)
            return counted[i].keys == NULL || strstr(counted[i].keys, word) != NULL;
    return false;
}

static void put(struct tfevent *event, const struct option_row *option, const struct settings *settings)
{
    const void *const value = option_value(option, settings);
    struct option_text text;
    char name[64];
    snprintf(name, sizeof(name), "%s.%s", section_name(option->section), option->key);
    switch (option->type) {
    case OPTION_INTEGER:
    case OPTION_SIZE:
        tfevent_number(event, name, (double)*(const int64_t *)value);
        break;
    case OPTION_NUMBER:
        tfevent_number(event, name, *(const double *)value);
        break;
    case OPTION_YES_NO:
        tfevent_flag(event, name, *(const bool *)value);
        break;
    default:
        tfevent_words(event, name, option_format(option, settings, &text));
    }
}

void hyperparameters_put(struct tfevent *event, const struct settings *settings, const char *group, double time)
{
    tfevent_open_session(event);
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (is_counted(option))
            put(event, option, settings);
    tfevent_close_session(event, group, time);
}
