/* The layer table of the CUDA backend, and the layers that are kernels of our own.
 *
 * ReLU and dropout work in place, on values forward and on gradients backward. That is right
 * behind every layer, as none needs its own output in backward but for one question: is the
 * output of a layer that ends in a ReLU above 0? A ReLU behind leaves the answer as it is.
 * Dropout turns values into 0 only where the gradient it passes back is 0, too, and scales the
 * others by a positive factor. The image is written anew before every forward pass. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"
#include "stage/log.h"

/* ---- relu: nothing to do where the layer before does it ---- */

static bool is_folded(const struct plan *plan, uint32_t layer)
{
    return plan_layer(plan, layer)->folded_into != NET_NO_LAYER;
}

static size_t all_count(const struct plan *plan, uint32_t edge)
{
    return plan->base.count * edge_count(&plan->edges[edge]);
}

/* Its own pass over the edge's values and gradients. */
static void use_in_place(struct plan *plan, uint32_t layer)
{
    cuda_plan_use(plan, plan->edges[layer].value, time_forward(layer));
    if (edge_has_gradient(plan, layer))
        cuda_plan_use(plan, plan->edges[layer].gradient, time_data(plan, layer));
}

static int relu_plan(struct plan *plan, uint32_t layer)
{
    cuda_edge_share(plan, layer);
    if (is_folded(plan, layer))
        return 0;
    use_in_place(plan, layer);
    if (edge_has_gradient(plan, layer))
        cuda_plan_use(plan, plan->edges[layer].value, time_data(plan, layer));
    return 0;
}

static int relu_forward(struct plan *plan, uint32_t layer)
{
    const struct backend *const backend = plan->base.backend;
    void *const values = edge_value(plan, layer);
    if (is_folded(plan, layer))
        return 0;
    return CUDA_CALL(backend->name,
                     kernel_relu(backend->stream, backend->type, all_count(plan, layer), values, values));
}

static int relu_backward(struct plan *plan, uint32_t layer)
{
    const struct backend *const backend = plan->base.backend;
    if (is_folded(plan, layer))
        return 0;
    return CUDA_CALL(backend->name, kernel_relu_backward(backend->stream, backend->type, all_count(plan, layer),
                                                         edge_value(plan, layer), edge_gradient(plan, layer)));
}

static void state_release(struct plan *plan, uint32_t layer)
{
    free(plan->states[layer]);
}

/* ---- max_pool ---- */

struct max_pool {
    struct pool_shape shape;
    uint32_t winners;           /* buffer; NO_BUFFER: not wanted */
};

static struct pool_shape pool_shape_of(const struct plan *plan, uint32_t index)
{
    const struct layer *const layer = plan_layer(plan, index);
    return (struct pool_shape){
        .count = plan->base.count, .stored = plan->edges[index].stored,
        .in_h = layer->in.height, .in_w = layer->in.width, .out_h = layer->out.height, .out_w = layer->out.width,
        .kernel_h = layer->kernel_h, .kernel_w = layer->kernel_w,
        .stride_h = layer->stride_h, .stride_w = layer->stride_w,
        .pad_top = layer->pad_top, .pad_left = layer->pad_left,
    };
}

static int refuse_window(const struct plan *plan, const struct layer *layer)
{
    log_message(LOG_ERROR, "%s: layer %s: a %ux%u window has more than %u pixels", plan->base.backend->name,
                layer->name, layer->kernel_h, layer->kernel_w, POOL_WINDOW_MAX);
    return -ENOTSUP;
}

/* A winner's place in its window is a byte. */
static int open_winners(struct plan *plan, uint32_t index, uint32_t *winners_out)
{
    const int rc = cuda_plan_buffer(plan, all_count(plan, index + 1), winners_out);
    if (rc != 0)
        return rc;
    cuda_plan_use(plan, *winners_out, time_forward(index));
    cuda_plan_use(plan, *winners_out, time_data(plan, index));
    cuda_plan_use(plan, plan->edges[index].gradient, time_data(plan, index));
    cuda_plan_use(plan, plan->edges[index + 1].gradient, time_data(plan, index));
    return 0;
}

static int max_pool_plan(struct plan *plan, uint32_t index)
{
    const struct layer *const layer = plan_layer(plan, index);
    if ((uint64_t)layer->kernel_h * layer->kernel_w > POOL_WINDOW_MAX)
        return refuse_window(plan, layer);
    struct max_pool *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[index] = state;
    *state = (struct max_pool){ .shape = pool_shape_of(plan, index), .winners = NO_BUFFER };
    const int rc = cuda_edge_open(plan, index + 1);
    if (rc != 0)
        return rc;
    cuda_plan_use(plan, plan->edges[index].value, time_forward(index));
    cuda_plan_use(plan, plan->edges[index + 1].value, time_forward(index));
    return edge_has_gradient(plan, index) ? open_winners(plan, index, &state->winners) : 0;
}

