/* Raw images that have to be converted: of another size, cut, or in planes. */
#include <stdbool.h>
#include <string.h>

#include "loader/images/raw.h"
#include "loader/images/scale.h"
#include "tests/helpers/test.h"

enum { SIDE_MAX = 12, BYTES_MAX = SIDE_MAX * SIDE_MAX * 3 };

static void *codec;
static uint8_t rows[BYTES_MAX], planes[BYTES_MAX];

/* An image, as rows of pixels and as planes. */
static void fill(const struct image_shape *shape)
{
    const size_t plane_bytes = (size_t)shape->height * shape->width;
    for (size_t i = 0; i < plane_bytes; i++)
        for (size_t c = 0; c < shape->channels; c++)
            rows[i * shape->channels + c] = planes[c * plane_bytes + i] = (uint8_t)(i * 29 + c * 71);
}

static struct stored_image store(const uint8_t *bytes, const struct image_shape *shape)
{
    return (struct stored_image){
        .key = "image",
        .bytes = bytes,
        .byte_count = (size_t)shape->height * shape->width * shape->channels,
        .height = { "height", shape->height },
        .width = { "width", shape->width },
        .channels = { "depth", shape->channels },
    };
}

static void make(const struct image_ops *ops, const uint8_t *bytes, const struct image_shape *stored,
                 const struct image_request *request, uint8_t *sample)
{
    char problem[300] = "";
    const struct stored_image image = store(bytes, stored);
    assert_int_equal(ops->decode(codec, &image, request, sample, problem, sizeof(problem)), 0);
    assert_string_equal(problem, "");
}

/* Both ways to store an image give what its view gives. */
static void try_request(const struct image_shape *stored, const struct image_request *request)
{
    uint8_t wanted[BYTES_MAX], sample[BYTES_MAX];
    const struct image_shape *const shape = &request->shape;
    const size_t bytes = (size_t)shape->height * shape->width * shape->channels;
    struct scale scale = { 0 };
    struct augment_view view;
    fill(stored);
    augment_view(request->augment, request, stored->height, stored->width, &view);
    const struct picture picture = { rows, (size_t)stored->width * stored->channels, 0, 0, stored->width,
                                     stored->height, stored->channels };
    assert_int_equal(scale_picture(&scale, &picture, &view, shape, wanted), 0);
    scale_release(&scale);
    make(&image_raw_hwc_ops, rows, stored, request, sample);
    assert_memory_equal(sample, wanted, bytes);
    make(&image_raw_chw_ops, planes, stored, request, sample);
    assert_memory_equal(sample, wanted, bytes);
}

TEST(pixels_of_the_size_in_the_record_are_scaled)
{
    for (uint32_t height = 1; height <= SIDE_MAX; height++)
        for (uint32_t width = 1; width <= SIDE_MAX; width += 3)
            for (uint32_t channels = 1; channels <= 3; channels++) {
                const struct image_shape stored = { height, width, channels };
                try_request(&stored, &(struct image_request){ .shape = { 7, 9, channels } });
            }
}

TEST(grey_pixels_become_coloured_ones_and_back)
{
    const struct image_shape grey = { 7, 9, 1 }, colours = { 7, 9, 3 };
    try_request(&grey, &(struct image_request){ .shape = colours });
    try_request(&colours, &(struct image_request){ .shape = grey });
}

TEST(parts_with_borders_and_mirrors_are_cut)
{
    static const struct image_shape shape = { SIDE_MAX, SIDE_MAX, 3 };
    static const struct augment padded = { .crop = { CROP_PAD }, .pad = 4, .flips = true };
    static const struct augment shifted = { .crop = { CROP_SHIFT }, .shift = 0.3, .flips = true };
    for (uint64_t position = 0; position < 50; position++) {
        try_request(&shape, &(struct image_request){ .augment = &padded, .position = position, .shape = shape });
        try_request(&shape, &(struct image_request){ .augment = &shifted, .position = position, .shape = shape });
    }
}

/* Long images are copied with non-temporal stores. */
TEST(long_images_are_copied_to_any_place_and_no_further)
{
    enum { SIDE = 149, BYTES = SIDE * SIDE * 3, PLACES = 40 };
    static uint8_t pixels[BYTES], room[BYTES + PLACES + 1], wanted[sizeof(room)];
    _Static_assert(BYTES > LARGE_COPY_BYTES && BYTES % 16 != 0, "the image is long, and no whole number of parts");
    const struct image_shape shape = { SIDE, SIDE, 3 };
    for (size_t i = 0; i < BYTES; i++)
        pixels[i] = (uint8_t)(i * 31 + i / 256);
    for (size_t place = 0; place < PLACES; place++) {
        memset(room, 0xee, sizeof(room));
        memset(wanted, 0xee, sizeof(wanted));
        memcpy(wanted + place, pixels, BYTES);
        make(&image_raw_hwc_ops, pixels, &shape, &(struct image_request){ .shape = shape }, room + place);
        assert_memory_equal(room, wanted, sizeof(room));
    }
}

TEST(an_encoded_image_among_raw_ones_is_called_by_its_name)
{
    uint8_t sample[BYTES_MAX];
    char problem[300];
    static const struct image_size unsaid = { "size", IMAGE_SIZE_UNSAID };
    const struct stored_image image = { .key = "image", .bytes = (const uint8_t *)"\xff\xd8\xff and so on",
                                        .byte_count = 13, .height = unsaid, .width = unsaid, .channels = unsaid };
    const struct image_request request = { .shape = { 7, 9, 3 } };
    assert_int_not_equal(image_raw_hwc_ops.decode(codec, &image, &request, sample, problem, sizeof(problem)), 0);
    assert_non_null(strstr(problem, "feature 'image' holds a JPEG image, but the first record of the set raw pixels"));
}

static int open_codec(void **state)
{
    (void)state;
    return image_raw_hwc_ops.open(&codec);
}

static int close_codec(void **state)
{
    (void)state;
    image_raw_hwc_ops.close(codec);
    return 0;
}

TESTS_MAIN(open_codec, close_codec)
