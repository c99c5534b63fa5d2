/* Floats and bf16, which is the upper half of a float: 8 bits of mantissa, a float's range. */
#ifndef PIPETRAIN_BF16_H
#define PIPETRAIN_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compute/lanes.h"

ALWAYS_INLINE float bf16_to_float(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

/* To the nearest, ties to even. What is not a number stays none: its lowest bits could round it up to zero. */
ALWAYS_INLINE uint16_t bf16_from_float(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 1u << 22;
    return (uint16_t)((number == number ? rounded : quiet) >> 16);
}

/* `count` of them, in the calling thread. */
void floats_to_bf16(const float *floats, uint16_t *halves_out, size_t count);
void floats_from_bf16(const uint16_t *halves, float *floats_out, size_t count);
/* sums[i] += halves[i] */
void floats_add_bf16(const uint16_t *halves, float *sums, size_t count);

#endif
