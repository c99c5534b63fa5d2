/* Which of several plans is the fastest on the device, by running them. While plans are
 * made, from the tower's thread. */
#ifndef PIPETRAIN_CUDNN_TIMING_H
#define PIPETRAIN_CUDNN_TIMING_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "compute/cuda/cudnn/cudnn_engine.h"

/* The fastest by the median of 3 rounds of up to 20 runs, after two to warm up; of plans within 2 % of it the
 * first, so that picks are stable. `pack` binds memory that may be overwritten and a
 * workspace that is large enough; the handle's stream is `stream`, and nothing else should
 * run. Blocks. 0, -ENOTSUP when none runs (*refusal says why), or a negative errno (logged). */
int timing_choose(const struct engine_plan *plans, uint32_t count, const struct engine_rules *rules,
                  cudnnBackendDescriptor_t pack, cudaStream_t stream, uint32_t *best_out,
                  struct cudnn_refusal *refusal);

#endif
