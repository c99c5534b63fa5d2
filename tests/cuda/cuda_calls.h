/* How often the process called functions of CUDA: counted by CUPTI on a GPU, by the simulation
 * in programs linked to the simulated CUDA. Used from a test's main thread, while other
 * threads call CUDA. */
#ifndef PIPETRAIN_CUDA_CALLS_H
#define PIPETRAIN_CUDA_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What cuda_calls counts besides functions: copies queued from or to pageable memory, for
 * which a thread waits. Known when the device has done all that was queued. */
#define CUDA_PAGEABLE_COPY "pageable copy"

/* Begin to count. False, with the reason in `why`, where calls cannot be counted. Once, before
 * other threads. */
bool cuda_calls_open(char *why, size_t why_size);
/* Calls so far of a function of the runtime ("cudaMalloc") or of the driver ("cuMemAlloc"),
 * whatever version of it was called. The runtime's own calls of the driver count; the
 * simulation has no driver. Ends the program when CUPTI knows no such function. */
uint64_t cuda_calls(const char *function);

/* Is the device simulated? */
bool cuda_is_simulated(void);
/* Every operation of a simulated device takes at least so long from now on. */
void cuda_slow_us(uint32_t us);

#endif
