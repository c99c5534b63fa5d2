/* JPEG images made by the library itself: what is decoded in part, smaller, or from damaged bytes. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "loader/images/image_memory.h"
#include "loader/images/picture.h"
#include "stage/random.h"
#include "tests/helpers/encoded_codec.h"
#include "tests/helpers/test.h"

enum { WIDTH = 93, HEIGHT = 70 };

/* How an image is stored. */
struct storage {
    J_COLOR_SPACE colours;
    uint32_t channels;
    int sampling_x, sampling_y;
    bool is_progressive;
};

static const struct storage colour = { JCS_RGB, 3, 2, 2, false };

struct file {
    unsigned char *bytes;
    unsigned long count;
};

/* Slopes and a pattern, so that every pixel differs from those beside it. */
static void draw(uint8_t *pixels, uint32_t width, uint32_t height, uint32_t channels)
{
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++)
                *pixels++ = (uint8_t)(x * (c + 1) + y * 2 + (x / 5 + y / 7 + c) % 3 * 40);
}

static struct file encode(const uint8_t *pixels, uint32_t width, uint32_t height, const struct storage *storage)
{
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    struct file file = { NULL, 0 };
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &file.bytes, &file.count);
    library.image_width = width;
    library.image_height = height;
    library.input_components = (int)storage->channels;
    library.in_color_space = storage->colours;
    jpeg_set_defaults(&library);
    library.comp_info[0].h_samp_factor = storage->sampling_x;
    library.comp_info[0].v_samp_factor = storage->sampling_y;
    if (storage->is_progressive)
        jpeg_simple_progression(&library);
    jpeg_start_compress(&library, TRUE);
    for (uint32_t y = 0; y < height; y++) {
        JSAMPROW row = (uint8_t *)(uintptr_t)(pixels + (size_t)y * width * storage->channels);
        (void)jpeg_write_scanlines(&library, &row, 1);
    }
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    return file;
}

static struct file make(uint32_t width, uint32_t height, const struct storage *storage)
{
    uint8_t *const pixels = malloc((size_t)width * height * storage->channels);
    assert_non_null(pixels);
    draw(pixels, width, height, storage->channels);
    const struct file file = encode(pixels, width, height, storage);
    free(pixels);
    return file;
}

/* The library's own way, the whole image. */
static void decode_plainly(const struct file *file, J_COLOR_SPACE colours, uint8_t *pixels)
{
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    library.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&library);
    jpeg_mem_src(&library, file->bytes, file->count);
    (void)jpeg_read_header(&library, TRUE);
    library.out_color_space = colours;
    (void)jpeg_start_decompress(&library);
    while (library.output_scanline < library.output_height) {
        const size_t row_bytes = library.output_width * (size_t)library.output_components;
        JSAMPROW row = pixels + library.output_scanline * row_bytes;
        (void)jpeg_read_scanlines(&library, &row, 1);
    }
    (void)jpeg_finish_decompress(&library);
    jpeg_destroy_decompress(&library);
}

static void assert_decodes(const struct file *file, const struct image_shape *shape, uint8_t *sample)
{
    char problem[300];
    assert_int_equal(encoded_codec_decode(file->bytes, file->count, shape, sample, problem, sizeof(problem)), 0);
    assert_string_equal(problem, "");
}

static void assert_refused(const void *bytes, size_t count, const char *words)
{
    static uint8_t sample[WIDTH * HEIGHT * 3];
    const struct image_shape shape = { HEIGHT, WIDTH, 3 };
    char problem[300];
    assert_int_not_equal(encoded_codec_decode(bytes, count, &shape, sample, problem, sizeof(problem)), 0);
    assert_non_null(strstr(problem, words));
}