static int max_pool_forward(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct max_pool *const state = plan->states[index];
    uint8_t *const winners = state->winners != NO_BUFFER ? cuda_plan_data(plan, state->winners) : NULL;
    return CUDA_CALL(backend->name, kernel_max_pool(backend->stream, backend->type, &state->shape,
                                                    edge_value(plan, index), edge_value(plan, index + 1), winners));
}

static int max_pool_backward(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct max_pool *const state = plan->states[index];
    return CUDA_CALL(backend->name,
                     kernel_max_pool_backward(backend->stream, backend->type, &state->shape,
                                              edge_gradient(plan, index + 1), cuda_plan_data(plan, state->winners),
                                              edge_gradient(plan, index)));
}

/* ---- dropout: in training only ---- */

struct dropping {
    struct image_shape shape;
    struct dropout dropout;
};

static int dropout_plan(struct plan *plan, uint32_t index)
{
    const struct edge *const edge = &plan->edges[index];
    cuda_edge_share(plan, index);
    if (!plan->base.training)
        return 0;
    use_in_place(plan, index);
    struct dropping *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[index] = state;
    state->shape = (struct image_shape){
        .count = plan->base.count, .pixels = (uint32_t)edge_pixels(edge), .channels = edge->shape.channels,
        .stored = edge->stored,
    };
    dropout_init(&state->dropout, plan->base.backend->spec.seed, index, plan_layer(plan, index)->rate);
    return 0;
}

static int drop(struct plan *plan, uint32_t index, void *in_out)
{
    const struct backend *const backend = plan->base.backend;
    const struct dropping *const state = plan->states[index];
    return CUDA_CALL(backend->name, kernel_dropout(backend->stream, backend->type, &state->shape, &state->dropout,
                                                   cuda_plan_data(plan, plan->values), in_out));
}

static int dropout_forward(struct plan *plan, uint32_t index)
{
    return plan->base.training ? drop(plan, index, edge_value(plan, index)) : 0;
}

static int dropout_backward(struct plan *plan, uint32_t index)
{
    return drop(plan, index, edge_gradient(plan, index));
}

/* ---- softmax_loss: forward leaves the logits' gradient ---- */

struct loss { uint32_t samples; };      /* buffer */

static int loss_plan(struct plan *plan, uint32_t index)
{
    struct loss *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[index] = state;
    const int rc = cuda_plan_buffer(plan, plan->base.count * sizeof(struct sample_loss), &state->samples);
    if (rc != 0)
        return rc;
    const uint32_t used[] = { state->samples, plan->labels, plan->edges[index].value };
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++)
        cuda_plan_use(plan, used[i], time_forward(index));
    if (edge_has_gradient(plan, index))
        cuda_plan_use(plan, plan->edges[index].gradient, time_forward(index));
    return 0;
}

static int loss_forward(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct loss *const state = plan->states[index];
    void *const gradient = edge_has_gradient(plan, index) ? edge_gradient(plan, index) : NULL;
    return CUDA_CALL(backend->name,
                     kernel_softmax_loss(backend->stream, backend->type, plan->base.count, plan_net(plan)->classes,
                                         plan->edges[index].stored, edge_value(plan, index),
                                         cuda_plan_data(plan, plan->labels), backend->scale, gradient,
                                         cuda_plan_data(plan, state->samples), cuda_plan_data(plan, plan->result)));
}

static int loss_backward(struct plan *plan, uint32_t index)
{
    (void)plan;
    (void)index;
    return 0;
}

/* ---- all ---- */

static const struct layer_ops relu_ops = { relu_plan, relu_forward, relu_backward, state_release };
static const struct layer_ops max_pool_ops = { max_pool_plan, max_pool_forward, max_pool_backward, state_release };
static const struct layer_ops dropout_ops = { dropout_plan, dropout_forward, dropout_backward, state_release };
static const struct layer_ops loss_ops = { loss_plan, loss_forward, loss_backward, state_release };

const struct layer_ops *const cuda_layer_table[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = &cuda_conv2d_ops,
    [LAYER_DENSE] = &cuda_dense_ops,
    [LAYER_RELU] = &relu_ops,
    [LAYER_MAX_POOL] = &max_pool_ops,
    [LAYER_DROPOUT] = &dropout_ops,
    [LAYER_SOFTMAX_LOSS] = &loss_ops,
};

void cuda_layer_describe(const struct plan *plan, uint32_t index, char *text, size_t text_size)
{
    const struct layer *const layer = plan_layer(plan, index);
    char how[640] = "own kernel";
    if (layer->kind == LAYER_CONV2D)
        cuda_conv2d_describe(plan, index, how, sizeof(how));
    else if (layer->kind == LAYER_DENSE)
        cuda_dense_describe(plan, index, how, sizeof(how));
    else if (layer->folded_into != NET_NO_LAYER)
        snprintf(how, sizeof(how), "in %s", plan_layer(plan, layer->folded_into)->name);
    else if (layer->kind == LAYER_DROPOUT && !plan->base.training)
        snprintf(how, sizeof(how), "none");
    snprintf(text, text_size, "%s: %s", layer->name, how);
}
