/* Sums of squares on the host. Called through a backend's squares from the towers' threads; runs at the speed
 * of the memory. */
#include "compute/update/squares.h"

#include "compute/lanes.h"
#include "compute/vector.h"

/* A square of a float is a double without rounding, so fused or not, every lane is the same. */
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
