/* Tests of images that are decoded to see that they can be. */
#include <math.h>
#include <string.h>

#include "formats/example.h"
#include "formats/tfrecord.h"
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"
#include "tools/shards/image_check.h"

/* Four grey pixels. */
static const uint8_t png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00,
    0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x00, 0x00, 0x00, 0x57, 0xdd, 0x52, 0xf8, 0x00, 0x00, 0x00,
    0x0e, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x10, 0x50, 0x60, 0x30, 0x70, 0x00, 0x00, 0x01, 0x76, 0x00,
    0xa1, 0xec, 0x30, 0x8a, 0xf4, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
};
#define PNG_DATA_AT 41u         /* the pixels, deflated */

static struct image_check check;

static char *paths[] = { (char[]){ "0" }, (char[]){ "1" } };

static int check_init(void **state)
{
    const int rc = fixture_folder_enter(state);
    return rc != 0 ? rc : image_check_init(&check, &(struct sample_names){ .image = NULL }, paths, 2, 2);
}

static int check_release(void **state)
{
    image_check_release(&check);
    return fixture_folder_leave(state);
}

/* Whether the image in a record is taken; if not, the problem has the words. */
static bool takes(const char *key, const void *image, size_t bytes, const char *words)
{
    uint8_t frame[FIXTURE_FRAME_MAX];
    struct record_problem problem = { 0 };
    const size_t length = fixture_example(key, image, bytes, "label", 3, frame);
    const struct chunk_record record = { .payload = frame + TFRECORD_HEADER_BYTES,
                                        .payload_bytes = length - TFRECORD_FRAME_BYTES };
    const bool result = image_check_visit(&check, 1, 0, &record, &problem);
    if (!result && strstr(problem.text, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, problem.text);
    return result;
}

TEST_WITH(a_whole_image_is_taken, check_init, check_release)
{
    assert_true(takes("image/encoded", png, sizeof(png), ""));
    assert_true(takes("image", png, sizeof(png), ""));
}

TEST_WITH(an_image_that_cannot_be_decoded_is_damage, check_init, check_release)
{
    uint8_t damaged[sizeof(png)];
    memcpy(damaged, png, sizeof(png));
    damaged[PNG_DATA_AT + 6] ^= 0x10;
    assert_false(takes("image/encoded", damaged, sizeof(damaged), "PNG"));
    assert_false(takes("image/encoded", png, PNG_DATA_AT + 5, "PNG"));
    assert_true(takes("image/encoded", png, sizeof(png), ""));
}

TEST_WITH(what_is_no_image_is_damage, check_init, check_release)
{
    static const uint8_t pixels[24] = { 1 };
    assert_false(takes("image/encoded", pixels, sizeof(pixels), "neither JPEG nor PNG"));
    assert_false(takes("picture", png, sizeof(png), "no feature known as image"));
}

TEST_WITH(pixels_of_a_known_size_are_taken, check_init, check_release)
{
    static const uint8_t pixels[48] = { 1 };
    const struct example_value values[] = {
        { .name = "depth", .kind = FEATURE_INT64S, .int64 = 3 },
        { .name = "height", .kind = FEATURE_INT64S, .int64 = 4 },
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels, .byte_count = sizeof(pixels) },
        { .name = "width", .kind = FEATURE_INT64S, .int64 = 4 },
    };
    uint8_t payload[256];
    struct record_problem problem;
    const struct chunk_record record = { .payload = payload, .payload_bytes = example_write(values, 4, payload) };
    assert_true(image_check_visit(&check, 0, 0, &record, &problem));
}

/* The same of an image that is a list of numbers, whose sizes nothing tells. */
static bool takes_list(enum feature_kind kind, const void *run, size_t run_bytes, const char *words)
{
    uint8_t payload[EXAMPLE_FIXTURE_MAX];
    struct record_problem problem = { 0 };
    const struct chunk_record record = { .payload = payload,
                                        .payload_bytes = example_fixture("image", kind, run, run_bytes, payload) };
    const bool result = image_check_visit(&check, 0, 0, &record, &problem);
    if (!result && strstr(problem.text, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, problem.text);
    return result;
}

TEST_WITH(numbers_that_are_no_pixels_are_damage, check_init, check_release)
{
    static const uint8_t pixels[] = { 0, 17, 0xff, 1 }, too_many[] = { 0, 17, 0x80, 2 };
    static const float floats[] = { 0, 0.5f, 1 }, no_pixels[] = { 0, 0.5f, 1000 }, no_numbers[] = { 0, NAN, 1 };
    assert_true(takes_list(FEATURE_INT64S, pixels, sizeof(pixels), ""));
    assert_false(takes_list(FEATURE_INT64S, too_many, sizeof(too_many),
                            "holds integers from 0 to 256 in the first records"));
    assert_true(takes_list(FEATURE_FLOATS, floats, sizeof(floats), ""));
    assert_false(takes_list(FEATURE_FLOATS, no_pixels, sizeof(no_pixels),
                            "holds floats from 0 to 1000 in the first records, which are no pixels"));
    assert_false(takes_list(FEATURE_FLOATS, no_numbers, sizeof(no_numbers), "holds floats that are no numbers"));
    assert_true(takes("image/encoded", png, sizeof(png), ""));
}

/* Write a shard of these images, in two records each. */
static void write_twice(const char *path, const void *one, size_t one_bytes, const void *other, size_t other_bytes)
{
    uint8_t frames[4 * FIXTURE_FRAME_MAX];
    size_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        bytes += fixture_example("image", one, one_bytes, "label", 3, frames + bytes);
        bytes += fixture_example("image", other, other_bytes, "label", 3, frames + bytes);
    }
    fixture_write(path, frames, bytes);
}

TEST_WITH(pixels_whose_size_no_feature_says_are_counted, check_init, check_release)
{
    static const uint8_t pixels[24] = { 1 };
    write_twice(paths[0], pixels, 24, pixels, 24);
    assert_true(takes("image", pixels, 24, ""));
    assert_true(takes("image", pixels, 24, ""));
    assert_int_equal(image_check_undecoded(&check), 2);
    assert_false(takes("image", pixels, 23, "its image has 23 bytes, the first one of the shard 24"));
    assert_false(takes("image", "GIF89a, 24 bytes of one.", 24, "neither JPEG nor PNG"));
    assert_int_equal(image_check_undecoded(&check), 2);
}

TEST_WITH(bytes_among_encoded_images_are_damage, check_init, check_release)
{
    static const uint8_t pixels[24] = { 1 };
    write_twice(paths[0], pixels, 24, png, sizeof(png));
    assert_false(takes("image", pixels, 24, "neither JPEG nor PNG"));
    assert_int_equal(image_check_undecoded(&check), 0);
}

TESTS_MAIN(NULL, NULL)
