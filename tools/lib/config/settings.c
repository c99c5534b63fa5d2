/* Sets the defaults, reports problems with options, and writes the complete copy of a run's settings. */
#include "tools/lib/config/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/config/options.h"
#include "tools/lib/config/settings_model.h"

static bool is_text(const struct option_row *option)
{
    return option->type == OPTION_STRING || option->type == OPTION_NAME;
}

int settings_init(struct settings *settings)
{
    *settings = (struct settings){ .config_path = strdup(""), .ranks = 1, .local_ranks = 1,
                                    .core_ranks = 1, .quota_ranks = 1 };
    int rc = settings->config_path == NULL ? -ENOMEM : 0;
    for (const struct option_row *option = option_table; option->key != NULL && rc == 0; option++) {
        char problem[256];
        rc = option_parse(option, settings, option->initial, problem, sizeof(problem));
        assert(rc != -EINVAL);
    }
    if (rc != 0)
        settings_release(settings);
    return rc;
}

void settings_release(struct settings *settings)
{
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (is_text(option))
            free(*(char **)option_field(option, settings));
    free(settings->config_path);
    free(settings->followed);
    free(settings->model_text);
    *settings = (struct settings){ .config_path = NULL };
}

struct option_origin *settings_origin(struct settings *settings, enum section section, const char *key)
{
    const struct option_row *option = option_find(section, key);
    assert(option != NULL);
    return &settings->origins[option_index(option)];
}

const char *settings_prefix(const struct settings *settings)
{
    return settings->only_feeds ? "" : "--set ";
}

void settings_report(struct settings *settings, struct problems *problems, enum section section, const char *key,
                     const char *message)
{
    struct option_origin *origin = settings_origin(settings, section, key);
    if (origin->is_bad)
        return;
    origin->is_bad = true;
    char where[512];
    if (settings->only_feeds || origin->origin == ORIGIN_COMMAND)
        snprintf(where, sizeof(where), "%s%s.%s", settings_prefix(settings), section_name(section), key);
    else if (origin->origin == ORIGIN_FILE)
        snprintf(where, sizeof(where), "%.480s:%u", settings->config_path, (unsigned)origin->line);
    else
        snprintf(where, sizeof(where), "%.500s", settings->config_path);
    if (settings->only_feeds || origin->origin == ORIGIN_COMMAND)
        problems_add(problems, where, "%s", message);
    else
        problems_add(problems, where, "%s: %s", key, message);
}

int64_t settings_batch(const struct settings *settings)
{
    const struct train_settings *train = &settings->train;
    return train->batch > 0 ? train->batch : train->batch_per_tower * settings_towers(settings);
}

int64_t settings_global_batch(const struct settings *settings)
{
    return settings_batch(settings) * settings->train.accumulate;
}

uint32_t settings_towers(const struct settings *settings)
{
    return settings->ranks * (uint32_t)settings->devices.towers;
}

/* Does the value need quotes? */
static bool needs_quotes(const char *value)
{
    const size_t length = strlen(value);
    return length > 0 && (*value == '"' || strpbrk(value, "#;") != NULL || strchr(" \t", *value) != NULL ||
                          strchr(" \t", value[length - 1]) != NULL);
}

static void write_value(const char *value, FILE *out)
{
    if (!needs_quotes(value)) {
        fprintf(out, "%s%s\n", *value == '\0' ? "" : " ", value);
        return;
    }
    fputs(" \"", out);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            putc('\\', out);
        putc(*value, out);
    }
    fputs("\"\n", out);
}

int settings_write(const struct settings *settings, FILE *out)
{
    enum section section = SECTION_COUNT;
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        struct option_text text;
        const char *value = option_format(option, settings, &text);
        if (option->section != section)
            fprintf(out, "%s[%s]\n", section == SECTION_COUNT ? "" : "\n", section_name(option->section));
        section = option->section;
        fprintf(out, "%s =", option->key);
        write_value(value, out);
    }
    return fflush(out) != 0 || ferror(out) ? -EIO : 0;
}
