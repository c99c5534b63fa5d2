/* What runs for some samples at a time: convolutions by Winograd's algorithm, where its scratch memory has no room for
 * all, and normalised values that are made in slices. A normalisation and the convolution behind it both wait for
 * memory where what passes between them does not fit into a cache: it is written, read, and read again for the gradient
 * of the weights, and its gradient is written and read. A few samples at a time it stays in the cache, and what
 * backward needs of it is normalised again from the values, which it reads anyway. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdlib.h>

#include "compute/team.h"
#include "compute/vector.h"

#define CACHED 4u               /* slices: values of no more bytes may be in a cache as a whole, and are made at once */
#define WEIGHT_BYTES ((size_t)512 << 10)        /* larger weights are not to be read again for each slice, */
#define WEIGHT_SHARE 4u         /* unless a slice is so many times as large as they are */
#define WINOGRAD_BLOCK 16u      /* channels, at most, of the blocks it reads */

static bool is_plain_norm(const struct plan *plan, uint32_t value)
{
    const uint32_t head = value != 0 ? plan_group(&plan->base, value - 1)->head : FUSION_LEFT_OUT;
    return head != FUSION_LEFT_OUT && plan_layer(plan, head)->kind == LAYER_BATCH_NORM &&
           !fusion_has(&plan->base.fusion, head, LAYER_ADD);
}

/* Is nothing computed between the two? What is normalised is then what it was. */
static bool is_next(const struct plan *plan, uint32_t reader, uint32_t value)
{
    for (uint32_t i = plan_group(&plan->base, value - 1)->head + 1; i < reader; i++)
        if (fusion_is_head(&plan->base.fusion, i))
            return false;
    return true;
}

/* Winograd's algorithm would bring all weights to where it multiplies for each slice again. It reads blocks only. */
static bool has_winograd(const struct plan *plan, uint32_t reader)
{
    const struct tensor_layout *const in = in_tensor(plan, reader, 0);
    const bool is_in_blocks = !in->is_nhwc && in->block <= WINOGRAD_BLOCK;
    return is_in_blocks && winograd_room(plan_backend(plan), plan_layer(plan, reader), plan->base.count, NULL) != 0;
}

static bool suits(const struct plan *plan, uint32_t reader, uint32_t value)
{
    return plan_layer(plan, reader)->kind == LAYER_CONV2D && plan_input(&plan->base, reader, 0) == value &&
           is_next(plan, reader, value) && !has_winograd(plan, reader) &&
           !first_conv_fits(plan_layer(plan, reader), in_tensor(plan, reader, 0), out_tensor(plan, reader));
}

static bool are_weights_small(const struct plan *plan, uint32_t reader, size_t slice_bytes)
{
    const struct layer *const layer = plan_layer(plan, reader);
    const size_t weights = (size_t)layer->in.channels * layer->out.channels * layer->kernel_h * layer->kernel_w;
    return weights * sizeof(float) <= WEIGHT_BYTES || weights * sizeof(float) <= slice_bytes / WEIGHT_SHARE;
}

uint32_t value_slice(const struct plan *plan, uint32_t value)
{
    const uint32_t reader = is_plain_norm(plan, value) ? fusion_only_reader(&plan->base.fusion, value) : NET_INPUT;
    const uint32_t threads = plan_backend(plan)->spec.threads;
    const size_t bytes = tensor_count(&plan->tensors[value]) * value_size(plan_type(plan));
    const size_t together = plan_backend(plan)->slice_bytes;
    if (reader == NET_INPUT || plan->base.count * bytes <= together * CACHED || !suits(plan, reader, value))
        return 0;
    const size_t fitting = together / bytes / threads * threads, slice = fitting > threads ? fitting : threads;
    const bool is_worth_it = slice * 2 <= plan->base.count && are_weights_small(plan, reader, slice * bytes);
    return is_worth_it ? (uint32_t)slice : 0;
}

/* ---- parts ---- */

static const struct value *read_value(const struct plan *plan, uint32_t head)
{
    return &plan->base.values.values[plan_input(&plan->base, head, 0)];
}

static int backward_buffer(struct plan *plan, uint32_t head, size_t bytes, uint32_t *buffer_out)
{
    const int rc = plan_buffer(plan, bytes, buffer_out);
    if (rc == 0)
        plan_use(plan, *buffer_out, head, PHASE_PARAMETERS, PHASE_PARAMETERS);
    return rc;
}

