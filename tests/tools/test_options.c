/* The option table: its own consistency, values read and written, help. */
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"
#include "stage/text/names.h"
#include "stage/text/utf8.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/option_help.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/pipetrain_options.h"

static int setup(void **state)
{
    static struct settings settings;
    *state = &settings;
    return settings_init(&settings);
}

static int teardown(void **state)
{
    settings_release(*state);
    return 0;
}

static const struct option_row *row(const char *section, const char *key)
{
    const struct option_row *option = option_find(section_find(section), key);
    assert_non_null(option);
    return option;
}

static int parse(struct settings *settings, const char *section, const char *key, const char *value)
{
    char problem[512] = "";
    const int rc = option_parse(row(section, key), settings, value, problem, sizeof(problem));
    if (rc == -EINVAL)
        assert_true(strlen(problem) > 0);
    return rc;
}

/* Fail with what a row lacks. */
static void require(const struct option_row *option, bool is_so, const char *what)
{
    if (!is_so)
        fail_msg("options.c, %s.%s: %s", section_name(option->section), option->key, what);
}

TEST_WITH(every_row_is_complete_and_stands_with_its_section, setup, teardown)
{
    enum section section = 0;
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        require(option, option->section >= section, "its section is above");
        section = option->section;
        require(option, option_find(option->section, option->key) == option, "another row has its key");
        assert_int_equal(option_index(option), option - option_table);
        const size_t help_length = option->help != NULL ? strlen(option->help) : 0;
        require(option, help_length > 0 && help_length < 80 && option->help[help_length - 1] != '.',
                ".help is a line of less than 80 characters without a full stop");
        require(option, option->initial != NULL, ".initial is the default as in a configuration file");
        require(option, (option->type == OPTION_CHOICE) == (option->choices != NULL || option->choice_name != NULL),
                "a choice has .choices or .choice_name, and nothing else has");
        require(option, option->effect >= EFFECT_RUN && option->effect <= EFFECT_NONE,
                "the effect of another value on a run that is resumed, such as EFFECT_RUN, comes behind the type");
    }
    assert_int_equal(section, SECTION_COUNT - 1);
}

static size_t field_bytes(const struct option_row *option)
{
    switch (option->type) {
    case OPTION_STRING:
    case OPTION_NAME:
        return sizeof(char *);
    case OPTION_INTEGER:
    case OPTION_DURATION:
    case OPTION_SIZE:
        return sizeof(int64_t);
    case OPTION_NUMBER:
        return sizeof(double);
    case OPTION_NUMBERS:
        return sizeof(struct numbers);
    case OPTION_YES_NO:
        return sizeof(bool);
    case OPTION_CHOICE:
        return sizeof(int);
    }
    return 0;
}

TEST_WITH(no_two_rows_share_a_field, setup, teardown)
{
    for (const struct option_row *a = option_table; a->key != NULL; a++)
        for (const struct option_row *b = option_table; b < a; b++)
            assert_true(a->offset >= b->offset + field_bytes(b) || b->offset >= a->offset + field_bytes(a));
}

TEST_WITH(every_choice_fits_its_field, setup, teardown)
{
    struct settings *settings = *state;
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        for (const struct option_choice *choice = option->choices; choice != NULL && choice->name != NULL; choice++) {
            char problem[256];
            assert_int_equal(option_parse(option, settings, choice->name, problem, sizeof(problem)), 0);
            struct option_text room;
            const struct option_choice *first = option->choices;
            while (first->value != choice->value)
                first++;
            assert_string_equal(option_format(option, settings, &room), first->name);
        }
}

