/* Tests of images that are made smaller or become pixels on their way into a set. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "formats/image_header.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/test.h"
#include "tools/convert/image_change.h"
#include "tools/convert/image_flaws.h"
#include "tools/convert/jpeg_write.h"

#define WIDTH 48u
#define HEIGHT 32u
#define PAYLOAD_MAX ((size_t)64 << 10)

static uint8_t payload[PAYLOAD_MAX];

/* Brighter to the right, and in colours darker to the bottom. */
static uint8_t pixel_at(uint32_t y, uint32_t x, uint32_t c)
{
    return (uint8_t)(c == 0 ? 20 + 4 * x : 220 - 4 * y);
}

static void fill(uint8_t *pixels, uint32_t channels)
{
    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++)
            for (uint32_t c = 0; c < channels; c++)
                *pixels++ = pixel_at(y, x, c);
}

/* A record as converters make it, of a JPEG; its bytes. */
static size_t make_record(uint32_t channels)
{
    uint8_t pixels[HEIGHT * WIDTH * 3];
    const struct image_shape shape = { HEIGHT, WIDTH, channels };
    struct jpeg_writer *writer;
    const uint8_t *jpeg;
    size_t jpeg_bytes;
    char problem[256];

    fill(pixels, channels);
    assert_int_equal(jpeg_writer_open(&writer, 95), 0);
    assert_int_equal(jpeg_write(writer, pixels, &shape, &jpeg, &jpeg_bytes, problem, sizeof(problem)), 0);
    const struct example_value values[] = {
        { .name = "image/channels", .kind = FEATURE_INT64S, .int64 = channels },
        { .name = "image/class/label", .kind = FEATURE_INT64S, .int64 = 5 },
        { .name = "image/encoded", .kind = FEATURE_BYTES, .bytes = jpeg, .byte_count = jpeg_bytes },
        { .name = "image/format", .kind = FEATURE_BYTES, .bytes = "jpg", .byte_count = 3 },
        { .name = "image/height", .kind = FEATURE_INT64S, .int64 = HEIGHT },
        { .name = "image/width", .kind = FEATURE_INT64S, .int64 = WIDTH },
        { .name = "zebra", .kind = FEATURE_BYTES, .bytes = "stays", .byte_count = 5 },
    };
    const size_t bytes = example_write(values, sizeof(values) / sizeof(values[0]), payload);
    jpeg_writer_close(writer);
    assert_true(bytes <= PAYLOAD_MAX);
    return bytes;
}

/* A record of raw pixels. */
static size_t make_raw_record(void)
{
    uint8_t pixels[HEIGHT * WIDTH];
    const struct example_value values[] = {
        { .name = "depth", .kind = FEATURE_INT64S, .int64 = 1 },
        { .name = "height", .kind = FEATURE_INT64S, .int64 = HEIGHT },
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels, .byte_count = sizeof(pixels) },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = 5 },
        { .name = "width", .kind = FEATURE_INT64S, .int64 = WIDTH },
    };
    fill(pixels, 1);
    return example_write(values, 5, payload);
}

/* The payload that comes out of `bytes` in payload. */
struct changed { struct image_changer *changer; const uint8_t *payload; size_t bytes; };

static struct changed change_record(const struct image_change *change, size_t bytes)
{
    struct changed changed;
    char problem[512] = "";

    assert_int_equal(image_changer_open(&changed.changer, change), 0);
    const int rc = image_changer_apply(changed.changer, payload, bytes, &changed.payload, &changed.bytes, problem,
                                       sizeof(problem));
    if (rc != 0)
        fail_msg("%d: %s", rc, problem);
    return changed;
}

