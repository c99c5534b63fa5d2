/* The layers that only shares of a net have (compute/share.h): memory outside of the plan, and the loss of a part of the
 * classes. */
#include <math.h>
#include <string.h>

#include "compute/part_loss.h"
#include "compute/reference/reference_plan.h"

static const struct outside *outside_of(const struct view *v)
{
    return &v->plan->base.outside;
}

/* ---- send: N,C,H,W is the order outside ---- */

static int send_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct outside *const outside = outside_of(&v);
    memcpy(outside->sent, v.in, v.in_count * sizeof(*v.in));
    if (outside->labels != NULL)
        memcpy(outside->labels, ((const struct reference *)v.plan->base.backend)->labels,
               v.samples * sizeof(*outside->labels));
    return 0;
}

static int send_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.in_count; i++)
        target_put(v.targets[0], i, outside_of(&v)->sent[i]);
    return 0;
}

const struct layer_ops reference_send = {
    .uses = { .adds = true },
    .forward = send_forward,
    .backward_inputs = send_backward,
};

/* ---- receive ---- */

/* Where number i of all samples, in the order of the value, is outside. */
static size_t outside_at(const struct view *v, size_t i)
{
    const size_t numbers = v->layer->out.channels, of_part = numbers / outside_of(v)->received_parts;
    const size_t sample = i / numbers, number = i % numbers;
    return (number / of_part * v->samples + sample) * of_part + number % of_part;
}

static int receive_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.out_count; i++)
        v.out[i] = outside_of(&v)->received[outside_at(&v, i)];
    return 0;
}

static int receive_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.out_count; i++)
        outside_of(&v)->received_gradient[outside_at(&v, i)] = v.out_gradient[i];
    return 0;
}

const struct layer_ops reference_receive = { .forward = receive_forward, .backward_parameters = receive_backward };

/* ---- the loss of a part of the classes ---- */

static struct part_rule rule_of(const struct reference_plan *plan)
{
    const struct backend_spec *const spec = &((const struct reference *)plan->base.backend)->spec;
    struct part_rule rule = { .classes = plan->base.net->classes, .weight_total = plan->base.net->classes };
    if (!plan->base.training)
        return rule;
    rule.smoothing = (double)spec->label_smoothing;
    rule.class_weights = spec->class_weights;
    for (uint32_t c = 0; c < rule.classes && rule.class_weights != NULL; c++)
        rule.weight_total = (c > 0 ? rule.weight_total : 0) + (double)rule.class_weights[c];
    return rule;
}

/* The class in the whole net of the first logit of this part. */
static uint32_t first_class(const struct view *v)
{
    return outside_of(v)->part * v->layer->in.channels;
}

static struct part_stats find_stats(const struct view *v, const struct part_rule *rule, size_t sample)
{
    const uint32_t classes = v->layer->in.channels, first = first_class(v);
    const struct mixed_label *const label = &outside_of(v)->labels[sample];
    const float *const logits = v->in + sample * classes;
    uint32_t best = 0;
    struct part_stats stats = { .sum = 0 };
    for (uint32_t c = 1; c < classes; c++)
        best = logits[c] <= logits[best] || isnan(logits[best]) ? best : c;
    stats.largest = logits[best];
    stats.predicted = first + best;
    for (uint32_t c = 0; c < classes; c++) {
        const double target = label->label < 0 ? 0 : part_target(rule, label, first + c);
        stats.sum += exp((double)logits[c] - (double)stats.largest);
        stats.target += target > 0 ? target * (double)logits[c] : 0;
    }
    return stats;
}

static int part_loss_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct part_rule rule = rule_of(v.plan);
    struct part_stats *const stats = outside_of(&v)->stats + outside_of(&v)->part * v.samples;
    for (size_t n = 0; n < v.samples; n++)
        stats[n] = find_stats(&v, &rule, n);
    return 0;
}

static int part_loss_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct outside *const outside = outside_of(&v);
    const struct part_rule rule = rule_of(v.plan);
    const uint32_t classes = v.layer->in.channels, first = first_class(&v);
    for (size_t n = 0; n < v.samples; n++) {
        const struct mixed_label *const label = &outside->labels[n];
        const struct part_softmax softmax = part_combine(outside->stats + n, (uint32_t)v.samples, outside->stat_parts);
        const double total = label->label < 0 ? 0 : part_target_total(&rule, label);
        for (uint32_t c = 0; c < classes; c++)
            target_put(v.targets[0], n * classes + c,
                       part_gradient(&rule, label, total, &softmax, first + c, v.in[n * classes + c]));
    }
    return 0;
}

const struct layer_ops reference_part_loss = {
    .uses = { .in_until = PASS_INPUTS, .adds = true },
    .forward = part_loss_forward,
    .backward_inputs = part_loss_backward,
};

int reference_part_result(struct plan *base, uint32_t first, uint32_t count, struct backend_result *result_out)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    const struct outside *const outside = &plan->base.outside;
    const struct part_rule rule = rule_of(plan);
    *result_out = (struct backend_result){ .loss_scale = 1 };
    for (uint32_t n = first; n < first + count; n++) {
        const struct mixed_label *const label = &outside->labels[n];
        const struct part_softmax softmax = part_combine(outside->stats + n, plan->base.count, outside->stat_parts);
        if (label->label < 0)
            continue;
        result_out->loss_sum += part_loss(&rule, label, &softmax);
        result_out->correct += softmax.predicted == (uint32_t)mixing_answer(label);
        result_out->counted++;
        if (rule.class_weights != NULL)
            result_out->weight_sum += (double)mixing_class_weight(label, rule.class_weights);
    }
    return 0;
}

int reference_part_weigh(struct plan *base, uint32_t first, uint32_t count)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    struct backend_result result;
    const int rc = reference_part_result(base, first, count, &result);
    ((const struct reference *)plan->base.backend)->memory.gradients[0] = (float)result.weight_sum;
    return rc;
}

int reference_part_answers(struct plan *base, uint32_t first, uint32_t count, struct answer *answers_out)
{
    const struct plan_base *const plan = &reference_plan_of(base)->base;
    const struct outside *const outside = &plan->outside;
    for (uint32_t n = first; n < first + count; n++) {
        const struct part_stats *const stats = outside->stats + n;
        const uint32_t best = part_with_largest(stats, plan->count, outside->stat_parts);
        *answers_out++ = (struct answer){ outside->labels[n].label, stats[(size_t)best * plan->count].predicted };
    }
    return 0;
}