TEST_WITH(defaults_are_what_the_manual_says, setup, teardown)
{
    const struct settings *settings = *state;
    assert_int_equal(settings->run.seed, 1);
    assert_int_equal(settings->input.prefetch_depth, 4);
    assert_int_equal(settings->input.staging_depth, 2);
    assert_int_equal(settings->data.shuffle, SHUFFLE_FULL);
    assert_true(settings->data.index_cache);
    assert_true(settings->model.dropout);
    assert_string_equal(settings->model.name, "mnist_cnn");
    assert_int_equal(settings->train.optimizer, OPTIMIZER_ADADELTA);
    assert_true(settings->train.learning_rate == 1.0 && settings->train.rho == 0.95 && settings->train.epsilon == 1e-8);
    assert_int_equal(settings->devices.towers, 1);
    assert_false(settings->devices.bind);
    assert_int_equal(settings->sync.bucket, 0);
    assert_int_equal(settings->sync.mode, SYNC_REPLICATED);
    assert_int_equal(settings->sync.every, 10);
}

TEST_WITH(whole_numbers_are_plain_decimals_in_range, setup, teardown)
{
    struct settings *settings = *state;
    static const char *const wrong[] = { "", " ", "x", "1.5", "1e3", "0x10", "1,5", "10 ", " 10", "1_000",
                                         "--1", "+", "-", "0", "-1", "257", "nan", "inf", "1 2", "1\t",
                                         "10k", "9223372036854775808",
                                         "99999999999999999999999999" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(parse(settings, "devices", "towers", wrong[i]), -EINVAL);
        assert_int_equal(settings->devices.towers, 1);
    }
    assert_int_equal(parse(settings, "devices", "towers", "256"), 0);
    assert_int_equal(settings->devices.towers, 256);
    assert_int_equal(parse(settings, "devices", "towers", "+007"), 0);
    assert_int_equal(settings->devices.towers, 7);
    assert_int_equal(parse(settings, "data", "label_offset", "-1"), 0);
    assert_int_equal(settings->data.label_offset, -1);
    assert_int_equal(parse(settings, "run", "seed", "9223372036854775807"), 0);
    assert_int_equal(settings->run.seed, INT64_MAX);
}

TEST_WITH(numbers_are_plain_decimals_in_range, setup, teardown)
{
    struct settings *settings = *state;
    static const char *const wrong[] = { "", "1e400", "-1e400", "1e-400", "nan", "NaN", "inf", "infinity", "0x10",
                                         "0x1p3", "1,5", "1.5x", "1.5 ", " 1.5", "1e", "1e+", ".", "e5", "-",
                                         "-0.5", "1..5", "1.5.5", "1e5.5" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(parse(settings, "train", "learning_rate", wrong[i]), -EINVAL);
        assert_true(settings->train.learning_rate == 1.0);
    }
    static const struct { const char *text; double value; } right[] = {
        { "0", 0 }, { "-0", 0 }, { "1", 1 }, { "0.5", 0.5 }, { ".5", 0.5 }, { "5.", 5 }, { "1e-8", 1e-8 },
        { "1E2", 100 }, { "+0.1e1", 1 }, { "1000000", 1e6 } };
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
        assert_int_equal(parse(settings, "train", "learning_rate", right[i].text), 0);
        assert_true(settings->train.learning_rate == right[i].value && !signbit(settings->train.learning_rate));
    }
    assert_int_equal(parse(settings, "train", "momentum", "1"), -EINVAL);
    assert_int_equal(parse(settings, "train", "momentum", "0.999999"), 0);
    assert_int_equal(parse(settings, "train", "epsilon", "0"), -EINVAL);
}