/* Insert EXIF data of this orientation into the JPEG of a record. Returns the new number of bytes. */
static size_t set_orientation(size_t bytes, uint8_t orientation)
{
    const uint8_t exif[] = { 0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0,
                             3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0 };
    static uint8_t jpeg[PAYLOAD_MAX], whole[PAYLOAD_MAX];
    const struct feature image = example_fixture_find("image/encoded", payload, bytes);
    memcpy(jpeg, image.bytes, 2);
    memcpy(jpeg + 2, exif, sizeof(exif));
    memcpy(jpeg + 2 + sizeof(exif), image.bytes + 2, image.byte_count - 2);
    const struct example_value value = { .name = "image/encoded", .kind = FEATURE_BYTES, .bytes = jpeg,
                                         .byte_count = image.byte_count + sizeof(exif) };
    assert_true(example_replaced_size(payload, bytes, &value, 1) <= PAYLOAD_MAX);
    const size_t made = example_replace(payload, bytes, &value, 1, whole);
    memcpy(payload, whole, made);
    return made;
}

static void expect_refused(const struct image_change *change, size_t bytes, int rc, const char *words)
{
    struct image_changer *changer;
    const uint8_t *out;
    size_t out_bytes;
    char problem[512] = "";

    assert_int_equal(image_changer_open(&changer, change), 0);
    assert_int_equal(image_changer_apply(changer, payload, bytes, &out, &out_bytes, problem, sizeof(problem)),
                     rc);
    if (strstr(problem, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, problem);
    image_changer_close(changer);
}

static struct feature find(const struct changed *changed, const char *name)
{
    return example_fixture_find(name, changed->payload, changed->bytes);
}

static bool has(const struct changed *changed, const char *name)
{
    return example_fixture_find(name, changed->payload, changed->bytes).kind != FEATURE_MISSING;
}

TEST(a_larger_image_becomes_a_jpeg_with_this_shorter_side)
{
    struct image_header header;
    const char *problem;
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        const struct changed changed = change_record(&(struct image_change){ .short_side = 11, .quality = 90 },
                                                     make_record(channels));
        const struct feature image = find(&changed, "image/encoded");
        assert_int_equal(image_header_read(image.bytes, image.byte_count, &header, &problem), 0);
        assert_int_equal(header.format, IMAGE_FORMAT_JPEG);
        assert_int_equal(header.height, 11);
        assert_int_equal(header.width, 17);     /* of 16.5 */
        assert_int_equal(header.channels, channels);
        image_changer_close(changed.changer);
    }
}

TEST(features_that_say_its_size_are_set_and_others_stay)
{
    const struct changed changed = change_record(&(struct image_change){ .short_side = 16, .quality = 90 }, make_record(3));
    assert_int_equal(find(&changed, "image/height").int64, 16);
    assert_int_equal(find(&changed, "image/width").int64, 24);
    assert_int_equal(find(&changed, "image/channels").int64, 3);
    assert_int_equal(find(&changed, "image/class/label").int64, 5);
    assert_memory_equal(find(&changed, "image/format").bytes, "JPEG", 4);
    assert_memory_equal(find(&changed, "zebra").bytes, "stays", 5);
    assert_false(has(&changed, "height"));
    assert_false(has(&changed, "image_raw"));
    image_changer_close(changed.changer);
}

TEST(an_image_that_is_small_enough_stays_byte_for_byte)
{
    const size_t bytes = make_record(3);
    for (uint64_t side = HEIGHT; side < HEIGHT + 2; side++) {
        const struct changed changed = change_record(&(struct image_change){ .short_side = side, .quality = 1 }, bytes);
        assert_ptr_equal(changed.payload, payload);
        assert_int_equal(changed.bytes, bytes);
        image_changer_close(changed.changer);
    }
}

