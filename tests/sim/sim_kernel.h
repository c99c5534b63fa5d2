/* Kernels on the CPU: what tests/sim/include/cuda_runtime.h makes of a launch, of barriers and
 * of shuffles. Blocks of a grid run one after the other on the stream's thread, and so do the
 * threads of a block, each up to its next barrier; every second launch of a stream runs them in
 * descending order, so that results that depend on the order show. A barrier that
 * not all threads reach ends the test. */
#ifndef PIPETRAIN_SIM_KERNEL_H
#define PIPETRAIN_SIM_KERNEL_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_WARP 32u
#define SIM_KERNEL_ARGUMENTS_MAX 4096u  /* bytes */

/* Queue the grid; `call` with a copy of the `bytes` of `body` is one thread of the kernel. `name`,
 * which stays, is for messages. The status a launch has. */
cudaError_t sim_launch(const cudaLaunchConfig_t *config, const char *name, void (*call)(const void *body),
                       const void *body, size_t bytes);
/* Ends the test when a kernel's argument is a pointer, not NULL, to what its device cannot use. */
void sim_check_argument(const void *pointer, const cudaLaunchConfig_t *config, const char *name);

/* Wait for all threads of the block; all have to wait in the same line. */
void sim_wait_block(int line);
/* Wait for the threads of the warp, giving `bits`; the returned array holds what each lane
 * gave, until the next call. *lane_out is the caller's. */
const uint64_t *sim_wait_warp(int line, unsigned int mask, uint64_t bits, unsigned int *lane_out);

#endif
