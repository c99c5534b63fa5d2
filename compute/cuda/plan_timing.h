/* Which of several implementations of an operation is the fastest on the device. While plans are made, from the tower's
 * thread. */
#ifndef PIPETRAIN_PLAN_TIMING_H
#define PIPETRAIN_PLAN_TIMING_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#define PLAN_CANDIDATES_MAX 8u

/* Queues candidate i on the stream. 0; -ENOTSUP (not logged) when it does not run; or another negative errno. */
typedef int plan_run(void *arg, uint32_t i);

/* The fastest of up to PLAN_CANDIDATES_MAX candidates by the median of 3 rounds of up to 20 runs, after two warm-up
 * runs; of those within 2 % the first, so that the choice is stable. Nothing else should run on the device. Blocks. 0,
 * -ENOTSUP (not logged) when none runs, or another negative errno (logged). `name` is for messages. */
int plan_fastest(const char *name, cudaStream_t stream, uint32_t count, plan_run *run, void *arg, uint32_t *best_out);

#endif
