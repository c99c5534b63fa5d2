/* Parse and format option values. Numbers are parsed as in the C locale, whatever the environment, and only in plain
 * notation. */
#include "tools/lib/config/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"
#include "stage/text/names.h"
#include "stage/text/utf8.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/quantity.h"

/* Arguments for "%.*s": a value in a message, shortened. */
#define SHOWN(value) utf8_cut(value, 80), value

#define PROBLEM(...) (snprintf(problem_out, problem_size, __VA_ARGS__), -EINVAL)

#define OPTION_AUTO "auto"

static int store_integer(const struct option_row *option, struct settings *settings, int64_t value)
{
    if (value < option->least || value > option->most)
        return -ERANGE;
    *(int64_t *)option_field(option, settings) = value;
    return 0;
}

static int out_of_range(const struct option_row *option, const char *value, char *problem_out, size_t problem_size)
{
    char range[256];
    option_range(option, range, sizeof(range));
    return PROBLEM("%.*s is out of range (%s)", SHOWN(value), range);
}

static int parse_integer(const struct option_row *option, struct settings *settings, const char *value,
                         char *problem_out, size_t problem_size)
{
    const char *end = decimal_integer_end(value);
    if (end == NULL || *end != '\0')
        return PROBLEM("'%.*s' is not a whole number", SHOWN(value));
    errno = 0;
    const long long number = strtoll(value, NULL, 10);
    if (errno != 0 || store_integer(option, settings, number) != 0)
        return out_of_range(option, value, problem_out, problem_size);
    return 0;
}

/* Parse the number at the start of `text`, if there is one. 0 or -ERANGE. */
static int read_number(const struct option_row *option, const char *text, double *number_out)
{
    errno = 0;
    const double number = decimal_read(text);
    const bool is_too_small = errno == ERANGE && fabs(number) < 1;
    const bool is_over = number > option->high || (option->high_is_open && number >= option->high);
    if (is_too_small || number < option->low || is_over)
        return -ERANGE;
    *number_out = number == 0 ? 0 : number;     /* no negative zero */
    return 0;
}

static int parse_number(const struct option_row *option, struct settings *settings, const char *value,
                        char *problem_out, size_t problem_size)
{
    const char *end = decimal_end(value);
    if (end == NULL || *end != '\0')
        return PROBLEM("'%.*s' is not a number", SHOWN(value));
    if (read_number(option, value, option_field(option, settings)) != 0)
        return out_of_range(option, value, problem_out, problem_size);
    return 0;
}

/* Find the next number of a list; the end of the text, or NULL if something else follows. */
static const char *next_number(const char *end)
{
    const char *next = end + strspn(end, " \t");
    const bool has_comma = *next == ',';
    if (has_comma)
        next += 1 + strspn(next + 1, " \t");
    const bool is_apart = next > end && decimal_end(next) != NULL;
    return is_apart || (*next == '\0' && !has_comma) ? next : NULL;
}

static int parse_numbers(const struct option_row *option, struct settings *settings, const char *value,
                         char *problem_out, size_t problem_size)
{
    struct numbers numbers = { .count = 0 };
    for (const char *text = value; *text != '\0';) {
        const char *const end = decimal_end(text);
        const char *const next = end == NULL ? NULL : next_number(end);
        if (next == NULL)
            return PROBLEM("'%.*s' is not a list of numbers", SHOWN(value));
        if (numbers.count == OPTION_NUMBERS_MAX)
            return PROBLEM("'%.*s' has more than %u numbers", SHOWN(value), OPTION_NUMBERS_MAX);
        if (read_number(option, text, &numbers.value[numbers.count++]) != 0)
            return out_of_range(option, text, problem_out, problem_size);
        text = next;
    }
    *(struct numbers *)option_field(option, settings) = numbers;
    return 0;
}

static bool may_be_auto(const struct option_row *option)
{
    return strcmp(option->initial, OPTION_AUTO) == 0;
}

static int parse_size(const struct option_row *option, struct settings *settings, const char *value,
                      char *problem_out, size_t problem_size)
{
    if (may_be_auto(option) && strcmp(value, OPTION_AUTO) == 0)
        return store_integer(option, settings, 0);
    uint64_t bytes;
    const bool is_negative = *value == '-';
    const int rc = quantity_bytes(value + (is_negative || *value == '+'), &bytes);
    if (rc == -EINVAL)
        return PROBLEM("'%.*s' is not a size (%s" QUANTITY_BYTES ")", SHOWN(value),
                       may_be_auto(option) ? "auto, " : "");
    if (rc != 0 || bytes > INT64_MAX ||
        store_integer(option, settings, is_negative ? -(int64_t)bytes : (int64_t)bytes) != 0)
        return out_of_range(option, value, problem_out, problem_size);
    return 0;
}

