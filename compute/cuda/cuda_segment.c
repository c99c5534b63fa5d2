/* Running a plan: forward as one piece, backward in segments that end where the caller must be notified. A piece is
 * queued call by call, or captured once as a CUDA graph (a recording) and launched as one. The same functions queue
 * both, so both give the same bits. In a recording some weight gradients are on a side stream (cuda_side.c). */
#include "compute/cuda/cuda_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/heartbeat.h"
#include "stage/log.h"

/* ---- recordings ---- */

/* The reason why a recording failed, which is not logged here, because steps can also be queued call by call. */
struct recording_error { char text[160]; };

/* Checks the status of a call. 0, or a negative errno with the text in *error. */
static int recording_check(cudaError_t status, const char *call, struct recording_error *error)
{
    if (status == cudaSuccess)
        return 0;
    cudaGetLastError();         /* clears the thread's last error */
    snprintf(error->text, sizeof(error->text), "%.*s: %s (%s)", (int)strcspn(call, "("), call,
             cudaGetErrorString(status), cudaGetErrorName(status));
    return status == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

#define RECORDING_CALL(call, error) recording_check(HEARTBEAT_CALL(#call, call), #call, error)

/* Between begin and end of the capture the stream records work instead of running it. The capture mode is thread-local,
 * so calls of other threads are not affected. */
static int capture(cudaStream_t stream, int (*queue)(void *arg), void *arg, cudaGraph_t *graph_out,
                   struct recording_error *error)
{
    cudaGraph_t graph = NULL;
    int rc = RECORDING_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), error);
    if (rc != 0)
        return rc;
    const int queued = queue(arg);
    rc = RECORDING_CALL(cudaStreamEndCapture(stream, &graph), error);
    if (queued != 0) {
        snprintf(error->text, sizeof(error->text), "what is to be recorded failed");
        rc = queued;
    }
    if (rc != 0 && graph != NULL)
        cudaGraphDestroy(graph);
    else if (rc == 0)
        *graph_out = graph;
    return rc;
}

static void recording_close(cudaGraphExec_t recording)
{
    if (recording != NULL)
        cudaGraphExecDestroy(recording);
}

/* Records the work that queue(arg) queues on `stream`, without running it. 0, or a negative errno with the cause in
 * *error; if queue failed, its return value. */
static int recording_open(cudaGraphExec_t *recording_out, cudaStream_t stream, int (*queue)(void *arg), void *arg,
                          struct recording_error *error)
{
    cudaGraphExec_t recording = NULL;
    cudaGraph_t graph;
    int rc = capture(stream, queue, arg, &graph, error);
    if (rc != 0)
        return rc;
    rc = RECORDING_CALL(cudaGraphInstantiate(&recording, graph, 0), error);
    if (rc != 0)
        recording = NULL;
    else
        rc = RECORDING_CALL(cudaGraphUpload(recording, stream), error);
    cudaGraphDestroy(graph);
    if (rc != 0) {
        recording_close(recording);
        return rc;
    }
    *recording_out = recording;
    return 0;
}

/* ---- queueing ---- */

static int queue_forward(void *arg)
{
    struct plan *const plan = arg;
    return plan_base_forward(&plan->base);
}

struct backward_segment { struct plan *plan; const struct segment *segment; };

static int queue_backward(void *arg)
{
    const struct backward_segment *const work = arg;
    struct plan_base *const base = &work->plan->base;
    int rc = 0;
    for (uint32_t i = work->segment->first + 1; i-- > work->segment->last && rc == 0;)
        if (value_memory_needs_grad(&base->values, i))
            rc = plan_base_backward_one(base, i, NULL, NULL);
    return rc == 0 ? cuda_side_join(base->backend) : rc;
}

static int run_piece(struct plan *plan, cudaGraphExec_t recording, int (*queue)(void *arg), void *arg)
{
    const struct backend *const backend = plan->base.backend;
    const int rc = cuda_enter(backend->spec.device);
    if (rc != 0)
        return rc;
    return recording == NULL ? queue(arg) : CUDA_CALL(backend->name, cudaGraphLaunch(recording, backend->stream));
}

int cuda_plan_forward(struct plan *plan)
{
    return run_piece(plan, plan->forward, queue_forward, plan);
}

int cuda_plan_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    assert(plan->base.training);
    int rc = 0;
    for (uint32_t i = 0; i < plan->segment_count && rc == 0; i++) {
        const struct segment *const segment = &plan->segments[i];
        struct backward_segment work = { plan, segment };
        rc = run_piece(plan, segment->recording, queue_backward, &work);
        if (rc == 0 && segment->is_end)
            layer_done(arg, segment->last);
    }
    return rc;
}

/* ---- segments ---- */

static bool is_end(const struct plan *plan, uint32_t layer)
{
    const bool *const ends = plan->base.backend->ends;
    return layer_is_trained(plan_layer(plan, layer)) && (ends == NULL || ends[layer]);
}

