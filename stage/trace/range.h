/* Ranges for a profiler that is attached to the process: the current activity of a thread, with the names of a trace.
 * With CUDA they are NVTX ranges in the domain "pipetrain", which Nsight Systems shows above the thread's work on the
 * GPU; without CUDA or a profiler these functions do nothing. */
#ifndef PIPETRAIN_RANGE_H
#define PIPETRAIN_RANGE_H

#include <stdint.h>

#include "stage/trace/trace.h"

#define RANGE_NO_BATCH UINT64_MAX       /* the batch is not known yet */

/* Detect the profiler. Called by main before other threads begin ranges. */
void range_prepare(void);
/* Begin a range in the calling thread, and end its innermost range. */
void range_begin(enum trace_name name, uint64_t batch);
void range_end(void);

#endif
