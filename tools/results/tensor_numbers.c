/* Types of numbers in files of weights. Little-endian, as the machines that this runs on are. */
#include "tools/results/tensor_numbers.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static float from_f32(const void *number)
{
    float value;
    memcpy(&value, number, sizeof(value));
    return value;
}

static float from_f64(const void *number)
{
    double value;
    memcpy(&value, number, sizeof(value));
    return (float)value;
}

static float from_bf16(const void *number)
{
    uint16_t half;
    float value;
    memcpy(&half, number, sizeof(half));
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction. */
static float from_f16(const void *number)
{
    uint16_t half;
    memcpy(&half, number, sizeof(half));
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float size = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                       : exponent == 0 ? ldexpf((float)fraction, -24)
                                       : ldexpf((float)(fraction + 1024), exponent - 25);
    return half >> 15 != 0 ? -size : size;
}

static const struct type { const char *name; size_t bytes; float (*read)(const void *number); } types[] = {
    { "F32", 4, from_f32 }, { "F16", 2, from_f16 }, { "BF16", 2, from_bf16 }, { "F64", 8, from_f64 },
};

static const struct type *find_type(const char *dtype)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (strcmp(types[i].name, dtype) == 0)
            return &types[i];
    return NULL;
}

size_t tensor_number_bytes(const char *dtype)
{
    const struct type *const type = find_type(dtype);
    return type != NULL ? type->bytes : 0;
}

void tensor_numbers(const char *dtype, const void *numbers, float *floats_out, size_t count)
{
    const struct type *const type = find_type(dtype);
    for (size_t i = 0; i < count; i++)
        floats_out[i] = type->read((const char *)numbers + i * type->bytes);
}
