/* The survey of raw pixels: images written as any type of number and in any layout are read right, and images of other
 * sizes are refused. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "loader/images/pixel_survey.h"
#include "stage/random.h"
#include "tests/helpers/test.h"

#define IMAGES 12u
#define NUMBERS_MAX (48u * 48u * 3u)
#define BYTES_MAX (8u * NUMBERS_MAX)

static const struct image_shape colour = { 24, 16, 3 };
static char problem[512];

/* A smooth image of channels that differ: waves across the image, with some noise. */
static void draw(const struct image_shape *shape, uint32_t id, uint8_t *pixels)
{
    const struct random_key key = random_key(7, RANDOM_DRAW, id);
    for (uint32_t y = 0; y < shape->height; y++)
        for (uint32_t x = 0; x < shape->width; x++)
            for (uint32_t c = 0; c < shape->channels; c++) {
                const double wave = sin(0.21 * x + 0.3 * id + 1.1 * c) + cos(0.17 * y + 0.5 * id + 0.7 * c);
                const double noise = (double)(random_u64(key, (y * shape->width + x) * 4 + c) % 16);
                *pixels++ = (uint8_t)(128 + 56 * wave + noise - 8);
            }
}

static void to_planes(const struct image_shape *shape, const uint8_t *pixels, uint8_t *planes)
{
    const size_t plane = (size_t)shape->height * shape->width;
    for (size_t i = 0; i < plane; i++)
        for (size_t c = 0; c < shape->channels; c++)
            planes[c * plane + i] = pixels[i * shape->channels + c];
}

static uint16_t half_of(float value)
{
    uint32_t word;
    if (value == 0)
        return 0;
    memcpy(&word, &value, sizeof(word));
    return (uint16_t)((word >> 16 & 0x8000u) | (((word >> 23 & 255) - 112) << 10 & 0x7c00u) | (word >> 13 & 0x3ffu));
}

/* A byte as a number of this type and range, which is written. */
static void put(enum number_kind kind, const struct image_range *range, uint8_t pixel, uint8_t *out)
{
    const double value = range->darkest + ((double)range->brightest - range->darkest) * pixel / 255.0;
    const float narrow = (float)value;
    const uint16_t half = half_of(narrow), word = (uint16_t)(int64_t)value;
    const int32_t integer = (int32_t)value;
    const int64_t long_integer = (int64_t)value;
    const void *const from[] = {
        [NUMBER_INT16] = &word, [NUMBER_UINT16] = &word, [NUMBER_FLOAT16] = &half, [NUMBER_INT32] = &integer,
        [NUMBER_FLOAT32] = &narrow, [NUMBER_INT64] = &long_integer, [NUMBER_FLOAT64] = &value,
    };
    if (kind == NUMBER_BYTES)
        *out = (uint8_t)value;
    else
        memcpy(out, from[kind], number_types[kind].bytes);
}

static void write_numbers(enum number_kind kind, const struct image_range *range, const uint8_t *pixels, size_t count,
                          uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        put(kind, range, pixels[i], out + number_types[kind].bytes * i);
}

static struct stored_image image_of(const uint8_t *bytes, size_t count)
{
    return (struct stored_image){ .key = "image", .bytes = bytes, .byte_count = count,
                                  .height = { "height", IMAGE_SIZE_UNSAID }, .width = { "width", IMAGE_SIZE_UNSAID },
                                  .channels = { "depth", IMAGE_SIZE_UNSAID } };
}

static const struct {
    enum number_kind kind;
    enum image_range_choice range;
} writers[] = {
    { NUMBER_BYTES, IMAGE_RANGE_BYTE },    { NUMBER_UINT16, IMAGE_RANGE_BYTE },   { NUMBER_UINT16, IMAGE_RANGE_WORD },
    { NUMBER_FLOAT16, IMAGE_RANGE_UNIT },  { NUMBER_FLOAT16, IMAGE_RANGE_BYTE },
    { NUMBER_FLOAT16, IMAGE_RANGE_SIGNED }, { NUMBER_INT32, IMAGE_RANGE_BYTE },   { NUMBER_INT32, IMAGE_RANGE_WORD },
    { NUMBER_FLOAT32, IMAGE_RANGE_UNIT },  { NUMBER_FLOAT32, IMAGE_RANGE_HALF },
    { NUMBER_FLOAT32, IMAGE_RANGE_SIGNED }, { NUMBER_FLOAT32, IMAGE_RANGE_BYTE }, { NUMBER_INT64, IMAGE_RANGE_BYTE },
    { NUMBER_FLOAT64, IMAGE_RANGE_UNIT },  { NUMBER_FLOAT64, IMAGE_RANGE_BYTE },
};