static const struct storage storages[] = {
    { JCS_RGB, 3, 1, 1, false },      { JCS_RGB, 3, 2, 1, false }, { JCS_RGB, 3, 1, 2, false },
    { JCS_RGB, 3, 2, 2, false },      { JCS_RGB, 3, 4, 1, false }, { JCS_RGB, 3, 2, 2, true },
    { JCS_GRAYSCALE, 1, 1, 1, false }, { JCS_GRAYSCALE, 1, 1, 1, true },
};
enum { STORAGES = sizeof(storages) / sizeof(*storages) };

TEST(an_image_of_the_samples_size_is_what_the_library_makes_of_it)
{
    static uint8_t sample[WIDTH * HEIGHT * 3], wanted[WIDTH * HEIGHT * 3];
    for (int i = 0; i < STORAGES; i++) {
        struct file file = make(WIDTH, HEIGHT, &storages[i]);
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            const struct image_shape shape = { HEIGHT, WIDTH, channels };
            assert_decodes(&file, &shape, sample);
            decode_plainly(&file, channels == 1 ? JCS_GRAYSCALE : JCS_RGB, wanted);
            assert_memory_equal(sample, wanted, (size_t)WIDTH * HEIGHT * channels);
        }
        free(file.bytes);
    }
}

/* Decode a part and compare it with the same part of the whole. */
static void try_part(void *decoder, const struct file *file, const uint8_t *whole, const struct augment_view *view)
{
    char text[300];
    struct text problem;
    struct picture picture;
    uint32_t height, width, eighths;
    text_init(&problem, text, sizeof(text));
    const struct image_shape shape = { (uint32_t)view->height, (uint32_t)view->width, 3 };
    const struct picture_request wish = { .view = view, .shape = &shape };
    assert_int_equal(picture_jpeg_ops.begin(decoder, file->bytes, file->count, &height, &width, &problem), 0);
    assert_int_equal(height, HEIGHT);
    assert_int_equal(width, WIDTH);
    assert_int_equal(picture_jpeg_ops.read(decoder, &wish, &picture, &eighths, &problem), 0);
    assert_int_equal(eighths, PICTURE_FULL_EIGHTHS);
    assert_true(picture.left == view->left && picture.top == view->top && picture.width == view->width &&
                picture.height == view->height);
    for (size_t y = 0; y < picture.height; y++)
        assert_memory_equal(picture.pixels + y * picture.row_bytes,
                            whole + ((picture.top + y) * WIDTH + picture.left) * picture.channels,
                            (size_t)picture.width * picture.channels);
}

TEST(a_part_of_an_image_is_that_part_of_the_whole)
{
    static uint8_t whole[WIDTH * HEIGHT * 3];
    void *decoder;
    assert_int_equal(picture_jpeg_ops.open(&decoder), 0);
    const struct random_key key = random_key(4, RANDOM_DRAW, 0);
    for (uint32_t i = 0; i < STORAGES * 60; i++) {
        struct file file = make(WIDTH, HEIGHT, &storages[i % STORAGES]);
        decode_plainly(&file, storages[i % STORAGES].channels == 1 ? JCS_GRAYSCALE : JCS_RGB, whole);
        const uint64_t dice = random_u64(key, i);
        const uint32_t left = (dice & 0xffff) % WIDTH, top = (dice >> 16 & 0xffff) % HEIGHT;
        const struct augment_view view = { .left = left, .top = top,
                                           .width = (uint32_t)(1 + (dice >> 32 & 0xffff) % (WIDTH - left)),
                                           .height = (uint32_t)(1 + (dice >> 48) % (HEIGHT - top)) };
        try_part(decoder, &file, whole, &view);
        free(file.bytes);
    }
    picture_jpeg_ops.close(decoder);
}

