/* Parses the axes of --compare, and assembles the values of a variant. */
#include "tools/compare/axes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/config/hints.h"

#define WHERE "--compare"

static int find_row(const char *name, struct settings *settings, struct problems *problems,
                    const struct option_row **row_out)
{
    char section_text[64], hint[CONFIG_HINT_SIZE], names[256];
    const char *const dot = strchr(name, '.');
    snprintf(section_text, sizeof(section_text), "%.*s", (int)(dot != NULL ? dot - name : 0), name);
    const enum section section = dot != NULL ? section_find(section_text) : SECTION_COUNT;
    const char *const key = dot != NULL ? dot + 1 : name;
    *row_out = section != SECTION_COUNT ? option_find(section, key) : NULL;
    const size_t found = dot == NULL ? option_find_key(key, row_out, names, sizeof(names)) : *row_out != NULL;
    if (found > 1)
        problems_add(problems, WHERE, "'%s' may be %s", key, names);
    if (found >= 1)
        return found == 1 ? 0 : -EINVAL;
    config_hint_key(settings, section, key, hint, sizeof(hint));
    problems_add(problems, WHERE, "there is no key '%.80s'%s", name, hint);
    return -EINVAL;
}

/* Find the axis of the option, or add one. 0, -ENOMEM, or -EINVAL with a problem when there are too many axes. */
static int find_axis(struct axes *axes, const struct option_row *row, struct problems *problems,
                     struct axis **axis_out)
{
    const struct option_row *other;
    char names[256];
    for (size_t i = 0; i < axes->count; i++)
        if (axes->axes[i].option == row) {
            *axis_out = &axes->axes[i];
            return 0;
        }
    if (axes->count == AXES_MAX) {
        problems_add(problems, WHERE, "at most %u keys can be compared at a time", AXES_MAX);
        return -EINVAL;
    }
    struct axis *const axis = &axes->axes[axes->count];
    if (asprintf(&axis->key, "%s.%s", section_name(row->section), row->key) < 0)
        return -ENOMEM;
    axis->option = row;
    axis->name = option_find_key(row->key, &other, names, sizeof(names)) == 1 ? row->key : axis->key;
    axes->count++;
    *axis_out = axis;
    return 0;
}

/* Copy up to the next comma that is not escaped. Returns where the value ends in `text`, NULL if out of memory. */
static const char *copy_value(const char *text, char **value_out)
{
    char *const value = malloc(strlen(text) + 1);
    size_t bytes = 0;
    if (value == NULL)
        return NULL;
    for (; *text != '\0' && *text != ','; text++) {
        text += text[0] == '\\' && text[1] == ',';
        value[bytes++] = *text;
    }
    value[bytes] = '\0';
    *value_out = value;
    return text;
}

static int add_values(struct axis *axis, const char *text)
{
    for (bool is_last = false; !is_last; text++) {
        char **const values = realloc(axis->values, (axis->count + 1) * sizeof(*values));
        if (values == NULL)
            return -ENOMEM;
        axis->values = values;
        text = copy_value(text, &values[axis->count]);
        if (text == NULL)
            return -ENOMEM;
        axis->count++;
        is_last = *text == '\0';
    }
    return 0;
}

int axes_add(struct axes *axes, const char *text, struct settings *settings, struct problems *problems)
{
    const struct option_row *row = NULL;
    struct axis *axis;
    char name[128];
    const char *const equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals - text >= (ptrdiff_t)sizeof(name)) {
        problems_add(problems, WHERE, "'%.80s': wants a key and its values (towers=1,2,4)", text);
        return -EINVAL;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
    int rc = find_row(name, settings, problems, &row);
    if (rc == 0)
        rc = find_axis(axes, row, problems, &axis);
    if (rc == 0 && row->in_trials != NULL) {
        problems_add(problems, WHERE, "%s is the same in all variants: --steps and --seconds set how long they run",
                     axis->key);
        rc = -EINVAL;
    }
    return rc == 0 ? add_values(axis, equals + 1) : rc;
}

void axes_release(struct axes *axes)
{
    for (size_t i = 0; i < axes->count; i++) {
        struct axis *const axis = &axes->axes[i];
        for (size_t j = 0; j < axis->count; j++)
            free(axis->values[j]);
        free(axis->values);
        free(axis->key);
    }
    *axes = (struct axes){ .count = 0 };
}

const struct axis *axes_find(const struct axes *axes, const char *key)
{
    for (size_t i = 0; i < axes->count; i++)
        if (strcmp(axes->axes[i].key, key) == 0)
            return &axes->axes[i];
    return NULL;
}

void axes_add_one_tower(struct axes *axes, const struct settings *settings)
{
    bool is_sync = false;
    for (size_t i = 0; i < axes->count; i++)
        is_sync = is_sync || axes->axes[i].option->section == SECTION_SYNC;
    axes->has_one_tower = is_sync && axes_find(axes, "devices.towers") == NULL && settings->devices.towers > 1;
}

uint64_t axes_variants(const struct axes *axes)
{
    uint64_t variants = 1;
    for (size_t i = 0; i < axes->count; i++)
        if (__builtin_mul_overflow(variants, axes->axes[i].count, &variants))
            return UINT64_MAX;
    return variants + (axes->has_one_tower ? 1 : 0);
}

const char *axes_value(const struct axes *axes, uint64_t variant, size_t axis)
{
    if (axes->has_one_tower && variant > 0)
        variant--;
    for (size_t i = axes->count - 1; i > axis; i--)
        variant /= axes->axes[i].count;
    return axes->axes[axis].values[variant % axes->axes[axis].count];
}

void axes_name(const struct axes *axes, uint64_t variant, char *name_out, size_t name_size)
{
    size_t used = 0;
    if (axes->has_one_tower && variant == 0) {
        snprintf(name_out, name_size, AXES_ONE_TOWER);
        return;
    }
    *name_out = '\0';
    for (size_t i = 0; i < axes->count && used + 1 < name_size; i++) {
        const char *const value = axes_value(axes, variant, i);
        const int bytes = snprintf(name_out + used, name_size - used, "%s%s=%s", i > 0 ? " " : "", axes->axes[i].name,
                                   value);
        used += bytes > 0 ? (size_t)bytes : 0;
    }
}
