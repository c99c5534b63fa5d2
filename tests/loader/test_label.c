/* Labels: every way to store one gives the class, and everything else is refused with a message. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "loader/label.h"
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/test.h"

#define CLASSES 10u

static char problem_text[512];
static uint8_t payload[EXAMPLE_FIXTURE_MAX];

static struct payload_problem problem_of(size_t bytes)
{
    problem_text[0] = '\0';
    return (struct payload_problem){ payload, bytes, problem_text, sizeof(problem_text) };
}

/* Find the format where none is found yet, and read. */
static int read_label(struct label_format *format, enum feature_kind kind, const void *run, size_t bytes,
                      int32_t *label)
{
    const size_t payload_bytes = example_fixture("label", kind, run, bytes, payload);
    const struct payload_problem problem = problem_of(payload_bytes);
    const struct feature feature = example_fixture_find("label", payload, payload_bytes);
    int rc = format->ops == NULL ? label_find_format(format, "label", &feature, &problem) : 0;
    if (rc == 0)
        rc = label_read(format, "label", &feature, label, &problem);
    assert_true((rc == 0) == (problem_text[0] == '\0'));
    return rc;
}

static void expect(struct label_format *format, enum feature_kind kind, const void *run, size_t bytes, int32_t wanted)
{
    int32_t label = -7;
    if (read_label(format, kind, run, bytes, &label) != 0)
        fail_msg("refused: %s", problem_text);
    assert_int_equal(label, wanted);
}

static void expect_refused(struct label_format *format, enum feature_kind kind, const void *run, size_t bytes,
                           const char *part)
{
    int32_t label;
    assert_int_equal(read_label(format, kind, run, bytes, &label), -EBADMSG);
    if (strstr(problem_text, part) == NULL)
        fail_msg("'%s' does not hold '%s'", problem_text, part);
}

TEST(integers_are_shifted_and_must_be_in_range)
{
    for (uint8_t stored = 1; stored <= CLASSES; stored++) {
        struct label_format format = { .classes = CLASSES, .offset = -1 };
        expect(&format, FEATURE_INT64S, &stored, 1, stored - 1);
        assert_string_equal(format.ops->name, "integers");
    }
    struct label_format format = { .classes = CLASSES };
    expect_refused(&format, FEATURE_INT64S, "\x0a", 1, "label 10 is not in [0, 10): if the labels count from 1");
    expect_refused(&format, FEATURE_INT64S, "\x12", 1,
                   "label 18 is not in [0, 10): set data.classes to the number of classes, at least 19");
    format.accepts_any = true;
    expect(&format, FEATURE_INT64S, "\x0a", 1, 0);
    format = (struct label_format){ .classes = CLASSES };
    expect_refused(&format, FEATURE_INT64S, "\x01\x02", 2, "holds 2 integers, one integer label is needed");
}

TEST(rows_with_one_1_are_its_place)
{
    struct label_format integers = { .classes = CLASSES }, floats = { .classes = CLASSES };
    for (int32_t i = 0; i < (int32_t)CLASSES; i++) {
        uint8_t row[CLASSES] = { 0 };
        float float_row[CLASSES] = { 0 };
        row[i] = 1;
        float_row[i] = 1;
        expect(&integers, FEATURE_INT64S, row, sizeof(row), i);
        expect(&floats, FEATURE_FLOATS, float_row, sizeof(float_row), i);
    }
    assert_string_equal(integers.ops->name, "one-hot integers");
    assert_string_equal(floats.ops->name, "one-hot floats");
}

