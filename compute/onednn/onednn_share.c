/* The layers that only shares of a net have (compute/share.h): memory outside of the plan, whose numbers are fp32
 * whatever the type of values, and the loss of a part of the classes. The tower's threads share the samples; each is
 * computed by one thread in an order of its own, so the number of threads changes no bits. */
#include "compute/onednn/onednn_plan.h"

#include <math.h>
#include <string.h>

#include "compute/onednn/onednn_activation_lanes.h"
#include "compute/part_loss.h"

static const struct outside *outside_of(const struct plan *plan)
{
    return &plan->base.outside;
}

static void copy_to_floats(enum value_type type, const void *values, float *floats, size_t count)
{
    if (type == VALUE_BF16)
        floats_from_bf16(values, floats, count);
    else
        memcpy(floats, values, count * sizeof(*floats));
}

static void copy_to_values(enum value_type type, const float *floats, void *values, size_t count)
{
    if (type == VALUE_BF16)
        floats_to_bf16(floats, values, count);
    else
        memcpy(values, floats, count * sizeof(*floats));
}

/* ---- send: outside, the numbers of a sample are in C,H,W order ---- */

struct send_work {
    const struct tensor_layout *tensor;
    void *values;               /* the layer's input, or its gradient */
    float *sent;
};

/* Are the numbers of a sample in C,H,W order, without padding between them? */
static bool is_plain(const struct tensor_layout *tensor)
{
    return tensor_pixels(tensor) == 1 || tensor->block == 1;
}

static void send_sample(const struct tensor_layout *tensor, const void *values, float *sent)
{
    const size_t pixels = tensor_pixels(tensor);
    if (is_plain(tensor)) {
        copy_to_floats(tensor->type, values, sent, shape_count(tensor->shape));
        return;
    }
    for (size_t c = 0; c < tensor->shape.channels; c++)
        for (size_t p = 0; p < pixels; p++)
            *sent++ = value_read(tensor->type, values, tensor_at(tensor, c, p));
}

static void send_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct send_work *const work = arg;
    (void)member;
    for (size_t n = first; n < end; n++)
        send_sample(work->tensor, value_at(work->tensor->type, work->values, n * tensor_count(work->tensor)),
                    work->sent + n * shape_count(work->tensor->shape));
}

static int send_forward(struct plan *plan, uint32_t layer)
{
    const struct outside *const outside = outside_of(plan);
    struct send_work work = { in_tensor(plan, layer, 0), in_value(plan, layer, 0), outside->sent };
    plan_run(plan, plan->base.count, 1, send_samples, &work);
    if (outside->labels != NULL)
        memcpy(outside->labels, plan_data(plan, plan->labels), plan->base.count * sizeof(*outside->labels));
    return 0;
}

static void take_sample(const struct tensor_layout *tensor, const float *sent, void *values)
{
    const size_t pixels = tensor_pixels(tensor);
    if (is_plain(tensor)) {
        copy_to_values(tensor->type, sent, values, shape_count(tensor->shape));
        return;
    }
    for (size_t c = 0; c < tensor->shape.channels; c++)
        for (size_t p = 0; p < pixels; p++)
            value_write(tensor->type, values, tensor_at(tensor, c, p), *sent++);
}

static void take_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct send_work *const work = arg;
    (void)member;
    for (size_t n = first; n < end; n++) {
        void *const values = value_at(work->tensor->type, work->values, n * tensor_count(work->tensor));
        take_sample(work->tensor, work->sent + n * shape_count(work->tensor->shape), values);
        tensor_clear_padding(work->tensor, values, 1);
    }
}

static int send_backward(struct plan *plan, uint32_t layer)
{
    struct send_work work = { in_tensor(plan, layer, 0), in_gradient(plan, layer, 0), outside_of(plan)->sent };
    plan_run(plan, plan->base.count, 1, take_samples, &work);
    return 0;
}

const struct layer_ops onednn_send_ops = { .forward = send_forward, .backward_inputs = send_backward };

/* ---- receive: outside, the numbers of a sample are divided into parts, each with all samples ---- */

struct receive_work {
    enum value_type type;
    void *values;               /* [sample][number]: the layer's output, or its gradient */
    const float *received;
    float *gradient;
    size_t samples, parts, of_part;     /* numbers of a sample in a part */
};