TEST_WITH(numbers_are_written_short_and_whole_ones_with_all_digits, setup, teardown)
{
    static const struct { double value; const char *text; } cases[] = {
        { 100, "100" }, { 30, "30" }, { 1e6, "1000000" }, { 1e15, "1e+15" }, { -4, "-4" }, { 0, "0" },
        { 0.1, "0.1" }, { 1e-8, "1e-08" }, { 1.5, "1.5" }, { 0.1 + 0.2, "0.30000000000000004" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[DECIMAL_SIZE];
        decimal_write(cases[i].value, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
}

TEST_WITH(numbers_mean_the_same_in_every_locale, setup, teardown)
{
    struct settings *settings = *state;
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8" };
    bool is_set = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !is_set; i++)
        is_set = setlocale(LC_ALL, names[i]) != NULL;
    if (!is_set)
        skip();
    assert_int_equal(parse(settings, "train", "learning_rate", "1,5"), -EINVAL);
    assert_int_equal(parse(settings, "train", "learning_rate", "1.5"), 0);
    assert_true(settings->train.learning_rate == 1.5);
    struct option_text room;
    const char *const text = option_format(row("train", "learning_rate"), settings, &room);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "1.5");
}

TEST_WITH(numbers_read_back_as_the_same_bits, setup, teardown)
{
    struct settings *settings = *state;
    uint64_t mix = 12345;
    for (int i = 0; i < 20000; i++) {
        mix = mix * 6364136223846793005u + 1442695040888963407u;
        const double value = ldexp((double)(mix >> 11), (int)(mix % 60) - 95);
        settings->train.learning_rate = value;
        struct option_text room;
        const char *const text = option_format(row("train", "learning_rate"), settings, &room);
        settings->train.learning_rate = -1;
        assert_int_equal(parse(settings, "train", "learning_rate", text), 0);
        assert_true(settings->train.learning_rate == value);
    }
}

TEST_WITH(lists_of_numbers_take_blanks_and_commas, setup, teardown)
{
    struct settings *settings = *state;
    static const char sixteen[] = "1 2 3 4 5 6 7 8 9 0.1 11 12 13 14 15 16";
    static const struct { const char *text; uint32_t count; double first, last; const char *written; } right[] = {
        { "", 0, 0, 0, "" }, { "0.5", 1, 0.5, 0.5, "0.5" }, { "-0 1e-3", 2, 0, 0.001, "0 0.001" },
        { "0.4914,0.4822,0.4465", 3, 0.4914, 0.4465, "0.4914 0.4822 0.4465" }, { "1 ,\t2", 2, 1, 2, "1 2" },
        { "1\t-2", 2, 1, -2, "1 -2" }, { sixteen, 16, 1, 16, sixteen } };
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
        const struct numbers *const mean = &settings->model.mean;
        assert_int_equal(parse(settings, "model", "mean", right[i].text), 0);
        assert_int_equal(mean->count, right[i].count);
        assert_true(mean->value[0] == right[i].first && !signbit(mean->value[0]));
        assert_true(mean->count == 0 || mean->value[mean->count - 1] == right[i].last);
        struct option_text room;
        const char *const text = option_format(row("model", "mean"), settings, &room);
        assert_string_equal(text, right[i].written);
    }
    static const char *const wrong[] = { ",", "1,", "1, ", ",1", "1,,2", "1;2", "1x", "x", "1 x", "1 2 ,",
                                        "1-2", "nan", "0x1",
                                        "2000000", "1 2 -2000000", "1e-400", "1e",
                                        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(parse(settings, "model", "mean", wrong[i]), -EINVAL);
        assert_int_equal(settings->model.mean.count, 16);
    }
    assert_int_equal(parse(settings, "model", "deviation", "0.2 0"), -EINVAL);
}

