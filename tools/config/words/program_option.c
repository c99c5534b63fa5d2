/* Options of a command line as getopt_long, --help and a manual page want them. Called by main. */
#include "tools/config/words/program_option.h"

#include <assert.h>
#include <string.h>

#include "tools/config/words/manual_text.h"

#define HELP_COLUMN 28
#define HELP_COLUMNS 80

static bool has_letter(const struct program_option *row)
{
    return row->letter < 128;
}

static int argument_kind(const struct program_option *row)
{
    return row->value == NULL ? no_argument : row->may_lack_value ? optional_argument : required_argument;
}

static char *add_letter(char *letters, const struct program_option *row)
{
    *letters++ = (char)row->letter;
    if (argument_kind(row) == required_argument)
        *letters++ = ':';
    return letters;
}

void program_option_words(const struct program_option *table, const char *first, struct program_words *words_out)
{
    size_t count = 0;
    char *letters = words_out->letters;
    assert(strlen(first) <= 1);
    letters = stpcpy(letters, first);
    for (; table[count].name != NULL; count++) {
        const struct program_option *const row = &table[count];
        assert(count < PROGRAM_OPTIONS_MAX);
        words_out->rows[count] = (struct option){ row->name, argument_kind(row), NULL, row->letter };
        if (has_letter(row))
            letters = add_letter(letters, row);
    }
    words_out->rows[count] = (struct option){ NULL, 0, NULL, 0 };
    *letters = '\0';
}

/* What stands between the name and its value: "--config FILE", "--overfit=N", "--set KEY=VALUE". */
static const char *between(const struct program_option *row)
{
    return has_letter(row) || strchr(row->value, '=') != NULL ? " " : "=";
}

/* "  -c, --config FILE"; how many columns it takes. */
static size_t print_name(const struct program_option *row, FILE *out)
{
    const int start = has_letter(row) ? fprintf(out, "  -%c, --%s", row->letter, row->name)
                                      : fprintf(out, "      --%s", row->name);
    if (row->value == NULL)
        return (size_t)start;
    const int end = row->may_lack_value ? fprintf(out, "[=%s]", row->value)
                                        : fprintf(out, "%s%s", between(row), row->value);
    return (size_t)start + (size_t)end;
}

/* Words from `column` on; further lines begin at HELP_COLUMN. */
static void print_words(const char *text, size_t column, FILE *out)
{
    bool is_first = column <= HELP_COLUMN;
    while (*text != '\0') {
        const size_t bytes = strcspn(text, " ");
        if (column + !is_first + bytes > HELP_COLUMNS) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
            is_first = true;
        }
        column += (size_t)fprintf(out, "%s%.*s", is_first ? "" : " ", (int)bytes, text);
        is_first = false;
        text += bytes + (text[bytes] == ' ');
    }
}

static void print_help(const struct program_option *row, FILE *out)
{
    size_t column = print_name(row, out);
    const int gap = column < HELP_COLUMN - 1 ? (int)(HELP_COLUMN - column) : 2;
    fprintf(out, "%*s", gap, "");
    column += (size_t)gap;
    print_words(row->help, column, out);
    if (row->example != NULL)
        fprintf(out, ":\n%*s%s", HELP_COLUMN, "", row->example);
    fputc('\n', out);
}

void program_option_help(const struct program_option *table, FILE *out)
{
    for (const struct program_option *row = table; row->name != NULL; row++)
        if (row->help != NULL)
            print_help(row, out);
}

/* The paragraph's tag: names bold, the value slanted. */
static void write_tag(const struct program_option *row, FILE *out)
{
    fputs(".TP\n", out);
    if (has_letter(row))
        fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", out);
    manual_text_write(row->name, out);
    fputs("\\fR", out);
    if (row->value != NULL) {
        fputs(row->may_lack_value ? "[=" : between(row), out);
        fputs("\\fI", out);
        manual_text_write(row->value, out);
        fputs(row->may_lack_value ? "\\fR]" : "\\fR", out);
    }
    fputc('\n', out);
}

/* A sentence as the page has them. */
static void write_sentence(const char *text, const char *end, FILE *out)
{
    const char first[2] = { *text >= 'a' && *text <= 'z' ? (char)(*text - 'a' + 'A') : *text, '\0' };
    manual_text_write(first, out);
    manual_text_write(text + 1, out);
    fputs(end, out);
}

void program_option_manual(const struct program_option *table, FILE *out)
{
    for (const struct program_option *row = table; row->name != NULL; row++) {
        if (row->help == NULL)
            continue;
        write_tag(row, out);
        write_sentence(row->help, ".\n", out);
        if (row->more != NULL)
            write_sentence(row->more, ".\n", out);
        if (row->example == NULL)
            continue;
        fputs(".br\n\\fB", out);
        manual_text_write(row->example, out);
        fputs("\\fR\n", out);
    }
}