/* The first head that has a backward; the end of the plan's layers: none has. */
static uint32_t find_first(const struct plan *plan)
{
    uint32_t layer = plan->base.range.first;
    while (layer < plan->base.range.end && !value_memory_needs_grad(&plan->base.values, layer))
        layer++;
    return layer;
}

int cuda_segments_open(struct plan *plan)
{
    const uint32_t last = find_first(plan);
    if (!plan->base.training)
        return 0;
    plan->segments = calloc(plan_net(plan)->layer_count, sizeof(*plan->segments));
    if (plan->segments == NULL)
        return -ENOMEM;
    uint32_t first = plan->base.range.end - 1;
    for (uint32_t i = first + 1; i-- > last;) {
        if (i > last && !is_end(plan, i))
            continue;
        const struct segment segment = { .first = first, .last = i, .is_end = is_end(plan, i) };
        plan->segments[plan->segment_count++] = segment;
        first = i - 1;
    }
    return 0;
}

static void close_recordings(struct plan *plan)
{
    recording_close(plan->forward);
    plan->forward = NULL;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        recording_close(plan->segments[i].recording);
        plan->segments[i].recording = NULL;
    }
}

void cuda_segments_close(struct plan *plan)
{
    close_recordings(plan);
    free(plan->segments);
    plan->segments = NULL;
    plan->segment_count = 0;
}

/* ---- recording ---- */

/* Steps with fewer multiply-accumulates in forward take longer to queue call by call than to compute. */
#define SMALL_STEP_MACS 1e11
/* A stream holds about a thousand calls; further calls block in the driver. Three steps are queued ahead, with three or
 * four calls per layer. */
#define MANY_LAYERS 80u

/* Multiply-accumulates of a sample in forward. */
static uint64_t plan_macs(const struct plan *plan)
{
    uint64_t macs = 0;
    for (uint32_t i = plan->base.range.first; i < plan->base.range.end; i++)
        macs += plan_layer(plan, i)->macs;
    return macs;
}

bool cuda_plan_is_small(const struct plan *plan)
{
    return (double)plan_macs(plan) * plan->base.count < SMALL_STEP_MACS;
}

bool cuda_plan_is_recorded(const struct plan *plan)
{
    const enum graph_use use = plan->base.backend->spec.graph;
    const uint32_t layers = plan->base.range.end - plan->base.range.first;
    const bool is_worth_it = cuda_plan_is_small(plan) || layers > MANY_LAYERS;
    return use == GRAPH_ON || (use == GRAPH_AUTO && is_worth_it);
}

static int record_plan(struct plan *plan, struct recording_error *error)
{
    const cudaStream_t stream = plan->base.backend->stream;
    int rc = recording_open(&plan->forward, stream, queue_forward, plan, error);
    for (uint32_t i = 0; i < plan->segment_count && rc == 0; i++) {
        struct backward_segment work = { plan, &plan->segments[i] };
        rc = recording_open(&plan->segments[i].recording, stream, queue_backward, &work, error);
    }
    return rc;
}

static void close_all_recordings(struct backend *backend)
{
    for (struct plan *plan = backend->plans; plan != NULL; plan = plan->next)
        close_recordings(plan);
}

static int record_all(struct backend *backend)
{
    struct recording_error error;
    int rc = cuda_side_record(backend, true);
    if (rc != 0)
        return rc;
    for (struct plan *plan = backend->plans; plan != NULL && rc == 0; plan = plan->next)
        if (cuda_plan_is_recorded(plan))
            rc = record_plan(plan, &error);
    const int ended = cuda_side_record(backend, false);
    if (rc == 0 || ended != 0)
        return ended;
    close_all_recordings(backend);
    if (backend->spec.graph == GRAPH_ON) {
        log_message(LOG_ERROR, "%s: a step cannot be recorded: %s", backend->name, error.text);
        return rc;
    }
    backend->spec.graph = GRAPH_OFF;
    log_message(LOG_RUN, "%s: steps are queued call by call, as they cannot be recorded: %s", backend->name,
                error.text);
    return 0;
}

int cuda_plan_segment(struct backend *backend, const bool *ends)
{
    const uint32_t layer_count = backend->spec.net->layer_count;
    assert(backend->ends == NULL);
    int rc = cuda_enter(backend->spec.device);
    backend->ends = rc == 0 ? malloc(layer_count * sizeof(*ends)) : NULL;
    if (backend->ends == NULL)
        return rc != 0 ? rc : -ENOMEM;
    memcpy(backend->ends, ends, layer_count * sizeof(*ends));
    for (struct plan *plan = backend->plans; plan != NULL && rc == 0; plan = plan->next) {
        cuda_segments_close(plan);
        rc = cuda_segments_open(plan);
    }
    if (rc == 0)
        rc = record_all(backend);
    /* The upload of a recording is queued like other work. */
    return rc == 0 ? cuda_store_wait(backend) : rc;
}
