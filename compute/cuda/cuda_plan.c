/* Making a plan: edges, buffers by lifetime, the layers' states, memory; and one run of it, so
 * that what libraries load at first use is loaded before the first step. */
#include "compute/cuda/cuda_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"

#define WORKSPACE_MAX ((size_t)256 << 20)       /* of a convolution, unless the spec says otherwise */
#define PAGE_BYTES ((size_t)2 << 20)            /* a GPU's memory is handed out in these */

/* ---- buffers ---- */

int cuda_plan_buffer(struct plan *plan, size_t bytes, uint32_t *buffer_out)
{
    if (plan->buffer_count == plan->buffer_room) {
        const uint32_t room = plan->buffer_room * 2 + 16;
        struct lifetime *const buffers = realloc(plan->buffers, room * sizeof(*buffers));
        if (buffers == NULL)
            return -ENOMEM;
        plan->buffers = buffers;
        plan->buffer_room = room;
    }
    plan->buffers[plan->buffer_count] = (struct lifetime){ .bytes = bytes, .first = UINT32_MAX };
    *buffer_out = plan->buffer_count++;
    return 0;
}

void cuda_plan_use(struct plan *plan, uint32_t buffer, uint32_t time)
{
    struct lifetime *const life = &plan->buffers[buffer];
    if (time < life->first)
        life->first = time;
    if (time > life->last)
        life->last = time;
}

static void use_always(struct plan *plan, uint32_t buffer)
{
    cuda_plan_use(plan, buffer, 0);
    cuda_plan_use(plan, buffer, time_data(plan, 0));
}

void cuda_plan_workspace(struct plan *plan, size_t bytes)
{
    if (bytes > plan->workspace_bytes)
        plan->workspace_bytes = bytes;
}

/* ---- edges ---- */

int cuda_edge_open(struct plan *plan, uint32_t edge)
{
    const struct edge *const of = &plan->edges[edge];
    const size_t bytes = plan->base.count * edge_count(of) * value_bytes(plan->base.backend->type);
    int rc = cuda_plan_buffer(plan, bytes, &plan->edges[edge].value);
    if (rc == 0 && edge_has_gradient(plan, edge))
        rc = cuda_plan_buffer(plan, bytes, &plan->edges[edge].gradient);
    return rc;
}

void cuda_edge_share(struct plan *plan, uint32_t layer)
{
    plan->edges[layer + 1].value = plan->edges[layer].value;
    plan->edges[layer + 1].gradient = plan->edges[layer].gradient;
}

/* Overflow of sizes: libraries and kernels count a sample's numbers in 32 bits, and a plan holds
 * a few copies of its edges, in bytes. */
static bool edge_fits(const struct plan *plan, const struct edge *edge)
{
    return edge_count(edge) <= INT32_MAX &&
           edge_count(edge) < SIZE_MAX / 64 / sizeof(float) / plan->base.count / plan_net(plan)->layer_count;
}

static int refuse_edge(const struct plan *plan, const struct edge *edge)
{
    log_message(LOG_ERROR, "%s: %u samples of %ux%u pixels with %u channels are too many", plan->base.backend->name,
                plan->base.count, edge->shape.height, edge->shape.width, edge->stored);
    return -EOVERFLOW;
}

static int open_edges(struct plan *plan)
{
    const struct net *const net = plan_net(plan);
    for (uint32_t e = 0; e <= net->layer_count; e++) {
        plan->edges[e].shape = e > 0 ? net->layers[e - 1].out : net->input;
        plan->edges[e].stored = channels_stored(plan->edges[e].shape.channels);
        if (!edge_fits(plan, &plan->edges[e]))
            return refuse_edge(plan, &plan->edges[e]);
    }
    const int rc = cuda_edge_open(plan, 0);
    if (rc == 0)
        cuda_plan_use(plan, plan->edges[0].value, time_forward(0));
    return rc;
}

/* What the input step writes beside the image, and what a step leaves behind. */
static int open_buffers(struct plan *plan)
{
    int rc = cuda_plan_buffer(plan, plan->base.count * sizeof(int32_t), &plan->labels);
    if (rc == 0)
        rc = cuda_plan_buffer(plan, sizeof(struct step_values), &plan->values);
    if (rc == 0)
        rc = cuda_plan_buffer(plan, sizeof(struct backend_result), &plan->result);
    if (rc != 0)
        return rc;
    cuda_plan_use(plan, plan->labels, time_forward(0));
    use_always(plan, plan->values);
    use_always(plan, plan->result);
    return 0;
}

/* ---- memory: a pool and a workspace for all plans, as only one runs at a time ---- */

static size_t pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

struct size_text { char text[24]; };

