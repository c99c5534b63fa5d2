/* Payloads read as samples: with any changed bytes, a payload gives the sample in its features or is refused with a
 * message. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "formats/tfrecord.h"
#include "loader/sample.h"
#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

static const struct image_shape shape = { FIXTURE_HEIGHT, FIXTURE_WIDTH, FIXTURE_CHANNELS };

static struct sample_format make_format(const uint8_t *payload, size_t bytes)
{
    char problem[512];
    struct sample_format format = { .label.classes = 100 };
    struct pixel_survey survey;
    assert_int_equal(sample_find_format(&format, &shape, payload, bytes, problem, sizeof(problem)), 0);
    sample_begin_survey(&format, &survey);
    assert_int_equal(sample_survey_pixels(&format, &shape, payload, bytes, &survey), 0);
    assert_int_equal(sample_settle_pixels(&format, &shape, &survey, problem, sizeof(problem)), 0);
    pixel_survey_release(&survey);
    return format;
}

/* Compare with image and label as example_find finds them. */
static void assert_sample_is_in(const uint8_t *payload, size_t bytes, const uint8_t *pixels, int32_t label)
{
    static const char *const names[] = { "image_raw", "label" };
    static const size_t name_bytes[] = { 9, 5 };
    const struct example_query query = { names, name_bytes, 2 };
    struct feature found[2];
    size_t bad_offset;
    assert_int_equal(example_find(payload, bytes, &query, found, &bad_offset), 0);
    assert_int_equal(found[0].byte_count, FIXTURE_SAMPLE_BYTES);
    assert_memory_equal(found[0].bytes, pixels, FIXTURE_SAMPLE_BYTES);
    assert_int_equal(found[1].value_count, 1);
    assert_int_equal(found[1].int64, label);
    assert_in_range(label, 0, 99);
}

/* Returns whether the payload was read. */
static bool try_payload(const struct sample_format *format, const uint8_t *payload, size_t bytes)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES];
    int32_t label = -7;
    char problem[512] = "";
    uint8_t *exact = malloc(bytes > 0 ? bytes : 1); /* so that sanitizers notice reads past the end */
    assert_non_null(exact);
    memcpy(exact, payload, bytes);
    const struct sample_target target = { .request = { .shape = shape }, .pixels = pixels, .label = &label };
    const int rc = sample_read(format, NULL, exact, bytes, &target, problem, sizeof(problem));
    if (rc == 0)
        assert_sample_is_in(exact, bytes, pixels, label);
    else
        assert_true(problem[0] != '\0');
    free(exact);
    return rc == 0;
}

static void try_single_changes(const struct sample_format *format, uint8_t *payload, size_t bytes)
{
    for (size_t at = 0; at < bytes; at++) {
        const uint8_t kept = payload[at];
        for (uint32_t value = 0; value < 256; value++) {
            payload[at] = (uint8_t)value;
            try_payload(format, payload, bytes);
        }
        payload[at] = kept;
        assert_false(try_payload(format, payload, at));
    }
}

static void try_double_changes(const struct sample_format *format, uint8_t *payload, size_t bytes)
{
    const struct random_key key = random_key(1, RANDOM_DRAW, (uint32_t)bytes);
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t word = random_u64(key, i);
        const size_t first = word % bytes, second = (word >> 20) % bytes;
        const uint8_t kept_first = payload[first], kept_second = payload[second];
        payload[first] = (uint8_t)(word >> 40);
        payload[second] = (uint8_t)(word >> 48);
        try_payload(format, payload, bytes);
        payload[second] = kept_second;
        payload[first] = kept_first;
    }
}

TEST(a_payload_with_any_changed_byte_is_read_consistently_or_refused)
{
    for (uint64_t id = 0; id < 3; id++) {
        uint8_t frame[FIXTURE_FRAME_MAX];
        const size_t bytes = fixture_record(id, frame) - TFRECORD_FRAME_BYTES;
        uint8_t *const payload = frame + TFRECORD_HEADER_BYTES;
        const struct sample_format format = make_format(payload, bytes);
        assert_true(try_payload(&format, payload, bytes));
        try_single_changes(&format, payload, bytes);
        try_double_changes(&format, payload, bytes);
    }
}

/* The label before the image, after it, and twice, when the last one counts. */
TEST(features_may_be_in_any_order)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES], image[512], label[512], joined[1600];
    fixture_pixels(4, pixels);
    const struct example_value image_value = {
        .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels, .byte_count = sizeof(pixels) };
    struct example_value label_value = { .name = "label", .kind = FEATURE_INT64S, .int64 = 5 };
    const size_t image_bytes = example_write(&image_value, 1, image);
    const size_t label_bytes = example_write(&label_value, 1, label);
    memcpy(joined, image, image_bytes);
    memcpy(joined + image_bytes, label, label_bytes);
    const struct sample_format format = make_format(joined, image_bytes + label_bytes);
    assert_true(try_payload(&format, joined, image_bytes + label_bytes));
    memcpy(joined, label, label_bytes);
    memcpy(joined + label_bytes, image, image_bytes);
    assert_true(try_payload(&format, joined, image_bytes + label_bytes));
    label_value.int64 = 6;
    example_write(&label_value, 1, joined + label_bytes + image_bytes);
    assert_true(try_payload(&format, joined, image_bytes + 2 * label_bytes));
}

TEST(labels_of_more_than_a_byte_are_read)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES] = { 0 }, frame[FIXTURE_FRAME_MAX];
    const size_t bytes =
        fixture_example("image_raw", pixels, sizeof(pixels), "label", 300, frame) - TFRECORD_FRAME_BYTES;
    const uint8_t *const payload = frame + TFRECORD_HEADER_BYTES;
    struct sample_format format = make_format(payload, bytes);
    int32_t label = -7;
    char problem[512];
    const struct sample_target target = { .request = { .shape = shape }, .pixels = pixels, .label = &label };
    assert_int_equal(sample_read(&format, NULL, payload, bytes, &target, problem, sizeof(problem)), -EBADMSG);
    assert_string_equal(problem,
                        "label 300 is not in [0, 100): set data.classes to the number of classes, at least 301");
    format.label.classes = 301;
    assert_int_equal(sample_read(&format, NULL, payload, bytes, &target, problem, sizeof(problem)), 0);
    assert_int_equal(label, 300);
}

TESTS_MAIN(NULL, NULL)
