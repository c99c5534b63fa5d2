/* PNG images made by the library itself, of every kind there is. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <spng.h>

#include "loader/images/image_memory.h"
#include "tests/helpers/encoded_codec.h"
#include "tests/helpers/test.h"

enum { WIDTH = 21, HEIGHT = 13 };

struct file {
    uint8_t *bytes;
    size_t count;
};

/* Rows as PNG stores them, of `row_bytes` each. */
static struct file encode(const struct spng_ihdr *header, const void *rows, size_t row_bytes)
{
    struct spng_ihdr written = *header;
    struct file file;
    int result;
    spng_ctx *const library = spng_ctx_new(SPNG_CTX_ENCODER);
    assert_non_null(library);
    assert_int_equal(spng_set_option(library, SPNG_ENCODE_TO_BUFFER, 1), 0);
    assert_int_equal(spng_set_ihdr(library, &written), 0);
    if (header->color_type == SPNG_COLOR_TYPE_INDEXED) {
        struct spng_plte palette = { .n_entries = 2, .entries = { { 200, 100, 50, 0 }, { 1, 2, 3, 0 } } };
        assert_int_equal(spng_set_plte(library, &palette), 0);
    }
    result = spng_encode_image(library, rows, row_bytes * header->height, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    assert_int_equal(result, 0);
    file.bytes = spng_get_png_buffer(library, &file.count, &result);
    assert_int_equal(result, 0);
    spng_ctx_free(library);
    return file;
}

static struct spng_ihdr header_of(uint8_t colours, uint8_t depth)
{
    return (struct spng_ihdr){ .width = WIDTH, .height = HEIGHT, .bit_depth = depth, .color_type = colours };
}

static int decode(const struct file *file, uint32_t channels, uint8_t *sample, char *problem, size_t problem_size)
{
    const struct image_shape shape = { HEIGHT, WIDTH, channels };
    return encoded_codec_decode(file->bytes, file->count, &shape, sample, problem, problem_size);
}

/* An image of rows whose sample is `wanted`. */
static void try_rows(const struct spng_ihdr *header, const void *rows, size_t row_bytes, uint32_t channels,
                     const uint8_t *wanted)
{
    uint8_t sample[WIDTH * HEIGHT * 3];
    char problem[300];
    struct file file = encode(header, rows, row_bytes);
    assert_int_equal(decode(&file, channels, sample, problem, sizeof(problem)), 0);
    assert_memory_equal(sample, wanted, (size_t)WIDTH * HEIGHT * channels);
    free(file.bytes);
}

static uint8_t value_at(size_t i)
{
    return (uint8_t)(i * 7 + i / 31);
}

TEST(grey_and_colours_are_what_is_stored)
{
    uint8_t pixels[WIDTH * HEIGHT * 3];
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = value_at(i);
    const struct spng_ihdr grey = header_of(SPNG_COLOR_TYPE_GRAYSCALE, 8);
    const struct spng_ihdr colours = header_of(SPNG_COLOR_TYPE_TRUECOLOR, 8);
    try_rows(&grey, pixels, WIDTH, 1, pixels);
    try_rows(&colours, pixels, (size_t)WIDTH * 3, 3, pixels);
}

TEST(opacity_is_left_out)
{
    uint8_t rows[WIDTH * HEIGHT * 4], wanted[WIDTH * HEIGHT * 3];
    for (size_t i = 0; i < sizeof(rows); i++)
        rows[i] = value_at(i);
    for (size_t i = 0; i < sizeof(wanted); i++)
        wanted[i] = rows[i / 3 * 4 + i % 3];
    const struct spng_ihdr colours = header_of(SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 8);
    try_rows(&colours, rows, (size_t)WIDTH * 4, 3, wanted);
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++)
        wanted[i] = rows[2 * i];
    const struct spng_ihdr grey = header_of(SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 8);
    try_rows(&grey, rows, (size_t)WIDTH * 2, 1, wanted);
}

/* The library takes them in the machine's order and stores the high byte first. */
TEST(the_high_byte_of_sixteen_bits_counts)
{
    uint16_t rows[WIDTH * HEIGHT];
    uint8_t wanted[WIDTH * HEIGHT];
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++) {
        wanted[i] = value_at(i);
        rows[i] = (uint16_t)(wanted[i] << 8 | (i & 0xff));
    }
    const struct spng_ihdr grey = header_of(SPNG_COLOR_TYPE_GRAYSCALE, 16);
    try_rows(&grey, rows, (size_t)WIDTH * 2, 1, wanted);
}

