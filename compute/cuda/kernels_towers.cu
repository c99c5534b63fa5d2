/* The sum over towers. Queued by the reduction by peers; runs at the speed of the links and the memory. */
#include "compute/cuda/kernel_types.cuh"

#define QUAD 4u             /* numbers a thread reads at once */

template <typename T>
static __global__ void sum_towers(tower_arenas arenas, size_t begin, size_t end, uint32_t into, uint32_t into_end)
{
    const size_t i = begin + thread_number() * QUAD, rest = end - i;
    if (i >= end)
        return;
    floats<QUAD> sum = read_some<QUAD>((const T *)arenas.values[0] + i, rest);
    for (uint32_t tower = 1; tower < arenas.count; tower++) {
        const floats<QUAD> more = read_some<QUAD>((const T *)arenas.values[tower] + i, rest);
        for (uint32_t k = 0; k < QUAD; k++)
            sum.value[k] += more.value[k];
    }
    for (uint32_t tower = into; tower < into_end; tower++)
        write_some((T *)arenas.values[tower] + i, sum, rest);
}

cudaError_t kernel_sum_towers(cudaStream_t stream, enum value_type type, const struct tower_arenas *arenas,
                              size_t begin, size_t end, uint32_t into, uint32_t count)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(tower_arenas, size_t, size_t, uint32_t, uint32_t) =
        FOR_TYPES(sum_towers);
    if (arenas->count > KERNEL_TOWERS_MAX || begin > end || begin % QUAD != 0 || count == 0 ||
        into >= arenas->count || count > arenas->count - into)
        return cudaErrorInvalidValue;
    for (uint32_t tower = 0; tower < arenas->count; tower++)
        if (!is_aligned({ arenas->values[tower] }))
            return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(end - begin, QUAD), kernels[type], *arenas, begin, end, into, into + count);
}
