/* Batch normalisation by our own kernels: alone, with an activation, or with an addition and a ReLU. Its statistics are
 * kept from forward until backward. Statistics that an earlier normalisation of the same values has computed are
 * reused: in a densely connected block only those of the new channels are computed. With spec.batch_statistics the
 * convolution before it sums what the statistics need, and in fp16 the one after it and its ReLU computes their result
 * itself, in forward and for the gradient of its weights: then only scale and shift are stored. Backward recomputes the
 * result in fp32, so that a ReLU may be open in one and closed in the other where the result is almost 0. The data
 * gradient of that convolution also masks the gradient and sums it for the gradients of gamma and beta. The ReLU's mask
 * is recomputed in backward, but after an addition forward stores it as bits, unless the gradient comes masked. The
 * derivative of another activation is recomputed once, in the pass of the sums, which multiplies the gradient of the
 * result by it in place.
 *
 * A normalisation whose result is only added to that of another one, as where the shortcut of a residual block has a
 * convolution, is computed by the kernel that adds it: its result is not stored. */
#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"

struct norm {
    uint32_t statistics;        /* buffer */
    /* Training: */
    uint32_t before;            /* an earlier normalisation of the same value or its first channels, or NET_INPUT */
    uint32_t known;             /* columns whose statistics `before` has computed */
    uint32_t line;              /* buffer: scale and shift; BUFFER_NONE: the result is stored */
    uint32_t sums;              /* buffer of a convolution that sums the columns; BUFFER_NONE: none does */
    uint32_t chunks;            /* buffer: partial statistics; BUFFER_NONE: all columns are known or summed */
    uint32_t gradient_chunks, means;    /* buffers */
    uint32_t mask;              /* buffer: the ReLU's mask after an addition; BUFFER_NONE: none */
    bool is_added;              /* the normalisation that adds its result computes it */
    uint32_t added;             /* the one whose result this one computes and adds; NET_INPUT: none */
};

static const struct layer_ops *maker_of(const struct plan *plan, uint32_t value)
{
    return cuda_layer_table[plan_layer(plan, plan->base.fusion.groups[value - 1].head)->kind];
}

/* Does cuDNN compute convolutions like this one with a scale, a shift and a ReLU before it? Only of one group, and with
 * as many zeros on both sides, because zeros that are added before the ReLU would not stay zeros. */
static bool may_apply(const struct plan *plan, uint32_t conv)
{
    const struct layer *const layer = plan_layer(plan, conv);
    return layer->kind == LAYER_CONV2D && layer->groups == 1 && !layer_has(layer, PARAMETER_BIAS) &&
           plan_group(&plan->base, conv)->tail_count == 0 && pads_evenly(layer);
}

/* The only reader of the result, if it can compute it: the input stays in memory for this, unchanged, because nobody
 * else reads it and it is not the front of a wider value. Else NET_INPUT. */
static uint32_t able_reader(const struct plan *plan, uint32_t head)
{
    const struct plan_base *const base = &plan->base;
    const uint32_t in = plan_input(base, head, 0);
    if (!base->training || in == 0 || base->fusion.readers[in] != 1 || maker_of(plan, in)->uses.grows)
        return NET_INPUT;
    return fusion_only_reader(&base->fusion, plan_output(base, head));
}

/* Is the result not stored, because a convolution computes it? */
static bool is_inside(const struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const uint32_t reader = able_reader(plan, head);
    if (backend->spec.batch_statistics != BATCH_STATISTICS_FUSED || backend->type != VALUE_FP16 ||
        (plan->stored_norms != NULL && plan->stored_norms[head]))
        return false;
    return plan_group(&plan->base, head)->tail_count == 1 && plan_has_relu(plan, head) && reader != NET_INPUT &&
           may_apply(plan, reader);
}

/* Is the result not stored, because a normalisation after which it is added computes it? */
static bool is_added(const struct plan *plan, uint32_t head)
{
    const uint32_t reader = able_reader(plan, head);
    return plan_group(&plan->base, head)->tail_count == 0 && reader != NET_INPUT &&
           plan_layer(plan, reader)->kind == LAYER_BATCH_NORM && plan_has_sum(plan, reader);
}

