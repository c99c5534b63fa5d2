/* Kernels on the CPU: launches, barriers and shuffles, for tests/sim/include/cuda_runtime.h. The blocks of a grid run
 * one after the other on the stream's thread, and so do the threads of a block, each up to its next barrier. Every
 * second launch of a stream runs them in descending order, to show results that depend on the order. A barrier that not
 * all threads reach ends the test. */
#ifndef PIPETRAIN_SIM_KERNEL_H
#define PIPETRAIN_SIM_KERNEL_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_WARP 32u
#define SIM_KERNEL_ARGUMENTS_MAX 4096u  /* bytes */

/* Queues a grid. call(body) runs one thread of the kernel, with a copy of the `bytes` of body. `name` is for messages
 * and must stay valid. Returns the status of the launch. */
cudaError_t sim_launch(const cudaLaunchConfig_t *config, const char *name, void (*call)(const void *body),
                       const void *body, size_t bytes);
/* Ends the test when the argument of a kernel is a pointer to memory that the device cannot access. NULL is allowed. */
void sim_check_argument(const void *pointer, const cudaLaunchConfig_t *config, const char *name);

/* cudaGridDependencySynchronize, and cudaTriggerProgrammaticLaunchCompletion after it. Grids of a stream run one after
 * the other also when they are launched early; but the test ends unless every thread of such a grid waits, before
 * barriers and shuffles, and once. */
void sim_wait_grids(void);
void sim_start_grids(void);

/* Waits for all threads of the block. All must call it from the same source line. */
void sim_wait_block(int line);
/* Waits for all threads of the warp. Returns the `bits` of every lane, valid until the next call; *lane_out is the
 * caller's lane. */
const uint64_t *sim_wait_warp(int line, unsigned int mask, uint64_t bits, unsigned int *lane_out);

#endif