/* Survey IMAGES images, settle, and compare the last one decoded with what was drawn. */
static void assert_is_read(size_t writer, const struct image_shape *shape, bool is_planar, enum pixel_layout configured)
{
    static uint8_t pixels[NUMBERS_MAX], ordered[NUMBERS_MAX], numbers[BYTES_MAX + 1], decoded[NUMBERS_MAX];
    const enum number_kind kind = writers[writer].kind;
    const struct image_range *const range = &image_ranges[writers[writer].range];
    const struct pixel_choice choice = { NULL, configured, PIXEL_LAYOUT_HWC, PIXEL_CLEAR_SET };
    struct pixel_survey survey;
    struct pixel_reading reading;
    size_t count;
    void *codec;
    assert_true(image_shape_bytes(shape, &count));
    struct stored_image image = image_of(numbers + 1, count * number_types[kind].bytes);    /* at an odd address */
    pixel_survey_begin(&survey, number_types[kind].bytes);
    for (uint32_t id = 0; id < IMAGES; id++) {
        draw(shape, id, pixels);
        if (is_planar)
            to_planes(shape, pixels, ordered);
        write_numbers(kind, range, is_planar ? ordered : pixels, count, numbers + 1);
        assert_int_equal(pixel_survey_add(&survey, &image, shape), 0);
    }
    assert_int_equal(pixel_survey_settle(&survey, &choice, &reading, problem, sizeof(problem)), 0);
    pixel_survey_release(&survey);
    assert_ptr_equal(reading.type, &number_types[kind]);
    assert_ptr_equal(reading.range, range);
    assert_int_equal(reading.layout, is_planar ? PIXEL_LAYOUT_CHW : PIXEL_LAYOUT_HWC);
    assert_int_equal(reading.is_layout_found, configured == PIXEL_LAYOUT_AUTO && shape->channels > 1);
    image.type = reading.type;
    image.range = reading.range;
    const struct image_ops *const ops = pixel_reading_ops(&reading);
    const struct image_request request = { .shape = *shape };
    assert_int_equal(ops->open(&codec), 0);
    assert_int_equal(ops->decode(codec, &image, &request, decoded, problem, sizeof(problem)), 0);
    ops->close(codec);
    for (size_t i = 0; i < count; i++)
        assert_in_range(decoded[i] - pixels[i] + 1, kind == NUMBER_FLOAT16 ? 0 : 1, kind == NUMBER_FLOAT16 ? 2 : 1);
}

TEST(every_type_range_and_layout_is_found)
{
    static const struct image_shape shapes[] = { { 24, 16, 3 }, { 16, 24, 3 }, { 32, 32, 3 }, { 8, 8, 3 },
                                                 { 13, 9, 3 },  { 28, 28, 1 }, { 16, 16, 4 }, { 48, 48, 2 } };
    for (size_t writer = 0; writer < sizeof(writers) / sizeof(*writers); writer++)
        for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
            assert_is_read(writer, &shapes[i], false, PIXEL_LAYOUT_AUTO);
            assert_is_read(writer, &shapes[i], false, PIXEL_LAYOUT_HWC);
            if (shapes[i].channels > 1) {
                assert_is_read(writer, &shapes[i], true, PIXEL_LAYOUT_AUTO);
                assert_is_read(writer, &shapes[i], true, PIXEL_LAYOUT_CHW);
            }
        }
}

/* How one image of these bytes is read; NULL with the problem when it is refused. */
static const struct pixel_reading *read_bytes(const uint8_t *bytes, size_t count, uint32_t number_bytes,
                                              const struct image_shape *shape)
{
    static struct pixel_reading reading;
    const struct pixel_choice choice = { NULL, PIXEL_LAYOUT_AUTO, PIXEL_LAYOUT_HWC, PIXEL_CLEAR_SET };
    const struct stored_image image = image_of(bytes, count);
    struct pixel_survey survey;
    pixel_survey_begin(&survey, number_bytes);
    assert_int_equal(pixel_survey_add(&survey, &image, shape), 0);
    const int rc = pixel_survey_settle(&survey, &choice, &reading, problem, sizeof(problem));
    pixel_survey_release(&survey);
    return rc == 0 ? &reading : NULL;
}

