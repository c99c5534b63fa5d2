/* Called by the backends that compute on the host, and by reductions there. */
#include "compute/update/bf16.h"

#include "compute/vector.h"

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
void floats_add_bf16(const uint16_t *restrict halves, float *restrict sums, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sums[i] += bf16_to_float(halves[i]);
}
