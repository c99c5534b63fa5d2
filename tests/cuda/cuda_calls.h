/* Counts of CUDA calls: by CUPTI on a GPU, by the simulation in programs linked with it. Used from a test's main
 * thread, while other threads call CUDA. */
#ifndef PIPETRAIN_CUDA_CALLS_H
#define PIPETRAIN_CUDA_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A name for cuda_calls: copies queued from or to pageable memory, which wait. Known when the device has finished. */
#define CUDA_PAGEABLE_COPY "pageable copy"

/* Start counting, once, before other threads. False, with the reason in `why`, where it is impossible. */
bool cuda_calls_open(char *why, size_t why_size);
/* Calls so far of a function of the runtime ("cudaMalloc") or the driver ("cuMemAlloc"), in all its versions. The
 * runtime's own calls of the driver count; the simulation has no driver. Exits when CUPTI knows no such function. */
uint64_t cuda_calls(const char *function);

/* Is the device simulated? */
bool cuda_is_simulated(void);
/* From now on every operation of a simulated device takes at least this long. */
void cuda_slow_us(uint32_t us);

#endif
