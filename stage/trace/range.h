/* Ranges for a profiler that is attached to the process: what a thread is at, under the names of a trace. With CUDA
 * they are NVTX ranges, in the domain "pipetrain", which Nsight Systems shows above what the thread puts on the GPU;
 * else, and without a profiler, nothing happens. */
#ifndef PIPETRAIN_RANGE_H
#define PIPETRAIN_RANGE_H

#include <stdint.h>

#include "stage/trace/trace.h"

#define RANGE_NO_BATCH UINT64_MAX       /* which batch it is turns out later */

/* Find the profiler. Once, by main, before other threads have ranges. */
void range_prepare(void);
/* The calling thread begins, and ends what it began last: ranges lie in each other. */
void range_begin(enum trace_name name, uint64_t batch);
void range_end(void);

#endif