TEST(rows_that_are_not_one_hot_are_refused)
{
    static const uint8_t two[CLASSES] = { 0, 1, 0, 1 }, none[CLASSES] = { 0 }, big[CLASSES] = { 1, 0, 2 };
    static const float half[CLASSES] = { 0.5f, 0.5f }, more[CLASSES] = { 1, 0, 0.1f };
    const uint8_t *const rows[] = { two, none, big };
    for (size_t i = 0; i < 3; i++) {
        struct label_format format = { .classes = CLASSES };
        expect_refused(&format, FEATURE_INT64S, rows[i], CLASSES, "10 integers, as many as classes, but not one 1");
    }
    struct label_format format = { .classes = CLASSES };
    expect_refused(&format, FEATURE_FLOATS, half, sizeof(half), "10 floats, as many as classes, but not one 1");
    expect_refused(&format, FEATURE_FLOATS, more, sizeof(more), "but not one 1");
    expect_refused(&format, FEATURE_INT64S, two, CLASSES - 1, "holds 9 integers, one integer label");
    expect_refused(&format, FEATURE_INT64S, "\0\1\0", 3,
                   "holds 3 integers, one 1 and zeros: a one-hot label of a network with data.classes = 3");
    expect_refused(&format, FEATURE_BYTES, "\0\0\1", 3,
                   "holds 3 bytes, one of them 1 and the others 0: a one-hot label as bytes: write it as a list of 3 "
                   "integers, or as one integer");
    expect_refused(&format, FEATURE_BYTES, "\0\1\1", 3, "holds 3 bytes, one integer label is needed");
}

/* Else a regression target of 1 would be class 0. */
TEST(a_single_float_is_no_row)
{
    static const float one = 1;
    struct label_format format = { .classes = 1 };
    expect_refused(&format, FEATURE_FLOATS, &one, sizeof(one), "holds 1 float, one integer label is needed");
}

TEST(names_are_their_classes)
{
    struct class_names names;
    char problem[64];
    assert_int_equal(class_names_read(&names, "roses\ntulips\nroses\n7\n", 21, problem, sizeof(problem)), 0);
    struct label_format format = { .classes = CLASSES, .names = &names };
    expect(&format, FEATURE_BYTES, "tulips", 6, 1);
    expect(&format, FEATURE_BYTES, "7", 1, 3);
    expect_refused(&format, FEATURE_BYTES, "daisy", 5, "label 'daisy' is none of the 4 class names");
    expect_refused(&format, FEATURE_BYTES, "roses", 5, "label 'roses' is more than one of the 4 class names");
    expect_refused(&format, FEATURE_INT64S, "\x01", 1, "where the labels of the first record are names of classes");
    expect_refused(&format, FEATURE_BYTES, "tulips\n", 7,
                   "label 'tulips\\x0a' is none of the 4 class names, 'tulips' is");
    format = (struct label_format){ .classes = CLASSES };
    expect_refused(&format, FEATURE_BYTES, "tulips", 6, "holds the text 'tulips': name a file");
    class_names_release(&names);
}

TEST(decimal_digits_are_their_number)
{
    struct label_format format = { .classes = 300 };
    for (int32_t value = 0; value < 300; value++) {
        char text[8];
        expect(&format, FEATURE_BYTES, text, (size_t)snprintf(text, sizeof(text), "%d", value), value);
    }
    assert_string_equal(format.ops->name, "digits as text");
    expect(&format, FEATURE_BYTES, "007", 3, 7);
    expect_refused(&format, FEATURE_BYTES, "300", 3, "label 300 is not in [0, 300)");
    expect_refused(&format, FEATURE_BYTES, "-1", 2, "-1 often marks a record without a label");
    static const char *const others[] = { "-", "", "7.0", "7\n", " 7", "+7", "cat", "99999999999999999999" };
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        expect_refused(&format, FEATURE_BYTES, others[i], strlen(others[i]),
                       "where the labels of the first record are digits as text");
}

TEST(a_single_byte_that_is_no_character_is_a_number)
{
    struct label_format format = { .classes = 300 };
    expect(&format, FEATURE_BYTES, "\x03", 1, 3);
    for (unsigned value = 0; value < 256; value++) {
        const uint8_t byte = (uint8_t)value;
        expect(&format, FEATURE_BYTES, &byte, 1, (int32_t)value);
    }
    expect_refused(&format, FEATURE_BYTES, "\x01\x02", 2, "single bytes");
    expect_refused(&format, FEATURE_BYTES, "", 0, "single bytes");
}

