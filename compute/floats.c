/* Loops over arrays of floats on the host. */
#include "compute/floats.h"

#include <stdbool.h>

#include "compute/vector.h"

VECTOR_LOOPS
void floats_scale(float *floats, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        floats[i] *= factor;
}

VECTOR_LOOPS
void floats_axpby(float *restrict floats, const float *restrict more, size_t count, float share, float keep)
{
    for (size_t i = 0; i < count && keep == 0; i++)     /* without the product 0 * floats[i], which could change the
                                                         * sign of a zero */
        floats[i] += share * more[i];
    for (size_t i = 0; i < count && keep != 0; i++)
        floats[i] += share * (more[i] - keep * floats[i]);
}

VECTOR_LOOPS
void floats_clip(float *floats, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++) {
        const float least = floats[i] < -limit ? -limit : floats[i];
        floats[i] = least > limit ? limit : least;
    }
}

/* ---- bf16 ---- */

VECTOR_LOOPS
void floats_to_bf16(const float *restrict floats, uint16_t *restrict halves_out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        halves_out[i] = bf16_from_float(floats[i]);
}

VECTOR_LOOPS
void floats_from_bf16(const uint16_t *restrict halves, float *restrict floats_out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = bf16_to_float(halves[i]);
}

VECTOR_LOOPS
void floats_round_bf16(float *floats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        floats[i] = bf16_to_float(bf16_from_float(floats[i]));
}

VECTOR_LOOPS
void floats_add(const float *restrict floats, float *restrict sums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += floats[i];
}

void floats_add_bf16(const uint16_t *restrict halves, float *restrict sums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += bf16_to_float(halves[i]);
}

/* ---- numbers that are not finite ---- */

#define BLOCK 4096u             /* floats checked without a branch */
#define MAGNITUDE 0x7fffffffu   /* all bits but the sign: as integers they have the order of the magnitudes, inf and NaN
                                 * last */
#define BOUND ((127 + FINITE_BITS) << 23)

static bool is_finite(const float *number)
{
    uint32_t bits;
    memcpy(&bits, number, sizeof(bits));
    return (int32_t)(bits & MAGNITUDE) < BOUND;
}

/* Has no branch, so that the loop is vectorised. */
static bool are_finite(const float *floats, size_t count)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= !is_finite(&floats[i]);
    return bad == 0;
}

size_t floats_find_nonfinite(const float *floats, size_t count)
{
    size_t begin = 0;
    while (begin < count) {
        const size_t block = count - begin < BLOCK ? count - begin : BLOCK;
        if (!are_finite(floats + begin, block))
            break;
        begin += block;
    }
    while (begin < count && is_finite(&floats[begin]))
        begin++;
    return begin;
}

/* ---- sums of squares ---- */

/* The square of a float is exact in double, so every lane is the same whether or not the compiler fuses multiplication
 * and addition. */
VECTOR_LOOPS
static double sum_range(const float *floats, size_t count)
{
    double sums[2 * LANES] = { 0 };
    size_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES)
        for (size_t k = 0; k < 2 * LANES; k++)
            sums[k] += (double)floats[i + k] * (double)floats[i + k];
    for (size_t k = 0; i + k < count; k++)
        sums[k] += (double)floats[i + k] * (double)floats[i + k];
    double sum = 0;
    for (size_t k = 0; k < 2 * LANES; k++)
        sum += sums[k];
    return sum;
}

void squares_sum_parts(const struct squares *squares, size_t first, size_t end)
{
    const size_t floats = squares_part_floats(squares->count);
    for (size_t part = first; part < end; part++) {
        const size_t begin = part * floats, left = begin < squares->count ? squares->count - begin : 0;
        squares->sum[1 + part] = left > 0 ? sum_range(squares->floats + begin, left < floats ? left : floats) : 0;
    }
}

void squares_sum(const struct squares *squares)
{
    double sum = 0;
    for (size_t part = 0; part < SQUARES_PARTS; part++)
        sum += squares->sum[1 + part];
    squares->sum[0] = sum;
}