/* Orientation 6: the first stored row is the last column of the upright image. */
TEST(images_with_an_orientation_are_turned_and_no_others)
{
    const struct image_change upright = { .is_upright = true, .quality = 95 };
    struct changed changed = change_record(&upright, set_orientation(make_record(3), 1));
    assert_ptr_equal(changed.payload, payload);
    image_changer_close(changed.changer);
    changed = change_record(&upright, set_orientation(make_record(3), 6));
    const struct feature image = find(&changed, "image/encoded");
    struct image_header header;
    const char *problem;
    assert_int_equal(image_header_read(image.bytes, image.byte_count, &header, &problem), 0);
    assert_true(header.height == WIDTH && header.width == HEIGHT && header.orientation == 1);
    assert_int_equal(find(&changed, "image/height").int64, WIDTH);
    assert_int_equal(find(&changed, "image/width").int64, HEIGHT);
    image_changer_close(changed.changer);
    const struct image_change raw = { .is_upright = true, .is_raw = true };
    changed = change_record(&raw, set_orientation(make_record(3), 6));
    const struct feature pixels = find(&changed, "image_raw");
    assert_int_equal(find(&changed, "height").int64, WIDTH);
    assert_int_equal(pixels.byte_count, HEIGHT * WIDTH * 3);
    for (uint32_t y = 0; y < WIDTH; y++)
        for (uint32_t x = 0; x < HEIGHT; x++)
            assert_true(abs(pixels.bytes[(y * HEIGHT + x) * 3] - pixel_at(HEIGHT - 1 - x, y, 0)) < 20);
    image_changer_close(changed.changer);
    changed = change_record(&(struct image_change){ .is_raw = true }, set_orientation(make_record(3), 6));
    assert_int_equal(find(&changed, "height").int64, HEIGHT);
    image_changer_close(changed.changer);
}

TEST(records_of_pixels_are_not_turned)
{
    const size_t bytes = make_raw_record();
    const struct changed changed = change_record(&(struct image_change){ .is_upright = true, .quality = 90 }, bytes);
    assert_ptr_equal(changed.payload, payload);
    image_changer_close(changed.changer);
}

/* Every pixel near what was drawn, between the pixels it stands for. */
static void expect_pixels(const struct changed *changed, uint32_t height, uint32_t channels)
{
    const struct feature image = find(changed, "image_raw");
    const uint32_t width = height * WIDTH / HEIGHT, step = HEIGHT / height;
    assert_int_equal(image.byte_count, height * width * channels);
    assert_int_equal(find(changed, "height").int64, height);
    assert_int_equal(find(changed, "width").int64, width);
    assert_int_equal(find(changed, "depth").int64, channels);
    for (uint32_t y = 1; y + 1 < height; y++)
        for (uint32_t x = 1; x + 1 < width; x++)
            for (uint32_t c = 0; c < channels; c++)
                assert_in_range(image.bytes[(y * width + x) * channels + c] + 10,
                                pixel_at(y * step + step / 2, x * step + step / 2, c),
                                pixel_at(y * step + step / 2, x * step + step / 2, c) + 20);
}

TEST(pixels_are_those_of_the_image_scaled)
{
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        const size_t bytes = make_record(channels);
        const struct changed whole = change_record(&(struct image_change){ .is_raw = true }, bytes);
        expect_pixels(&whole, HEIGHT, channels);
        image_changer_close(whole.changer);
        const struct changed half = change_record(&(struct image_change){ .short_side = 16, .is_raw = true }, bytes);
        expect_pixels(&half, 16, channels);
        assert_int_equal(find(&half, "image/class/label").int64, 5);
        assert_false(has(&half, "image/encoded"));
        assert_false(has(&half, "image/format"));
        assert_false(has(&half, "image/height"));
        image_changer_close(half.changer);
    }
}

TEST(raw_images_are_made_smaller_as_raw_images_only)
{
    const size_t bytes = make_raw_record();
    const struct changed half = change_record(&(struct image_change){ .short_side = 8, .is_raw = true }, bytes);
    expect_pixels(&half, 8, 1);
    image_changer_close(half.changer);
    const struct changed same = change_record(&(struct image_change){ .short_side = 32, .is_raw = true }, bytes);
    assert_ptr_equal(same.payload, payload);
    image_changer_close(same.changer);
    expect_refused(&(struct image_change){ .short_side = 8, .quality = 90 }, bytes, -ENOTSUP, "together with --raw");
    const size_t planes = example_fixture("image", FEATURE_BYTES, (const uint8_t[3072]){ 0 }, 3072, payload);
    expect_refused(&(struct image_change){ .short_side = 8, .quality = 90 }, planes, -ENOTSUP, "together with --raw");
}