TEST(bytes_of_0_and_1_are_black_and_white)
{
    uint8_t bytes[24 * 16 * 3] = { [5] = 1, [100] = 1 };
    assert_string_equal(read_bytes(bytes, sizeof(bytes), 1, &colour)->range->name, "0..1");
    bytes[5] = 2;
    assert_string_equal(read_bytes(bytes, sizeof(bytes), 1, &colour)->range->name, "0..255");
    memset(bytes, 0, sizeof(bytes));
    assert_ptr_equal(pixel_reading_ops(read_bytes(bytes, sizeof(bytes), 1, &colour)), &image_raw_hwc_ops);
}

/* A larger image of bytes has as many bytes as a smaller one of floats, however dark it is. */
TEST(bytes_of_a_larger_image_are_no_floats)
{
    static uint8_t pixels[NUMBERS_MAX];
    const struct image_shape large = { 48, 32, 3 };
    size_t count;
    assert_true(image_shape_bytes(&large, &count));
    for (uint32_t divisor = 1; divisor < 12; divisor++) {
        draw(&large, divisor, pixels);
        for (size_t i = 0; i < count; i++)
            pixels[i] = (uint8_t)(pixels[i] / divisor);
        assert_null(read_bytes(pixels, count, 4, &colour));
        assert_non_null(strstr(problem, "numbers of 4 bytes that are neither floats of a range in use nor 32-bit int"));
    }
}

TEST(noise_has_no_layout)
{
    static uint8_t bytes[32 * 32 * 3];
    const struct image_shape shape = { 32, 32, 3 };
    for (uint32_t id = 0; id < 50; id++) {
        const struct random_key key = random_key(9, RANDOM_DRAW, id);
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)(random_u64(key, i) >> 13);
        const struct pixel_reading *const reading = read_bytes(bytes, sizeof(bytes), 1, &shape);
        assert_true(!reading->is_layout_found && reading->is_layout_doubtful);
        assert_int_equal(reading->layout, PIXEL_LAYOUT_HWC);
    }
}

TEST(one_colour_a_plane_is_planar)
{
    static uint8_t bytes[32 * 32 * 3];
    const struct image_shape shape = { 32, 32, 3 };
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(60 + 50 * (i / (32 * 32)));
    assert_int_equal(read_bytes(bytes, sizeof(bytes), 1, &shape)->layout, PIXEL_LAYOUT_CHW);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(60 + 50 * (i % 3));
    assert_int_equal(read_bytes(bytes, sizeof(bytes), 1, &shape)->layout, PIXEL_LAYOUT_HWC);
    memset(bytes, 9, sizeof(bytes));
    const struct pixel_reading *const reading = read_bytes(bytes, sizeof(bytes), 1, &shape);
    assert_true(!reading->is_layout_found && !reading->is_layout_doubtful && reading->lowest == reading->highest);
}

TEST(numbers_that_are_no_pixels_are_refused)
{
    float floats[24 * 16 * 3];
    int32_t integers[24 * 16 * 3];
    for (size_t i = 0; i < 24 * 16 * 3; i++) {
        floats[i] = (float)(i % 7) - 3;
        integers[i] = (int32_t)(i % 300);
    }
    assert_null(read_bytes((const uint8_t *)floats, sizeof(floats), 4, &colour));
    assert_non_null(strstr(problem, "floats from -3 to 3 in the first records, which are no pixels"));
    assert_null(read_bytes((const uint8_t *)integers, sizeof(integers), 4, &colour));
    floats[9] = NAN;
    assert_null(read_bytes((const uint8_t *)floats, sizeof(floats), 4, &colour));
    assert_non_null(strstr(problem, "neither floats"));
}

/* One image of numbers written by `number` from the pixels drawn. */
static const struct pixel_reading *read_drawn(uint32_t number_bytes, void (*number)(uint8_t pixel, uint8_t *out))
{
    static uint8_t pixels[NUMBERS_MAX], numbers[BYTES_MAX];
    size_t count;
    assert_true(image_shape_bytes(&colour, &count));
    draw(&colour, 3, pixels);
    for (size_t i = 0; i < count; i++)
        number(pixels[i], numbers + number_bytes * i);
    return read_bytes(numbers, count * number_bytes, number_bytes, &colour);
}

static void put_word(uint16_t word, uint8_t *out)
{
    memcpy(out, &word, sizeof(word));
}

static void standardised_half(uint8_t pixel, uint8_t *out) { put_word(half_of((pixel - 130) / 50.0f), out); }
static void signed_word(uint8_t pixel, uint8_t *out) { put_word((uint16_t)(pixel * 12 - 1024), out); }
static void word_of_14_bits(uint8_t pixel, uint8_t *out) { put_word((uint16_t)(3000 + pixel * 44), out); }
static void signed_byte(uint8_t pixel, uint8_t *out) { *out = (uint8_t)(pixel - 128); }
static void overshooting(uint8_t pixel, uint8_t *out)
{
    const float value = pixel / 200.0f - 0.001f;
    memcpy(out, &value, sizeof(value));
}
static void big_endian(uint8_t pixel, uint8_t *out)
{
    const float value = pixel;
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    word = __builtin_bswap32(word);
    memcpy(out, &word, sizeof(word));
}

