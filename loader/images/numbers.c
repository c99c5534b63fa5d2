/* Pixels stored as numbers of any type. Called by decoders for every record, and by main while a data set is opened. */
#include "loader/images/numbers.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "formats/little_endian.h"
#include "loader/images/image.h"
#include "loader/images/scratch.h"

#define RUN 256u                /* numbers converted at a time */

static float float_of(uint32_t word)
{
    float value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

/* Convert an IEEE 754 binary16; subnormal numbers are multiples of 2^-24. */
static float half_of(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
    if (exponent == 0)
        return (sign != 0 ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13);
    return float_of(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

/* Define a function that converts numbers of `size` bytes; `value` is the expression for the number at `at`. */
#define WIDEN(name, size, value) \
    static void widen_##name(const uint8_t *numbers, size_t count, float *floats_out) \
    { \
        for (size_t i = 0; i < count; i++) { \
            const uint8_t *const at = &numbers[i * size]; \
            floats_out[i] = (value); \
        } \
    }

WIDEN(bytes, 1, at[0])
WIDEN(int8, 1, (int8_t)at[0])
WIDEN(int16, 2, (int16_t)little_endian_get16(at))
WIDEN(uint16, 2, little_endian_get16(at))
WIDEN(float16, 2, half_of(little_endian_get16(at)))
WIDEN(swapped_float16, 2, half_of(__builtin_bswap16(little_endian_get16(at))))
WIDEN(low_byte, 2, at[0])
WIDEN(high_byte, 2, at[1])
WIDEN(byte_difference, 2, (uint8_t)(at[1] - at[0] + 1))
WIDEN(byte_sum, 2, (uint8_t)(at[1] + at[0] + 1))
WIDEN(int32, 4, (float)(int32_t)little_endian_get32(at))
WIDEN(float32, 4, float_of(little_endian_get32(at)))
WIDEN(swapped_float32, 4, float_of(__builtin_bswap32(little_endian_get32(at))))
WIDEN(int64, 8, (float)(int64_t)little_endian_get64(at))

static void widen_float64(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = little_endian_get64(numbers + 8 * i);
        double value;
        memcpy(&value, &word, sizeof(value));
        floats_out[i] = (float)value;
        if (floats_out[i] == 0 && value != 0)
            floats_out[i] = FLT_MIN;        /* not 0, since the pixel survey counts tiny numbers but not zeros */
    }
}

const struct number_type number_types[NUMBER_KIND_COUNT] = {
    [NUMBER_BYTES] = { "raw bytes", 1, false, widen_bytes },
    [NUMBER_INT16] = { "16-bit integers", 2, false, widen_int16 },
    [NUMBER_UINT16] = { "16-bit integers", 2, false, widen_uint16 },
    [NUMBER_FLOAT16] = { "16-bit floats", 2, true, widen_float16 },
    [NUMBER_INT32] = { "32-bit integers", 4, false, widen_int32 },
    [NUMBER_FLOAT32] = { "floats", 4, true, widen_float32 },
    [NUMBER_INT64] = { "64-bit integers", 8, false, widen_int64 },
    [NUMBER_FLOAT64] = { "64-bit floats", 8, true, widen_float64 },
    [NUMBER_INTEGERS] = { "integers", 8, false, widen_int64 },
    [NUMBER_INT8] = { "signed bytes", 1, false, widen_int8 },
    [NUMBER_SWAPPED_FLOAT16] = { "big-endian 16-bit floats", 2, true, widen_swapped_float16 },
    [NUMBER_SWAPPED_FLOAT32] = { "big-endian floats", 4, true, widen_swapped_float32 },
    [NUMBER_LOW_BYTE] = { "low bytes", 2, false, widen_low_byte },
    [NUMBER_HIGH_BYTE] = { "high bytes", 2, false, widen_high_byte },
    [NUMBER_BYTE_DIFFERENCE] = { "differences of both bytes", 2, false, widen_byte_difference },
    [NUMBER_BYTE_SUM] = { "sums of both bytes", 2, false, widen_byte_sum },
};

struct visit {
    void (*run)(void *arg, const float *values, size_t count);
    void *arg;
    const struct number_type *type;
    float values[RUN];
    size_t count;               /* integers of a list that are not yet passed on */
};

static void visit_run(void *arg, const uint8_t *run, size_t count)
{
    struct visit *const visit = arg;
    for (size_t done = 0; done < count; done += RUN) {
        const size_t now = count - done < RUN ? count - done : RUN;
        visit->type->widen(run + visit->type->bytes * done, now, visit->values);
        visit->run(visit->arg, visit->values, now);
    }
}

static void visit_flush(struct visit *visit)
{
    if (visit->count > 0)
        visit->run(visit->arg, visit->values, visit->count);
    visit->count = 0;
}

static void visit_integer(void *arg, int64_t value)
{
    struct visit *const visit = arg;
    visit->values[visit->count++] = (float)value;
    if (visit->count == RUN)
        visit_flush(visit);
}

uint64_t number_count(const struct stored_image *image)
{
    return image->list != NULL ? image->list->value_count : image->byte_count / image->type->bytes;
}

void number_visit(const struct stored_image *image, void (*run)(void *arg, const float *values, size_t count),
                  void *arg)
{
    struct visit visit = { .run = run, .arg = arg, .type = image->type };
    if (image->list == NULL)
        visit_run(&visit, image->bytes, image->byte_count / image->type->bytes);
    else
        feature_visit(image->list, &(struct value_visitor){ .floats = visit_run, .int64 = visit_integer,
                                                            .arg = &visit });
    visit_flush(&visit);
}

/* ---- images of numbers: converted to bytes, then decoded as raw pixels ---- */

#define CODEC_BYTES ((size_t)128 << 10)     /* a thread's memory for small images */

const struct image_range image_ranges[IMAGE_RANGE_COUNT] = {
    [IMAGE_RANGE_AUTO] = { "auto", 0, 0 },
    [IMAGE_RANGE_UNIT] = { "0..1", 0, 1 },
    [IMAGE_RANGE_HALF] = { "-0.5..0.5", -0.5f, 0.5f },
    [IMAGE_RANGE_SIGNED] = { "-1..1", -1, 1 },
    [IMAGE_RANGE_BYTE] = { "0..255", 0, 255 },
    [IMAGE_RANGE_WORD] = { "0..65535", 0, 65535 },
};

struct numbers {
    struct scratch bytes;
    const struct image_ops *raw;
    void *codec;                /* opened by raw->open */
};

static void numbers_close(void *codec)
{
    struct numbers *const numbers = codec;
    if (numbers->codec != NULL)
        numbers->raw->close(numbers->codec);
    scratch_release(&numbers->bytes);
    free(numbers);
}

static int numbers_open(void **codec_out, const struct image_ops *raw)
{
    struct numbers *const numbers = calloc(1, sizeof(*numbers));
    if (numbers == NULL)
        return -ENOMEM;
    numbers->raw = raw;
    const int rc = raw->open(&numbers->codec);
    if (rc == 0)
        *codec_out = numbers;
    else
        numbers_close(numbers);
    return rc;
}

static int open_hwc(void **codec_out)
{
    return numbers_open(codec_out, &image_raw_hwc_ops);
}

static int open_chw(void **codec_out)
{
    return numbers_open(codec_out, &image_raw_chw_ops);
}

struct conversion {
    const struct image_range *range;
    uint8_t *at;                /* where the next byte is written */
    uint64_t outside_count;     /* numbers outside the range */
    float outside;              /* the first number outside */
};

static inline float place_in_range(const struct image_range *range, float value)
{
    return (value - range->darkest) * (255.0f / (range->brightest - range->darkest)) + 0.5f;
}

static inline bool is_inside(float place)
{
    return place >= 0.0f && place < 256.0f;
}

static float find_outside(const struct image_range *range, const float *values)
{
    while (is_inside(place_in_range(range, *values)))
        values++;
    return *values;
}

static void convert_run(void *arg, const float *values, size_t count)
{
    struct conversion *const conversion = arg;
    const struct image_range range = *conversion->range;
    uint8_t *const out = conversion->at;
    uint32_t outside = 0;
    for (size_t i = 0; i < count; i++) {
        const float place = place_in_range(&range, values[i]);
        outside += !is_inside(place);
        out[i] = (uint8_t)(int32_t)(is_inside(place) ? place : 0.0f);
    }
    if (outside > 0 && conversion->outside_count == 0)
        conversion->outside = find_outside(&range, values);
    conversion->outside_count += outside;
    conversion->at += count;
}

/* Convert the image to bytes in the thread's memory. */
static int numbers_to_bytes(struct numbers *numbers, const struct stored_image *image, struct stored_image *bytes_out,
                   char *problem, size_t problem_size)
{
    const uint64_t count = number_count(image);
    uint8_t *const bytes = scratch_need(&numbers->bytes, count > 0 ? count : 1);
    if (bytes == NULL) {
        snprintf(problem, problem_size, "there is not enough memory for its %" PRIu64 " %s", count, image->type->name);
        return -ENOMEM;
    }
    struct conversion conversion = { .range = image->range, .at = bytes };
    number_visit(image, convert_run, &conversion);
    if (conversion.outside_count > 0) {
        snprintf(problem, problem_size,
                 "feature '%s' holds %.9g: of its %s %" PRIu64 " are not in %s (data.image_range sets another range)",
                 image->key, (double)conversion.outside, image->type->name, conversion.outside_count,
                 image->range->name);
        return -EBADMSG;
    }
    *bytes_out = *image;
    bytes_out->bytes = bytes;
    bytes_out->byte_count = count;
    bytes_out->list = NULL;
    return 0;
}

static int numbers_decode(void *codec, const struct stored_image *image, const struct image_request *request,
                  uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    struct numbers *const numbers = codec;
    struct stored_image bytes;
    if (image->list == NULL && image->byte_count % image->type->bytes != 0) {
        snprintf(problem_out, problem_size, "feature '%s' holds %zu bytes, which are no %s as in the first record",
                 image->key, image->byte_count, image->type->name);
        return -EBADMSG;
    }
    const int rc = numbers_to_bytes(numbers, image, &bytes, problem_out, problem_size);
    return rc < 0 ? rc
                  : numbers->raw->decode(numbers->codec, &bytes, request, pixels_out, problem_out, problem_size);
}

const struct image_ops image_numbers_hwc_ops = { .name = "numbers (H, W, C)", .open = open_hwc, .close = numbers_close,
                                                 .codec_bytes = CODEC_BYTES, .decode = numbers_decode };
const struct image_ops image_numbers_chw_ops = { .name = "numbers (C, H, W)", .open = open_chw, .close = numbers_close,
                                                 .codec_bytes = CODEC_BYTES, .decode = numbers_decode };
