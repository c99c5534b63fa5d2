/* Making a plan: edges, buffers by lifetime, memories, the layers' states; and running
 * it layer by layer. Everything is made here; a step only runs it. */
#include "compute/onednn/onednn_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/onednn/backend_onednn.h"

static const struct layer_ops *const layer_table[] = {
    [LAYER_CONV2D] = &onednn_weighted_ops,
    [LAYER_DENSE] = &onednn_weighted_ops,
    [LAYER_RELU] = &onednn_relu_ops,
    [LAYER_MAX_POOL] = &onednn_max_pool_ops,
    [LAYER_DROPOUT] = &onednn_dropout_ops,
    [LAYER_SOFTMAX_LOSS] = &onednn_loss_ops,
};

uint32_t layer_before(const struct net *net, uint32_t layer)
{
    while (layer-- > 0)
        if (net->layers[layer].folded_into == NET_NO_LAYER)
            return layer;
    return NET_NO_LAYER;
}

uint32_t layer_behind(const struct net *net, uint32_t layer)
{
    while (++layer < net->layer_count)
        if (net->layers[layer].folded_into == NET_NO_LAYER)
            return layer;
    return NET_NO_LAYER;
}

bool layer_reads_relu(const struct net *net, uint32_t layer)
{
    const uint32_t before = layer_before(net, layer);
    return before != NET_NO_LAYER && net->layers[before].relu;
}

int plan_buffer(struct plan *plan, size_t bytes, uint32_t *buffer_out)
{
    if (plan->buffer_count == plan->buffer_room) {
        const uint32_t room = plan->buffer_room * 2 + 16;
        struct lifetime *buffers = realloc(plan->buffers, room * sizeof(*buffers));
        if (buffers == NULL)
            return -ENOMEM;
        plan->buffers = buffers;
        plan->buffer_room = room;
    }
    plan->buffers[plan->buffer_count] = (struct lifetime){ .bytes = bytes, .first = UINT32_MAX };
    *buffer_out = plan->buffer_count++;
    return 0;
}

void plan_use(struct plan *plan, uint32_t buffer, uint32_t time)
{
    struct lifetime *life = &plan->buffers[buffer];
    if (time < life->first)
        life->first = time;
    if (time > life->last)
        life->last = time;
}

void plan_use_always(struct plan *plan, uint32_t buffer)
{
    plan_use(plan, buffer, 0);
    plan_use(plan, buffer, time_data(plan, 0));
}

int plan_memory(struct plan *plan, nn_md md, struct place place, dnnl_memory_t *memory_out)
{
    if (plan->memory_count == plan->memory_room) {
        const uint32_t room = plan->memory_room * 2 + 32;
        struct plan_memory *memories = realloc(plan->memories, room * sizeof(*memories));
        if (memories == NULL)
            return -ENOMEM;
        plan->memories = memories;
        plan->memory_room = room;
    }
    struct plan_memory *memory = &plan->memories[plan->memory_count];
    memory->place = place;
    const int rc = nn_memory_create(&memory->memory, md, plan_backend(plan)->engine, DNNL_MEMORY_NONE);
    if (rc)
        return rc;
    plan->memory_count++;
    *memory_out = memory->memory;
    return 0;
}

int plan_edge_open(struct plan *plan, uint32_t edge)
{
    const size_t bytes = (size_t)plan->base.count * edge_floats(&plan->edges[edge]) * sizeof(float);
    int rc = plan_buffer(plan, bytes, &plan->edges[edge].value);
    if (rc == 0 && plan_has_gradient(plan, edge))
        rc = plan_buffer(plan, bytes, &plan->edges[edge].gradient);
    return rc;
}

void plan_edge_share(struct plan *plan, uint32_t layer)
{
    plan->edges[layer + 1].value = plan->edges[layer].value;
    plan->edges[layer + 1].gradient = plan->edges[layer].gradient;
}

/* Overflow of sizes: a plan holds a few copies of the largest edge, in bytes. */
static bool edge_fits(const struct edge *edge, uint32_t count)
{
    return edge_floats(edge) < SIZE_MAX / 64 / sizeof(float) / count;
}

static int edges_init(struct plan *plan)
{
    const struct backend *backend = plan_backend(plan);
    const struct net *net = backend->spec.net;
    for (uint32_t e = 0; e <= net->layer_count; e++) {
        plan->edges[e].shape = e ? net->layers[e - 1].out : net->input;
        plan->edges[e].block = backend->blocks[e];
        if (!edge_fits(&plan->edges[e], plan->base.count))
            return -EOVERFLOW;
    }
    int rc = plan_edge_open(plan, 0);
    if (rc == 0)
        rc = plan_buffer(plan, plan->base.count * sizeof(int32_t), &plan->labels);
    if (rc == 0)
        rc = plan_buffer(plan, 0, &plan->scratch);
    if (rc)
        return rc;
    plan_use(plan, plan->edges[0].value, time_forward(0));
    plan_use_always(plan, plan->labels);
    plan_use_always(plan, plan->scratch);
    return 0;
}

static int layers_plan(struct plan *plan)
{
    const struct net *net = plan_backend(plan)->spec.net;
    int rc = 0;
    for (uint32_t i = 0; i < net->layer_count && rc == 0; i++)
        rc = layer_table[net->layers[i].kind]->plan(plan, i);
    return rc;
}

