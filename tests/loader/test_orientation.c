/* JPEG images with an EXIF orientation: the sample is that of an image whose pixels are stored upright, for every
 * orientation, crop and filter; and without augment.orientation the stored pixels are used. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "loader/augment/augment.h"
#include "loader/images/image.h"
#include "loader/images/image_memory.h"
#include "loader/images/orientation.h"
#include "tests/helpers/test.h"

enum { WIDTH = 61, HEIGHT = 45, CHANNELS = 3, BYTES = WIDTH * HEIGHT * CHANNELS, BYTES_MAX = 200 * 150 * CHANNELS };

struct file {
    unsigned char *bytes;
    unsigned long count;
};

struct picture_size { uint32_t height, width; };

/* The EXIF data of an orientation: a big-endian TIFF with one entry. */
static void write_exif(struct jpeg_compress_struct *library, uint8_t orientation)
{
    const uint8_t exif[] = { 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3,
                             0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0 };
    jpeg_write_marker(library, JPEG_APP0 + 1, exif, sizeof(exif));
}

/* Smooth, and different in every corner. */
static uint8_t pixel_at(uint32_t y, uint32_t x, uint32_t c, const struct picture_size *size)
{
    const uint32_t stripes = c == 1 ? 25 * (y / 16 % 2) : 0;
    return (uint8_t)(20 + 150 * x / size->width + 60 * y / size->height + stripes);
}

static struct file encode(const struct picture_size *size, uint8_t orientation)
{
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    struct file file = { NULL, 0 };
    static uint8_t row[4096 * CHANNELS];
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &file.bytes, &file.count);
    library.image_width = size->width;
    library.image_height = size->height;
    library.input_components = CHANNELS;
    library.in_color_space = JCS_RGB;
    jpeg_set_defaults(&library);
    jpeg_start_compress(&library, TRUE);
    if (orientation > 0)
        write_exif(&library, orientation);
    for (uint32_t y = 0; y < size->height; y++) {
        for (uint32_t i = 0; i < size->width * CHANNELS; i++)
            row[i] = pixel_at(y, i / CHANNELS, i % CHANNELS, size);
        JSAMPROW rows[] = { row };
        jpeg_write_scanlines(&library, rows, 1);
    }
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    return file;
}

static void decode(const struct image_ops *ops, const struct stored_image *image, const struct image_request *request,
                   uint8_t *sample)
{
    void *codec;
    char problem[256] = "";
    assert_int_equal(ops->open(&codec), 0);
    if (ops->decode(codec, image, request, sample, problem, sizeof(problem)) != 0)
        fail_msg("%s", problem);
    ops->close(codec);
}

static struct stored_image file_image(const struct file *file)
{
    return (struct stored_image){ .bytes = file->bytes, .byte_count = file->count,
                                  .height.said = IMAGE_SIZE_UNSAID, .width.said = IMAGE_SIZE_UNSAID,
                                  .channels.said = IMAGE_SIZE_UNSAID };
}

static struct picture_size upright_size(const struct picture_size *stored, uint8_t orientation)
{
    return orientation >= 5 ? (struct picture_size){ stored->width, stored->height } : *stored;
}

/* As TIFF 6.0 describes the values: what row 0 and column 0 of the stored image show. */
static void turn(const uint8_t *stored, const struct picture_size *size, uint32_t channels, uint8_t orientation,
                 uint8_t *upright_out)
{
    const struct picture_size upright = upright_size(size, orientation);
    const uint32_t bottom = upright.height - 1, right = upright.width - 1;
    for (uint32_t row = 0; row < size->height; row++)
        for (uint32_t column = 0; column < size->width; column++) {
            const struct { uint32_t y, x; } places[9] = {
                [1] = { row, column },         [2] = { row, right - column },
                [3] = { bottom - row, right - column }, [4] = { bottom - row, column },
                [5] = { column, row },         [6] = { column, right - row },
                [7] = { bottom - column, right - row }, [8] = { bottom - column, row },
            };
            memcpy(upright_out + (places[orientation].y * upright.width + places[orientation].x) * channels,
                   stored + (row * size->width + column) * channels, channels);
        }
}

/* The upright pixels of the image, decoded as stored and turned here. */
static void decode_upright(const struct picture_size *size, uint32_t channels, uint8_t orientation,
                           uint8_t *upright_out)
{
    static uint8_t stored[BYTES_MAX];
    const struct file file = encode(size, orientation);
    const struct stored_image image = file_image(&file);
    const struct image_request request = { .shape = { size->height, size->width, channels } };
    decode(&image_encoded_ops, &image, &request, stored);
    turn(stored, size, channels, orientation, upright_out);
    free(file.bytes);
}

static void decode_both(const struct picture_size *size, uint8_t orientation, const struct image_request *request,
                        uint8_t *turned_out, uint8_t *expected_out)
{
    static uint8_t upright[BYTES_MAX];
    const uint32_t channels = request->shape.channels;
    const struct picture_size upright_shape = upright_size(size, orientation);
    const struct file file = encode(size, orientation);
    const struct stored_image image = file_image(&file);
    decode(&image_encoded_ops, &image, request, turned_out);
    decode_upright(size, channels, orientation, upright);
    const struct stored_image raw = { .key = "image", .bytes = upright,
                                      .byte_count = (size_t)size->height * size->width * channels,
                                      .height = { "height", upright_shape.height },
                                      .width = { "width", upright_shape.width }, .channels = { "depth", channels } };
    decode(&image_raw_hwc_ops, &raw, request, expected_out);
    free(file.bytes);
}

