/* Options of a command line: parsing, --help and manual pages. Called by the main thread before any other. */
#include "tools/lib/config/program_option.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/decimal.h"
#include "stage/text/names.h"
#include "stage/text/program_folder.h"
#include "tools/lib/text/quantity.h"

/* ---- checks before getopt_long ---- */

#define NAME_BYTES 64

static const struct program_option *find_row(const struct program_option *table, const char *name)
{
    for (; table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* The option that `name` abbreviates or misspells, NULL: none. */
static const char *meant_by(const struct program_option *table, const char *name)
{
    struct nearest nearest = { .name = name };
    for (const struct program_option *row = table; row->name != NULL; row++)
        nearest_offer(&nearest, row->name, row->name);
    for (const struct program_option *row = table; nearest.best == NULL && row->name != NULL; row++)
        if (strncmp(row->name, name, strlen(name)) == 0)
            nearest.best = row->name;
    return nearest.best;
}

static int unknown_option(const struct program_option *table, const char *name)
{
    const char *const meant = meant_by(table, name);
    if (meant != NULL)
        log_message(LOG_ERROR, "there is no option '--%s' (did you mean '--%s'? --help shows the usage)", name, meant);
    else
        log_message(LOG_ERROR, "there is no option '--%s' (--help shows the usage)", name);
    return -EINVAL;
}

static bool has_letter(const struct program_option *row)
{
    return row->letter != 0;
}

static int argument_kind(const struct program_option *row)
{
    return row->value == NULL ? no_argument : row->may_lack_value ? optional_argument : required_argument;
}

/* Check a word. *has_value_out: the next word is its value. */
static int check_word(const struct program_option *table, const char *word, bool *has_value_out)
{
    if (word[0] == '-' && word[1] >= '0' && word[1] <= '9') {
        log_message(LOG_ERROR, "'%s' is not an option, and numbers are not negative (--help shows the usage)", word);
        return -EINVAL;
    }
    if (strncmp(word, "--", 2) != 0)
        return 0;
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const struct program_option *const row = find_row(table, name);
    if (row == NULL)
        return unknown_option(table, name);
    *has_value_out = argument_kind(row) == required_argument && strchr(word, '=') == NULL;
    return 0;
}

/* Refuse words that getopt_long would take for another option, or report badly: unknown long options, abbreviations of
 * known ones, and negative numbers. */
static int check_words(const struct program_option *table, int argc, char **argv)
{
    bool is_value = false;
    for (int i = 1; i < argc; i++) {
        if (is_value) {
            is_value = false;
            continue;
        }
        if (strcmp(argv[i], "--") == 0)
            return 0;
        const int rc = check_word(table, argv[i], &is_value);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- storing ---- */

int program_usage_error(const struct program_command *command, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_message(LOG_ERROR, "%s%s%s (%s%s --help shows the usage)", command->name != NULL ? command->name : "",
                command->name != NULL ? ": " : "", text, program_folder(), command->usage);
    return -EINVAL;
}

/* Store a text. Refuse a second, different one, which would replace the first. */
static int store_text(const struct program_command *command, const struct program_option *row, const char *text,
                      const char **field)
{
    if (text == NULL && *field == NULL)
        *field = "";
    if (text == NULL)
        return 0;
    if (*field != NULL && **field != '\0' && strcmp(*field, text) != 0)
        return program_usage_error(command, "--%s is given twice: '%s' and '%s'%s%s", row->name, *field, text,
                                   row->instead != NULL ? "; " : "", row->instead != NULL ? row->instead : "");
    *field = text;
    return 0;
}

int program_list_add(struct string_list *list, const char *name, const char *word)
{
    const char **const words = reallocarray(list->words, list->count + 1, sizeof(*words));
    if (words == NULL) {
        log_message(LOG_ERROR, "--%s: %s", name, strerror(ENOMEM));
        return -ENOMEM;
    }
    words[list->count++] = word;
    list->words = words;
    return 0;
}

static int store_choice(const struct program_command *command, const struct program_option *row, const char *word,
                        int *field)
{
    char names[160];
    size_t used = 0;
    for (int i = 0; row->choices[i] != NULL; i++) {
        if (strcmp(row->choices[i], word) == 0) {
            *field = i;
            return 0;
        }
        if (used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", row->choices[i]);
    }
    return program_usage_error(command, "--%s: '%s' is not one of: %s", row->name, word, names);
}

static int store_number(const struct program_command *command, const struct program_option *row, const char *text,
                        uint64_t *field)
{
    uint64_t value;
    const bool is_number = decimal_u64(text, &value);
    if (is_number && value >= row->least && value <= row->most) {
        *field = value;
        return 0;
    }
    if (row->most >= INT64_MAX)
        return program_usage_error(command, "--%s: '%s' is not a whole number of at least %" PRIu64, row->name, text,
                                   row->least);
    return program_usage_error(command, "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, row->name,
                               text, row->least, row->most);
}

static int store_bytes(const struct program_command *command, const struct program_option *row, const char *text,
                       uint64_t *field)
{
    uint64_t bytes;
    if (quantity_bytes(text, &bytes) != 0 || bytes < row->least)
        return program_usage_error(command, "--%s: '%s' is not a size (" QUANTITY_BYTES ", at least %" PRIu64
                                   " bytes)", row->name, text, row->least);
    *field = bytes;
    return 0;
}

#define SECONDS_MAX 86400.0

static int store_seconds(const struct program_command *command, const struct program_option *row, const char *text,
                         double *field)
{
    double seconds = 0;
    if (text == NULL)
        return 0;
    (void)quantity_seconds(text, &seconds);
    if (!(seconds >= row->least_seconds) || seconds > SECONDS_MAX)
        return program_usage_error(command, "--%s: '%s' is not a time (" QUANTITY_SECONDS ": from %g to %g seconds)",
                                   row->name, text, row->least_seconds, SECONDS_MAX);
    *field = seconds;
    return 0;
}

static int store(const struct program_command *command, const struct program_option *row, const char *value, void *out)
{
    void *const field = (char *)out + row->offset;
    const int rc = command->accept != NULL ? command->accept(out, row) : 0;
    if (rc != 0)
        return rc;
    if (row->refused != NULL)
        return program_usage_error(command, "--%s %s", row->name, row->refused);
    if (row->may_lack_value && value != NULL && *value == '\0')
        return program_usage_error(command, "--%s=: the value is empty", row->name);
    switch (row->store) {
    case STORE_OTHER: return command->store(out, row, value);
    case STORE_FLAG: *(bool *)field = true; return 0;
    case STORE_TEXT: return store_text(command, row, value, field);
    case STORE_LIST: return program_list_add(field, row->name, value);
    case STORE_CHOICE: return store_choice(command, row, value, field);
    case STORE_NUMBER: return store_number(command, row, value, field);
    case STORE_BYTES: return store_bytes(command, row, value, field);
    case STORE_SECONDS: return store_seconds(command, row, value, field);
    }
    return -EINVAL;
}

/* ---- parsing ---- */

/* The table in the form of getopt_long, whose result for a long option without a letter is 256 and the row's number. */
struct getopt_table {
    struct option rows[PROGRAM_OPTIONS_MAX + 1];
    char letters[2 + 2 * PROGRAM_OPTIONS_MAX];
};

static int code_of(const struct program_option *table, size_t i)
{
    return table[i].letter != 0 ? table[i].letter : 256 + (int)i;
}

static void make_getopt_table(const struct program_option *table, struct getopt_table *made)
{
    size_t count = 0;
    /* getopt_long then reports a missing value as ':', not as '?' */
    char *letters = stpcpy(made->letters, ":");
    for (; table[count].name != NULL; count++) {
        const struct program_option *const row = &table[count];
        assert(count < PROGRAM_OPTIONS_MAX);
        made->rows[count] = (struct option){ row->name, argument_kind(row), NULL, code_of(table, count) };
        if (has_letter(row))
            *letters++ = row->letter;
        if (has_letter(row) && argument_kind(row) == required_argument)
            *letters++ = ':';
    }
    made->rows[count] = (struct option){ NULL, 0, NULL, 0 };
    *letters = '\0';
}

static const struct program_option *row_of(const struct program_option *table, int code)
{
    for (size_t i = 0; table[i].name != NULL; i++)
        if (code_of(table, i) == code)
            return &table[i];
    return NULL;
}

/* Report the error for which getopt_long has returned ':' or '?'; optopt describes it. */
static int getopt_error(const struct program_command *command, int code)
{
    const struct program_option *const row = row_of(command->options, optopt);
    if (row == NULL)
        return program_usage_error(command, "there is no option '-%c'", optopt);
    return program_usage_error(command, code == ':' ? "--%s needs a value" : "--%s takes no value", row->name);
}

int program_options_read(const struct program_command *command, int argc, char **argv, void *out, int *first_out)
{
    struct getopt_table made;
    int code, rc = check_words(command->options, argc, argv);
    make_getopt_table(command->options, &made);
    opterr = 0;
    while (rc == 0 && (code = getopt_long(argc, argv, made.letters, made.rows, NULL)) != -1) {
        const struct program_option *const row = row_of(command->options, code);
        rc = row != NULL ? store(command, row, optarg, out) : getopt_error(command, code);
    }
    *first_out = optind;
    return rc;
}

/* ---- help ---- */

#define HELP_COLUMN 28
#define HELP_COLUMNS 80

/* The separator of name and value: "--config FILE", "--overfit=N", "--set KEY=VALUE". */
static const char *between(const struct program_option *row)
{
    return has_letter(row) || strchr(row->value, '=') != NULL ? " " : "=";
}

/* Write the names of an option: "  -c, --config FILE". */
static void write_name(const struct program_option *row, char *text, size_t text_size)
{
    size_t used = (size_t)(has_letter(row) ? snprintf(text, text_size, "-%c, --%s", row->letter, row->name)
                                           : snprintf(text, text_size, "    --%s", row->name));
    if (row->value != NULL)
        snprintf(text + used, text_size - used, "%s%s%s", row->may_lack_value ? "[=" : between(row), row->value,
                 row->may_lack_value ? "]" : "");
}

void program_help_words(const char *text, size_t column, size_t indent, FILE *out)
{
    bool is_first = column <= indent;
    while (*text != '\0') {
        const size_t bytes = strcspn(text, " ");
        if (column + !is_first + bytes > HELP_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            is_first = true;
        }
        column += (size_t)fprintf(out, "%s%.*s", is_first ? "" : " ", (int)bytes, text);
        is_first = false;
        text += bytes + (text[bytes] == ' ');
    }
}

static void print_line(const char *words, const char *help, FILE *out)
{
    const size_t column = 2 + strlen(words);
    const int gap = column < HELP_COLUMN - 1 ? (int)(HELP_COLUMN - column) : 2;
    fprintf(out, "  %s%*s", words, gap, "");
    program_help_words(help, column + (size_t)gap, HELP_COLUMN, out);
}

void program_help_line(const char *words, const char *help, FILE *out)
{
    print_line(words, help, out);
    fputc('\n', out);
}

void program_option_help_row(const struct program_option *row, FILE *out)
{
    char name[96];
    write_name(row, name, sizeof(name));
    print_line(name, row->help, out);
    if (row->example != NULL)
        fprintf(out, ":\n%*s%s", HELP_COLUMN, "", row->example);
    fputc('\n', out);
}

void program_option_help(const struct program_option *table, FILE *out)
{
    for (const struct program_option *row = table; row->name != NULL; row++)
        if (row->help != NULL)
            program_option_help_row(row, out);
}

void program_manual_text(const char *text, FILE *out)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
}

/* Write the tag of the paragraph: names in bold, the value in italics. */
static void write_tag(const struct program_option *row, FILE *out)
{
    fputs(".TP\n", out);
    if (has_letter(row))
        fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", out);
    program_manual_text(row->name, out);
    fputs("\\fR", out);
    if (row->value != NULL) {
        fputs(row->may_lack_value ? "[=" : between(row), out);
        fputs("\\fI", out);
        program_manual_text(row->value, out);
        fputs(row->may_lack_value ? "\\fR]" : "\\fR", out);
    }
    fputc('\n', out);
}

/* Write a sentence, with a capital first letter. */
static void write_sentence(const char *text, const char *end, FILE *out)
{
    const char first[2] = { *text >= 'a' && *text <= 'z' ? (char)(*text - 'a' + 'A') : *text, '\0' };
    program_manual_text(first, out);
    program_manual_text(text + 1, out);
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
        program_manual_text(row->example, out);
        fputs("\\fR\n", out);
    }
}