/* The pool grows to what the largest plan needs; plans notice that it moved. */
static int pool_grow(struct backend *backend, size_t bytes, size_t *grown_out)
{
    const struct device_ops *ops = backend->spec.device->ops;
    void *pool;
    *grown_out = 0;
    if (bytes <= backend->pool_bytes)
        return 0;
    ops->free(backend->spec.device, backend->pool);
    *grown_out = bytes - backend->pool_bytes;
    backend->pool = NULL;
    backend->pool_bytes = 0;
    const int rc = ops->alloc(backend->spec.device, bytes, &pool);
    if (rc)
        return rc;
    backend->pool = pool;
    backend->pool_bytes = bytes;
    return 0;
}

static int memory_plan(struct plan *plan)
{
    const size_t bytes = lifetime_plan(plan->buffers, plan->buffer_count);
    return bytes ? pool_grow(plan_backend(plan), bytes, &plan->bytes) : -ENOMEM;
}

static int plan_alloc(struct plan **plan_out, struct backend *backend, uint32_t count, bool training)
{
    const uint32_t layer_count = backend->spec.net->layer_count;
    struct plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->base = (struct plan_base){ .backend = backend, .count = count, .training = training };
    plan->edges = calloc((size_t)layer_count + 1, sizeof(*plan->edges));
    plan->states = calloc(layer_count, sizeof(*plan->states));
    *plan_out = plan;
    return plan->edges != NULL && plan->states != NULL ? 0 : -ENOMEM;
}

int onednn_plan_open(struct backend *backend, uint32_t count, bool training, struct plan **plan_out)
{
    struct plan *plan = NULL;
    int rc = plan_alloc(&plan, backend, count, training);
    if (rc == 0)
        rc = edges_init(plan);
    if (rc == 0)
        rc = layers_plan(plan);
    if (rc == 0)
        rc = memory_plan(plan);
    if (rc) {
        if (plan != NULL)
            onednn_plan_close(plan);
        return rc;
    }
    *plan_out = plan;
    return 0;
}

void onednn_plan_close(struct plan *plan)
{
    if (plan == NULL)
        return;
    const struct net *net = plan_backend(plan)->spec.net;
    for (uint32_t i = 0; i < net->layer_count && plan->states != NULL; i++)
        if (plan->states[i] != NULL)
            layer_table[net->layers[i].kind]->release(plan, i);
    for (uint32_t i = 0; i < plan->memory_count; i++)
        dnnl_memory_destroy(plan->memories[i].memory);
    free(plan->memories);
    free(plan->buffers);
    free(plan->states);
    free(plan->edges);
    free(plan);
}

size_t onednn_plan_bytes(const struct plan *plan)
{
    return plan->bytes;
}

static void *place_find(const struct plan *plan, struct place place)
{
    const struct backend *backend = plan_backend(plan);
    if (place.kind == PLACE_BUFFER)
        return plan_data(plan, place.index);
    float *arena = place.kind == PLACE_WEIGHTS ? backend->weights : backend->gradients;
    return arena + backend->arena->ranges[place.index].offset;
}

/* Point all memories into the pool where it is now. */
static int plan_attach(struct plan *plan)
{
    const struct backend *backend = plan_backend(plan);
    for (uint32_t i = 0; i < plan->memory_count; i++) {
        const struct plan_memory *memory = &plan->memories[i];
        const int rc = NN_CHECK(dnnl_memory_set_data_handle(memory->memory, place_find(plan, memory->place)));
        if (rc)
            return rc;
    }
    plan->bound = backend->pool;
    return 0;
}

int onednn_input(struct plan *plan, const struct backend_input *input)
{
    if (plan->bound != plan_backend(plan)->pool) {
        const int rc = plan_attach(plan);
        if (rc)
            return rc;
    }
    plan->epoch = input->epoch;
    plan->first_position = input->first_position;
    memcpy(plan_data(plan, plan->labels), input->labels, plan->base.count * sizeof(int32_t));
    input_convert(plan, input->pixels);
    return 0;
}

int onednn_forward(struct plan *plan)
{
    const struct net *net = plan_backend(plan)->spec.net;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const int rc = layer_table[net->layers[i].kind]->forward(plan, i);
        if (rc)
            return rc;
    }
    return 0;
}

int onednn_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    const struct backend *backend = plan_backend(plan);
    const struct net *net = backend->spec.net;
    assert(plan->base.training);
    plan->layer_done = layer_done;
    plan->layer_done_arg = arg;
    for (uint32_t i = net->layer_count; i-- > 0 && i >= backend->first_weighted;) {
        const int rc = layer_table[net->layers[i].kind]->backward(plan, i);
        if (rc)
            return rc;
    }
    return 0;
}

int onednn_result(struct plan *plan, struct backend_result *result_out)
{
    *result_out = plan->result;
    return 0;
}

static const char *layout_name(const struct edge *edge)
{
    return edge->block == 8 ? "nChw8c" : edge->block == 16 ? "nChw16c" : edge->block == 1 ? "nchw" : "nhwc";
}

void onednn_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg)
{
    const struct net *net = plan_backend(plan)->spec.net;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *layer = &net->layers[i];
        char how[512] = "", line[768];
        if (layer->weight != NET_NO_PARAMETER)
            weighted_describe(plan, i, how, sizeof(how));
        else if (layer->folded_into != NET_NO_LAYER)
            snprintf(how, sizeof(how), "in %s", net->layers[layer->folded_into].name);
        else if (layer->kind == LAYER_DROPOUT && !plan->base.training)
            snprintf(how, sizeof(how), "none");
        else if (dropout_in_pool(plan, i))
            snprintf(how, sizeof(how), "in %s", net->layers[layer_before(net, i)].name);
        else
            snprintf(how, sizeof(how), "own loop");
        snprintf(line, sizeof(line), "%s: %s -> %s, %s", layer->name, layout_name(&plan->edges[i]),
                 layout_name(&plan->edges[i + 1]), how);
        write(arg, line);
    }
}
