/* Convert numbers of any type to float. Decoders call this for every record, and main while it opens a data set. Pure
 * functions. */
#include "loader/images/number_type.h"

#include <endian.h>
#include <float.h>
#include <string.h>

#include "formats/example.h"
#include "loader/images/image.h"

#define RUN 256u                /* numbers that are widened at a time */

static uint16_t load16(const uint8_t *bytes)
{
    uint16_t word;
    memcpy(&word, bytes, sizeof(word));
    return le16toh(word);
}

static uint32_t load32(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof(word));
    return le32toh(word);
}

static uint64_t load64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return le64toh(word);
}

static float float_of(uint32_t word)
{
    float value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

/* IEEE 754 binary16. One that is not normal is a multiple of 2^-24. */
static float half_of(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
    if (exponent == 0)
        return (sign != 0 ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13);
    return float_of(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

static void widen_bytes(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = numbers[i];
}

static void widen_int8(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = (int8_t)numbers[i];
}

static void widen_int16(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = (int16_t)load16(numbers + 2 * i);
}

static void widen_uint16(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = load16(numbers + 2 * i);
}

static void widen_float16(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = half_of(load16(numbers + 2 * i));
}

static void widen_swapped_float16(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = half_of(__builtin_bswap16(load16(numbers + 2 * i)));
}

static void widen_low_byte(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = numbers[2 * i];
}

static void widen_high_byte(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = numbers[2 * i + 1];
}

/* 0 to 2 where the two bytes differ by at most 1. */
static void widen_byte_difference(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = (uint8_t)(numbers[2 * i + 1] - numbers[2 * i] + 1);
}

/* 0 or 1 where the two bytes add up to 255 or 0. */
static void widen_byte_sum(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = (uint8_t)(numbers[2 * i + 1] + numbers[2 * i] + 1);
}

static void widen_int32(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = (float)(int32_t)load32(numbers + 4 * i);
}

static void widen_float32(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = float_of(load32(numbers + 4 * i));
}

static void widen_swapped_float32(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = float_of(__builtin_bswap32(load32(numbers + 4 * i)));
}

static void widen_int64(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = (float)(int64_t)load64(numbers + 8 * i);
}

static void widen_float64(const uint8_t *numbers, size_t count, float *floats_out)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = load64(numbers + 8 * i);
        double value;
        memcpy(&value, &word, sizeof(value));
        floats_out[i] = (float)value;
        if (floats_out[i] == 0 && value != 0)
            floats_out[i] = FLT_MIN;        /* not 0, so that an integer read as a double is not taken for 0 */
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

/* Numbers on their way to a visitor. */
struct passage {
    void (*run)(void *arg, const float *values, size_t count);
    void *arg;
    const struct number_type *type;
    float values[RUN];
    size_t count;               /* integers of a list that are still here */
};

static void pass_run(void *arg, const uint8_t *run, size_t count)
{
    struct passage *const passage = arg;
    for (size_t done = 0; done < count; done += RUN) {
        const size_t now = count - done < RUN ? count - done : RUN;
        passage->type->widen(run + passage->type->bytes * done, now, passage->values);
        passage->run(passage->arg, passage->values, now);
    }
}

static void flush(struct passage *passage)
{
    if (passage->count > 0)
        passage->run(passage->arg, passage->values, passage->count);
    passage->count = 0;
}

static void pass_integer(void *arg, int64_t value)
{
    struct passage *const passage = arg;
    passage->values[passage->count++] = (float)value;
    if (passage->count == RUN)
        flush(passage);
}

uint64_t number_count(const struct stored_image *image)
{
    return image->list != NULL ? image->list->value_count : image->byte_count / image->type->bytes;
}

void number_visit(const struct stored_image *image, void (*run)(void *arg, const float *values, size_t count),
                  void *arg)
{
    struct passage passage = { .run = run, .arg = arg, .type = image->type };
    if (image->list == NULL)
        pass_run(&passage, image->bytes, image->byte_count / image->type->bytes);
    else
        feature_visit(image->list, &(struct value_visitor){ .floats = pass_run, .int64 = pass_integer,
                                                            .arg = &passage });
    flush(&passage);
}
