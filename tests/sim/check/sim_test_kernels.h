/* Kernels for the tests of the simulation, written like those of compute/cuda/kernels.cu. */
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
/* *total = sum of in. Every block writes its sum to partials, and the last block to finish adds them; it is found with
 * *counter, which is 0 before and after. `threads` per block is a multiple of 32. */
cudaError_t test_sum(cudaStream_t stream, uint32_t threads, uint32_t count, const float *in, float *partials,
                     unsigned int *counter, float *total);
/* Every output [lane] = the result of one shuffle of 32 lanes: down by 3, xor 5, from lane 7. */
cudaError_t test_shuffles(cudaStream_t stream, uint32_t *down, uint32_t *other, uint32_t *from);
/* The numbers rounded to fp16 and to bf16, as fp32. */
cudaError_t test_round(cudaStream_t stream, uint32_t count, const float *in, float *fp16, float *bf16);
/* Every block: *value = 2 * *value + number of the block. Depends on the order of the blocks. */
cudaError_t test_order(cudaStream_t stream, uint32_t blocks, uint32_t *value);
/* out[i] = the number that the next thread wrote to shared memory. `barrier`: all wait before they read. */
cudaError_t test_neighbour(cudaStream_t stream, uint32_t threads, int barrier, uint32_t *out);
/* Thread `which` of 64 skips the barrier, or the second shuffle. */
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
