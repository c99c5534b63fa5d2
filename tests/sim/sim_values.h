/* Reads and writes numbers of the types of a device as floats, rounding to nearest even. */
#ifndef PIPETRAIN_SIM_VALUES_H
#define PIPETRAIN_SIM_VALUES_H

#include <library_types.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/sim/sim.h"

static inline uint32_t sim_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float sim_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Rounds the lowest `count` bits of a float away. Infinity is unchanged; NaN is not allowed. */
static inline uint32_t sim_round_bits(uint32_t bits, unsigned count)
{
    const uint32_t odd = bits >> count & 1;
    return (bits + (1u << (count - 1)) - 1 + odd) >> count << count;
}

static inline float sim_bf16_read(uint16_t value)
{
    return sim_float_of_bits((uint32_t)value << 16);
}

static inline uint16_t sim_bf16_round(float value)
{
    return isnan(value) ? 0x7fc0 : (uint16_t)(sim_round_bits(sim_float_bits(value), 16) >> 16);
}

/* tf32 has 10 bits of mantissa and the range of a float. */
static inline float sim_tf32_round(float value)
{
    return isnan(value) ? value : sim_float_of_bits(sim_round_bits(sim_float_bits(value), 13));
}

static inline float sim_fp16_read(uint16_t value)
{
    const int exponent = value >> 10 & 31;
    const float mantissa = (float)(value & 1023);
    const float size = exponent == 31 ? (mantissa == 0 ? INFINITY : NAN)
        : exponent == 0 ? mantissa * 0x1p-24f : ldexpf(1024.0f + mantissa, exponent - 25);
    return value & 0x8000 ? -size : size;
}

static inline uint16_t sim_fp16_round(float value)
{
    const uint16_t sign = (uint16_t)(sim_float_bits(value) >> 16 & 0x8000);
    const float size = fabsf(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (size >= 65520.0f)
        return sign | 0x7c00;
    if (size < 0x1p-14f)
        return sign | (uint16_t)nearbyintf(size * 0x1p24f);
    return sign | (uint16_t)((sim_round_bits(sim_float_bits(size), 13) >> 13) - (112u << 10));
}

static inline size_t sim_value_bytes(cudaDataType_t type)
{
    if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF)
        sim_die("values of CUDA data type %d", (int)type);
    return type == CUDA_R_32F ? 4 : 2;
}

static inline float sim_value_read(cudaDataType_t type, const void *values, size_t i)
{
    if (type == CUDA_R_32F)
        return ((const float *)values)[i];
    const uint16_t value = ((const uint16_t *)values)[i];
    return type == CUDA_R_16F ? sim_fp16_read(value) : sim_bf16_read(value);
}

static inline void sim_value_write(cudaDataType_t type, void *values, size_t i, float value)
{
    if (type == CUDA_R_32F)
        ((float *)values)[i] = value;
    else
        ((uint16_t *)values)[i] = type == CUDA_R_16F ? sim_fp16_round(value) : sim_bf16_round(value);
}

#endif