TEST(what_cannot_be_decoded_is_refused_with_its_reason)
{
    const struct image_change change = { .short_side = 8, .quality = 90 };
    const uint8_t head[] = { 0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0, 99, 0, 0, 0,
                             99, 8, 2, 0, 0, 0, 0, 0, 0, 0 };
    memset(payload, 0xff, 100);
    expect_refused(&change, 100, -EBADMSG, "is not a tf.train.Example");
    expect_refused(&change, 0, -EBADMSG, "has no feature known as image");
    expect_refused(&change, example_fixture("image", FEATURE_BYTES, head, sizeof(head), payload), -EBADMSG,
                   "holds a PNG image that cannot be decoded");
    expect_refused(&change, example_fixture("image", FEATURE_BYTES, "text", 4, payload), -EBADMSG,
                   "neither JPEG nor PNG");
    expect_refused(&(struct image_change){ .short_side = 8, .quality = 90, .image_key = "picture" }, make_record(3), -EBADMSG,
                   "no feature known as image");
}

TEST(flaws_that_are_skipped_are_reported)
{
    const size_t whole_bytes = make_record(3);
    const struct feature image = example_fixture_find("image/encoded", payload, whole_bytes);
    uint8_t cut[EXAMPLE_FIXTURE_MAX];
    struct image_changer *changer;
    const uint8_t *out;
    size_t out_bytes;
    char problem[512] = "";
    assert_in_range(image.byte_count, 500, EXAMPLE_FIXTURE_MAX - 100);
    memcpy(cut, image.bytes, image.byte_count);
    const size_t bytes = example_fixture("image", FEATURE_BYTES, cut, image.byte_count - 100, payload);
    assert_int_equal(image_changer_open(&changer, &(struct image_change){ .short_side = 8, .quality = 90 }), 0);
    assert_int_equal(image_changer_apply(changer, payload, bytes, &out, &out_bytes, problem, sizeof(problem)), 0);
    assert_non_null(strstr(problem, "has flaws: Premature end of JPEG file"));
    image_changer_close(changer);
}

/* A PNG of 2 x 2 grey pixels with a text. */
static const uint8_t small_png[] = {
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 2, 0, 0, 0, 2,
    8, 0, 0, 0, 0, 87, 221, 82, 248, 0, 0, 0, 14, 73, 68, 65, 84, 120, 156, 99, 16, 48, 96, 8,
    40, 0, 0, 2, 38, 1, 1, 202, 1, 114, 107, 0, 0, 0, 9, 116, 69, 88, 116, 84, 105, 116, 108, 101,
    0, 99, 97, 116, 87, 224, 123, 135, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
};

static int check_record(struct image_changer *changer, size_t bytes)
{
    const uint8_t *out;
    size_t out_bytes;
    char problem[512] = "";
    const int rc = image_changer_apply(changer, payload, bytes, &out, &out_bytes, problem, sizeof(problem));
    assert_ptr_equal(out, payload);
    assert_int_equal(out_bytes, bytes);
    assert_int_equal(problem[0] != '\0', rc != 0);
    return rc;
}

