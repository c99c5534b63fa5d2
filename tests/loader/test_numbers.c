/* Images whose pixels are floats: every byte is recovered from every range, however the floats are stored, and numbers
 * that are no pixels are refused. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "loader/images/pixel_survey.h"
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/test.h"

#define COUNT 256u      /* 16 x 16 x 1, or 8 x 8 x 4 */

static const struct image_shape grey = { 16, 16, 1 }, four = { 8, 8, 4 };
static char problem[512];

static int decode(const struct image_ops *ops, const struct stored_image *image, const struct image_shape *shape,
                  uint8_t *pixels)
{
    void *codec;
    const struct image_request request = { .shape = *shape };
    assert_int_equal(ops->open(&codec), 0);
    problem[0] = '\0';
    const int rc = ops->decode(codec, image, &request, pixels, problem, sizeof(problem));
    ops->close(codec);
    return rc;
}

static struct stored_image image_of(const void *floats, size_t bytes, enum image_range_choice range)
{
    return (struct stored_image){ .key = "image", .bytes = floats, .byte_count = bytes,
                                  .type = &number_types[NUMBER_FLOAT32], .range = &image_ranges[range],
                                  .height = { "height", IMAGE_SIZE_UNSAID }, .width = { "width", IMAGE_SIZE_UNSAID },
                                  .channels = { "depth", IMAGE_SIZE_UNSAID } };
}

/* What a writer makes of the bytes 0 to 255. */
static void make_floats(const struct image_range *range, float floats[COUNT])
{
    for (uint32_t i = 0; i < COUNT; i++)
        floats[i] = range->darkest + (range->brightest - range->darkest) * ((float)i / 255.0f);
}

TEST(every_byte_is_recovered_from_every_range)
{
    for (int range = IMAGE_RANGE_UNIT; range <= (int)IMAGE_RANGE_BYTE; range++) {
        float floats[COUNT];
        uint8_t pixels[COUNT], payload[EXAMPLE_FIXTURE_MAX];
        make_floats(&image_ranges[range], floats);
        struct stored_image image = image_of(floats, sizeof(floats), (enum image_range_choice)range);
        for (int kept = 0; kept < 3; kept++) {
            struct feature feature;
            if (kept > 0) {
                const size_t bytes = kept == 1
                                         ? example_fixture("image", FEATURE_FLOATS, floats, sizeof(floats), payload)
                                         : example_fixture_unpacked("image", floats, COUNT, payload);
                feature = example_fixture_find("image", payload, bytes);
                image.bytes = NULL;
                image.byte_count = 0;
                image.list = &feature;
            }
            memset(pixels, 77, sizeof(pixels));
            assert_int_equal(decode(&image_numbers_hwc_ops, &image, &grey, pixels), 0);
            for (uint32_t i = 0; i < COUNT; i++)
                assert_int_equal(pixels[i], i);
        }
    }
}

TEST(planes_become_pixels)
{
    float floats[COUNT];
    uint8_t pixels[COUNT];
    make_floats(&image_ranges[IMAGE_RANGE_SIGNED], floats);
    const struct stored_image image = image_of(floats, sizeof(floats), IMAGE_RANGE_SIGNED);
    assert_int_equal(decode(&image_numbers_chw_ops, &image, &four, pixels), 0);
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t channel = 0; channel < 4; channel++)
            assert_int_equal(pixels[4 * i + channel], 64 * channel + i);
}

TEST(numbers_outside_the_range_are_refused)
{
    static const float bad[] = { -0.6f, 255.6f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN };
    float floats[COUNT];
    uint8_t pixels[COUNT];
    make_floats(&image_ranges[IMAGE_RANGE_BYTE], floats);
    const struct stored_image image = image_of(floats, sizeof(floats), IMAGE_RANGE_BYTE);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        floats[200] = bad[i];
        assert_int_equal(decode(&image_numbers_hwc_ops, &image, &grey, pixels), -EBADMSG);
        assert_non_null(strstr(problem, "not in 0..255"));
    }
    floats[200] = -0.4f;
    floats[201] = 255.4f;
    floats[202] = 6.5f;
    assert_int_equal(decode(&image_numbers_hwc_ops, &image, &grey, pixels), 0);
    assert_int_equal(pixels[200], 0);
    assert_int_equal(pixels[201], 255);
    assert_int_equal(pixels[202], 7);
}

TEST(other_numbers_of_floats_are_refused)
{
    float floats[COUNT];
    uint8_t pixels[COUNT];
    make_floats(&image_ranges[IMAGE_RANGE_UNIT], floats);
    const size_t sizes[] = { 0, 4, sizeof(floats) - 4, sizeof(floats) - 1 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const struct stored_image image = image_of(floats, sizes[i], IMAGE_RANGE_UNIT);
        assert_int_equal(decode(&image_numbers_hwc_ops, &image, &grey, pixels), -EBADMSG);
        assert_true(problem[0] != '\0');
    }
}

/* Converted, 0.38 is the letter a: too few of it are no text. */
TEST(floats_that_are_too_few_are_called_floats)
{
    float floats[COUNT];
    uint8_t pixels[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        floats[i] = 0.38f;
    const struct stored_image image = image_of(floats, sizeof(floats) - sizeof(floats[0]), IMAGE_RANGE_UNIT);
    assert_int_equal(decode(&image_numbers_hwc_ops, &image, &grey, pixels), -EBADMSG);
    assert_ptr_equal(strstr(problem, "has 255 floats, the network wants 256 ("), problem);
}

TEST(the_narrowest_range_that_contains_all_is_found)
{
    static const struct { float lowest, highest; const char *name; } cases[] = {
        { 0, 1, "0..1" }, { 0.2f, 0.4f, "0..1" }, { -0.5f, 0.5f, "-0.5..0.5" }, { -0.5f, 0.2f, "-0.5..0.5" },
        { -0.6f, 0.5f, "-1..1" }, { -1, 1, "-1..1" }, { 0, 255, "0..255" }, { 0, 2, "0..255" },
        { -0.001f, 1.001f, NULL },
        { -2, 2, NULL }, { 0, 256, NULL }, { -0.5f, 2, NULL }, { NAN, NAN, NULL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct image_range *const range = image_range_find(cases[i].lowest, cases[i].highest);
        if (cases[i].name == NULL)
            assert_null(range);
        else
            assert_string_equal(range->name, cases[i].name);
    }
}

TESTS_MAIN(NULL, NULL)