TEST_WITH(sizes_take_binary_and_decimal_units, setup, teardown)
{
    struct settings *settings = *state;
    static const struct { const char *text; int64_t bytes; const char *written; } right[] = {
        { "0", 0, "auto" }, { "auto", 0, "auto" }, { "1", 1, "1" }, { "4096", 4096, "4 KiB" },
        { "4KiB", 4096, "4 KiB" },
        { "3 MiB", 3 << 20, "3 MiB" }, { "3M", 3 << 20, "3 MiB" }, { "1 MB", 1000000, "1000000" }, { "1.5 mib", 3 << 19, "1536 KiB" }, { "1000 B", 1000, "1000" },
        { "2\tGiB", INT64_C(2) << 30, "2 GiB" }, { "1 TiB", INT64_C(1) << 40, "1 TiB" }, { "1025", 1025, "1025" } };
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
        assert_int_equal(parse(settings, "sync", "bucket", right[i].text), 0);
        assert_int_equal(settings->sync.bucket, right[i].bytes);
        struct option_text room;
        const char *const text = option_format(row("sync", "bucket"), settings, &room);
        assert_string_equal(text, right[i].written);
    }
    settings->sync.bucket = 7;
    static const char *const wrong[] = { "", "-1", "MiB", "1.5", "nan", "1 s", "1 MiB x", "2 TiB",
                                        "8388608 TiB", "9223372036854775807 KiB", "99999999999999999999", "1 KiB ",
                                        "0x10", "Auto", "auto MiB" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(parse(settings, "sync", "bucket", wrong[i]), -EINVAL);
        assert_int_equal(settings->sync.bucket, 7);
    }
    assert_int_equal(parse(settings, "input", "read_block", "auto"), -EINVAL);
}

/* The value is written as seconds, which older programs read. */
TEST_WITH(durations_take_seconds_or_units, setup, teardown)
{
    struct settings *settings = *state;
    static const struct { const char *text; int64_t seconds; const char *written; } right[] = {
        { "1", 1, "1" }, { "5 seconds", 5, "5" }, { "2 minutes", 120, "120" }, { "2m", 120, "120" }, { "1.5 h", 5400, "5400" },
        { "1h30m", 5400, "5400" }, { "1 day", 86400, "86400" } };
    static const char *const keys[][2] = { { "sync", "deadline" }, { "report", "pace" } };
    static const char *const wrong[] = { "", "-1", "s", "-5 s", "1.5", "250 ms", "2 days", "1e99 h", "nan", "5 steps" };
    for (size_t k = 0; k < 2; k++) {
        const int64_t *const field = k == 0 ? &settings->sync.deadline : &settings->report.pace;
        for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
            struct option_text room;
            assert_int_equal(parse(settings, keys[k][0], keys[k][1], right[i].text), 0);
            assert_int_equal(*field, right[i].seconds);
            assert_string_equal(option_format(row(keys[k][0], keys[k][1]), settings, &room), right[i].written);
        }
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
            assert_int_equal(parse(settings, keys[k][0], keys[k][1], wrong[i]), -EINVAL);
            assert_int_equal(*field, 86400);
        }
    }
    assert_int_equal(parse(settings, "report", "pace", "0"), 0);
}