static struct size_text size_text(size_t bytes)
{
    struct size_text size;
    const bool is_large = bytes >= (size_t)1 << 30;
    snprintf(size.text, sizeof(size.text), "%.1f %s", (double)bytes / (is_large ? 1 << 30 : 1 << 20),
             is_large ? "GiB" : "MiB");
    return size;
}

/* Activations grow with the samples, the workspace hardly does. Towers that share the device
 * may not have taken theirs yet. */
static void refuse_memory(const struct plan *plan, size_t pool, size_t workspace, size_t there)
{
    const struct backend *const backend = plan->base.backend;
    const uint32_t towers = backend->spec.device_towers > 0 ? backend->spec.device_towers : 1;
    const size_t fixed = pages(workspace) + PAGE_BYTES, share = there / towers;
    const uint32_t fitting =
        share > fixed ? (uint32_t)((double)plan->base.count * (double)(share - fixed) / (double)pool) : 0;
    char hint[64] = "";
    if (fitting > 0)
        snprintf(hint, sizeof(hint), ": %u samples a tower would fit", fitting);
    log_message(LOG_ERROR, "%s: a tower of %u samples needs %s (activations %s, workspace %s) and %s are free%s",
                backend->name, plan->base.count, size_text(pool + workspace).text, size_text(pool).text,
                size_text(workspace).text, size_text(there).text, hint);
}

/* Pool and workspace get these sizes, of which at least one is not what it was. */
static int check_memory(const struct plan *plan, size_t pool, size_t workspace)
{
    const struct backend *const backend = plan->base.backend;
    struct device *const device = backend->spec.device;
    size_t there, total;
    const int rc = device->ops->memory(device, &there, &total);
    if (rc != 0)
        return rc;
    there += pages(backend->pool_bytes) + pages(backend->workspace_bytes);
    if (pages(pool) + pages(workspace) <= there)
        return 0;
    refuse_memory(plan, pool, workspace, there);
    return -ENOMEM;
}

/* What is there goes first: it holds nothing that is needed again, and both at once may not fit.
 * The caller waited for the steps that used it. */
static int resize(struct backend *backend, size_t bytes, void **memory, size_t *bytes_of)
{
    struct device *const device = backend->spec.device;
    if (bytes == *bytes_of)
        return 0;
    device->ops->free(device, *memory);
    *memory = NULL;
    *bytes_of = 0;
    if (bytes == 0)
        return 0;
    const int rc = device->ops->alloc(device, bytes, memory);
    if (rc == 0)
        *bytes_of = bytes;
    return rc;
}