static int open_buffers(struct plan *plan, uint32_t head, struct parts *parts)
{
    nn_md weights = plan_stored(plan, head, PARAMETER_WEIGHT), bias = plan_stored(plan, head, PARAMETER_BIAS);
    int rc = backward_buffer(plan, head, read_value(plan, head)->bytes, &parts->again);
    if (rc == 0)
        rc = backward_buffer(plan, head, nn_md_bytes(weights), &parts->more_weights);
    return rc == 0 && bias != NULL ? backward_buffer(plan, head, nn_md_bytes(bias), &parts->more_bias) : rc;
}

/* Samples that a layer with weights takes at a time, where nobody makes its input in slices. */
static uint32_t samples_together(const struct plan *plan, uint32_t head)
{
    const uint32_t count = plan->base.count;
    const uint32_t samples = winograd_samples(plan_backend(plan), plan_layer(plan, head), in_tensor(plan, head, 0),
                                              out_tensor(plan, head), count, plan_has_inputs(&plan->base, head));
    return samples != 0 ? samples : count;
}

int parts_open(struct plan *plan, uint32_t head, struct parts *parts)
{
    const uint32_t value = plan_input(&plan->base, head, 0), slice = value_slice(plan, value);
    const uint32_t count = plan->base.count, each = slice != 0 ? slice : samples_together(plan, head);
    *parts = (struct parts){ .count = (count + each - 1) / each,
                             .source = slice != 0 ? plan_group(&plan->base, value - 1)->head : NET_INPUT };
    parts->parts = calloc(parts->count, sizeof(*parts->parts));
    if (parts->parts == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < parts->count; i++) {
        const uint32_t first = i * each, left = count - first;
        parts->parts[i].slice = (struct slice){ first, left < each ? left : each };
    }
    return slice != 0 && value_plan_needs_grad(&plan->base.values, head) ? open_buffers(plan, head, parts) : 0;
}

void parts_close(struct parts *parts)
{
    for (uint32_t i = 0; parts->parts != NULL && i < parts->count; i++) {
        call_close(&parts->parts[i].data);
        call_close(&parts->parts[i].weights);
        call_close(&parts->parts[i].forward);
    }
    free(parts->parts);
}

int parts_forward(const struct plan *plan, uint32_t head, const struct parts *parts)
{
    int rc = 0;
    for (uint32_t i = 0; i < parts->count && rc == 0; i++) {
        if (parts_are_slices(parts))
            norm_forward_slice(plan, parts->source, parts->parts[i].slice,
                               plan_data(plan, read_value(plan, head)->buffer));
        rc = call_run(plan, &parts->parts[i].forward);
    }
    return rc;
}

struct adding { float *to; const float *more; };

VECTOR_LOOPS
static void add_floats(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct adding *const work = arg;
    float *const to = work->to;
    const float *const more = work->more;
    (void)member;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++)
        to[i] += more[i];
}

static void add_gradients(const struct plan *plan, uint32_t head, enum parameter_kind kind, uint32_t more)
{
    const size_t count = nn_md_bytes(plan_stored(plan, head, kind)) / sizeof(float);
    struct adding work = { plan_weight_gradients(plan, head, kind), plan_data(plan, more) };
    team_run(plan_backend(plan)->spec.threads, count, LANES, add_floats, &work);
}

static int backward_weights(const struct plan *plan, uint32_t head, const struct parts *parts,
                            const struct part *part)
{
    if (parts_are_slices(parts))
        norm_forward_slice(plan, parts->source, part->slice, plan_data(plan, parts->again));
    const int rc = call_run(plan, &part->weights);
    if (rc != 0 || part->slice.first == 0)
        return rc;
    add_gradients(plan, head, PARAMETER_WEIGHT, parts->more_weights);
    if (layer_has(plan_layer(plan, head), PARAMETER_BIAS))
        add_gradients(plan, head, PARAMETER_BIAS, parts->more_bias);
    return 0;
}

int parts_backward_weights(const struct plan *plan, uint32_t head, const struct parts *parts)
{
    const uint32_t count = parts_are_slices(parts) ? parts->count : 1;
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = backward_weights(plan, head, parts, &parts->parts[i]);
    return rc;
}

int parts_backward_data(const struct plan *plan, uint32_t head, const struct parts *parts)
{
    int rc = 0;
    for (uint32_t i = 0; i < parts->count && rc == 0; i++) {
        rc = call_run(plan, &parts->parts[i].data);
        if (rc == 0 && parts_are_slices(parts))
            norm_backward_slice(plan, parts->source, parts->parts[i].slice,
                                plan_data(plan, plan_flow(&plan->base, head, 0)->buffer));
    }
    return rc;
}