uint32_t cuda_norm_added(const struct plan *plan, uint32_t norm)
{
    const uint32_t value = plan_has_sum(plan, norm) ? plan_input(&plan->base, norm, 1) : 0;
    const bool is_stored = value == 0 || plan->base.values.values[value].buffer != BUFFER_NONE;
    return is_stored ? NET_INPUT : plan->base.fusion.groups[value - 1].head;
}

uint32_t cuda_norm_inside(const struct plan *plan, uint32_t conv)
{
    const uint32_t in = plan_input(&plan->base, conv, 0);
    const bool is_stored = in == 0 || plan->base.values.values[in].buffer != BUFFER_NONE;
    return is_stored ? NET_INPUT : plan->base.fusion.groups[in - 1].head;
}

uint32_t cuda_norm_line(const struct plan *plan, uint32_t norm)
{
    return ((const struct norm *)plan->base.states[norm])->line;
}

static void norm_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .out_absent = is_inside(plan, head) || is_added(plan, head),
        .in_until = PASS_INPUTS,
        .in_place = !plan->base.training,
        .gradient_in_place = true,
        .adds = true,
        .takes_masked = plan_has_sum(plan, head) && plan_has_relu(plan, head),
        .reads_fronts = !plan_has_sum(plan, head),
    };
}

static uint32_t columns_of(const struct plan *plan, uint32_t head)
{
    return value_stored(plan, plan_output(&plan->base, head));
}

/* Rounded down to groups of eight columns: the statistics of a group that contains new channels are computed again. */
static uint32_t known_of(const struct plan *plan, uint32_t head, uint32_t before)
{
    const uint32_t known = plan_layer(plan, before)->in.channels;
    return known == plan_layer(plan, head)->in.channels ? columns_of(plan, head) : known / 8 * 8;
}

static int open_mask(struct plan *plan, uint32_t head, struct norm *state)
{
    const size_t numbers = value_counts(plan, plan_output(&plan->base, head));
    return cuda_norm_has_mask(plan, head)
               ? plan_scratch(plan, head, numbers / 8, PASS_FORWARD, PASS_PARAMETERS, &state->mask) : 0;
}

uint32_t cuda_norm_source(const struct plan *plan, uint32_t norm)
{
    const struct plan_base *const base = &plan->base;
    const uint32_t value = plan_input(base, norm, 0);
    if (!base->training || base->backend->spec.batch_statistics != BATCH_STATISTICS_FUSED || value == 0 ||
        plan_norm_before(base, norm) != NET_INPUT || value_is_front(&base->values, value))
        return NET_INPUT;
    const uint32_t source = base->fusion.groups[value - 1].head;
    const struct layer *const layer = plan_layer(plan, source);
    const bool is_plain = layer->kind == LAYER_CONV2D && !layer_has(layer, PARAMETER_BIAS) &&
                          plan_group(base, source)->tail_count == 0 && pads_evenly(layer);
    return is_plain ? source : NET_INPUT;
}

/* Takes over the buffer of the convolution that sums the columns, if there is one. */
static void find_sums(struct plan *plan, uint32_t head, struct norm *state)
{
    const uint32_t source = cuda_norm_source(plan, head);
    if (source == NET_INPUT)
        return;
    state->sums = cuda_conv_sums(plan, source);
    if (state->sums != BUFFER_NONE)
        plan_use(plan, state->sums, head, PASS_FORWARD, PASS_FORWARD);
}

/* The bytes of a scale, or a shift. */
static size_t line_bytes(const struct plan *plan, uint32_t head)
{
    return columns_of(plan, head) * value_bytes(plan->base.backend->type);
}

/* Keeps what the result of the other normalisation is computed from. */
static void keep_added(struct plan *plan, uint32_t head, const struct norm *state)
{
    if (state->added == NET_INPUT)
        return;
    const uint32_t in = plan->base.values.values[plan_input(&plan->base, state->added, 0)].buffer;
    plan_use(plan, in, head, PASS_FORWARD, PASS_FORWARD);
    plan_use(plan, ((const struct norm *)plan->base.states[state->added])->statistics, head, PASS_FORWARD,
             PASS_FORWARD);
}