TEST_WITH(yes_no_and_choices_take_their_words_only, setup, teardown)
{
    struct settings *settings = *state;
    static const char *const wrong[] = { "", "Yes", "true", "1", "on", "y", "yes ", "noo" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(parse(settings, "model", "dropout", wrong[i]), -EINVAL);
    assert_int_equal(parse(settings, "model", "dropout", "no"), 0);
    assert_false(settings->model.dropout);
    char problem[256];
    assert_int_equal(option_parse(row("data", "shuffle"), settings, "ful", problem, sizeof(problem)), -EINVAL);
    assert_non_null(strstr(problem, "full, block, none"));
}

/* A value that is longer than a message shows. */
TEST_WITH(a_value_is_cut_between_characters, setup, teardown)
{
    for (size_t before = 0; before < 4; before++) {
        char value[200] = "", problem[512];
        for (size_t i = 0; i < before; i++)
            strcat(value, "x");
        while (strlen(value) < 150)
            strcat(value, "\xe7\x8c\xab");
        assert_int_equal(option_parse(row("train", "batch"), *state, value, problem, sizeof(problem)), -EINVAL);
        assert_int_equal(utf8_valid_bytes(problem, strlen(problem)), strlen(problem));
        assert_non_null(strstr(problem, "\xe7\x8c\xab' is not a whole number"));
    }
}

TEST_WITH(run_names_cannot_leave_their_folder, setup, teardown)
{
    struct settings *settings = *state;
    static const char *const wrong[] = { ".", "..", "a/b", "../x", "/", "a b", "a\nb", "a;rm", "$(x)", "`x`", "a'b",
                                         "a\"b", "\xc3\xa4", "a*",
                                         "0123456789012345678901234567890123456789012345678901234567890123x" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(parse(settings, "run", "name", wrong[i]), -EINVAL);
    static const char *const right[] = { "a", "...", ".a", "A-b_c.9",
                                         "0123456789012345678901234567890123456789012345678901234567890123" };
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
        assert_int_equal(parse(settings, "run", "name", right[i]), 0);
        assert_string_equal(settings->run.name, right[i]);
    }
}

TEST_WITH(shell_characters_in_a_text_stay_as_they_are, setup, teardown)
{
    struct settings *settings = *state;
    const char *hostile = "$(touch x) `id` ; rm -rf ~ | & > \\ \" ' * ? \xc3\xa4";
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (option->type == OPTION_STRING) {
            char problem[256];
            assert_int_equal(option_parse(option, settings, hostile, problem, sizeof(problem)), 0);
            struct option_text room;
            const char *const text = option_format(option, settings, &room);
            assert_string_equal(text, hostile);
            assert_int_equal(option_parse(option, settings, "a\x1b[31m", problem, sizeof(problem)), -EINVAL);
            assert_int_equal(option_parse(option, settings, "a\nb", problem, sizeof(problem)), -EINVAL);
        }
}

/* What `write` prints, malloc'ed. */
static char *printed(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    print(out);
    fclose(out);
    return text;
}

TEST_WITH(help_and_manual_name_every_key, setup, teardown)
{
    char *help = printed(option_help_all);
    char *manual = printed(option_help_manual);
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        char line[256];
        snprintf(line, sizeof(line), "\n  %-18s%s", option->key, option->help);
        assert_non_null(strstr(help, line));
        snprintf(line, sizeof(line), "\n.B %s\n", option->key);
        assert_non_null(strstr(manual, line));
    }
    for (const char *line = help; *line != '\0'; line = strchr(line, '\n') + 1)
        assert_true(strcspn(line, "\n") <= 140);
    free(help);
    free(manual);
}

static void print_command_help(FILE *out)
{
    program_option_help(pipetrain_options, out);
}

/* The options of the command line are told in --help, in lines that fit, and on the manual page. */
TEST_WITH(help_and_manual_name_every_option, setup, teardown)
{
    char *help = printed(print_command_help);
    char *manual = printed(manual_write);
    for (const struct program_option *row = pipetrain_options; row->name != NULL; row++) {
        char name[64], tag[96], *const bold = tag + sprintf(tag, "\\fB\\-\\-");
        char *end = bold;
        snprintf(name, sizeof(name), " --%s", row->name);
        assert_non_null(strstr(help, name));
        for (const char *from = row->name; *from != '\0'; from++)
            end = *from == '-' ? stpcpy(end, "\\-") : (*end = *from, end + 1);
        stpcpy(end, "\\fR");
        assert_non_null(strstr(manual, tag));
    }
    for (const char *line = help; *line != '\0'; line = strchr(line, '\n') + 1)
        assert_true(strcspn(line, "\n") <= 80);
    free(help);
    free(manual);
}

struct stored {
    const char *output, *describe;
    struct string_list sets;
    bool is_quiet;
    int form;
    uint64_t jobs, bytes;
    double seconds;
};

#define STORED(name) .offset = offsetof(struct stored, name)