TEST(a_large_image_is_decoded_as_small_as_it_is_wanted)
{
    static const struct {
        uint32_t side, eighths;
    } rows[] = { { WIDTH, 8 }, { 48, 8 }, { 46, 4 }, { 24, 4 }, { 23, 2 }, { 12, 2 }, { 11, 1 }, { 1, 1 } };
    void *decoder;
    struct file file = make(WIDTH, WIDTH, &colour);
    assert_int_equal(picture_jpeg_ops.open(&decoder), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[300];
        struct text problem;
        struct picture picture;
        uint32_t height, width, eighths;
        text_init(&problem, text, sizeof(text));
        const struct augment_view view = { .width = WIDTH, .height = WIDTH };
        const struct image_shape shape = { rows[i].side, rows[i].side, 3 };
        const struct picture_request wish = { .view = &view, .shape = &shape };
        assert_int_equal(picture_jpeg_ops.begin(decoder, file.bytes, file.count, &height, &width, &problem), 0);
        assert_int_equal(picture_jpeg_ops.read(decoder, &wish, &picture, &eighths, &problem), 0);
        assert_int_equal(eighths, rows[i].eighths);
        assert_int_equal(picture.width, (WIDTH * eighths + 7) / 8);
        assert_int_equal(picture.height, picture.width);
    }
    picture_jpeg_ops.close(decoder);
    free(file.bytes);
}

TEST(an_image_decoded_smaller_looks_the_same)
{
    enum { SIDE = 256, SMALL = 50 };
    static uint8_t slope[SIDE * SIDE * 3], sample[SMALL * SMALL * 3];
    for (size_t i = 0; i < sizeof(slope); i++)
        slope[i] = (uint8_t)(i % 3 == 0 ? i / 3 % SIDE : i % 3 == 1 ? i / 3 / SIDE : 90);
    struct file file = encode(slope, SIDE, SIDE, &colour);
    const struct image_shape shape = { SMALL, SMALL, 3 };
    assert_decodes(&file, &shape, sample);
    for (int y = 0; y < SMALL; y++)
        for (int x = 0; x < SMALL; x++) {
            const uint8_t *const pixel = sample + (y * SMALL + x) * 3;
            assert_in_range(pixel[0] + 8 - (x * 2 + 1) * SIDE / (2 * SMALL), 0, 16);
            assert_in_range(pixel[1] + 8 - (y * 2 + 1) * SIDE / (2 * SMALL), 0, 16);
        }
    free(file.bytes);
}

/* The library writes Adobe's marker, with which 255 is no ink. */
TEST(four_inks_are_mixed)
{
    enum { SIDE = 16 };
    static const struct storage inks = { JCS_CMYK, 4, 1, 1, false };
    uint8_t stored[SIDE * SIDE * 4], sample[SIDE * SIDE * 3];
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
        memcpy(stored + 4 * i, (const uint8_t[]){ 200, 100, 40, 128 }, 4);
    struct file file = encode(stored, SIDE, SIDE, &inks);
    const struct image_shape shape = { SIDE, SIDE, 3 };
    assert_decodes(&file, &shape, sample);
    for (int i = 0; i < SIDE * SIDE; i++) {
        assert_in_range(sample[3 * i], 98, 102);
        assert_in_range(sample[3 * i + 1], 48, 52);
        assert_in_range(sample[3 * i + 2], 18, 22);
    }
    free(file.bytes);
}

/* Read or refused with a message; the address sanitizer notices reads past the end. */
static bool try_bytes(const uint8_t *bytes, size_t count)
{
    uint8_t sample[24 * 24 * 3];
    const struct image_shape shape = { 24, 24, 3 };
    char problem[300];
    uint8_t *const exact = malloc(count > 0 ? count : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, count);
    const int rc = encoded_codec_decode(exact, count, &shape, sample, problem, sizeof(problem));
    if (rc < 0)
        assert_string_not_equal(problem, "");
    else
        assert_true(problem[0] == '\0' || strstr(problem, " has flaws: ") != NULL);
    free(exact);
    return rc == 0;
}