TEST(numbers_of_another_kind_are_refused)
{
    static const struct { uint32_t bytes; void (*number)(uint8_t pixel, uint8_t *out); const char *words; } cases[] = {
        { 2, standardised_half, "16-bit floats from -" }, { 2, signed_word, "signed 16-bit integers" },
        { 2, word_of_14_bits, "can be floats or integers" }, { 4, big_endian, "big-endian floats" },
        { 4, overshooting, "floats from " } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (read_drawn(cases[i].bytes, cases[i].number) != NULL)
            fail_msg("taken for pixels, where '%s' was expected", cases[i].words);
        if (strstr(problem, cases[i].words) == NULL)
            fail_msg("'%s' does not hold '%s'", problem, cases[i].words);
    }
    assert_true(read_drawn(1, signed_byte)->is_signed);
}

TEST(pixels_as_they_should_be_raise_no_doubt)
{
    static uint8_t pixels[NUMBERS_MAX];
    static const struct image_shape shapes[] = { { 32, 32, 3 }, { 28, 28, 1 }, { 40, 24, 3 }, { 24, 40, 1 } };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        for (uint32_t divisor = 1; divisor < 8; divisor++) {
            size_t count;
            assert_true(image_shape_bytes(&shapes[i], &count));
            draw(&shapes[i], divisor, pixels);
            for (size_t k = 0; k < count; k++)
                pixels[k] = (uint8_t)(pixels[k] / divisor);
            const struct pixel_reading *const reading = read_bytes(pixels, count, 1, &shapes[i]);
            assert_true(!reading->is_signed && !reading->is_turned && !reading->is_mixed && reading->dark_share == 0);
        }
}

TEST(exchanged_height_and_width_are_noticed)
{
    static uint8_t pixels[NUMBERS_MAX];
    const struct image_shape shape = { 40, 24, 3 }, turned = { 24, 40, 3 };
    draw(&shape, 1, pixels);
    assert_true(read_bytes(pixels, 40 * 24 * 3, 1, &turned)->is_turned);
}

/* Speckle: neighbours differ as much as any two pixels. */
TEST(grey_in_three_channels_is_no_planes)
{
    static uint8_t pixels[32 * 32 * 3], planes[32 * 32 * 3];
    const struct image_shape shape = { 32, 32, 3 };
    const struct random_key key = random_key(11, RANDOM_DRAW, 0);
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(random_u64(key, i / 3) >> 11);
    to_planes(&shape, pixels, planes);
    const struct pixel_reading *reading = read_bytes(pixels, sizeof(pixels), 1, &shape);
    assert_true(reading->is_layout_found && reading->layout == PIXEL_LAYOUT_HWC);
    reading = read_bytes(planes, sizeof(planes), 1, &shape);
    assert_true(reading->is_layout_found && reading->layout == PIXEL_LAYOUT_CHW);
}

static void big_endian_half(uint8_t pixel, uint8_t *out)
{
    put_word(__builtin_bswap16(half_of(pixel / 255.0f)), out);
}

static void big_endian_half_of_255(uint8_t pixel, uint8_t *out)
{
    put_word(__builtin_bswap16(half_of(pixel)), out);
}

/* A 16-bit number whose high byte is the pixel and whose low byte is noise. */
static uint16_t fine_word(uint8_t pixel)
{
    static uint64_t count;
    return (uint16_t)(pixel << 8 | (uint8_t)(random_u64(random_key(3, RANDOM_DRAW, 0), count++) >> 9));
}

static void little_endian_word(uint8_t pixel, uint8_t *out) { put_word(fine_word(pixel), out); }
static void big_endian_word(uint8_t pixel, uint8_t *out) { put_word(__builtin_bswap16(fine_word(pixel)), out); }
static void word_times_255(uint8_t pixel, uint8_t *out) { put_word((uint16_t)(pixel * 255), out); }
static void signed_full_word(uint8_t pixel, uint8_t *out) { put_word((uint16_t)(fine_word(pixel) - 0x8000), out); }

