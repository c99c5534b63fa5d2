/* Validation images resized as torchvision's networks want them, compared with what Pillow makes of the same pixels. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "loader/images/image.h"
#include "loader/images/scale.h"
#include "tests/helpers/test.h"

static struct scale scale;

/* A drawn image: every pixel by a formula that Python computes as well. */
static uint8_t drawn(uint32_t y, uint32_t x, uint32_t c)
{
    return (uint8_t)((x * 37 + y * 101 + c * 53 + x * y * 7) ^ (x * x + y * 3));
}

static struct picture draw_picture(const struct image_shape *size)
{
    const size_t row_bytes = (size_t)size->width * size->channels;
    uint8_t *const pixels = malloc(size->height * row_bytes);
    assert_non_null(pixels);
    for (uint32_t y = 0; y < size->height; y++)
        for (uint32_t x = 0; x < size->width; x++)
            for (uint32_t c = 0; c < size->channels; c++)
                pixels[y * row_bytes + x * size->channels + c] = drawn(y, x, c);
    return (struct picture){ .pixels = pixels, .row_bytes = row_bytes, .width = size->width, .height = size->height,
                             .channels = size->channels };
}

static struct augment_view view_of(const struct image_shape *size, uint32_t resize, const struct image_shape *wanted,
                                   enum filter filter)
{
    const struct augment augment = { .crop = { CROP_CENTRAL, CROP_CENTRAL }, .filter = filter, .scale = 1.145,
                                     .resize = resize };
    const struct image_request request = { .phase = PHASE_EVALUATE, .shape = *wanted };
    struct augment_view view;
    augment_view(&augment, &request, size->height, size->width, &view);
    return view;
}

static uint64_t fnv(const uint8_t *bytes, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Hashes (FNV-1a) of what Pillow 12 gives, in Python:
 *     drawn = bytes(((x*37 + y*101 + c*53 + x*y*7) ^ (x*x + y*3)) & 255 for y in range(h) for x in range(w)
 *                   for c in range(channels))
 *     image = Image.frombytes("L" if channels == 1 else "RGB", (w, h), drawn)
 *     rh, rw = int(resize * h / min(h, w)), int(resize * w / min(h, w))        # torchvision's Resize
 *     top, left = round((rh - sh) / 2), round((rw - sw) / 2)                   # and CenterCrop
 *     image.resize((rw, rh), filter).crop((left, top, left + sw, top + sh)).tobytes()
 * torchvision.transforms gives the same of these images. */
static const struct {
    struct image_shape size;
    uint32_t resize;
    struct image_shape sample;
    enum filter filter;
    uint64_t hash;
} cases[] = {
    { { 37, 53, 3 }, 20, { 16, 16, 3 }, FILTER_BILINEAR, UINT64_C(0x6c260ec4705a5053) },
    { { 53, 37, 3 }, 20, { 16, 16, 3 }, FILTER_BICUBIC, UINT64_C(0xdd3118837f3cfdc5) },
    { { 37, 53, 1 }, 32, { 28, 28, 1 }, FILTER_BILINEAR, UINT64_C(0xd961c523f345086f) },
    { { 9, 7, 3 }, 32, { 28, 28, 3 }, FILTER_BILINEAR, UINT64_C(0x37d7ecc9b829bacc) },
    { { 9, 7, 3 }, 32, { 28, 28, 3 }, FILTER_BICUBIC, UINT64_C(0x19e7ff363142e8dc) },
    { { 100, 75, 3 }, 64, { 56, 56, 3 }, FILTER_BILINEAR, UINT64_C(0x66ccd926e01f68d9) },
    { { 375, 500, 3 }, 256, { 224, 224, 3 }, FILTER_BILINEAR, UINT64_C(0x3d84489f0f2dfac9) },
    { { 500, 334, 3 }, 256, { 224, 224, 3 }, FILTER_BICUBIC, UINT64_C(0x98a5b9c4ac985a11) },
    { { 256, 256, 3 }, 256, { 224, 224, 3 }, FILTER_BILINEAR, UINT64_C(0x2f43bd5a8fb97a25) },
    { { 300, 41, 3 }, 41, { 32, 32, 3 }, FILTER_BILINEAR, UINT64_C(0xcf0131b4bca337a5) },
    { { 64, 64, 1 }, 20, { 20, 12, 1 }, FILTER_BILINEAR, UINT64_C(0xf52591cedfc40ede) },
    { { 224, 224, 3 }, 256, { 224, 224, 3 }, FILTER_BILINEAR, UINT64_C(0x59216c49eb01a565) },
    { { 3, 400, 3 }, 32, { 32, 32, 3 }, FILTER_BILINEAR, UINT64_C(0xb813377365b6f227) },
    { { 1, 1, 3 }, 33, { 32, 32, 3 }, FILTER_BICUBIC, UINT64_C(0xbf0436dca8a9cf25) },
    { { 61, 47, 3 }, 24, { 21, 24, 3 }, FILTER_BILINEAR, UINT64_C(0xbe79bd0e2ed3203b) },
};

static void assert_case(size_t i, const struct picture *picture, const struct augment_view *view)
{
    const struct image_shape *const shape = &cases[i].sample;
    const size_t bytes = (size_t)shape->height * shape->width * shape->channels;
    uint8_t *const sample = malloc(bytes);
    assert_non_null(sample);
    assert_int_equal(scale_picture(&scale, picture, view, shape, sample), 0);
    if (fnv(sample, bytes) != cases[i].hash)
        fail_msg("case %zu: hash 0x%016llx", i, (unsigned long long)fnv(sample, bytes));
    free(sample);
}

TEST(pixels_are_pillows_to_the_bit)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct picture picture = draw_picture(&cases[i].size);
        const struct augment_view view = view_of(&cases[i].size, cases[i].resize, &cases[i].sample, cases[i].filter);
        assert_case(i, &picture, &view);
        free((void *)picture.pixels);
    }
}

