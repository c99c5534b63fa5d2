/* What batch normalisation needs: how it uses values, its buffers, and which normalisation of the same values is
 * before it. Called when a plan is made. */
#include "compute/onednn/onednn_norm.h"

#include <errno.h>
#include <stdlib.h>

#define VECTOR 16u              /* channels */

static struct norm_plane plane_of_tensor(const struct plan *plan, const struct tensor_layout *in)
{
    return (struct norm_plane){ .type = plan_type(plan), .pixels = tensor_pixels(in), .block = in->block,
                                .stride = tensor_step(in) };
}

/* Does backward ask which results are above 0, and not the line of the values alone? */
static bool is_masked(const struct plan *plan, uint32_t layer)
{
    const struct fusion *const fusion = &plan->base.fusion;
    return plan->base.training && fusion_has(fusion, layer, LAYER_ADD) && fusion_has(fusion, layer, LAYER_RELU);
}

/* Is that kept as bits, a word for 32 pixels of a channel? They are of the values that are normalised: where a pixel is
 * all there is, the results may lie in other blocks. */
static bool is_noted(const struct plan *plan, uint32_t layer)
{
    return is_masked(plan, layer) && norm_has_bits(plane_of_tensor(plan, in_tensor(plan, layer, 0)));
}

void norm_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .in_until = PHASE_INPUTS,
        .out_until = is_masked(plan, layer) && !is_noted(plan, layer) ? PHASE_PARAMETERS : PHASE_FORWARD,
        .out_sign = true,
        .in_place = !plan->base.training,
        .gradient_in_place = true,
        .adds = true,
        .reads_fronts = !fusion_has(&plan->base.fusion, layer, LAYER_ADD),
    };
}

static int open_norm_buffers(struct plan *plan, uint32_t layer, struct norm *norm)
{
    const size_t threads = plan_backend(plan)->spec.threads;
    int rc = plan_buffer(plan, threads * norm->channels * sizeof(struct channel_sums), &norm->sums);
    if (rc == 0)
        rc = plan_buffer(plan, threads * 2 * norm->plane.block * sizeof(float), &norm->scratch);
    if (rc == 0)
        rc = plan_buffer(plan, COEFFICIENTS * norm->channels * sizeof(float), &norm->lines);
    if (rc != 0)
        return rc;
    const uint32_t passing[] = { norm->sums, norm->scratch };
    for (int i = 0; i < 2; i++)
        plan_use(plan, passing[i], layer, PHASE_FORWARD, plan->base.training ? PHASE_PARAMETERS : PHASE_FORWARD);
    plan_use(plan, norm->lines, layer, PHASE_FORWARD, PHASE_FORWARD);
    if (plan->base.training)
        plan_use(plan, norm->lines, layer, PHASE_FORWARD, PHASE_INPUTS);
    return 0;
}

static int open_passed(struct plan *plan, uint32_t layer, struct norm *norm)
{
    if (!is_noted(plan, layer))
        return 0;
    const size_t words = plan->base.count * norm->blocks * norm_bit_words(norm->plane);
    const int rc = plan_buffer(plan, words * sizeof(uint32_t), &norm->passed);
    if (rc == 0)
        plan_use(plan, norm->passed, layer, PHASE_FORWARD, PHASE_PARAMETERS);
    return rc;
}

/* Vectors are filled with channels that are measured again. */
static size_t known_of(const struct norm *norm, const struct norm *before)
{
    const size_t known = before->layer->out.channels, all = norm->layer->out.channels;
    const size_t more = (all - known + VECTOR - 1) / VECTOR * VECTOR;
    return known == all || more > all ? known : all - more;
}

/* What is owed passes from this one backward to the others, and the gradient is begun with the sums. */
static void use_owed(struct plan *plan, uint32_t layer, struct norm *norm, uint32_t owed)
{
    norm->owed = owed;
    plan_use(plan, owed, layer, PHASE_PARAMETERS, PHASE_INPUTS);
    plan_use(plan, plan_flow(&plan->base, layer, 0)->buffer, layer, PHASE_PARAMETERS, PHASE_INPUTS);
}

static bool may_owe(const struct plan *plan, uint32_t layer)
{
    const struct norm *const norm = plan->states[layer];
    return !norm->adds_skip && plan_flow(&plan->base, layer, 0)->buffer != BUFFER_NONE;
}