TEST(damaged_images_are_used_or_refused_with_words)
{
    uint32_t used = 0;
    for (int progressive = 0; progressive < 2; progressive++) {
        const struct storage storage = { JCS_RGB, 3, 2, 2, progressive };
        struct file file = make(24, 24, &storage);
        for (size_t at = 0; at < file.count; at++) {
            used += try_bytes(file.bytes, at);
            file.bytes[at] ^= 0xff;
            used += try_bytes(file.bytes, file.count);
            file.bytes[at] ^= 0xff;
        }
        assert_true(try_bytes(file.bytes, file.count));
        free(file.bytes);
    }
    assert_in_range(used, 100, 4000);
}

TEST(the_decoded_part_of_a_truncated_image_is_used_and_reported)
{
    char told[300];
    static uint8_t sample[WIDTH * HEIGHT * 3], wanted[WIDTH * HEIGHT * 3];
    const struct image_shape shape = { HEIGHT, WIDTH, 3 };
    struct file file = make(WIDTH, HEIGHT, &colour);
    decode_plainly(&file, JCS_RGB, wanted);
    file.count -= file.count / 4;
    assert_int_equal(encoded_codec_decode(file.bytes, file.count, &shape, sample, told, sizeof(told)), 0);
    assert_string_equal(told, "feature 'image' holds a JPEG image that has flaws: Premature end of JPEG file");
    assert_memory_equal(sample, wanted, (size_t)WIDTH * 3 * 16);
    free(file.bytes);
}

static size_t find_marker(const struct file *file, uint8_t marker, size_t from)
{
    size_t at = from;
    while (at + 1 < file->count && (file->bytes[at] != 0xff || file->bytes[at + 1] != marker))
        at++;
    return at;
}

TEST(images_too_large_to_decode_are_refused_before)
{
    struct file file = make(16, 16, &colour);
    const size_t size = find_marker(&file, 0xc0, 0) + 5;
    memcpy(file.bytes + size, "\xff\x00\xff\x00", 4);
    assert_refused(file.bytes, file.count, "it has 65280x65280 pixels, and input.max_pixels is 67108864");
    free(file.bytes);
    file = make(40, 25, &colour);
    image_memory_limit((struct image_limits){ 999, SIZE_MAX });
    assert_refused(file.bytes, file.count, "it has 40x25 pixels, and input.max_pixels is 999");
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, SIZE_MAX });
    free(file.bytes);
}

enum { LARGE_WIDTH = 1200, LARGE_HEIGHT = 1000 };

/* Coefficients of three colours, two bytes each; the pixels are a few: the image is decoded smaller. */
static const size_t large_bytes = (size_t)LARGE_WIDTH * LARGE_HEIGHT * 6;

static struct file make_large(void)
{
    static const struct storage progressive = { JCS_RGB, 3, 1, 1, true };
    return make(LARGE_WIDTH, LARGE_HEIGHT, &progressive);
}

TEST(the_memory_of_large_images_is_bounded_and_given_back)
{
    static uint8_t sample[WIDTH * HEIGHT * 3], wanted[sizeof(sample)];
    const struct image_shape shape = { HEIGHT, WIDTH, 3 };
    struct file file = make_large();
    char problem[300];
    struct text text;
    assert_true(large_bytes < image_memory_need((uint64_t)LARGE_WIDTH * LARGE_HEIGHT));
    assert_decodes(&file, &shape, wanted);
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, large_bytes });
    for (int i = 0; i < 2; i++) {
        assert_int_equal(encoded_codec_decode(file.bytes, file.count, &shape, sample, problem, sizeof(problem)),
                         -ENOMEM);
        assert_non_null(strstr(problem, "cannot be decoded: that takes 7 MiB, and decoders of large images may take "
                                        "6 MiB together: "));
    }
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, large_bytes + ((size_t)1 << 20) });
    for (int i = 0; i < 2; i++) {
        assert_decodes(&file, &shape, sample);
        assert_memory_equal(sample, wanted, sizeof(sample));
    }
    text_init(&text, problem, sizeof(problem));
    assert_int_equal(image_memory_take(large_bytes + ((size_t)1 << 20), &text), 0);     /* waits for ever else */
    image_memory_give_back(large_bytes + ((size_t)1 << 20));
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, SIZE_MAX });
    free(file.bytes);
}

