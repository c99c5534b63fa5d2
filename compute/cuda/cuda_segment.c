/* Running a plan: forward as one piece, backward in segments that end where the caller wants
 * to know. A piece is queued call by call, or recorded once and launched as one: the same
 * functions queue both, so both give the same bits. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"

/* ---- queueing ---- */

static int queue_forward(void *arg)
{
    struct plan *const plan = arg;
    return plan_base_forward(&plan->base);
}

/* A segment to be queued. */
struct backward { struct plan *plan; const struct segment *segment; };

static int queue_backward(void *arg)
{
    const struct backward *const backward = arg;
    struct plan_base *const base = &backward->plan->base;
    int rc = 0;
    for (uint32_t i = backward->segment->first + 1; i-- > backward->segment->last && rc == 0;)
        if (value_plan_needs_grad(&base->values, i))
            rc = plan_base_backward_one(base, i, NULL, NULL);
    return rc;
}

static int run(struct plan *plan, struct recording *recording, int (*queue)(void *arg), void *arg)
{
    const struct backend *const backend = plan->base.backend;
    const int rc = cuda_enter(backend->spec.device);
    if (rc != 0)
        return rc;
    return recording == NULL ? queue(arg) : CUDA_CALL(backend->name, recording_run(recording, backend->stream));
}

int cuda_plan_forward(struct plan *plan)
{
    return run(plan, plan->forward, queue_forward, plan);
}

int cuda_plan_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    assert(plan->base.training);
    int rc = 0;
    for (uint32_t i = 0; i < plan->segment_count && rc == 0; i++) {
        const struct segment *const segment = &plan->segments[i];
        struct backward backward = { plan, segment };
        rc = run(plan, segment->recording, queue_backward, &backward);
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

/* Layers before the first one that is trained have nothing to do in backward. */
static uint32_t first_trained(const struct net *net)
{
    uint32_t layer = 0;
    while (layer < net->layer_count && !layer_is_trained(&net->layers[layer]))
        layer++;
    return layer;
}

int cuda_segments_open(struct plan *plan)
{
    const uint32_t last = first_trained(plan_net(plan));
    if (!plan->base.training)
        return 0;
    plan->segments = calloc(plan_net(plan)->layer_count, sizeof(*plan->segments));
    if (plan->segments == NULL)
        return -ENOMEM;
    uint32_t first = plan_net(plan)->layer_count - 1;
    for (uint32_t i = first + 1; i-- > last;) {
        if (i > last && !is_end(plan, i))
            continue;
        const struct segment segment = { .first = first, .last = i, .is_end = is_end(plan, i) };
        plan->segments[plan->segment_count++] = segment;
        first = i - 1;
    }
    return 0;
}

static void forget_recordings(struct plan *plan)
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
    forget_recordings(plan);
    free(plan->segments);
    plan->segments = NULL;
    plan->segment_count = 0;
}

/* ---- recording ---- */

/* Multiply-accumulates of a forward pass. A smaller step takes less time to compute than to
 * queue call by call. */
#define SMALL_STEP_MACS 1e11
/* Three steps are queued at a time, and a stream takes about a thousand calls; more block in the driver until others
 * are done. A layer takes three or four. */
#define MANY_LAYERS 80u

bool cuda_plan_is_recorded(const struct plan *plan)
{
    const enum graph_use use = plan->base.backend->spec.graph;
    const double macs = (double)plan_net(plan)->macs * plan->base.count;
    const bool is_worth_it = macs < SMALL_STEP_MACS || plan_net(plan)->layer_count > MANY_LAYERS;
    return use == GRAPH_ON || (use == GRAPH_AUTO && is_worth_it);
}

static int record_plan(struct plan *plan, struct recording_refusal *refusal)
{
    const cudaStream_t stream = plan->base.backend->stream;
    int rc = recording_open(&plan->forward, stream, queue_forward, plan, refusal);
    for (uint32_t i = 0; i < plan->segment_count && rc == 0; i++) {
        struct backward backward = { plan, &plan->segments[i] };
        rc = recording_open(&plan->segments[i].recording, stream, queue_backward, &backward, refusal);
    }
    return rc;
}

static void forget_all(struct backend *backend)
{
    for (struct plan *plan = backend->plans; plan != NULL; plan = plan->next)
        forget_recordings(plan);
}

static int record_all(struct backend *backend)
{
    struct recording_refusal refusal;
    int rc = 0;
    for (struct plan *plan = backend->plans; plan != NULL && rc == 0; plan = plan->next)
        if (cuda_plan_is_recorded(plan))
            rc = record_plan(plan, &refusal);
    if (rc == 0)
        return 0;
    forget_all(backend);
    if (backend->spec.graph == GRAPH_ON) {
        log_message(LOG_ERROR, "%s: a step cannot be recorded: %s", backend->name, refusal.text);
        return rc;
    }
    backend->spec.graph = GRAPH_OFF;
    log_message(LOG_RUN, "%s: steps are queued call by call, as they cannot be recorded: %s", backend->name,
                refusal.text);
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
    /* Uploads of recordings are queued like other work. */
    return rc == 0 ? cuda_store_wait(backend) : rc;
}