/* One layout: a layer's numbers have one pixel, and their block is all channels (layouts_choose). */
static struct receive_work receive_work_of(const struct plan *plan, uint32_t layer, void *values)
{
    const struct outside *const outside = outside_of(plan);
    return (struct receive_work){ plan_type(plan), values, outside->received, outside->received_gradient,
                                  plan->base.count, outside->received_parts,
                                  plan_layer(plan, layer)->out.channels / outside->received_parts };
}

static void receive_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct receive_work *const work = arg;
    (void)member;
    for (size_t n = first; n < end; n++)
        for (size_t p = 0; p < work->parts; p++)
            copy_to_values(work->type, work->received + (p * work->samples + n) * work->of_part,
                           value_at(work->type, work->values, (n * work->parts + p) * work->of_part), work->of_part);
}

static int receive_forward(struct plan *plan, uint32_t layer)
{
    struct receive_work work = receive_work_of(plan, layer, out_value(plan, layer));
    plan_run(plan, plan->base.count, 1, receive_samples, &work);
    return 0;
}

static void return_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct receive_work *const work = arg;
    (void)member;
    for (size_t n = first; n < end; n++)
        for (size_t p = 0; p < work->parts; p++)
            copy_to_floats(work->type, value_at(work->type, work->values, (n * work->parts + p) * work->of_part),
                           work->gradient + (p * work->samples + n) * work->of_part, work->of_part);
}

static int receive_backward(struct plan *plan, uint32_t layer)
{
    struct receive_work work = receive_work_of(plan, layer, out_gradient(plan, layer));
    plan_run(plan, plan->base.count, 1, return_samples, &work);
    return 0;
}

const struct layer_ops onednn_receive_ops = { .forward = receive_forward, .backward_parameters = receive_backward };

/* ---- the loss of a part of the classes ----
 *
 * Exponentials are computed in fp32, relative to the largest logit, and added in double, in LANES sums. */

typedef double lane_doubles __attribute__((vector_size(LANES * sizeof(double))));

static double lanes_total(const lane_doubles *sums)
{
    double totals[LANES];
    memcpy(totals, sums, sizeof(totals));
    for (uint32_t step = 1; step < LANES; step *= 2)
        for (uint32_t i = 0; i < LANES; i += 2 * step)
            totals[i] += totals[i + step];
    return totals[0];
}

/* Reads the numbers from `at` on that are before `end`; the other lanes are `others`. */
ALWAYS_INLINE void read_lanes(enum value_type type, const void *values, size_t at, size_t end, float others, lanes *out)
{
    if (at + LANES <= end) {
        lanes_read(type, values, at, LANES, out);
        return;
    }
    float numbers[LANES];
    for (size_t i = 0; i < LANES; i++)
        numbers[i] = at + i < end ? value_read(type, values, at + i) : others;
    memcpy(out, numbers, sizeof(*out));
}

ALWAYS_INLINE void write_lanes(enum value_type type, void *values, size_t at, size_t end, const lanes *from)
{
    if (at + LANES <= end) {
        lanes_write(type, values, at, LANES, from);
        return;
    }
    float numbers[LANES];
    memcpy(numbers, from, sizeof(numbers));
    for (size_t i = 0; at + i < end; i++)
        value_write(type, values, at + i, numbers[i]);
}

/* The logits of a sample in this part: classes `first` .. first + count - 1 of the net, as numbers at .. of `logits`.
 * */
struct part_row {
    const void *logits;
    size_t at;
    uint32_t first, count;
};

#define SEARCHED 512u           /* numbers of which the largest is found at a time, and then its index */

/* The largest of numbers [from, end), NaN if one is NaN. */
ALWAYS_INLINE float find_largest(enum value_type type, const void *logits, size_t from, size_t end)
{
    lanes x, most;
    lane_bits broken = { 0 };
    float numbers[LANES];
    read_lanes(type, logits, from, end, -INFINITY, &most);
    for (size_t i = from; i < end; i += LANES) {
        read_lanes(type, logits, i, end, -INFINITY, &x);
        broken |= x != x;
        most = LANES_SELECT(x > most, x, most);
    }
    for (uint32_t i = 0; i < LANES; i++)
        if (broken[i] != 0)
            return NAN;
    memcpy(numbers, &most, sizeof(numbers));
    for (uint32_t i = 1; i < LANES; i++)
        numbers[0] = numbers[i] > numbers[0] ? numbers[i] : numbers[0];
    return numbers[0];
}