static const struct augment settings[] = {
    { .crop = { CROP_NONE, CROP_NONE }, .filter = FILTER_BILINEAR },
    { .crop = { CROP_NONE, CROP_NONE }, .filter = FILTER_NEAREST },
    { .crop = { CROP_RESIZED, CROP_CENTRAL }, .filter = FILTER_BICUBIC, .scale = 1.1, .flips = true },
    { .crop = { CROP_PAD, CROP_CENTRAL }, .filter = FILTER_BILINEAR, .scale = 1, .pad = 9 },
    { .crop = { CROP_SHIFT, CROP_CENTRAL }, .filter = FILTER_AREA, .resize = 50, .shift = 0.3, .scale = 1 },
    { .crop = { CROP_AUTO, CROP_CENTRAL }, .filter = FILTER_BILINEAR, .resize = 48, .scale = 1 },
};

/* Samples are too large for a reduced image to be decoded. */
TEST(the_sample_is_that_of_the_upright_image)
{
    static const struct picture_size size = { HEIGHT, WIDTH };
    static const struct image_shape shapes[] = { { HEIGHT, WIDTH, 3 }, { 44, 39, 3 }, { 48, 44, 1 },
                                                 { WIDTH, HEIGHT, 3 } };
    static uint8_t turned[BYTES * 2], expected[BYTES * 2];
    for (uint8_t orientation = 1; orientation <= 8; orientation++)
        for (size_t i = 0; i < sizeof(settings) / sizeof(*settings) * 4 * 6; i++) {
            struct augment augment = settings[i / 24];
            augment.orientation = ORIENTATION_EXIF;
            const struct image_request request = { .augment = &augment, .shape = shapes[i / 6 % 4],
                                                   .phase = i % 2 == 0 ? PHASE_TRAIN : PHASE_EVALUATE, .position = i };
            if (augment.resize > 0 && (request.shape.height > augment.resize || request.shape.width > augment.resize))
                continue;
            decode_both(&size, orientation, &request, turned, expected);
            const size_t bytes = (size_t)request.shape.height * request.shape.width * request.shape.channels;
            if (memcmp(turned, expected, bytes) != 0)
                fail_msg("orientation %u, settings %zu, shape %zu, request %zu", orientation, i / 24, i / 6 % 4, i % 6);
        }
}

/* The sides are no multiples of 8, so the reduced image has a part of a pixel at its end. */
TEST(reduced_images_are_turned_too)
{
    static const struct picture_size size = { 147, 197 };
    static uint8_t turned[30 * 30 * 3], expected[30 * 30 * 3];
    for (uint8_t orientation = 1; orientation <= 8; orientation++)
        for (uint64_t position = 0; position < 20; position++) {
            const struct augment augment = { .crop = { CROP_RESIZED, CROP_NONE }, .filter = FILTER_BILINEAR,
                                             .area = { 0.5, 1 }, .orientation = ORIENTATION_EXIF };
            const struct image_request request = { .augment = &augment, .position = position, .shape = { 30, 30, 3 },
                                                   .phase = position % 2 == 0 ? PHASE_TRAIN : PHASE_EVALUATE };
            decode_both(&size, orientation, &request, turned, expected);
            for (size_t i = 0; i < sizeof(turned); i++)
                if (abs(turned[i] - expected[i]) > 4)
                    fail_msg("orientation %u, position %u, byte %zu: %u instead of %u", orientation,
                             (unsigned)position, i, turned[i], expected[i]);
        }
}

TEST(without_the_setting_stored_pixels_are_used)
{
    static const struct picture_size size = { HEIGHT, WIDTH };
    static uint8_t plain[BYTES], turned[BYTES];
    const struct file upright = encode(&size, 0), rotated = encode(&size, 6);
    const struct stored_image images[] = { file_image(&upright), file_image(&rotated) };
    struct augment augment = settings[0];
    struct image_request request = { .augment = &augment, .shape = { HEIGHT, WIDTH, CHANNELS } };
    decode(&image_encoded_ops, &images[0], &request, plain);
    decode(&image_encoded_ops, &images[1], &request, turned);
    assert_memory_equal(plain, turned, BYTES);
    request.augment = NULL;
    decode(&image_encoded_ops, &images[1], &request, turned);
    assert_memory_equal(plain, turned, BYTES);
    augment.orientation = ORIENTATION_EXIF;
    request.augment = &augment;
    decode(&image_encoded_ops, &images[0], &request, turned);
    assert_memory_equal(plain, turned, BYTES);
    decode(&image_encoded_ops, &images[1], &request, turned);
    assert_memory_not_equal(plain, turned, BYTES);
    free(upright.bytes);
    free(rotated.bytes);
}

/* The pixels and their turned copy are reserved together. */
TEST(the_memory_of_large_images_includes_the_turned_copy)
{
    static const struct picture_size size = { 900, 1300 };
    const struct file file = encode(&size, 6);
    const struct stored_image image = file_image(&file);
    const struct augment augment = { .crop = { CROP_NONE, CROP_NONE }, .filter = FILTER_NEAREST,
                                     .orientation = ORIENTATION_EXIF };
    const struct image_request request = { .augment = &augment, .shape = { 8, 8, 3 } };
    const size_t pixel_bytes = (size_t)size.height * size.width * CHANNELS;
    uint8_t sample[8 * 8 * 3];
    char problem[256] = "";
    void *codec;
    assert_int_equal(image_encoded_ops.open(&codec), 0);
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, 2 * pixel_bytes - 1 });
    assert_int_equal(image_encoded_ops.decode(codec, &image, &request, sample, problem, sizeof(problem)), -ENOMEM);
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, 2 * pixel_bytes });
    for (int i = 0; i < 2; i++)
        assert_int_equal(image_encoded_ops.decode(codec, &image, &request, sample, problem, sizeof(problem)), 0);
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, SIZE_MAX });
    image_encoded_ops.close(codec);
    free(file.bytes);
}

TESTS_MAIN(NULL, NULL)
