/* Loops over arrays of floats on the host: arithmetic on ranges of a tower's arenas, conversion to bf16, the search for
 * numbers that are not finite, and sums of squares. Each runs in the calling thread at the speed of memory. All but the
 * sums are elementwise, so that any split of a range over threads gives the same bits. Used by the backends that
 * compute on the host, the host reductions, and by code that reads or writes weights. */
#ifndef PIPETRAIN_FLOATS_H
#define PIPETRAIN_FLOATS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* floats[i] *= factor */
void floats_scale(float *floats, size_t count, float factor);
/* floats[i] += share * (more[i] - keep * floats[i]): with share 1 and keep 0 a sum, with keep 1 a step of an
 * exponential moving average whose decay is 1 - share. */
void floats_axpby(float *floats, const float *more, size_t count, float share, float keep);
/* Clamp to [-limit, limit]; NaN stays NaN. */
void floats_clip(float *floats, size_t count, float limit);

/* ---- bf16: the upper half of a float, with the range of a float and 8 bits of mantissa ---- */

static inline __attribute__((always_inline)) float bf16_to_float(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

/* Round to the nearest, ties to even. A NaN is made quiet, because rounding its lowest bits up could turn it into 0. */
static inline __attribute__((always_inline)) uint16_t bf16_from_float(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 1u << 22;
    return (uint16_t)((number == number ? rounded : quiet) >> 16);
}

void floats_to_bf16(const float *floats, uint16_t *halves_out, size_t count);
void floats_from_bf16(const uint16_t *halves, float *floats_out, size_t count);
/* Round to bf16, and keep the values as floats. */
void floats_round_bf16(float *floats, size_t count);
/* sums[i] += floats[i], and += halves[i] */
void floats_add(const float *floats, float *sums, size_t count);
void floats_add_bf16(const uint16_t *halves, float *sums, size_t count);

/* ---- numbers that are not finite ---- */

/* Weights and gradients of this magnitude (1.15e18) or more count as not finite, too: the product of two of them
 * overflows a float, and a network that trains normally has no such numbers. */
#define FINITE_BITS 60
#define FINITE_BOUND 0x1p60f
#define FINITE_WORDS "is not finite or above 1e18"

/* The index of the first of floats[0 .. count) that is infinite, NaN or beyond FINITE_BOUND; count when there is
 * none. */
size_t floats_find_nonfinite(const float *floats, size_t count);

/* ---- sums of squares ---- */

/* Sums are in double, and in an order that depends only on the number of floats, so that threads, microbatches and
 * towers do not change the bits: a range is summed in parts, then the parts are added in order. A GPU uses another
 * order inside a part. */

#define SQUARES_PARTS 64u
#define SQUARES_ROOM (1 + SQUARES_PARTS)    /* doubles: the sum of the range, then the sums of its parts */

/* A range and SQUARES_ROOM doubles for its sum, in device memory. */
struct squares { const float *floats; size_t count; double *sum; };

/* The number of floats of one part. The last part with floats may have fewer, and the parts after it have none. */
static inline size_t squares_part_floats(size_t count)
{
    const size_t grain = 64;
    return (count + SQUARES_PARTS * grain - 1) / (SQUARES_PARTS * grain) * grain;
}

/* Sum parts [first, end) of the range; when all parts are done, squares_sum adds them up. */
void squares_sum_parts(const struct squares *squares, size_t first, size_t end);
void squares_sum(const struct squares *squares);

#endif