/* Sets the first largest logit, the first NaN if there is one, and its class. */
ALWAYS_INLINE void find_predicted(enum value_type type, const struct part_row *row, struct part_stats *stats)
{
    const size_t end = row->at + row->count;
    size_t best = row->at;
    stats->largest = -INFINITY;
    for (size_t from = row->at; from < end && !isnan(stats->largest); from += SEARCHED) {
        const float largest = find_largest(type, row->logits, from, from + SEARCHED < end ? from + SEARCHED : end);
        if (largest <= stats->largest)
            continue;
        stats->largest = largest;
        best = from;
    }
    for (; best < end; best++) {
        const float logit = value_read(type, row->logits, best);
        if (isnan(stats->largest) ? isnan(logit) : logit == stats->largest)
            break;
    }
    stats->predicted = row->first + (uint32_t)(best - row->at);
}

/* exp(x - largest); 0 for -inf, which activation_exp does not know. */
ALWAYS_INLINE void find_power(const lanes *x, float largest, lanes *power_out)
{
    const lane_bits is_there = *x > -INFINITY;
    const lanes distance = *x - largest;
    activation_exp(&distance, power_out);
    *power_out = (lanes)((lane_bits)*power_out & is_there);
}

ALWAYS_INLINE void find_sum(enum value_type type, const struct part_row *row, struct part_stats *stats)
{
    const size_t end = row->at + row->count;
    lane_doubles sums = { 0 };
    for (size_t i = row->at; i < end; i += LANES) {
        lanes x, power;
        read_lanes(type, row->logits, i, end, -INFINITY, &x);
        find_power(&x, stats->largest, &power);
        sums += __builtin_convertvector(power, lane_doubles);
    }
    stats->sum = lanes_total(&sums);
}

/* The weights of the classes of the numbers from `at` on. */
ALWAYS_INLINE void read_weights(const struct part_rule *rule, const struct part_row *row, size_t at, lanes *weights_out)
{
    const lanes ones = (lanes){ 0 } + 1.0f;
    *weights_out = ones;
    if (rule->class_weights != NULL)
        read_lanes(VALUE_FP32, rule->class_weights, row->first + (at - row->at), row->first + row->count, 0,
                   weights_out);
}

/* The sum of class weight * logit over the classes of the part whose weight is not 0. */
ALWAYS_INLINE double weighted_logits(enum value_type type, const struct part_rule *rule, const struct part_row *row)
{
    const size_t end = row->at + row->count;
    lane_doubles sums = { 0 };
    for (size_t i = row->at; i < end; i += LANES) {
        const lanes zero = { 0 };
        lanes x, weights;
        read_lanes(type, row->logits, i, end, 0, &x);
        read_weights(rule, row, i, &weights);
        x = LANES_SELECT(weights > 0.0f, x, zero);
        sums += __builtin_convertvector(weights, lane_doubles) * __builtin_convertvector(x, lane_doubles);
    }
    return lanes_total(&sums);
}

/* The share of class c in the target, without smoothing, times its logit; 0 if the part has not the class. */
ALWAYS_INLINE double label_logit(enum value_type type, const struct part_rule *rule, const struct part_row *row,
                                 int32_t c, double share)
{
    const size_t index = (size_t)c - row->first;
    const double weight = rule->class_weights != NULL ? (double)rule->class_weights[c] : 1;
    if (index >= row->count || !(share * weight > 0))
        return 0;
    return (1 - rule->smoothing) * share * weight * (double)value_read(type, row->logits, row->at + index);
}

/* The sum of part_target * logit. */
ALWAYS_INLINE double find_target(enum value_type type, const struct part_rule *rule, const struct part_row *row,
                                 const struct mixed_label *label)
{
    const double share = (double)label->share;
    const double labels = label_logit(type, rule, row, label->label, share) +
                          label_logit(type, rule, row, label->other, 1 - share);
    return rule->smoothing > 0 ? labels + rule->smoothing / rule->classes * weighted_logits(type, rule, row) : labels;
}