TEST(palettes_and_bits_become_pixels)
{
    enum { ROW_BYTES = (WIDTH + 7) / 8 };
    static const uint8_t palette[2][3] = { { 200, 100, 50 }, { 1, 2, 3 } };
    uint8_t rows[ROW_BYTES * HEIGHT], colours[WIDTH * HEIGHT * 3], grey[WIDTH * HEIGHT];
    for (size_t i = 0; i < sizeof(rows); i++)
        rows[i] = value_at(i);
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++) {
        const size_t x = i % WIDTH, bit = rows[i / WIDTH * (size_t)ROW_BYTES + x / 8] >> (7 - x % 8) & 1;
        memcpy(colours + 3 * i, palette[bit], 3);
        grey[i] = bit == 1 ? 255 : 0;
    }
    const struct spng_ihdr indexed = header_of(SPNG_COLOR_TYPE_INDEXED, 1);
    try_rows(&indexed, rows, ROW_BYTES, 3, colours);
    const struct spng_ihdr bits = header_of(SPNG_COLOR_TYPE_GRAYSCALE, 1);
    try_rows(&bits, rows, ROW_BYTES, 1, grey);
}

TEST(the_memory_of_large_images_is_bounded_and_given_back)
{
    enum { SIDE = 900 };
    static uint8_t rows[SIDE * SIDE * 3], sample[SIDE * SIDE * 3];
    struct spng_ihdr header = header_of(SPNG_COLOR_TYPE_TRUECOLOR, 8);
    char problem[300];
    struct text text;
    header.width = header.height = SIDE;
    const struct file file = encode(&header, rows, (size_t)SIDE * 3);
    const struct image_shape shape = { SIDE, SIDE, 3 };
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, sizeof(rows) });
    assert_int_equal(encoded_codec_decode(file.bytes, file.count, &shape, sample, problem, sizeof(problem)), -ENOMEM);
    assert_non_null(strstr(problem, "holds a PNG image that cannot be decoded: that takes 3 MiB"));
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, sizeof(rows) + 65536 });
    for (int i = 0; i < 2; i++)
        assert_int_equal(encoded_codec_decode(file.bytes, file.count, &shape, sample, problem, sizeof(problem)), 0);
    assert_memory_equal(sample, rows, sizeof(rows));
    text_init(&text, problem, sizeof(problem));
    assert_int_equal(image_memory_take(sizeof(rows) + 65536, &text), 0);
    image_memory_give_back(sizeof(rows) + 65536);
    image_memory_limit((struct image_limits){ 1000, SIZE_MAX });
    assert_int_equal(encoded_codec_decode(file.bytes, file.count, &shape, sample, problem, sizeof(problem)), -EBADMSG);
    assert_non_null(strstr(problem, "it has 900x900 pixels, and input.max_pixels is 1000"));
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, SIZE_MAX });
    free(file.bytes);
}

/* What is not needed for the pixels, such as the last checksum, may be wrong. */
static void assert_right_or_refused(const struct file *file, const uint8_t *pixels)
{
    uint8_t sample[WIDTH * HEIGHT];
    char problem[300];
    if (decode(file, 1, sample, problem, sizeof(problem)) == 0)
        assert_memory_equal(sample, pixels, sizeof(sample));
    else
        assert_string_not_equal(problem, "");
}

TEST(damaged_images_are_refused_with_words_where_pixels_would_differ)
{
    uint8_t rows[WIDTH * HEIGHT];
    for (size_t i = 0; i < sizeof(rows); i++)
        rows[i] = value_at(i * i);
    const struct spng_ihdr grey = header_of(SPNG_COLOR_TYPE_GRAYSCALE, 8);
    struct file file = encode(&grey, rows, WIDTH);
    for (size_t at = 0; at < file.count; at++) {
        struct file cut = { malloc(at + 1), at };
        assert_non_null(cut.bytes);
        memcpy(cut.bytes, file.bytes, at);
        assert_right_or_refused(&cut, rows);
        free(cut.bytes);
        for (uint8_t bit = 1; bit != 0; bit = (uint8_t)(bit << 1)) {
            file.bytes[at] ^= bit;
            assert_right_or_refused(&file, rows);
            file.bytes[at] ^= bit;
        }
    }
    free(file.bytes);
}

TESTS_MAIN(encoded_codec_open, encoded_codec_close)