/* Decoders read no more of an image than the view touches. */
TEST(what_the_view_touches_is_all_that_is_needed)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct picture whole = draw_picture(&cases[i].size);
        const struct augment_view view = view_of(&cases[i].size, cases[i].resize, &cases[i].sample, cases[i].filter);
        const struct pixel_range x = pixel_range_touched(view.left, view.width, whole.width);
        const struct pixel_range y = pixel_range_touched(view.top, view.height, whole.height);
        const size_t row_bytes = (size_t)x.count * whole.channels;
        uint8_t *const pixels = malloc(y.count * row_bytes);
        assert_non_null(pixels);
        for (uint32_t row = 0; row < y.count; row++)
            memcpy(pixels + row * row_bytes,
                   whole.pixels + (y.first + row) * whole.row_bytes + (size_t)x.first * whole.channels, row_bytes);
        const struct picture part = { pixels, row_bytes, x.first, y.first, x.count, y.count, whole.channels };
        assert_case(i, &part, &view);
        free(pixels);
        free((void *)whole.pixels);
    }
}

/* These values are written out: Resize(5) and CenterCrop(4) of 6 x 8 grey pixels. */
TEST(a_small_image_has_these_pixels)
{
    static const uint8_t wanted[16] = { 81, 119, 118, 179, 163, 161, 86, 130, 146, 138, 105, 178, 120, 100, 123, 145 };
    const struct image_shape size = { 6, 8, 1 }, shape = { 4, 4, 1 }, colours = { 4, 4, 3 };
    const struct picture picture = draw_picture(&size);
    struct augment_view view = view_of(&size, 5, &shape, FILTER_BILINEAR);
    uint8_t sample[48];
    assert_int_equal(scale_picture(&scale, &picture, &view, &shape, sample), 0);
    assert_memory_equal(sample, wanted, sizeof(wanted));
    view.is_flipped = true;
    assert_int_equal(scale_picture(&scale, &picture, &view, &shape, sample), 0);
    for (size_t i = 0; i < sizeof(wanted); i++)
        assert_int_equal(sample[i], wanted[i / 4 * 4 + 3 - i % 4]);
    assert_int_equal(scale_picture(&scale, &picture, &view, &colours, sample), 0);
    for (size_t i = 0; i < sizeof(sample); i++)
        assert_int_equal(sample[i], wanted[i / 12 * 4 + 3 - i / 3 % 4]);
    free((void *)picture.pixels);
}

static int release(void **state)
{
    (void)state;
    scale_release(&scale);
    return 0;
}

TESTS_MAIN(NULL, release)