static int set_memory(struct plan *plan, size_t pool, size_t workspace)
{
    struct backend *const backend = plan->base.backend;
    if (pool == backend->pool_bytes && workspace == backend->workspace_bytes)
        return 0;
    int rc = check_memory(plan, pool, workspace);
    if (rc == 0)
        rc = cuda_store_wait(backend);
    void *memory = backend->pool;
    if (rc == 0)
        rc = resize(backend, pool, &memory, &backend->pool_bytes);
    backend->pool = memory;
    if (rc == 0)
        rc = resize(backend, workspace, &backend->workspace, &backend->workspace_bytes);
    return rc;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The largest plan decides. */
static int grow_memory(struct plan *plan)
{
    struct backend *const backend = plan->base.backend;
    plan->pool_bytes = lifetime_plan(plan->buffers, plan->buffer_count);
    if (plan->pool_bytes == 0)
        return -ENOMEM;
    const size_t pool = larger(plan->pool_bytes, backend->pool_needed);
    const size_t workspace = larger(plan->workspace_bytes, backend->workspace_needed);
    const int rc = set_memory(plan, pool, workspace);
    if (rc != 0)
        return rc;
    plan->bytes = backend->untold_bytes + pool - backend->pool_needed + workspace - backend->workspace_needed;
    backend->untold_bytes = 0;
    backend->pool_needed = pool;
    backend->workspace_needed = workspace;
    return 0;
}

/* ---- layers ---- */

/* Where convolutions are planned. Candidates are measured in the memory of all plans, which
 * holds nothing while a plan is made. */
static int open_planner(struct plan *plan)
{
    struct backend *const backend = plan->base.backend;
    const struct backend_spec *const spec = &backend->spec;
    plan->planner = (struct conv_planner){
        .name = backend->name,
        .handle = backend->cudnn,
        .workspace_max = spec->workspace_max > 0 ? spec->workspace_max : WORKSPACE_MAX,
        .cache = spec->plan_cache,
        .stream = backend->stream,
    };
    if (!spec->time_plans || backend->cudnn == NULL)
        return 0;
    const size_t scratch = larger(cuda_conv2d_scratch(plan), backend->pool_needed);
    const int rc = set_memory(plan, scratch, plan->planner.workspace_max);
    plan->planner.scratch = backend->pool;
    plan->planner.workspace = backend->workspace;
    return rc;
}

static int plan_layers(struct plan *plan)
{
    const struct net *const net = plan_net(plan);
    int rc = open_planner(plan);
    for (uint32_t i = 0; i < net->layer_count && rc == 0; i++)
        rc = cuda_layer_table[net->layers[i].kind]->plan(plan, i);
    return rc;
}

/* ---- the first run ---- */

static int queue_zeros(struct plan *plan, const uint8_t *pixels, const int32_t *labels)
{
    struct backend *const backend = plan->base.backend;
    const struct edge *const image = &plan->edges[0];
    const struct image_shape shape = { 1, (uint32_t)edge_pixels(image), image->shape.channels, image->stored };
    int rc = CUDA_CALL(backend->name, cudaMemsetAsync(backend->pool, 0, backend->pool_bytes, backend->stream));
    if (rc == 0)
        rc = CUDA_CALL(backend->name, kernel_input(backend->stream, backend->type, &shape, pixels, labels, 0, 0,
                                                   edge_value(plan, 0), cuda_plan_data(plan, plan->labels),
                                                   cuda_plan_data(plan, plan->values)));
    return rc;
}

static void ignore_layer(void *arg, uint32_t layer)
{
    (void)arg;
    (void)layer;
}

static int clear_gradients(struct backend *backend)
{
    return CUDA_CALL(backend->name, cudaMemsetAsync(backend->gradients, 0, backend->arena->count * sizeof(float),
                                                    backend->stream));
}

/* Of zeroed samples; one is enough for the input kernel, as zero is what it makes of zeros.
 * Leaves nothing behind that outlives it. */
static int run_once(struct plan *plan)
{
    struct backend *const backend = plan->base.backend;
    struct device *const device = backend->spec.device;
    const size_t pixels = (shape_count(plan_net(plan)->input) + 15) / 16 * 16;
    void *memory;
    int rc = device->ops->alloc(device, pixels + sizeof(int32_t), &memory);
    if (rc != 0)
        return rc;
    rc = queue_zeros(plan, memory, (const int32_t *)(const void *)((char *)memory + pixels));
    if (rc == 0)
        rc = cuda_plan_forward(plan);
    if (rc == 0 && plan->base.training)
        rc = cuda_plan_backward(plan, ignore_layer, NULL);
    if (rc == 0 && plan->base.training)
        rc = clear_gradients(backend);
    const int waited = cuda_store_wait(backend);        /* also for what was queued before a failure */
    device->ops->free(device, memory);
    return rc != 0 ? rc : waited;
}

/* ---- plans ---- */

static int make_plan(struct plan *plan)
{
    const uint32_t layer_count = plan_net(plan)->layer_count;
    plan->edges = calloc((size_t)layer_count + 1, sizeof(*plan->edges));
    plan->states = calloc(layer_count, sizeof(*plan->states));
    if (plan->edges == NULL || plan->states == NULL)
        return -ENOMEM;
    int rc = open_edges(plan);
    if (rc == 0)
        rc = open_buffers(plan);
    if (rc == 0)
        rc = plan_layers(plan);
    if (rc == 0)
        rc = grow_memory(plan);
    if (rc == 0)
        rc = cuda_segments_open(plan);
    return rc == 0 ? run_once(plan) : rc;
}

int cuda_plan_open(struct backend *backend, uint32_t count, bool training, struct plan **plan_out)
{
    assert(backend->weights != NULL);
    assert(backend->ends == NULL);      /* recorded steps hold addresses that a further plan may change */
    int rc = cuda_enter(backend->spec.device);
    if (rc != 0)
        return rc;
    struct plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->base = (struct plan_base){ .backend = backend, .count = count, .training = training };
    plan->next = backend->plans;
    backend->plans = plan;
    rc = make_plan(plan);
    if (rc != 0) {
        cuda_plan_close(plan);
        return rc;
    }
    *plan_out = plan;
    return 0;
}

static void unlink_plan(struct plan *plan)
{
    struct plan **link = &plan->base.backend->plans;
    while (*link != plan)
        link = &(*link)->next;
    *link = plan->next;
}

void cuda_plan_close(struct plan *plan)
{
    if (plan == NULL)
        return;
    const struct net *const net = plan_net(plan);
    unlink_plan(plan);
    cuda_segments_close(plan);
    for (uint32_t i = 0; plan->states != NULL && i < net->layer_count; i++)
        if (plan->states[i] != NULL)
            cuda_layer_table[net->layers[i].kind]->release(plan, i);
    free(plan->buffers);
    free(plan->states);
    free(plan->edges);
    free(plan);
}