struct loss_work {
    enum value_type type;
    const struct part_rule *rule;
    struct part_row row;        /* of sample 0 */
    size_t stride;              /* numbers from one sample to the next */
    const struct mixed_label *labels;
    struct part_stats *stats;   /* forward: of the part */
    const struct part_stats *all;       /* backward: of all parts, */
    uint32_t samples, parts;            /* [part][sample] */
    void *gradients;
};

static struct part_row row_of(const struct loss_work *work, size_t sample)
{
    struct part_row row = work->row;
    row.at = sample * work->stride;
    return row;
}

ALWAYS_INLINE void find_stats(enum value_type type, const struct loss_work *work, size_t first, size_t end)
{
    for (size_t n = first; n < end; n++) {
        const struct part_row row = row_of(work, n);
        const struct mixed_label *const label = &work->labels[n];
        struct part_stats stats = { .target = 0 };
        find_predicted(type, &row, &stats);
        find_sum(type, &row, &stats);
        if (label->label >= 0)
            stats.target = find_target(type, work->rule, &row, label);
        work->stats[n] = stats;
    }
}

VECTOR_POLYNOMIALS
static void stats_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct loss_work *const work = arg;
    (void)member;
    FOR_TYPE(work->type, find_stats, work, first, end);
}

/* What the gradient of a sample's logits follows from. */
struct part_slope {
    double total;               /* part_target_total */
    struct part_softmax softmax;
    float largest;              /* the largest logit of all parts */
    float scale;                /* of exp(logit - largest) */
};

/* gradient = total * softmax - target, where the target is the smoothing alone. */
ALWAYS_INLINE void put_slopes(enum value_type type, const struct loss_work *work, const struct part_row *row,
                              const struct part_slope *slope)
{
    const struct part_rule *const rule = work->rule;
    const float rest = (float)(rule->smoothing / rule->classes), scale = slope->scale;
    const size_t end = row->at + row->count;
    for (size_t i = row->at; i < end; i += LANES) {
        lanes x, power, weights;
        read_lanes(type, row->logits, i, end, -INFINITY, &x);
        find_power(&x, slope->largest, &power);
        read_weights(rule, row, i, &weights);
        power = power * scale - weights * rest;
        write_lanes(type, work->gradients, i, end, &power);
    }
}

/* The gradient of the logit of class c, which has a share in the target of its own, if it is of the part. */
ALWAYS_INLINE void put_label_slope(enum value_type type, const struct loss_work *work, const struct part_row *row,
                                   const struct part_slope *slope, const struct mixed_label *label, int32_t c)
{
    const size_t index = (size_t)c - row->first;
    if (index >= row->count)
        return;
    const float logit = value_read(type, row->logits, row->at + index);
    value_write(type, work->gradients, row->at + index,
                part_gradient(work->rule, label, slope->total, &slope->softmax, (uint32_t)c, logit));
}

ALWAYS_INLINE void put_same(enum value_type type, const struct loss_work *work, const struct part_row *row,
                            float number)
{
    for (size_t i = row->at; i < row->at + row->count; i++)
        value_write(type, work->gradients, i, number);
}

ALWAYS_INLINE void put_gradients(enum value_type type, const struct loss_work *work, size_t first, size_t end)
{
    for (size_t n = first; n < end; n++) {
        const struct part_row row = row_of(work, n);
        const struct mixed_label *const label = &work->labels[n];
        const struct part_stats *const stats = work->all + n;
        if (label->label < 0) {
            put_same(type, work, &row, 0);
            continue;
        }
        struct part_slope slope = { .total = part_target_total(work->rule, label),
                                    .softmax = part_combine(stats, work->samples, work->parts) };
        if (!isfinite(slope.softmax.log_sum - slope.softmax.target)) {
            put_same(type, work, &row, NAN);
            continue;
        }
        slope.largest = stats[(size_t)part_with_largest(stats, work->samples, work->parts) * work->samples].largest;
        slope.scale = (float)(slope.total * exp((double)slope.largest - slope.softmax.log_sum));
        put_slopes(type, work, &row, &slope);
        put_label_slope(type, work, &row, &slope, label, label->label);
        put_label_slope(type, work, &row, &slope, label, label->other);
    }
}

