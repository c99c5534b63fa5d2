/* Images that are lists of integers: found by the first record, each integer a byte, and anything else refused in
 * words. */
#include <string.h>

#include "loader/record.h"
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

static uint8_t data[8 * FIXTURE_FRAME_MAX];
static size_t data_bytes;

/* Packed varints. */
static size_t pack(const int64_t *values, size_t count, uint8_t *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t rest = (uint64_t)values[i];
        for (; rest > 127; rest >>= 7)
            out[bytes++] = (uint8_t)(rest | 128);
        out[bytes++] = (uint8_t)rest;
    }
    return bytes;
}

/* A record of label 5. */
static void add_record(enum feature_kind kind, const void *run, size_t run_bytes)
{
    static const uint8_t label[] = { 5 };
    uint8_t payload[FIXTURE_FRAME_MAX];
    size_t bytes = example_fixture("image", kind, run, run_bytes, payload);
    bytes += example_fixture("label", FEATURE_INT64S, label, sizeof(label), payload + bytes);
    data_bytes += fixture_frame(payload, bytes, data + data_bytes);
}

static void add_integers(const int64_t *values, size_t count)
{
    uint8_t run[10 * FIXTURE_SAMPLE_BYTES];
    add_record(FEATURE_INT64S, run, pack(values, count, run));
}

static struct dataset_options write_set(void)
{
    const char *const path = fixture_path(folder, "integers.tfrecord");
    fixture_write(path, data, data_bytes);
    data_bytes = 0;
    return fixture_options(path);
}

/* From 0 to 255. */
static void make_pixels(int64_t values[FIXTURE_SAMPLE_BYTES])
{
    for (uint32_t i = 0; i < FIXTURE_SAMPLE_BYTES; i++)
        values[i] = i * 255 / (FIXTURE_SAMPLE_BYTES - 1);
}

TEST(lists_of_integers_are_found_and_read)
{
    int64_t values[FIXTURE_SAMPLE_BYTES];
    uint8_t pixels[FIXTURE_SAMPLE_BYTES];
    int32_t label;
    make_pixels(values);
    add_integers(values, FIXTURE_SAMPLE_BYTES);
    struct dataset_options options = write_set();
    struct dataset *dataset = fixture_open(&options);
    assert_ptr_equal(dataset->format.image, &image_numbers_hwc_ops);
    fixture_load(dataset, 0, pixels, &label);
    assert_int_equal(label, 5);
    for (uint32_t i = 0; i < FIXTURE_SAMPLE_BYTES; i++)
        assert_int_equal(pixels[i], values[i]);
    dataset_close(dataset);

    options.layout = PIXEL_LAYOUT_CHW;
    dataset = fixture_open(&options);
    fixture_load(dataset, 0, pixels, &label);
    for (uint32_t i = 0; i < FIXTURE_SAMPLE_BYTES / 2; i++) {
        assert_int_equal(pixels[2 * i], values[i]);
        assert_int_equal(pixels[2 * i + 1], values[FIXTURE_SAMPLE_BYTES / 2 + i]);
    }
    dataset_close(dataset);
}

TEST(integers_that_are_no_bytes_are_refused)
{
    static const struct { int64_t value; const char *words; } cases[] = {
        { 256, "holds integers from 0 to 256 in the first records" },
        { 16383, "holds integers from 0 to 16383 in the first records" },
        { 65536, "holds integers from 0 to 65536 in the first records" },
        { -1, "holds integers from -1 to 255 in the first records" },
        { INT64_MIN, "holds integers from -9.22337204e+18 to 255 " },
        { INT64_MAX, "holds integers from 0 to 9.22337204e+18 " } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t values[FIXTURE_SAMPLE_BYTES];
        make_pixels(values);
        values[7] = values[20] = cases[i].value;
        add_integers(values, FIXTURE_SAMPLE_BYTES);
        const struct dataset_options options = write_set();
        fixture_assert_refused(&options, cases[i].words, "integers.tfrecord: record 0");
    }
}

TEST(other_numbers_of_integers_are_refused)
{
    int64_t values[FIXTURE_SAMPLE_BYTES + 1] = { 0 };
    add_integers(values, FIXTURE_SAMPLE_BYTES - 1);
    struct dataset_options options = write_set();
    fixture_assert_refused(&options, "has 23 integers, the network wants 24 (4x3x2)", "record 0");
    add_integers(values, FIXTURE_SAMPLE_BYTES + 1);
    options = write_set();
    fixture_assert_refused(&options, "has 25 integers, the network wants 24 (4x3x2)", "record 0");
}

/* The text of what is wrong with the second record. */
static void expect_second_refused(const char *words)
{
    const struct dataset_options options = write_set();
    struct dataset *const dataset = fixture_open(&options);
    struct decode_context *context;
    struct record_problem problem;
    uint8_t pixels[FIXTURE_SAMPLE_BYTES];
    int32_t label;
    const struct sample_target target = {
        .request = { .shape = options.shape }, .pixels = pixels, .label = &label };
    assert_int_equal(decode_context_open(&context, dataset), 0);
    assert_true(record_load(context, 1, &target, &problem) < 0);
    assert_non_null(strstr(problem.text, words));
    decode_context_close(context);
    dataset_close(dataset);
}

TEST(other_kinds_of_images_among_them_are_refused)
{
    int64_t values[FIXTURE_SAMPLE_BYTES];
    const float floats[FIXTURE_SAMPLE_BYTES] = { 0 };
    make_pixels(values);
    add_integers(values, FIXTURE_SAMPLE_BYTES);
    add_record(FEATURE_BYTES, floats, FIXTURE_SAMPLE_BYTES);
    expect_second_refused(", but the first record of the set integers (H, W, C) of 0..255");
    add_integers(values, FIXTURE_SAMPLE_BYTES);
    add_record(FEATURE_FLOATS, floats, sizeof(floats));
    expect_second_refused("feature 'image' holds 24 floats, but the first record of the set integers (H, W, C)");
    add_record(FEATURE_BYTES, floats, FIXTURE_SAMPLE_BYTES);
    add_integers(values, FIXTURE_SAMPLE_BYTES);
    expect_second_refused("feature 'image' holds 24 integers, but the first record of the set raw bytes (H, W, C)");
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
