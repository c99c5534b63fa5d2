/* The side stream of recorded steps: weight gradients beside data gradients (cuda_plan.h says which). Used from the
 * tower's thread, while plans are made and while steps are queued or recorded. */
#include <assert.h>

#include "compute/cuda/cuda_plan.h"
#include "compute/cuda/cudnn_graph.h"
#include "stage/cuda/device_cuda.h"

/* ---- planning ---- */

/* A block of a product computes about 64x64 numbers with a few hundred multiply-accumulates each: 2 million in all. Two
 * blocks for each of the 132 multiprocessors of an H200 are 0.6 billion; larger products leave none of them idle. */
#define SIDE_MACS 6e8

static bool is_small(const struct plan *plan, uint32_t head)
{
    return cuda_plan_is_small(plan) && (double)plan_layer(plan, head)->macs * plan->base.count <= SIDE_MACS;
}

static bool has_products(const struct plan *plan, uint32_t head)
{
    const enum layer_kind kind = plan_layer(plan, head)->kind;
    return (kind == LAYER_CONV2D || kind == LAYER_DENSE) && value_memory_needs_grad(&plan->base.values, head) &&
           plan_has_inputs(&plan->base, head);
}

bool cuda_side_is_wanted(const struct plan *plan, uint32_t head)
{
    return plan->base.training && has_products(plan, head) && is_small(plan, head) && cuda_plan_is_recorded(plan);
}

/* The last time at which the weight gradient may still run: the backend's stream waits for it before the next head
 * forks, which happens in the pass of that head's parameters. */
static uint32_t time_joined(const struct plan *plan, uint32_t head)
{
    for (uint32_t i = head; i-- > 0;)
        if (cuda_side_is_wanted(plan, i))
            return time_parameters(&plan->base.values, i);
    return time_inputs(&plan->base.values, 0);
}

void cuda_side_plan(struct plan *plan, uint32_t head, const uint32_t *buffers, uint32_t count)
{
    const uint32_t time = time_joined(plan, head);
    for (uint32_t i = 0; i < count; i++)
        value_memory_use(&plan->base.values, buffers[i], time);
    plan->side_count++;
}

static int open_cudnn(struct backend *backend)
{
    const int rc = CUDNN_CALL(backend->name, cudnnCreate(&backend->side.cudnn));
    return rc == 0 ? CUDNN_CALL(backend->name, cudnnSetStream(backend->side.cudnn, backend->stream)) : rc;
}

int cuda_side_open(struct backend *backend)
{
    struct device *const device = backend->spec.device;
    struct side *const side = &backend->side;
    int rc = 0;
    if (side->stream == NULL)
        rc = device->ops->stream_open(device, STREAM_COMPUTE, "side", &side->stream);
    if (rc == 0 && side->event == NULL)
        rc = device->ops->event_open(device, EVENT_ORDER, &side->event);
    if (rc == 0 && side->cudnn == NULL && backend->cudnn != NULL)
        rc = open_cudnn(backend);
    return rc;
}

void cuda_side_close(struct backend *backend)
{
    struct device *const device = backend->spec.device;
    struct side *const side = &backend->side;
    if (side->cudnn != NULL)
        CUDNN_CALL(backend->name, cudnnDestroy(side->cudnn));
    event_close(side->event);
    device->ops->stream_close(side->stream);
}

/* ---- queueing ---- */

/* The handle is used in queued steps, too, because it may allocate memory when it is first used. */
int cuda_side_record(struct backend *backend, bool is_recording)
{
    struct side *const side = &backend->side;
    const cudaStream_t stream = is_recording && side->stream != NULL ? cuda_stream_of(side->stream)
                                                                       : backend->stream;
    side->is_recording = is_recording;
    side->is_open = false;
    return side->cudnn != NULL ? CUDNN_CALL(backend->name, cudnnSetStream(side->cudnn, stream)) : 0;
}

int cuda_side_join(struct backend *backend)
{
    struct side *const side = &backend->side;
    if (!side->is_open)
        return 0;
    side->is_open = false;
    return stream_wait(backend->spec.compute, side->event);
}

static int fork_side(struct backend *backend)
{
    struct side *const side = &backend->side;
    int rc = cuda_side_join(backend);
    if (rc == 0)
        rc = stream_record(backend->spec.compute, side->event);
    if (rc == 0)
        rc = stream_wait(side->stream, side->event);
    side->is_open = rc == 0;
    return rc;
}

static int queue_aside(struct plan *plan, uint32_t head, int (*queue)(struct plan *plan, uint32_t head))
{
    struct backend *const backend = plan->base.backend;
    const struct side *const side = &backend->side;
    const cudaStream_t stream = backend->stream;
    const cudnnHandle_t cudnn = backend->cudnn;
    void *const workspace = backend->workspace;
    if (side->is_recording)
        backend->stream = cuda_stream_of(side->stream);
    backend->cudnn = side->cudnn;
    backend->workspace = (char *)workspace + side->workspace_at;
    const int rc = queue(plan, head);
    backend->stream = stream;
    backend->cudnn = cudnn;
    backend->workspace = workspace;
    return rc;
}

int cuda_side_run(struct plan *plan, uint32_t head, int (*queue)(struct plan *plan, uint32_t head))
{
    struct backend *const backend = plan->base.backend;
    struct side *const side = &backend->side;
    assert(side->stream != NULL);
    int rc = side->is_recording ? fork_side(backend) : 0;
    if (rc == 0)
        rc = queue_aside(plan, head, queue);
    return rc == 0 && side->is_recording ? stream_record(side->stream, side->event) : rc;
}
