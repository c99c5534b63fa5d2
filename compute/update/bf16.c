/* Called by the backends that compute on the host, and by reductions there. */
#include "compute/update/bf16.h"

#include "compute/vector.h"

VECTOR_LOOPS
void bf16_narrow(const float *restrict floats, uint16_t *restrict halves_out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        halves_out[i] = bf16_narrowed(floats[i]);
}

VECTOR_LOOPS
void bf16_widen(const uint16_t *restrict halves, float *restrict floats_out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        floats_out[i] = bf16_widened(halves[i]);
}

VECTOR_LOOPS
void bf16_add(const uint16_t *restrict halves, float *restrict sums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += bf16_widened(halves[i]);
}