/* One record with this label, settled with what others said of theirs. */
static int settle(struct label_format *format, const char *label, bool is_number)
{
    const size_t bytes = example_fixture("label", FEATURE_BYTES, label, strlen(label), payload);
    const struct payload_problem problem = problem_of(bytes);
    const struct feature feature = example_fixture_find("label", payload, bytes);
    *format = (struct label_format){ .classes = 300 };
    assert_int_equal(label_find_format(format, "label", &feature, &problem), 0);
    assert_true(label_is_open(format, &feature));
    return label_settle(format, "label", &feature, is_number, &problem);
}

TEST(a_single_character_is_a_number_only_where_others_are)
{
    struct label_format format;
    assert_int_equal(settle(&format, "7", false), 0);
    expect(&format, FEATURE_BYTES, "11", 2, 11);
    assert_int_equal(settle(&format, "7", true), 0);
    expect(&format, FEATURE_BYTES, "7", 1, '7');
    assert_int_equal(settle(&format, "a", true), 0);
    expect(&format, FEATURE_BYTES, "a", 1, 'a');
    assert_int_equal(settle(&format, "a", false), -EBADMSG);
    assert_non_null(strstr(problem_text, "holds the text 'a': name a file"));
}

TEST(what_open_labels_are_is_seen_from_one_byte)
{
    static const struct { const char *label; size_t bytes; bool is_open, is_number; } cases[] = {
        { "7", 1, true, false }, { "11", 2, false, false }, { "\x03", 1, false, true }, { "\xff", 1, false, true },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct label_format format = { .classes = 300 };
        const size_t bytes = example_fixture("label", FEATURE_BYTES, cases[i].label, cases[i].bytes, payload);
        const struct payload_problem problem = problem_of(bytes);
        const struct feature feature = example_fixture_find("label", payload, bytes);
        assert_int_equal(label_find_format(&format, "label", &feature, &problem), 0);
        assert_int_equal(label_is_open(&format, &feature), cases[i].is_open);
        assert_int_equal(label_is_number_byte(&feature), cases[i].is_number);
    }
}

TEST(the_bytes_of_a_number_are_refused)
{
    struct label_format format = { .classes = CLASSES };
    expect_refused(&format, FEATURE_BYTES, "\3\0\0\0\0\0\0\0", 8,
                   "feature 'label' holds 8 bytes, one integer label is needed");
}

TEST(advice_about_labels_out_of_range_ends)
{
    struct label_format format = { .classes = CLASSES, .offset = 1 };
    static const uint8_t minus_one[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 };
    expect(&format, FEATURE_INT64S, minus_one, sizeof(minus_one), 0);
    expect_refused(&format, FEATURE_INT64S, "\x09", 1, "at least 11");
    format = (struct label_format){ .classes = CLASSES };
    expect_refused(&format, FEATURE_INT64S, minus_one, sizeof(minus_one),
                   LABEL_MINUS_ONE "; " LABEL_COUNTED_FROM_MINUS_ONE);
    format.offset = -1;
    expect_refused(&format, FEATURE_INT64S, "\0", 1, "(-1 with label_offset) is not in [0, 10): set data.label_offset");
}

TEST(where_weights_fix_the_classes_no_other_number_is_advised)
{
    struct label_format format = { .classes = CLASSES, .classes_are_fixed = true };
    expect_refused(&format, FEATURE_INT64S, "\x12", 1,
                   "label 18 is not in [0, 10): the weights are of a network with 10 classes");
    expect_refused(&format, FEATURE_INT64S, "\x0a", 1,
                   "set data.label_offset one lower; else the weights are of a network with fewer classes");
}

TEST(a_record_stored_otherwise_than_the_first_is_refused)
{
    static const uint8_t row[CLASSES] = { 0, 1 };
    struct label_format format = { .classes = CLASSES };
    expect(&format, FEATURE_INT64S, "\x03", 1, 3);
    expect_refused(&format, FEATURE_INT64S, row, CLASSES, "holds 10 integers, one integer label is needed");
    format = (struct label_format){ .classes = CLASSES };
    expect(&format, FEATURE_INT64S, row, CLASSES, 1);
    expect_refused(&format, FEATURE_INT64S, "\x03", 1, "where the labels of the first record are one-hot integers");
}

TESTS_MAIN(NULL, NULL)