static int parse_duration(const struct option_row *option, struct settings *settings, const char *value,
                          char *problem_out, size_t problem_size)
{
    uint64_t seconds = 0;
    const int rc = quantity_whole_seconds(value, &seconds);
    if (rc == -EINVAL)
        return PROBLEM("'%.*s' is not a duration (" QUANTITY_SECONDS ")", SHOWN(value));
    if (rc == -EDOM)
        return PROBLEM("'%.*s' is not a whole number of seconds", SHOWN(value));
    return rc == 0 && store_integer(option, settings, (int64_t)seconds) == 0
               ? 0 : out_of_range(option, value, problem_out, problem_size);
}

static int parse_yes_no(const struct option_row *option, struct settings *settings, const char *value,
                        char *problem_out, size_t problem_size)
{
    const bool is_yes = strcmp(value, "yes") == 0;
    if (!is_yes && strcmp(value, "no") != 0)
        return PROBLEM("'%.*s' is neither yes nor no", SHOWN(value));
    *(bool *)option_field(option, settings) = is_yes;
    return 0;
}

const char *option_choice_at(const struct option_row *option, size_t i, int *value_out)
{
    *value_out = option->choice_name != NULL ? (int)i : option->choices[i].value;
    return option->choice_name != NULL ? option->choice_name((int)i) : option->choices[i].name;
}

static int parse_choice(const struct option_row *option, struct settings *settings, const char *value,
                        char *problem_out, size_t problem_size)
{
    struct nearest nearest = { .name = value };
    const char *name;
    int choice;
    for (size_t i = 0; (name = option_choice_at(option, i, &choice)) != NULL; i++) {
        if (strcmp(name, value) == 0) {
            memcpy(option_field(option, settings), &choice, sizeof(choice));
            return 0;
        }
        nearest_offer(&nearest, name, name);
    }
    char range[256], hint[64] = "";
    option_range(option, range, sizeof(range));
    if (nearest.best != NULL)
        snprintf(hint, sizeof(hint), " (did you mean '%s'?)", (const char *)nearest.best);
    return PROBLEM("'%.*s' is not one of: %s%s", SHOWN(value), range, hint);
}

static int parse_string(const struct option_row *option, struct settings *settings, const char *value,
                        char *problem_out, size_t problem_size)
{
    if (strlen(value) > OPTION_STRING_MAX)
        return PROBLEM("the value is longer than %d bytes", OPTION_STRING_MAX);
    for (const char *byte = value; *byte != '\0'; byte++)
        if (((unsigned char)*byte < 0x20 && *byte != '\t') || *byte == 0x7f)
            return PROBLEM("the value holds a control character (byte 0x%02x)", (unsigned)*byte);
    char *copy = strdup(value);
    if (copy == NULL)
        return -ENOMEM;
    char **field = option_field(option, settings);
    free(*field);
    *field = copy;
    return 0;
}

static int parse_name(const struct option_row *option, struct settings *settings, const char *value,
                      char *problem_out, size_t problem_size)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t length = strlen(value);
    if (length > OPTION_NAME_MAX || strspn(value, allowed) != length || strcmp(value, ".") == 0 ||
        strcmp(value, "..") == 0)
        return PROBLEM("'%.*s' is not a name (1 to %d of A-Z a-z 0-9 . _ -, not . or ..)", SHOWN(value),
                       OPTION_NAME_MAX);
    return parse_string(option, settings, value, problem_out, problem_size);
}

int option_parse(const struct option_row *option, struct settings *settings, const char *value,
                 char *problem_out, size_t problem_size)
{
    static int (*const parsers[])(const struct option_row *, struct settings *, const char *, char *, size_t) = {
        [OPTION_STRING] = parse_string,
        [OPTION_NAME] = parse_name,
        [OPTION_INTEGER] = parse_integer,
        [OPTION_NUMBER] = parse_number,
        [OPTION_NUMBERS] = parse_numbers,
        [OPTION_SIZE] = parse_size,
        [OPTION_DURATION] = parse_duration,
        [OPTION_YES_NO] = parse_yes_no,
        [OPTION_CHOICE] = parse_choice,
    };
    const bool may_be_empty = option->type == OPTION_STRING || option->type == OPTION_NAME ||
                              option->type == OPTION_NUMBERS;
    if (*value == '\0' && !may_be_empty)
        return PROBLEM("the value is missing");
    return parsers[option->type](option, settings, value, problem_out, problem_size);
}

