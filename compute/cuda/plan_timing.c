/* Measuring implementations of an operation on the device. While plans are made, from the tower's thread. */
#include "compute/cuda/plan_timing.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "stage/cuda/cuda_call.h"

#define TIMING_ROUNDS 3u
#define TIMING_ROUND_MS 0.7f           /* short operations run several times a round, to average out clock resolution
                                        * and launches */
#define TIMING_RUNS_MAX 20u
#define TIMING_TIE 1.02f
#define TIMING_HOPELESS 2.0f           /* a candidate is not measured further if it takes this many times as long as
                                        * the best one */

struct timing {
    const char *name;
    cudaStream_t stream;
    plan_run *run;
    void *arg;
    cudaEvent_t begin, end;
};

/* Measures the mean time of several runs in a row. */
static int run_some(const struct timing *timing, uint32_t candidate, uint32_t runs, float *ms_out)
{
    const char *const name = timing->name;
    float ms = 0;
    int rc = CUDA_CALL(name, cudaEventRecord(timing->begin, timing->stream));
    for (uint32_t i = 0; i < runs && rc == 0; i++)
        rc = timing->run(timing->arg, candidate);
    if (rc == 0)
        rc = CUDA_CALL(name, cudaEventRecord(timing->end, timing->stream));
    if (rc == 0)
        rc = CUDA_CALL(name, cudaEventSynchronize(timing->end));
    if (rc == 0)
        rc = CUDA_CALL(name, cudaEventElapsedTime(&ms, timing->begin, timing->end));
    *ms_out = ms / (float)runs;
    return rc;
}

static float median(const float times[TIMING_ROUNDS])
{
    const float low = fminf(times[0], times[1]), high = fmaxf(times[0], times[1]);
    return fmaxf(low, fminf(high, times[2]));
}

static uint32_t runs_of_round(float ms)
{
    const float runs = ms > 0 ? TIMING_ROUND_MS / ms : TIMING_RUNS_MAX;
    return runs < 1 ? 1 : runs > TIMING_RUNS_MAX ? TIMING_RUNS_MAX : (uint32_t)runs;
}

/* Measures the time of a candidate. It is INFINITY when it fails to run or is much slower than `least`. */
static int time_candidate(const struct timing *timing, uint32_t candidate, float least, float *ms_out)
{
    float times[TIMING_ROUNDS], warm;
    int rc = run_some(timing, candidate, 1, &warm);
    if (rc == 0)
        rc = run_some(timing, candidate, 1, &warm);
    const bool is_hopeless = rc == 0 && warm > TIMING_HOPELESS * least;
    for (uint32_t i = 0; i < TIMING_ROUNDS && rc == 0 && !is_hopeless; i++)
        rc = run_some(timing, candidate, runs_of_round(warm), &times[i]);
    if (rc < 0 && rc != -ENOTSUP)
        return rc;
    *ms_out = rc == 0 && !is_hopeless ? median(times) : INFINITY;
    return 0;
}

static int fastest(const struct timing *timing, uint32_t count, uint32_t *best_out)
{
    float times[PLAN_CANDIDATES_MAX], least = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const int rc = time_candidate(timing, i, least, &times[i]);
        if (rc < 0)
            return rc;
        least = fminf(least, times[i]);
    }
    if (isinf(least))
        return -ENOTSUP;
    uint32_t best = 0;
    while (times[best] > least * TIMING_TIE)
        best++;
    *best_out = best;
    return 0;
}

int plan_fastest(const char *name, cudaStream_t stream, uint32_t count, plan_run *run, void *arg, uint32_t *best_out)
{
    assert(count <= PLAN_CANDIDATES_MAX);
    struct timing timing = { .name = name, .stream = stream, .run = run, .arg = arg };
    int rc = CUDA_CALL(name, cudaEventCreate(&timing.begin));
    if (rc < 0)
        return rc;
    rc = CUDA_CALL(name, cudaEventCreate(&timing.end));
    if (rc == 0) {
        rc = fastest(&timing, count, best_out);
        CUDA_CALL(name, cudaEventDestroy(timing.end));
    }
    CUDA_CALL(name, cudaEventDestroy(timing.begin));
    return rc;
}
