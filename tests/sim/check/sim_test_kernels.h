/* Kernels for the tests of the simulation, written like those of compute/cuda/kernels.cu. */
#ifndef PIPETRAIN_SIM_TEST_KERNELS_H
#define PIPETRAIN_SIM_TEST_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every block: *value = 2 * *value + number of the block. Depends on the order of the blocks. */
cudaError_t test_order(cudaStream_t stream, uint32_t blocks, uint32_t *value);
/* out[i] = the number that the next thread wrote to shared memory. `barrier`: all wait before they read. */
cudaError_t test_neighbour(cudaStream_t stream, uint32_t threads, int barrier, uint32_t *out);
/* Thread `which` of 64 skips the barrier, or the second shuffle. */
cudaError_t test_missing_at_barrier(cudaStream_t stream, uint32_t which);
cudaError_t test_missing_at_shuffle(cudaStream_t stream, uint32_t which);
cudaError_t test_two_barriers(cudaStream_t stream);
/* *value += 1, by a kernel that is launched early. Threads from `from` on do not wait for the kernels before;
 * `barrier`: all wait for each other first. */
cudaError_t test_early(cudaStream_t stream, uint32_t from, int barrier, uint32_t *value);
/* divided() of compute/cuda/kernel_types.cuh. */
size_t test_divided(size_t number, uint32_t by, uint32_t *rest);
cudaError_t test_fill(cudaStream_t stream, uint32_t *out, uint32_t count, uint32_t value);

#ifdef __cplusplus
}
#endif

#endif
