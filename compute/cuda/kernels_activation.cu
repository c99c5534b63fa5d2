/* Kernels of activations that are not fused, and of products. Queued by the CUDA backend from the tower's thread. A
 * thread owns eight channels of a pixel; sums have a fixed order. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_activation.cuh"

/* ---- activations ---- */

/* out may be in. */
template <typename T>
static __global__ void activate(size_t threads, uint32_t groups, curve curve, const void *in, void *out)
{
    await_kernels_before();
    const size_t i = thread_number();
    uint32_t group;
    if (i >= threads)
        return;
    divided(i, groups, &group);
    write((T *)out + i * GROUP, curved(curve, read<GROUP>((const T *)in + i * GROUP), group * GROUP));
}

/* in_gradient may be out_gradient. */
template <typename T>
static __global__ void activate_backward(size_t threads, curve curve, const void *__restrict__ in,
                                         const void *out_gradient, void *in_gradient, bool adds)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    T *const to = (T *)in_gradient + i * GROUP;
    const floats<GROUP> passed = times_slope(curve, read<GROUP>((const T *)in + i * GROUP),
                                             read<GROUP>((const T *)out_gradient + i * GROUP));
    write(to, adds ? plus(read<GROUP>(to), passed) : passed);
}

cudaError_t kernel_activation(cudaStream_t stream, enum value_type type, size_t pixels, uint32_t stored,
                              const struct curve *curve, const void *in, void *out)
{
    static decltype(&activate<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(activate);
    if (stored % GROUP != 0)
        return cudaErrorInvalidValue;
    if (!is_aligned({ in, out }))
        return cudaErrorMisalignedAddress;
    const size_t threads = pixels * (stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, stored / GROUP, *curve, in, out);
}

cudaError_t kernel_activation_backward(cudaStream_t stream, enum value_type type, size_t pixels, uint32_t stored,
                                       const struct curve *curve, const void *in, const void *out_gradient,
                                       void *in_gradient, bool adds)
{
    static decltype(&activate_backward<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(activate_backward);
    if (stored % GROUP != 0)
        return cudaErrorInvalidValue;
    if (!is_aligned({ in, out_gradient, in_gradient }))
        return cudaErrorMisalignedAddress;
    const size_t threads = pixels * (stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *curve, in, out_gradient, in_gradient, adds);
}

/* ---- products ---- */

static __device__ inline floats<GROUP> times(const floats<GROUP> &a, const floats<GROUP> &b)
{
    floats<GROUP> product;
    for (uint32_t k = 0; k < GROUP; k++)
        product.value[k] = a.value[k] * b.value[k];
    return product;
}

/* The factor of a thread is that of its channels in its sample, or of its pixel if a sample has one. `to` may be
 * `values` unless it adds. */
template <typename T>
static __global__ void multiply(size_t threads, uint32_t groups, uint32_t pixels, const void *values,
                                const void *__restrict__ factors, void *to, bool adds)
{
    await_kernels_before();
    const size_t i = thread_number();
    uint32_t group, pixel;
    if (i >= threads)
        return;
    const size_t sample = divided(divided(i, groups, &group), pixels, &pixel);
    T *const at = (T *)to + i * GROUP;
    const floats<GROUP> product = times(read<GROUP>((const T *)values + i * GROUP),
                                        read<GROUP>((const T *)factors + (sample * groups + group) * GROUP));
    write(at, adds ? plus(read<GROUP>(at), product) : product);
}

#define FACTOR_GROUPS 8u        /* groups of channels of a block: 32 threads share each */

/* A block sums the pixels of 64 channels of a sample. */
template <typename T>
static __global__ void sum_factors(uint32_t groups, uint32_t pixels, const void *__restrict__ values,
                                   const void *__restrict__ out_gradient, void *__restrict__ factor_gradient,
                                   bool adds)
{
    await_kernels_before();
    __shared__ float sums[GROUP][THREADS];
    const uint32_t group = blockIdx.y * FACTOR_GROUPS + threadIdx.x % FACTOR_GROUPS;
    const size_t sample = blockIdx.x;
    floats<GROUP> sum = {};
    FOUR_AT_ONCE
    for (uint32_t p = threadIdx.x / FACTOR_GROUPS; p < (group < groups ? pixels : 0); p += THREADS / FACTOR_GROUPS) {
        const size_t at = ((sample * pixels + p) * groups + group) * GROUP;
        sum = plus(sum, times(read<GROUP>((const T *)values + at), read<GROUP>((const T *)out_gradient + at)));
    }
    for (uint32_t k = 0; k < GROUP; k++)
        sums[k][threadIdx.x] = sum.value[k];
    sum_lanes(sums, GROUP, FACTOR_GROUPS);
    if (threadIdx.x >= FACTOR_GROUPS || group >= groups)
        return;
    for (uint32_t k = 0; k < GROUP; k++)
        sum.value[k] = sums[k][threadIdx.x];
    T *const to = (T *)factor_gradient + (sample * groups + group) * GROUP;
    write(to, adds ? plus(read<GROUP>(to), sum) : sum);
}

static cudaError_t check_product(const struct image_shape *shape, std::initializer_list<const void *> pointers)
{
    if (shape->stored % GROUP != 0)
        return cudaErrorInvalidValue;
    return is_aligned(pointers) ? cudaSuccess : cudaErrorMisalignedAddress;
}

cudaError_t kernel_multiply(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                            const void *values, const void *factors, void *to, bool adds)
{
    static decltype(&multiply<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(multiply);
    const uint32_t groups = shape->stored / GROUP;
    const size_t threads = (size_t)shape->count * shape->pixels * groups;
    const cudaError_t status = check_product(shape, { values, factors, to });
    if (status != cudaSuccess)
        return status;
    return launch_threads(stream, threads, kernels[type], threads, groups, shape->pixels, values, factors, to, adds);
}

cudaError_t kernel_factor_gradient(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                                   const void *values, const void *out_gradient, void *factor_gradient, bool adds)
{
    static decltype(&sum_factors<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(sum_factors);
    const uint32_t groups = shape->stored / GROUP;
    const cudaError_t status = check_product(shape, { values, out_gradient, factor_gradient });
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, shape->count, pieces(groups, FACTOR_GROUPS), kernels[type], groups, shape->pixels,
                         values, out_gradient, factor_gradient, adds);
}
