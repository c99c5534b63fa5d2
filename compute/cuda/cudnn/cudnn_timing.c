/* Measuring plans. See cudnn_timing.h. */
#include "compute/cuda/cudnn/cudnn_timing.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "stage/cuda/cuda_call.h"

#define ROUNDS 3u
#define ROUND_MS 0.7f           /* short plans run several times a round: the clock's grain and a launch count less */
#define RUNS_MAX 20u
#define TIE 1.02f
#define HOPELESS 2.0f           /* so many times as slow as another one after two runs */

struct timing {
    const struct engine_rules *rules;
    cudnnBackendDescriptor_t pack;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    struct cudnn_refusal *refusal;
};

/* So many runs behind each other; the mean of one. */
static int run_some(const struct timing *timing, const struct engine_plan *plan, uint32_t runs, float *ms_out)
{
    const char *const name = timing->rules->name;
    float ms = 0;
    int rc = CUDA_CALL(name, cudaEventRecord(timing->begin, timing->stream));
    for (uint32_t i = 0; i < runs && rc == 0; i++)
        rc = cudnn_try(HEARTBEAT_CALL("cudnnBackendExecute",
                                      cudnnBackendExecute(timing->rules->handle, plan->plan, timing->pack)),
                       name, "cudnnBackendExecute", timing->refusal);
    if (rc == 0)
        rc = CUDA_CALL(name, cudaEventRecord(timing->end, timing->stream));
    if (rc == 0)
        rc = CUDA_CALL(name, cudaEventSynchronize(timing->end));
    if (rc == 0)
        rc = CUDA_CALL(name, cudaEventElapsedTime(&ms, timing->begin, timing->end));
    *ms_out = ms / (float)runs;
    return rc;
}

static float median(const float times[ROUNDS])
{
    const float low = fminf(times[0], times[1]), high = fmaxf(times[0], times[1]);
    return fmaxf(low, fminf(high, times[2]));
}

static uint32_t runs_of_round(float ms)
{
    const float runs = ms > 0 ? ROUND_MS / ms : RUNS_MAX;
    return runs < 1 ? 1 : runs > RUNS_MAX ? RUNS_MAX : (uint32_t)runs;
}

/* INFINITY when the plan does not run after all, or is much slower than `least`. */
static int time_plan(const struct timing *timing, const struct engine_plan *plan, float least, float *ms_out)
{
    float times[ROUNDS], warm;
    int rc = run_some(timing, plan, 1, &warm);
    if (rc == 0)
        rc = run_some(timing, plan, 1, &warm);
    const bool is_hopeless = rc == 0 && warm > HOPELESS * least;
    for (uint32_t i = 0; i < ROUNDS && rc == 0 && !is_hopeless; i++)
        rc = run_some(timing, plan, runs_of_round(warm), &times[i]);
    if (rc < 0 && rc != -ENOTSUP)
        return rc;
    *ms_out = rc == 0 && !is_hopeless ? median(times) : INFINITY;
    return 0;
}

static int choose(const struct timing *timing, const struct engine_plan *plans, uint32_t count, uint32_t *best_out)
{
    float times[ENGINE_PLANS_MAX], least = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const int rc = time_plan(timing, &plans[i], least, &times[i]);
        if (rc < 0)
            return rc;
        least = fminf(least, times[i]);
    }
    if (isinf(least))
        return -ENOTSUP;
    uint32_t best = 0;
    while (times[best] > least * TIE)
        best++;
    *best_out = best;
    return 0;
}

int timing_choose(const struct engine_plan *plans, uint32_t count, const struct engine_rules *rules,
                  cudnnBackendDescriptor_t pack, cudaStream_t stream, uint32_t *best_out,
                  struct cudnn_refusal *refusal)
{
    assert(count <= ENGINE_PLANS_MAX);
    struct timing timing = { .rules = rules, .pack = pack, .stream = stream, .refusal = refusal };
    int rc = CUDA_CALL(rules->name, cudaEventCreate(&timing.begin));
    if (rc < 0)
        return rc;
    rc = CUDA_CALL(rules->name, cudaEventCreate(&timing.end));
    if (rc == 0) {
        rc = choose(&timing, plans, count, best_out);
        CUDA_CALL(rules->name, cudaEventDestroy(timing.end));
    }
    CUDA_CALL(rules->name, cudaEventDestroy(timing.begin));
    return rc;
}