static const char *const forms[] = { "table", "csv", NULL };
static const struct program_option rows[] = {
    { .letter = 'o', .name = "output", .value = "FILE", .store = STORE_TEXT, STORED(output), .instead = "write once" },
    { .name = "describe", .value = "MODEL", .may_lack_value = true, .store = STORE_TEXT, STORED(describe) },
    { .name = "set", .value = "KEY=VALUE", .store = STORE_LIST, STORED(sets) },
    { .letter = 'q', .name = "quiet", .store = STORE_FLAG, STORED(is_quiet) },
    { .name = "format", .value = "FORM", .store = STORE_CHOICE, .choices = forms, STORED(form) },
    { .letter = 'j', .name = "jobs", .value = "N", .store = STORE_NUMBER, .least = 1, .most = 9, STORED(jobs) },
    { .name = "size", .value = "BYTES", .store = STORE_BYTES, .least = 1, STORED(bytes) },
    { .name = "tune", .value = "TIME", .may_lack_value = true, .store = STORE_SECONDS, .least_seconds = 2,
      STORED(seconds) },
    { .name = "check", .refused = "is of another program" },
    { .name = NULL },
};

/* The words, separated by blanks, as a command line. */
static int read_words(const char *words, struct stored *stored, int *first_out)
{
    static const struct program_command command = { .usage = "program", .options = rows };
    static char text[160];
    char *argv[16] = { NULL }, *rest = text;
    int argc = 0;
    snprintf(text, sizeof(text), "program %s", words);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        argv[argc++] = word;
    optind = 0;                 /* getopt begins again */
    return program_options_read(&command, argc, argv, stored, first_out);
}

TEST(a_command_line_is_stored_as_its_rows_say)
{
    struct stored stored = { .jobs = 3, .seconds = 60 };
    int first;
    assert_int_equal(read_words("one -q --set a=1 -j 4 --describe --format=csv --size=2KiB -ofile two --set=b=2 --tune=2m",
                                &stored, &first), 0);
    assert_int_equal(first, 12);        /* of 14 words "one" and "two" are no options */
    assert_string_equal(stored.output, "file");
    assert_string_equal(stored.describe, "");
    assert_int_equal(stored.sets.count, 2);
    assert_string_equal(stored.sets.words[1], "b=2");
    assert_true(stored.is_quiet);
    assert_int_equal(stored.form, 1);
    assert_int_equal(stored.jobs, 4);
    assert_int_equal(stored.bytes, 2048);
    assert_true(stored.seconds == 120);
    free(stored.sets.words);
    stored = (struct stored){ .jobs = 3, .seconds = 90 };
    assert_int_equal(read_words("-o a --output=a -j 1 -j 2 --describe=lenet --describe --tune", &stored, &first), 0);
    assert_int_equal(stored.jobs, 2);
    assert_string_equal(stored.describe, "lenet");
    assert_true(stored.seconds == 90);
}

TEST(a_wrong_command_line_is_refused_with_a_reason)
{
    static const struct { const char *words, *said; } wrong[] = {
        { "--otuput=x", "there is no option '--otuput' (did you mean '--output'?" },
        { "--qui", "there is no option '--qui' (did you mean '--quiet'?" },
        { "--nonsense", "there is no option '--nonsense' (--help" },
        { "-x", "there is no option '-x' (" },
        { "-qx", "there is no option '-x'" },
        { "-5", "'-5' is not an option, and numbers are not negative" },
        { "-o", "--output needs a value" },
        { "one --set", "--set needs a value" },
        { "--quiet=yes", "--quiet takes no value" },
        { "-o a -o b", "--output is given twice: 'a' and 'b'; write once (" },
        { "--describe=a --describe=b", "--describe is given twice: 'a' and 'b' (" },
        { "--describe=", "--describe=: the value is empty" },
        { "--format=xml", "--format: 'xml' is not one of: table, csv (" },
        { "--jobs=10", "--jobs: '10' is not a whole number from 1 to 9" },
        { "--jobs=x", "--jobs: 'x' is not a whole number from 1 to 9" },
        { "--size=0", "--size: '0' is not a size" },
        { "--tune=1", "--tune: '1' is not a time" },
        { "--check", "--check is of another program (" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct stored stored = { .jobs = 1 };
        char said[512];
        int first;
        assert_int_equal(CAPTURE(said, read_words(wrong[i].words, &stored, &first)), -EINVAL);
        if (strstr(said, wrong[i].said) == NULL)
            fail_msg("%s: %s", wrong[i].words, said);
        assert_int_equal(capture_lines(said), 1);
    }
}

/* --help=name: the text, "" when the name is unknown; the problem goes to `problem`. */
static char *help_one(const char *name, char *problem, size_t problem_size)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct problems problems;
    problems_init(&problems);
    const int rc = option_help_one(out, name, &problems);
    fclose(out);
    assert_int_equal(rc == 0, problems.count == 0);
    snprintf(problem, problem_size, "%s", problems.count == 0 ? "" : problems.lines[0]);
    problems_release(&problems);
    return text;
}