TEST(any_changed_bit_of_a_png_is_found_by_a_check)
{
    struct image_changer *changer;
    uint8_t png[sizeof(small_png)];
    assert_int_equal(image_changer_open(&changer, &(struct image_change){ .is_checked = true }), 0);
    memcpy(png, small_png, sizeof(png));
    assert_int_equal(check_record(changer, example_fixture("image", FEATURE_BYTES, png, sizeof(png), payload)), 0);
    for (size_t bit = 0; bit < 8 * sizeof(png); bit++) {
        png[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const int rc = check_record(changer, example_fixture("image", FEATURE_BYTES, png, sizeof(png), payload));
        if (rc != (bit < 64 ? -ENOMSG : -EBADMSG))
            fail_msg("bit %zu: %d", bit, rc);
        png[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    image_changer_close(changer);
}

TEST(a_check_lets_records_pass_that_hold_no_encoded_image)
{
    struct image_changer *changer;
    assert_int_equal(image_changer_open(&changer, &(struct image_change){ .is_checked = true }), 0);
    memset(payload, 0xff, 100);
    assert_int_equal(check_record(changer, 100), 0);
    assert_int_equal(check_record(changer, 0), 0);
    assert_int_equal(check_record(changer, make_raw_record()), 0);
    assert_int_equal(check_record(changer, make_record(3)), 0);
    assert_int_equal(check_record(changer, example_fixture("image", FEATURE_BYTES, "text", 4, payload)), -ENOMSG);
    image_changer_close(changer);
}

/* The flaws that a conversion of a set notes, and the message that refuses it; NULL: it is stored. */
TEST(images_that_cannot_be_decoded_are_counted_with_those_of_no_known_kind)
{
    static const struct { uint32_t counts[FLAW_KIND_COUNT]; bool has_encoded; const char *message; } rows[] = {
        { { 0, 0, 0 }, true, NULL }, { { 2, 0, 0 }, true, NULL }, { { 0, 0, 2 }, false, NULL },
        { { 0, 0, 1 }, true, "1 image cannot be decoded: nothing" }, { { 0, 1, 0 }, true, "1 image cannot be decoded: nothing" },
        { { 5, 2, 0 }, true, "2 images cannot be decoded: nothing" }, { { 0, 1, 2 }, false, "1 image cannot be decoded: nothing" },
        { { 5, 1, 2 }, true, "3 images cannot be decoded: nothing" },
        { { 0, FLAWS_LISTED, 0 }, true, "100 images cannot be decoded: nothing" },
        { { 0, FLAWS_LISTED + 1, 0 }, true, "101 images cannot be decoded (the first ones are listed): nothing" },
    };
    static const struct sample_source source = { .split = "train" };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct image_flaws *const flaws = image_flaws_open();
        struct stop *stop;
        char text[32768];
        assert_int_equal(stop_open(&stop), 0);
        for (enum flaw_kind kind = 0; kind < FLAW_KIND_COUNT; kind++)
            for (uint32_t k = 0, count = rows[i].counts[kind]; k < count; k++)
                image_flaws_add(flaws, kind, &source, (7 * k + 6) % count, "is flawed");       /* in any order */
        const int rc = CAPTURE(text, image_flaws_report(flaws, rows[i].has_encoded, false, stop));
        assert_int_equal(rc, rows[i].message == NULL ? 0 : -EBADMSG);
        assert_int_equal(stop_failed(stop), rows[i].message != NULL);
        if (rows[i].message != NULL && strstr(stop_message(stop), rows[i].message) == NULL)
            fail_msg("row %zu: %s", i, stop_message(stop));
        assert_int_equal(strstr(text, "train sample 0: is flawed") != NULL, rc != 0 || rows[i].counts[FLAW_IGNORED] > 0);
        assert_null(strstr(text, "train sample 100: is flawed"));
        stop_close(stop);
        image_flaws_close(flaws);
    }
}

TEST(the_same_bytes_come_out_whatever_came_before)
{
    const struct image_change change = { .short_side = 12, .quality = 75 };
    const size_t grey_bytes = make_record(1);
    struct changed used = change_record(&change, grey_bytes);
    const size_t bytes = make_record(3);
    const struct changed fresh = change_record(&change, bytes);
    char problem[512];
    assert_int_equal(image_changer_apply(used.changer, payload, bytes, &used.payload, &used.bytes, problem,
                                         sizeof(problem)), 0);
    assert_int_equal(used.bytes, fresh.bytes);
    assert_memory_equal(used.payload, fresh.payload, fresh.bytes);
    image_changer_close(used.changer);
    image_changer_close(fresh.changer);
}

TESTS_MAIN(NULL, NULL)