static int open_training(struct plan *plan, uint32_t head, struct norm *state)
{
    const size_t rows = value_rows(plan, plan_output(&plan->base, head));
    const uint32_t columns = columns_of(plan, head);
    state->before = plan_norm_before(&plan->base, head);
    state->known = state->before != NET_INPUT ? known_of(plan, head, state->before) : 0;
    const size_t fresh = kernel_norm_partials(rows, columns - state->known) * sizeof(float);
    const size_t partials = kernel_norm_partials(rows, columns) * sizeof(float), means = 2 * columns * sizeof(float);
    int rc = 0;
    state->is_added = is_added(plan, head);
    state->added = cuda_norm_added(plan, head);
    keep_added(plan, head, state);
    find_sums(plan, head, state);
    if (fresh > 0 && state->sums == BUFFER_NONE)
        rc = plan_scratch(plan, head, fresh, PASS_FORWARD, PASS_FORWARD, &state->chunks);
    if (rc == 0)
        rc = plan_scratch(plan, head, partials, PASS_PARAMETERS, PASS_PARAMETERS, &state->gradient_chunks);
    if (rc == 0)
        rc = plan_scratch(plan, head, means, PASS_PARAMETERS, PASS_INPUTS, &state->means);
    if (rc == 0 && is_inside(plan, head))
        rc = plan_scratch(plan, head, 2 * line_bytes(plan, head), PASS_FORWARD, PASS_FORWARD, &state->line);
    return rc == 0 ? open_mask(plan, head, state) : rc;
}

static int norm_plan(struct plan *plan, uint32_t head)
{
    const size_t rows = plan->base.training ? 3 : 2, statistics = rows * columns_of(plan, head) * sizeof(float);
    const enum pass until = plan->base.training ? PASS_INPUTS : PASS_FORWARD;
    struct norm *const state = plan->base.states[head];
    *state = (struct norm){ .before = NET_INPUT, .line = BUFFER_NONE, .sums = BUFFER_NONE, .chunks = BUFFER_NONE,
                            .mask = BUFFER_NONE, .added = NET_INPUT };
    const int rc = plan_scratch(plan, head, statistics, PASS_FORWARD, until, &state->statistics);
    return rc == 0 && plan->base.training ? open_training(plan, head, state) : rc;
}

static struct normalisation normalisation_of(const struct plan *plan, uint32_t head)
{
    const struct norm *const state = plan->base.states[head];
    struct normalisation norm = {
        .rows = value_rows(plan, plan_output(&plan->base, head)),
        .columns = columns_of(plan, head),
        .stride = value_stride(plan, plan_input(&plan->base, head, 0)),
        .gamma = parameter_weights(plan, head, PARAMETER_GAMMA),
        .beta = parameter_weights(plan, head, PARAMETER_BETA),
        .statistics = plan_data(plan, state->statistics),
    };
    if (fusion_has(&plan->base.fusion, head, LAYER_ACTIVATION))
        norm.curve = cuda_curve_of(plan, plan_output(&plan->base, head) - 1);
    if (state->before != NET_INPUT) {
        const struct norm *const before = plan->base.states[state->before];
        norm.known.columns = state->known;
        norm.known.means = plan_data(plan, before->statistics);
        norm.known.squares = norm.known.means + 2 * columns_of(plan, state->before);
    }
    return norm;
}

static int find_statistics(struct plan *plan, uint32_t head, const struct normalisation *norm)
{
    const struct backend *const backend = plan->base.backend;
    const struct norm *const state = plan->base.states[head];
    const struct layer *const layer = plan_layer(plan, head);
    float *const mean = parameter_statistic(plan, head, PARAMETER_RUNNING_MEAN);
    float *const variance = parameter_statistic(plan, head, PARAMETER_RUNNING_VARIANCE);
    if (!plan->base.training)
        return CUDA_CALL(backend->name, kernel_norm_running(backend->stream, norm, layer->epsilon, mean, variance));
    if (state->sums != BUFFER_NONE)
        return CUDA_CALL(backend->name, kernel_norm_from_sums(backend->stream, norm, layer->epsilon, layer->decay,
                                                              plan_data(plan, state->sums), mean, variance));
    return LAYER_KERNEL(plan, kernel_norm_statistics, norm, layer->epsilon, layer->decay, in_value(plan, head, 0),
                        plan_data(plan, state->chunks), mean, variance);
}

/* The sum of this normalisation and the other one. */
static int apply_both(struct plan *plan, uint32_t head, const struct normalisation *norm)
{
    const struct norm *const state = plan->base.states[head];
    const struct normalisation other = normalisation_of(plan, state->added);
    return LAYER_KERNEL(plan, kernel_norm_apply_both, norm, in_value(plan, head, 0), &other,
                        in_value(plan, state->added, 0), plan_has_relu(plan, head), out_value(plan, head),
                        plan_data(plan, state->mask));
}