/* For all channels of the widest of the values. */
static int open_owed_buffer(struct plan *plan, uint32_t layer, uint32_t *owed_out)
{
    const struct norm *const norm = plan->states[layer];
    const struct tensor_layout *const in = in_tensor(plan, layer, 0);
    const size_t channels = in->width != 0 ? in->width : norm->channels;
    return plan_buffer(plan, channels * sizeof(struct norm_owed), owed_out);
}

/* Two that go backward over the same values owe them together. */
static int open_owed(struct plan *plan, uint32_t layer, uint32_t head_before)
{
    struct norm *const norm = plan->states[layer], *const before = plan->states[head_before];
    uint32_t owed = before->owed;
    if (!may_owe(plan, layer) || !may_owe(plan, head_before))
        return 0;
    const int rc = owed != BUFFER_NONE ? 0 : open_owed_buffer(plan, layer, &owed);
    if (rc != 0)
        return rc;
    use_owed(plan, head_before, before, owed);
    use_owed(plan, layer, norm, owed);
    before->is_last = false;
    norm->is_last = true;
    return 0;
}

/* What it has measured is kept until then. */
static int open_before(struct plan *plan, uint32_t layer, struct norm *norm)
{
    const uint32_t head = plan->base.training ? plan_norm_before(&plan->base, layer) : NET_INPUT;
    if (head == NET_INPUT)
        return 0;
    struct norm *const before = norm->before = plan->states[head];
    norm->known = known_of(norm, before);
    const int rc = before->moments != BUFFER_NONE ? 0
                   : plan_buffer(plan, before->channels * sizeof(struct channel_sums), &before->moments);
    if (rc != 0)
        return rc;
    plan_use(plan, before->moments, head, PHASE_FORWARD, PHASE_FORWARD);
    plan_use(plan, before->moments, layer, PHASE_FORWARD, PHASE_FORWARD);
    return open_owed(plan, layer, head);
}

/* What is normalised where the result is read, and again where that goes backward, is there then: also where nothing
 * in front of it learns. */
static void use_later(struct plan *plan, uint32_t layer, const struct norm *norm)
{
    const struct value_plan *const values = &plan->base.values;
    const uint32_t reader = fusion_only_reader(&plan->base.fusion, plan_output(&plan->base, layer));
    const enum value_phase last = value_plan_needs_grad(values, reader) ? PHASE_PARAMETERS : PHASE_FORWARD;
    plan_use(plan, norm->lines, reader, PHASE_FORWARD, last);
    plan_use(plan, values->values[plan_input(&plan->base, layer, 0)].buffer, reader, PHASE_FORWARD, last);
    if (plan->base.training && may_owe(plan, layer))
        plan_use(plan, plan_flow(&plan->base, layer, 0)->buffer, reader, PHASE_INPUTS, PHASE_INPUTS);
}

/* In slices what is given back at once is given while the one that reads the result goes backward. */
static int open_slices(struct plan *plan, uint32_t layer, struct norm *norm)
{
    norm->slice = value_slice(plan, plan_output(&plan->base, layer));
    if (norm->slice == 0)
        return 0;
    use_later(plan, layer, norm);
    if (norm->owed != BUFFER_NONE || !plan->base.training || !may_owe(plan, layer))
        return 0;
    uint32_t owed;
    const int rc = open_owed_buffer(plan, layer, &owed);
    if (rc != 0)
        return rc;
    use_owed(plan, layer, norm, owed);
    norm->is_last = true;
    return 0;
}

int norm_plan(struct plan *plan, uint32_t layer)
{
    const struct tensor_layout *const in = in_tensor(plan, layer, 0);
    struct norm *const norm = calloc(1, sizeof(*norm));
    if (norm == NULL)
        return -ENOMEM;
    plan->states[layer] = norm;
    *norm = (struct norm){
        .layer = plan_layer(plan, layer),
        .blocks = tensor_blocks(in),
        .plane = plane_of_tensor(plan, in),
        .adds_skip = fusion_has(&plan->base.fusion, layer, LAYER_ADD),
        .relu = fusion_has(&plan->base.fusion, layer, LAYER_RELU),
        .channels = tensor_blocks(in) * in->block,
        .moments = BUFFER_NONE,
        .owed = BUFFER_NONE,
        .passed = BUFFER_NONE,
    };
    int rc = open_norm_buffers(plan, layer, norm);
    if (rc == 0)
        rc = open_passed(plan, layer, norm);
    if (rc == 0)
        rc = open_before(plan, layer, norm);
    return rc == 0 ? open_slices(plan, layer, norm) : rc;
}

void norm_release(struct plan *plan, uint32_t layer)
{
    free(plan->states[layer]);
}
