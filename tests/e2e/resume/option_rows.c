/* The rows of e2e_options.sh that follow from the table of options: option_rows prints for each option "SECTION.KEY |
 * VALUE | VERDICT | CONTEXT". VALUE is not the default; it is empty where none follows from the type and range. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/options.h"

#define VALUE_BYTES 256

static void other_choice(const struct option_row *option, char *text)
{
    const char *name;
    int value;
    size_t i = 0;
    while ((name = option_choice_at(option, i, &value)) != NULL &&
           (strcmp(name, option->initial) == 0 || strcmp(name, "auto") == 0))
        i++;
    snprintf(text, VALUE_BYTES, "%s", name != NULL ? name : "");
}

static void other_whole_number(const struct option_row *option, int64_t initial, char *text)
{
    const int64_t unit = option->type == OPTION_SIZE ? 1 << 20 : 2;
    const int64_t more = initial > 0 ? 2 * initial : unit;
    snprintf(text, VALUE_BYTES, "%" PRId64, more <= option->most ? more : initial / 2);
}

static double other_number(double initial)
{
    return initial != 0 ? initial / 2 : 0.1;
}

static size_t add_number(char *text, size_t used, const char *before, double number)
{
    char decimal[DECIMAL_SIZE];
    decimal_write(number, decimal, sizeof(decimal));
    return used + (size_t)snprintf(text + used, VALUE_BYTES - used, "%s%s", before, decimal);
}

static void other_numbers(const struct numbers *initial, char *text)
{
    size_t used = 0;
    for (uint32_t i = 0; i < initial->count && used < VALUE_BYTES; i++)
        used = add_number(text, used, i > 0 ? "," : "", other_number(initial->value[i]));
    if (initial->count == 0)
        add_number(text, 0, "", other_number(1));
}

static void other_value(const struct option_row *option, const struct settings *settings, char *text)
{
    const void *const initial = option_value(option, settings);
    *text = '\0';
    switch (option->type) {
    case OPTION_NAME: snprintf(text, VALUE_BYTES, "other"); break;
    case OPTION_STRING: break;
    case OPTION_INTEGER:
    case OPTION_DURATION:
    case OPTION_SIZE: other_whole_number(option, *(const int64_t *)initial, text); break;
    case OPTION_NUMBER: add_number(text, 0, "", other_number(*(const double *)initial)); break;
    case OPTION_NUMBERS: other_numbers(initial, text); break;
    case OPTION_YES_NO: snprintf(text, VALUE_BYTES, *(const bool *)initial ? "no" : "yes"); break;
    case OPTION_CHOICE: other_choice(option, text); break;
    }
}

/* What it needs to have an effect: what its row says, and towers to synchronise. */
static void print_context(const struct option_row *option, const struct settings *settings)
{
    if (option->section == SECTION_SYNC)
        printf(" devices.towers=2");
    for (const struct option_use *use = option->uses; use < option->uses + OPTION_USES_MAX && use->key != NULL; use++) {
        char value[VALUE_BYTES];
        struct option_text text;
        const char *const values = option_use_values(option, use, &text);
        if (values != NULL)
            snprintf(value, sizeof(value), "%.*s", (int)strcspn(values, " "), values);
        else
            other_value(option_find(use->section, use->key), settings, value);
        printf(" %s.%s=%s", section_name(use->section), use->key, value);
    }
}

int main(void)
{
    static const char *const verdicts[] = { [EFFECT_RUN] = "refused", [EFFECT_REPORTED] = "bits",
                                           [EFFECT_NONE] = "same" };
    struct settings settings;
    if (settings_init(&settings) != 0)
        return EXIT_FAILURE;
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        char value[VALUE_BYTES];
        other_value(option, &settings, value);
        printf("%s.%s | %s | %s |", section_name(option->section), option->key, value, verdicts[option->effect]);
        print_context(option, &settings);
        putchar('\n');
    }
    settings_release(&settings);
    return EXIT_SUCCESS;
}