static int norm_forward(struct plan *plan, uint32_t head)
{
    const struct norm *const state = plan->base.states[head];
    const struct normalisation norm = normalisation_of(plan, head);
    const void *const shortcut = plan_has_sum(plan, head) ? in_value(plan, head, 1) : NULL;
    const int rc = find_statistics(plan, head, &norm);
    char *const line = plan_data(plan, state->line);
    if (rc != 0 || state->is_added)
        return rc;
    if (state->added != NET_INPUT)
        return apply_both(plan, head, &norm);
    if (line != NULL)
        return LAYER_KERNEL(plan, kernel_norm_line, &norm, line, line + line_bytes(plan, head));
    return LAYER_KERNEL(plan, kernel_norm_apply, &norm, in_value(plan, head, 0), shortcut, plan_has_relu(plan, head),
                        out_value(plan, head), plan_data(plan, state->mask));
}

/* The buffer of the sums that the data gradient of the convolution after it has computed from the masked gradient. */
static uint32_t given_sums(const struct plan *plan, uint32_t head)
{
    const struct norm *const state = plan->base.states[head];
    if (state->line == BUFFER_NONE)
        return BUFFER_NONE;
    return cuda_conv_norm_sums(plan, fusion_only_reader(&plan->base.fusion, plan_output(&plan->base, head)));
}

void cuda_norm_operands(const struct plan *plan, uint32_t head, struct conv_operands *operands)
{
    const struct normalisation norm = normalisation_of(plan, head);
    operands->values = in_value(plan, head, 0);
    operands->statistics = norm.statistics;
    operands->gamma = norm.gamma;
    operands->beta = norm.beta;
}

static int norm_backward_parameters(struct plan *plan, uint32_t head)
{
    const struct norm *const state = plan->base.states[head];
    const struct normalisation norm = normalisation_of(plan, head);
    const bool masks = plan_has_relu(plan, head) && !plan_output_is_masked(&plan->base, head);
    const struct backend *const backend = plan->base.backend;
    const uint32_t sums = given_sums(plan, head);
    if (sums != BUFFER_NONE)
        return CUDA_CALL(backend->name, kernel_norm_means(backend->stream, &norm, plan_data(plan, sums),
                                                          plan_data(plan, state->means),
                                                          parameter_gradient(plan, head, PARAMETER_GAMMA),
                                                          parameter_gradient(plan, head, PARAMETER_BETA)));
    return LAYER_KERNEL(plan, kernel_norm_sums, &norm, in_value(plan, head, 0), masks,
                        plan_data(plan, state->mask), out_gradient(plan, head),
                        plan_data(plan, state->gradient_chunks), plan_data(plan, state->means),
                        parameter_gradient(plan, head, PARAMETER_GAMMA),
                        parameter_gradient(plan, head, PARAMETER_BETA));
}

/* After an addition the gradient is masked already, and the gradient of the other input is equal to it. Where a
 * convolution has summed the gradient, it is masked, too. */
static int norm_backward_inputs(struct plan *plan, uint32_t head)
{
    const struct norm *const state = plan->base.states[head];
    const struct normalisation norm = normalisation_of(plan, head);
    const bool is_masked = plan_has_sum(plan, head);
    void *const to = in_gradient(plan, head, 0);
    int rc = 0;
    if (to != NULL)
        rc = LAYER_KERNEL(plan, kernel_norm_gradient, &norm, in_value(plan, head, 0),
                          plan_has_relu(plan, head) && !is_masked && given_sums(plan, head) == BUFFER_NONE,
                          out_gradient(plan, head),
                          plan_data(plan, state->means), to, plan_flow(&plan->base, head, 0)->adds);
    return rc == 0 && is_masked ? cuda_flow_pass(plan, head, 1, out_gradient(plan, head)) : rc;
}

const struct layer_ops cuda_batch_norm_ops = {
    .use = norm_use,
    .state_bytes = sizeof(struct norm),
    .plan = norm_plan,
    .forward = norm_forward,
    .backward_parameters = norm_backward_parameters,
    .backward_inputs = norm_backward_inputs,
};
