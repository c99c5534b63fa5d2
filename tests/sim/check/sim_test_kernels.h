/* Kernels for the tests of the simulation, written as those of compute/cuda/kernels.cu are. */
#ifndef PIPETRAIN_SIM_TEST_KERNELS_H
#define PIPETRAIN_SIM_TEST_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = factor * in[i] + the number of the element, counted over a grid and blocks of three
 * dimensions each. */
cudaError_t test_scale(cudaStream_t stream, dim3 grid, dim3 block, float factor, const float *in, float *out);
/* *total = sum of in, blocks in order: each block's sum to partials, and the last that is done
 * (found with *counter, zero before and after) adds them up. `threads` of a block: a multiple of 32. */
cudaError_t test_sum(cudaStream_t stream, uint32_t threads, uint32_t count, const float *in, float *partials,
                     unsigned int *counter, float *total);
/* out[lane] = what 32 lanes get from each other: down 3, xor 5, from 7. */
cudaError_t test_shuffles(cudaStream_t stream, uint32_t *down, uint32_t *other, uint32_t *from);
/* out = fp16 and bf16 of in, back in fp32. */
cudaError_t test_round(cudaStream_t stream, uint32_t count, const float *in, float *fp16, float *bf16);
/* *value = 2 * *value + block, from every block: depends on their order. */
cudaError_t test_order(cudaStream_t stream, uint32_t blocks, uint32_t *value);
/* out[i] = the number the next thread left in shared memory, with a barrier before reading or not. */
cudaError_t test_neighbour(cudaStream_t stream, uint32_t threads, int barrier, uint32_t *out);
/* Thread `which` of 64 does not come to the barrier / to the second shuffle. */
cudaError_t test_missing_at_barrier(cudaStream_t stream, uint32_t which);
cudaError_t test_missing_at_shuffle(cudaStream_t stream, uint32_t which);
cudaError_t test_two_barriers(cudaStream_t stream);
/* divided() of compute/cuda/kernel_types.cuh. */
size_t test_divided(size_t number, uint32_t by, uint32_t *rest);
cudaError_t test_fill(cudaStream_t stream, uint32_t *out, uint32_t count, uint32_t value);

#ifdef __cplusplus
}
#endif

#endif