static void format_numbers(const struct numbers *numbers, char *text, size_t text_size)
{
    *text = '\0';
    for (uint32_t i = 0; i < numbers->count; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, text_size - used, "%s", i == 0 ? "" : " ");
        decimal_write(numbers->value[i], text + strlen(text), text_size - strlen(text));
    }
}

bool option_is_default(const struct option_row *option, const struct settings *settings)
{
    struct option_text text;
    return strcmp(option_format(option, settings, &text), option->initial) == 0;
}

const char *option_choice_name(const struct option_row *option, int value)
{
    const char *name;
    int choice;
    for (size_t i = 0; (name = option_choice_at(option, i, &choice)) != NULL; i++)
        if (choice == value)
            return name;
    return NULL;
}

const char *option_format(const struct option_row *option, const struct settings *settings, struct option_text *text)
{
    const void *value = option_value(option, settings);
    int choice;
    switch (option->type) {
    case OPTION_STRING:
    case OPTION_NAME:
        return *(char *const *)value;
    case OPTION_CHOICE:
        memcpy(&choice, value, sizeof(choice));
        return option_choice_name(option, choice);
    case OPTION_YES_NO:
        return *(const bool *)value ? "yes" : "no";
    case OPTION_INTEGER:
    case OPTION_DURATION:
        snprintf(text->text, sizeof(text->text), "%" PRId64, *(const int64_t *)value);
        break;
    case OPTION_SIZE:
        if (may_be_auto(option) && *(const int64_t *)value == 0)
            return OPTION_AUTO;
        snprintf(text->text, sizeof(text->text), "%s", number_exact_bytes(*(const int64_t *)value).text);
        break;
    case OPTION_NUMBER:
        decimal_write(*(const double *)value, text->text, sizeof(text->text));
        break;
    case OPTION_NUMBERS:
        format_numbers(value, text->text, sizeof(text->text));
        break;
    }
    return text->text;
}

const char *option_type_name(enum option_type type)
{
    static const char *const names[] = {
        [OPTION_STRING] = "string", [OPTION_NAME] = "name", [OPTION_INTEGER] = "integer", [OPTION_NUMBER] = "number",
        [OPTION_NUMBERS] = "numbers", [OPTION_DURATION] = "duration", [OPTION_SIZE] = "size",
        [OPTION_YES_NO] = "yes/no", [OPTION_CHOICE] = "choice",
    };
    return names[type];
}

static void integer_range(const struct option_row *option, char *text, size_t text_size)
{
    if (option->most == INT64_MAX)
        snprintf(text, text_size, "%" PRId64 " or more", option->least);
    else
        snprintf(text, text_size, "%" PRId64 " to %" PRId64, option->least, option->most);
}

static void size_range(const struct option_row *option, char *text, size_t text_size)
{
    if (option->most == INT64_MAX)
        snprintf(text, text_size, "%" PRId64 " bytes or more", option->least);
    else
        snprintf(text, text_size, "%s%" PRId64 " bytes to %s", may_be_auto(option) ? "auto, " : "", option->least,
                 number_exact_bytes(option->most).text);
}

static void number_range(const struct option_row *option, char *text, size_t text_size)
{
    char low[DECIMAL_SIZE], high[DECIMAL_SIZE];
    decimal_write(option->low, low, sizeof(low));
    decimal_write(option->high, high, sizeof(high));
    snprintf(text, text_size, "%s to %s%s", low, option->high_is_open ? "below " : "", high);
}

static void choice_range(const struct option_row *option, char *text, size_t text_size)
{
    const char *name;
    size_t used = 0;
    int choice;
    *text = '\0';
    for (size_t i = 0; (name = option_choice_at(option, i, &choice)) != NULL && used < text_size; i++)
        used += (size_t)snprintf(text + used, text_size - used, "%s%s", used == 0 ? "" : ", ", name);
}

void option_range(const struct option_row *option, char *text, size_t text_size)
{
    switch (option->type) {
    case OPTION_INTEGER:
    case OPTION_DURATION:
        integer_range(option, text, text_size);
        break;
    case OPTION_SIZE:
        size_range(option, text, text_size);
        break;
    case OPTION_NUMBER:
    case OPTION_NUMBERS:
        number_range(option, text, text_size);
        break;
    case OPTION_CHOICE:
        choice_range(option, text, text_size);
        break;
    case OPTION_YES_NO:
        snprintf(text, text_size, "yes, no");
        break;
    case OPTION_NAME:
        snprintf(text, text_size, "1 to %d of A-Z a-z 0-9 . _ -, not . or ..", OPTION_NAME_MAX);
        break;
    case OPTION_STRING:
        snprintf(text, text_size, "%s", "");
        break;
    }
}