TEST_WITH(help_explains_a_key_by_its_short_and_its_full_name, setup, teardown)
{
    char problem[256];
    static const char *const names[] = { "train.epsilon", "epsilon" };
    for (size_t i = 0; i < 2; i++) {
        char *text = help_one(names[i], problem, sizeof(problem));
        assert_non_null(strstr(text, "train.epsilon: "));
        assert_non_null(strstr(text, "1e-30 to 1"));
        assert_non_null(strstr(text, "1e-08"));
        free(text);
    }
    char *both = help_one("name", problem, sizeof(problem));
    assert_non_null(strstr(both, "run.name: "));
    assert_non_null(strstr(both, "model.name: "));
    free(both);
    char *section = help_one("sync", problem, sizeof(problem));
    assert_non_null(strstr(section, "[sync]"));
    assert_non_null(strstr(section, "bucket"));
    free(section);
}

TEST_WITH(help_for_an_unknown_key_names_the_nearest, setup, teardown)
{
    char problem[256];
    char *text = help_one("input.prefetch_dept", problem, sizeof(problem));
    assert_string_equal(text, "");
    assert_non_null(strstr(problem, "did you mean 'input.prefetch_depth'?"));
    free(text);
    text = help_one("zzzzzz", problem, sizeof(problem));
    assert_null(strstr(problem, "did you mean"));
    free(text);
}