/* A thread with a codec of its own. */
static void *decode_often(void *arg)
{
    const struct file *const file = arg;
    static const struct augment plain = { .filter = FILTER_BILINEAR };
    uint8_t *const sample = malloc((size_t)WIDTH * HEIGHT * 3);
    const struct image_request request = { .augment = &plain, .phase = PHASE_EVALUATE, .shape = { HEIGHT, WIDTH, 3 } };
    const struct stored_image image = { .bytes = file->bytes, .byte_count = file->count };
    char problem[300];
    void *codec = NULL;
    int rc = image_encoded_ops.open(&codec);
    for (int i = 0; i < 4 && rc == 0; i++)
        rc = image_encoded_ops.decode(codec, &image, &request, sample, problem, sizeof(problem));
    image_encoded_ops.close(codec);
    free(sample);
    return rc == 0 ? arg : NULL;
}

TEST(threads_wait_for_the_memory_of_others)
{
    struct file file = make_large();
    pthread_t threads[4];
    void *result;
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, large_bytes + ((size_t)1 << 20) });
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, decode_often, &file), 0);
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &file);
    }
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, SIZE_MAX });
    free(file.bytes);
}

/* The last scan again and again. */
TEST(images_of_endless_scans_are_refused)
{
    enum { TIMES = 120 };
    static const struct storage progressive = { JCS_RGB, 3, 1, 1, true };
    struct file file = make(16, 16, &progressive);
    size_t scan = 0;
    for (size_t at = find_marker(&file, 0xda, 0); at + 1 < file.count; at = find_marker(&file, 0xda, at + 1))
        scan = at;
    const size_t end = file.count - 2, bytes = end - scan;
    uint8_t *const longer = malloc(file.count + TIMES * bytes);
    assert_non_null(longer);
    memcpy(longer, file.bytes, end);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(longer + end + i * bytes, file.bytes + scan, bytes);
    memcpy(longer + end + TIMES * bytes, "\xff\xd9", 2);
    assert_refused(longer, file.count + TIMES * bytes, "more than 100 scans");
    free(longer);
    free(file.bytes);
}

TEST(the_tables_of_an_image_are_gone_with_it)
{
    static uint8_t sample[WIDTH * HEIGHT * 3];
    const struct image_shape shape = { HEIGHT, WIDTH, 3 };
    struct file file = make(WIDTH, HEIGHT, &colour);
    assert_decodes(&file, &shape, sample);
    size_t table = find_marker(&file, 0xdb, 0);
    while (table + 1 < file.count) {
        file.bytes[table + 1] = 0xfe;   /* a comment */
        table = find_marker(&file, 0xdb, table);
    }
    assert_refused(file.bytes, file.count, "Quantization table 0x00 was not defined");
    free(file.bytes);
}

TEST(what_the_library_cannot_decode_is_refused_with_its_words)
{
    struct file file = make(16, 16, &colour);
    const size_t frame = find_marker(&file, 0xc0, 0);
    file.bytes[frame + 1] = 0xc5;
    assert_refused(file.bytes, file.count, "JPEG image that cannot be decoded: Unsupported JPEG process");
    free(file.bytes);
}

TEST(what_is_no_jpeg_is_called_by_its_name)
{
    static const uint8_t pixels[WIDTH * HEIGHT * 3];
    assert_refused("GIF89a and so on", 16, "'image' holds a GIF image: JPEG, PNG and raw pixels can be read");
    assert_refused("II*\0 and so on", 14, "holds a TIFF image");
    assert_refused("P6\n and so on", 13, "holds a PNM image");
    assert_refused("", 0, "is neither a JPEG nor a PNG (0 bytes)");
    assert_refused(pixels, sizeof(pixels), "holds raw pixels, but the first record of the set an encoded image");
}

TESTS_MAIN(encoded_codec_open, encoded_codec_close)