VECTOR_POLYNOMIALS
static void gradient_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct loss_work *const work = arg;
    (void)member;
    FOR_TYPE(work->type, put_gradients, work, first, end);
}

/* The state of the layer is the rule of its loss. */
static int part_loss_plan(struct plan *plan, uint32_t layer)
{
    const struct backend_spec *const spec = &plan_backend(plan)->spec;
    struct part_rule *const rule = plan->base.states[layer];
    const uint32_t classes = plan->base.net->classes;
    *rule = (struct part_rule){ .classes = classes, .weight_total = classes };
    if (!plan->base.training)
        return 0;
    rule->smoothing = (double)spec->label_smoothing;
    rule->class_weights = spec->class_weights;
    for (uint32_t c = 0; c < classes && rule->class_weights != NULL; c++)
        rule->weight_total = (c > 0 ? rule->weight_total : 0) + (double)rule->class_weights[c];
    return 0;
}

static struct loss_work loss_work_of(const struct plan *plan, uint32_t layer)
{
    const struct outside *const outside = outside_of(plan);
    const struct tensor_layout *const tensor = in_tensor(plan, layer, 0);
    const uint32_t classes = tensor->shape.channels;
    return (struct loss_work){
        .type = tensor->type, .rule = plan->base.states[layer],
        .row = { in_value(plan, layer, 0), 0, outside->part * classes, classes }, .stride = tensor_count(tensor),
        .labels = outside->labels, .stats = outside->stats + (size_t)outside->part * plan->base.count,
        .all = outside->stats, .samples = plan->base.count, .parts = outside->stat_parts,
        .gradients = in_gradient(plan, layer, 0),
    };
}

static int part_loss_forward(struct plan *plan, uint32_t layer)
{
    struct loss_work work = loss_work_of(plan, layer);
    plan_run(plan, plan->base.count, 1, stats_samples, &work);
    return 0;
}

static int part_loss_backward(struct plan *plan, uint32_t layer)
{
    struct loss_work work = loss_work_of(plan, layer);
    plan_run(plan, plan->base.count, 1, gradient_samples, &work);
    return 0;
}

const struct layer_ops onednn_part_loss_ops = {
    .uses = { .in_until = PASS_INPUTS },
    .state_bytes = sizeof(struct part_rule),
    .plan = part_loss_plan,
    .forward = part_loss_forward,
    .backward_inputs = part_loss_backward,
};

/* ---- results ---- */

/* LAYER_PART_LOSS is the last layer of its range. */
static const struct part_rule *rule_of(const struct plan *plan)
{
    return plan->base.states[plan->base.range.end - 1];
}

int onednn_part_result(struct plan *plan, uint32_t first, uint32_t count, struct backend_result *result_out)
{
    const struct outside *const outside = outside_of(plan);
    const struct part_rule *const rule = rule_of(plan);
    *result_out = (struct backend_result){ .loss_scale = 1 };
    for (uint32_t n = first; n < first + count; n++) {
        const struct mixed_label *const label = &outside->labels[n];
        if (label->label < 0)
            continue;
        const struct part_softmax softmax = part_combine(outside->stats + n, plan->base.count, outside->stat_parts);
        result_out->loss_sum += part_loss(rule, label, &softmax);
        result_out->correct += softmax.predicted == (uint32_t)mixing_answer(label);
        result_out->counted++;
        if (rule->class_weights != NULL)
            result_out->weight_sum += (double)mixing_class_weight(label, rule->class_weights);
    }
    return 0;
}

int onednn_part_weigh(struct plan *plan, uint32_t first, uint32_t count)
{
    struct backend_result result;
    const int rc = onednn_part_result(plan, first, count, &result);
    plan_backend(plan)->memory.gradients[0] = (float)result.weight_sum;
    return rc;
}

int onednn_part_answers(struct plan *plan, uint32_t first, uint32_t count, struct answer *answers_out)
{
    const struct outside *const outside = outside_of(plan);
    const uint32_t samples = plan->base.count;
    for (uint32_t n = first; n < first + count; n++) {
        const struct part_stats *const stats = outside->stats + n;
        const uint32_t best = part_with_largest(stats, samples, outside->stat_parts);
        *answers_out++ = (struct answer){ outside->labels[n].label, stats[(size_t)best * samples].predicted };
    }
    return 0;
}