TEST_WITH(distance_counts_changes_additions_drops_and_swaps, setup, teardown)
{
    static const struct { const char *a, *b; size_t distance; } cases[] = {
        { "", "", 0 }, { "a", "", 1 }, { "", "abc", 3 }, { "batch", "batch", 0 }, { "batch", "Batch", 0 },
        { "batch", "btach", 1 },
        { "batch", "bach", 1 }, { "batch", "baatch", 1 }, { "batch", "catch", 1 }, { "kitten", "sitting", 3 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(nearest_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(nearest_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
    char longest[200];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_true(nearest_distance(longest, longest) == SIZE_MAX);
}

static bool is_choice(const struct option_row *option, const char *word)
{
    const char *name;
    int value;
    for (size_t i = 0; (name = option_choice_at(option, i, &value)) != NULL; i++)
        if (strcmp(name, word) == 0)
            return true;
    return false;
}

static void check_values(const struct option_row *of, const char *values)
{
    char word[PATTERN_BYTES];
    while (patterns_next(&values, word))
        if (of->type != OPTION_CHOICE)
            assert_string_equal(word, "0");             /* of a number: none */
        else if (!is_choice(of, word))
            fail_msg("%s is none of %s", word, of->key);
}

TEST_WITH(what_an_option_needs_are_options_and_their_values, setup, teardown)
{
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        for (size_t i = 0; i < OPTION_USES_MAX && option->uses[i].key != NULL; i++) {
            const struct option_row *const of = option_find(option->uses[i].section, option->uses[i].key);
            assert_non_null(of);
            struct option_text text;
            const char *const values = option_use_values(option, &option->uses[i], &text);
            assert_true(values == NULL || *values != '\0');
            check_values(of, values != NULL ? values : "");
        }
}

TEST_WITH(every_default_is_known_again, setup, teardown)
{
    const struct settings *settings = *state;
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (!option_is_default(option, settings))
            fail_msg("%s.%s is not %s", section_name(option->section), option->key, option->initial);
}

TEST_WITH(values_in_trials_and_in_overfit_are_valid, setup, teardown)
{
    struct settings *settings = *state;
    size_t count = 0;
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        for (int i = 0; i < 2; i++) {
            const char *const value = i == 0 ? option->in_trials : option->in_overfit;
            char problem[256];
            if (value != NULL && option_parse(option, settings, value, problem, sizeof(problem)) != 0)
                fail_msg("%s.%s: %s %s", section_name(option->section), option->key, value, problem);
            count += value != NULL;
        }
    assert_true(count > 0);
}

TEST_WITH(other_names_are_of_one_option_and_no_key, setup, teardown)
{
    char name[PATTERN_BYTES], names[256];
    const struct option_row *found;
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        for (const char *at = option->other_names; at != NULL && patterns_next(&at, name);) {
            assert_ptr_equal(option_find_other(name), option);
            assert_int_equal(option_find_key(name, &found, names, sizeof(names)), 0);
        }
    assert_ptr_equal(option_find_other("Batch-Size"), option_find(SECTION_TRAIN, "batch"));
    assert_null(option_find_other("batchsizes"));
    assert_null(option_find_other(""));
}

/* How many warnings there are with these settings. */
static int count_told(const char *const *assignments)
{
    struct settings settings;
    struct problems problems;
    struct capture capture;
    char text[4096];
    int lines = 0;
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    for (; *assignments != NULL; assignments++)
        assert_int_equal(config_set(&settings, *assignments, &problems), 0);
    capture_begin(&capture);
    option_needs_warn(&settings);
    capture_end(&capture, text, sizeof(text));
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    settings_release(&settings);
    problems_release(&problems);
    return lines;
}

TEST_WITH(options_that_change_nothing_are_reported, setup, teardown)
{
    static const struct { const char *assignments[4]; int lines; } cases[] = {
        { { NULL }, 0 },
        { { "train.optimizer=adam", "train.momentum=0.8" }, 1 },
        { { "train.optimizer=adam", "train.momentum=0.9" }, 0 },       /* the default */
        { { "train.optimizer=rmsprop", "train.momentum=0.8" }, 0 },
        { { "train.optimizer=rmsprop_keras", "train.momentum=0.8" }, 1 },
        { { "train.optimizer=rmsprop_pytorch", "train.momentum=0.8" }, 0 },
        { { "train.decay_scope=all" }, 1 },
        { { "train.decay_scope=all", "train.weight_decay=0.1" }, 0 },
        { { "sync.max_staleness=3", "sync.every=4" }, 2 },
        { { "sync.mode=async", "sync.max_staleness=3" }, 0 },
        { { "devices.kind=cpu", "devices.graph=on", "devices.list=0" }, 2 },
        { { "devices.graph=on", "devices.convolution=direct" }, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(count_told(cases[i].assignments), cases[i].lines);
}

TEST_WITH(help_says_one_batch_and_no_unit_without_a_number, setup, teardown)
{
    char *text = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    assert_non_null(out);
    option_help_all(out);
    fclose(out);
    assert_non_null(strstr(text, "[1 batch]"));
    assert_non_null(strstr(text, "[1 step]"));
    assert_non_null(strstr(text, "[4 batches]"));
    assert_null(strstr(text, "[ "));
    assert_null(strstr(text, "[1 batches]"));
    free(text);
}

TESTS_MAIN(NULL, NULL)