TEST(numbers_of_16_bits_are_recognised_by_their_bytes)
{
    static const struct { void (*number)(uint8_t pixel, uint8_t *out); const char *words; } cases[] = {
        { big_endian_half, "big-endian 16-bit floats" }, { big_endian_half_of_255, "big-endian 16-bit floats" },
        { big_endian_word, "big-endian 16-bit integers" }, { signed_full_word, "signed 16-bit integers" },
        { little_endian_word, NULL }, { word_times_255, NULL } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct pixel_reading *const reading = read_drawn(2, cases[i].number);
        if (cases[i].words == NULL)
            assert_true(reading != NULL && !reading->is_type_doubtful && reading->type == &number_types[NUMBER_UINT16]);
        else if (reading != NULL || strstr(problem, cases[i].words) == NULL)
            fail_msg("'%s' was expected, '%s' is said", cases[i].words, reading != NULL ? "nothing" : problem);
    }
}

/* An image of twice the pixels has as many bytes as one of 16-bit numbers. */
TEST(bytes_of_a_larger_image_are_no_words)
{
    static uint8_t pixels[NUMBERS_MAX], ordered[NUMBERS_MAX];
    static const struct image_shape larger[] = { { 48, 16, 3 }, { 24, 32, 3 }, { 64, 28, 1 } };
    static const struct image_shape wanted[] = { { 24, 16, 3 }, { 24, 16, 3 }, { 32, 28, 1 } };
    for (size_t i = 0; i < sizeof(larger) / sizeof(*larger); i++)
        for (uint32_t id = 0; id < 2 * IMAGES; id++) {
            size_t count;
            assert_true(image_shape_bytes(&larger[i], &count));
            draw(&larger[i], id / 2, pixels);
            to_planes(&larger[i], pixels, ordered);
            for (size_t k = 0; k < count && id >= IMAGES; k++)      /* dark ones may be floats as well */
                pixels[k] = ordered[k] = (uint8_t)(25 + pixels[k] / 8);
            assert_null(read_bytes(id % 2 == 0 ? pixels : ordered, count, 2, &wanted[i]));
            assert_non_null(strstr(problem, "neighbouring bytes look like pixels of 8 bits"));
        }
}

/* Colours and opacity: the latter is in every second byte. */
TEST(bytes_with_opacity_are_doubtful_as_words)
{
    static uint8_t pixels[NUMBERS_MAX];
    const struct image_shape larger = { 48, 16, 4 }, wanted = { 24, 16, 4 };
    draw(&larger, 5, pixels);
    for (size_t i = 3; i < 48 * 16 * 4; i += 4)
        pixels[i] = 255;
    const struct pixel_reading *const reading = read_bytes(pixels, 48 * 16 * 4, 2, &wanted);
    assert_true(reading == NULL || reading->is_type_doubtful);
}

TEST(noise_of_16_bits_is_doubtful)
{
    static uint8_t bytes[2 * 32 * 32 * 3];
    const struct image_shape shape = { 32, 32, 3 };
    const struct random_key key = random_key(9, RANDOM_DRAW, 4);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(random_u64(key, i) >> 13);
    assert_true(read_bytes(bytes, sizeof(bytes), 2, &shape)->is_type_doubtful);
}

/* The channels of a pixel differ by some share of what neighbouring pixels do. */
TEST(nearly_grey_noise_has_the_layout_it_was_stored_in)
{
    static uint8_t pixels[32 * 32 * 4], planes[32 * 32 * 4];
    for (uint32_t channels = 2; channels <= 4; channels++)
        for (uint32_t id = 0; id < 40; id++) {
            const struct image_shape shape = { 32, 32, channels };
            const struct random_key key = random_key(11, RANDOM_DRAW, id);
            const uint32_t share = 4 + 2 * id;          /* of colour, of 255 */
            for (size_t i = 0; i < (size_t)32 * 32 * channels; i++)
                pixels[i] = (uint8_t)((random_u64(key, i / channels) >> 11 & 255) * (255 - share) / 255 +
                                      (random_u64(key, 9999 + i) >> 11 & 255) * share / 255);
            to_planes(&shape, pixels, planes);
            const size_t count = (size_t)32 * 32 * channels;
            const struct pixel_reading *reading = read_bytes(pixels, count, 1, &shape);
            assert_true(reading->is_layout_found ? reading->layout == PIXEL_LAYOUT_HWC : reading->is_layout_doubtful);
            assert_true(reading->is_layout_found || share > 40);
            reading = read_bytes(planes, count, 1, &shape);
            assert_true(reading->is_layout_found ? reading->layout == PIXEL_LAYOUT_CHW : reading->is_layout_doubtful);
            assert_true(reading->is_layout_found || share > 40);
        }
}

TESTS_MAIN(NULL, NULL)
