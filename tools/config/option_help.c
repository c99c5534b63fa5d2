/* --help, --help=NAME and the manual page, from the option table. */
#include "tools/config/option_help.h"

#include <errno.h>
#include <string.h>

#include "stage/text/names.h"
#include "tools/config/manual.h"
#include "tools/config/options.h"
#include "tools/config/words/manual_text.h"

#define KEY_COLUMN 18
#define VALUE_TEXT_SIZE 128

/* How many of the unit's letters one of it has: "batches" 5, "steps" 4. */
static int singular_bytes(const char *unit)
{
    const size_t bytes = strlen(unit);
    return (int)bytes - (bytes > 4 && strcmp(unit + bytes - 4, "ches") == 0 ? 2 : 1);
}

/* What applies when the key is not given: "4 batches", "1 batch", "chosen"; "" when nothing does. */
static void default_text(const struct option_row *option, char *text, size_t text_size)
{
    if (option->initial_note != NULL)
        snprintf(text, text_size, "%s", option->initial_note);
    else if (option->unit == NULL || *option->initial == '\0')
        snprintf(text, text_size, "%s", option->initial);
    else
        snprintf(text, text_size, "%s %.*s", option->initial,
                 strcmp(option->initial, "1") == 0 ? singular_bytes(option->unit) : (int)strlen(option->unit),
                 option->unit);
}

static void help_line(FILE *out, const struct option_row *option)
{
    char text[VALUE_TEXT_SIZE];
    default_text(option, text, sizeof(text));
    fprintf(out, "  %-*s%s", KEY_COLUMN, option->key, option->help);
    fprintf(out, *text == '\0' ? "\n" : " [%s]\n", text);
}

static void help_section(FILE *out, enum section section)
{
    fprintf(out, "[%s] %s\n", section_name(section), section_help(section));
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (option->section == section)
            help_line(out, option);
}

static void help_option(FILE *out, const struct option_row *option)
{
    char range[256], text[VALUE_TEXT_SIZE];
    option_range(option, range, sizeof(range));
    default_text(option, text, sizeof(text));
    fprintf(out, "%s.%s: %s\n", section_name(option->section), option->key, option->help);
    if (*range != '\0')
        fprintf(out, "  allowed: %s\n", range);
    if (option->unit != NULL)
        fprintf(out, "  unit:    %s\n", option->unit);
    if (option->initial_note != NULL && *option->initial != '\0')
        fprintf(out, "  default: %s (%s)\n", option->initial, option->initial_note);
    else
        fprintf(out, "  default: %s\n", *text == '\0' ? "none" : text);
}

void option_help_all(FILE *out)
{
    for (enum section section = 0; section < SECTION_COUNT; section++) {
        if (section > 0)
            fputc('\n', out);
        help_section(out, section);
    }
}

/* Is the option called `name`: "section.key" or "key"? */
static int is_called(const struct option_row *option, const char *name)
{
    const char *section = section_name(option->section);
    const size_t section_bytes = strlen(section);
    if (strncmp(name, section, section_bytes) == 0 && name[section_bytes] == '.')
        name += section_bytes + 1;
    return strcmp(option->key, name) == 0;
}

/* Report that there is no such option, with the one that was probably meant. */
static int unknown_name(const char *name, struct problems *problems)
{
    const char *dot = strchr(name, '.');
    struct nearest nearest = { .name = dot == NULL ? name : dot + 1 };
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        nearest_offer(&nearest, option->key, option);
    const struct option_row *near = nearest.best;
    if (near == NULL)
        problems_add(problems, "--help", "there is no option '%.80s'", name);
    else
        problems_add(problems, "--help", "there is no option '%.80s' (did you mean '%s.%s'?)", name,
                     section_name(near->section), near->key);
    return -EINVAL;
}

int option_help_one(FILE *out, const char *name, struct problems *problems)
{
    if (strcmp(name, "man") == 0) {
        manual_write(out);
        return 0;
    }
    const enum section section = section_find(name);
    if (section != SECTION_COUNT) {
        help_section(out, section);
        return 0;
    }
    int found = 0;
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (is_called(option, name)) {
            help_option(out, option);
            found++;
        }
    return found > 0 ? 0 : unknown_name(name, problems);
}

static void manual_option(FILE *out, const struct option_row *option)
{
    char range[256], text[VALUE_TEXT_SIZE];
    option_range(option, range, sizeof(range));
    default_text(option, text, sizeof(text));
    fprintf(out, ".TP\n.B %s\n", option->key);
    manual_text_write(option->help, out);
    if (*range != '\0') {
        fputs(".\nAllowed: ", out);
        manual_text_write(range, out);
    }
    if (*text != '\0') {
        fputs(".\nDefault: ", out);
        manual_text_write(text, out);
    }
    fputs(".\n", out);
}

void option_help_manual(FILE *out)
{
    enum section section = SECTION_COUNT;
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        if (option->section != section)
            fprintf(out, ".SS [%s] %s\n", section_name(option->section), section_help(option->section));
        section = option->section;
        manual_option(out, option);
    }
}
