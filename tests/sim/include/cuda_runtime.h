/* Replaces the toolkit's <cuda_runtime.h> when the host's C++ compiler compiles compute/cuda/kernels.cu: the parts of
 * CUDA C++ that our kernels use, implemented with tests/sim/sim_kernel.h. */
#ifndef PIPETRAIN_SIM_CUDA_RUNTIME_H
#define PIPETRAIN_SIM_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tests/sim/sim_kernel.h"

/* Blocks run one after the other on the stream's thread, so a variable per thread is one per block. In a function
 * thread_local implies static. */
#undef __shared__
#define __shared__ thread_local

/* The simulation has no limit of registers. */
#undef __launch_bounds__
#define __launch_bounds__(...)

extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;

#define cudaGridDependencySynchronize() sim_wait_grids()
#define cudaTriggerProgrammaticLaunchCompletion() sim_start_grids()
#define __syncthreads() sim_wait_block(__LINE__)
#define __shfl_xor_sync(...) sim_shuffle_xor(__LINE__, __VA_ARGS__)

/* The threads of a grid run one after the other. */
static inline unsigned long long atomicMin(unsigned long long *at, unsigned long long value)
{
    const unsigned long long before = *at;
    *at = value < before ? value : before;
    return before;
}

/* Returns the value of lane (own lane xor `other`). */
template <typename T> static inline T sim_shuffle_xor(int line, unsigned int mask, T value, unsigned int other)
{
    static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
    uint64_t bits = 0;
    unsigned int lane;
    memcpy(&bits, &value, sizeof(value));
    const uint64_t *const given = sim_wait_warp(line, mask, bits, &lane);
    memcpy(&value, &given[(lane ^ other) % SIM_WARP], sizeof(value));
    return value;
}

template <typename P>
static inline void sim_check_parameter(const P &parameter, const cudaLaunchConfig_t *config, const char *name)
{
    if constexpr (std::is_pointer_v<P>)
        sim_check_argument(parameter, config, name);
}

/* The name of a kernel in messages: only the types of its parameters are known. */
template <typename... P> static inline const char *sim_kernel_name()
{
    return __PRETTY_FUNCTION__;
}

template <typename... P, typename... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             A &&...arguments)
{
    return [&](P... converted) {
        const auto body = [kernel, converted...]() { kernel(converted...); };
        using body_type = std::remove_const_t<decltype(body)>;
        static_assert(std::is_trivially_copyable_v<body_type> && sizeof(body) <= SIM_KERNEL_ARGUMENTS_MAX);
        const char *const name = sim_kernel_name<P...>();
        (sim_check_parameter(converted, config, name), ...);
        return sim_launch(config, name, [](const void *copy) { (*static_cast<const body_type *>(copy))(); }, &body,
                          sizeof(body));
    }(std::forward<A>(arguments)...);
}

#endif
