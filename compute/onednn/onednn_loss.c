/* Softmax cross-entropy with integer labels, or pairs of them for mixed samples: the sum of losses, the correct
 * answers and, in training, the gradient of the logits. An auxiliary loss has a weight, and its answers do not
 * count. */
#include "compute/onednn/onednn_plan.h"

#include <assert.h>
#include <math.h>

#include "compute/mixing.h"
#include "compute/team.h"

/* Result of one sample. Results are summed in sample order, so that the sum does not depend on the number of
 * threads. */
struct sample_result { double loss; bool is_counted, is_correct; float class_weight; };

struct loss_state {
    uint32_t samples;          /* buffer: a struct sample_result per sample */
    uint32_t rows;              /* buffer: [thread], logits and their gradient of one sample */
};

static int loss_plan(struct plan *plan, uint32_t layer)
{
    struct loss_state *const state = plan->base.states[layer];
    const size_t row_bytes = plan_layer(plan, layer)->in.channels * sizeof(float);
    const int rc = plan_scratch(plan, layer, plan->base.count * sizeof(struct sample_result), PASS_FORWARD,
                                PASS_FORWARD, &state->samples);
    return rc != 0 ? rc : plan_scratch(plan, layer, 2 * plan_backend(plan)->spec.threads * row_bytes, PASS_FORWARD,
                                       PASS_FORWARD, &state->rows);
}

/* The first largest logit. A NaN wins, so that it reaches the loss. */
static uint32_t largest(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (!(logits[i] <= logits[best]))
            best = i;
    return best;
}

static double exponentials(const float *logits, uint32_t count, float shift, float *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const float value = expf(logits[i] - shift);
        sum += (double)value;
        if (out != NULL)
            out[i] = value;
    }
    return sum;
}

/* How losses are computed. class_weights NULL: all 1. */
struct loss_rule { float weight; double smoothing; const float *class_weights; };

/* The target probabilities: of the label, of the partner's label, of every other class. */
struct target { float label, other, rest; };

static struct target target_of(double smoothing, uint32_t classes, const struct mixed_label *label)
{
    const double rest = smoothing / classes, share = label->label == label->other ? 1 : (double)label->share;
    return (struct target){ (float)((1 - smoothing) * share + rest), (float)((1 - smoothing) * (1 - share) + rest),
                            (float)rest };
}

/* The mean distance of the target logits from the largest one, weighted by the targets. */
static double target_distance(double smoothing, const float *logits, uint32_t classes, const struct mixed_label *label,
                              float largest)
{
    const double own = (double)largest - (double)logits[label->label], share = (double)label->share;
    const double labels = share == 1 ? own
                                     : share * own + (1 - share) * ((double)largest - (double)logits[label->other]);
    double sum = 0;
    if (smoothing == 0)
        return labels;
    for (uint32_t i = 0; i < classes; i++)
        sum += (double)largest - (double)logits[i];
    return (1 - smoothing) * labels + smoothing * sum / classes;
}

static float probability_of(const struct target *target, const struct mixed_label *label, uint32_t c)
{
    return c == (uint32_t)label->label ? target->label : c == (uint32_t)label->other ? target->other : target->rest;
}

/* The loss of a sample with class weights, the sum over classes of class weight * target * -log(softmax), and its
 * gradient, where `gradient` (or NULL) holds exponentials with sum `sum`. */
static double weighted_loss(const struct loss_rule *rule, const float *logits, uint32_t classes, double sum, float largest,
                            const struct mixed_label *label, float *gradient)
{
    const struct target target = target_of(rule->smoothing, classes, label);
    double total = 0, distance = 0;
    for (uint32_t i = 0; i < classes; i++) {
        const double share = (double)(probability_of(&target, label, i) * rule->class_weights[i]);
        total += share;
        distance += share > 0 ? share * ((double)largest - (double)logits[i]) : 0;
    }
    for (uint32_t i = 0; i < classes && gradient != NULL; i++)
        gradient[i] = rule->weight * ((float)(total / sum) * gradient[i] -
                                      probability_of(&target, label, i) * rule->class_weights[i]);
    return total * log(sum) + distance;
}

/* gradient = weight * (softmax - target), where `gradient` holds exponentials with sum `sum`. */
static void subtract_target(float *gradient, uint32_t classes, float weight, double sum, const struct target *target,
                            const struct mixed_label *label)
{
    const float factor = (float)(1.0 / sum);
    for (uint32_t i = 0; i < classes; i++)
        gradient[i] = weight * (gradient[i] * factor - probability_of(target, label, i));
}

static double plain_loss(const struct loss_rule *rule, const float *logits, uint32_t classes, double sum, float largest,
                         const struct mixed_label *label, float *gradient)
{
    const struct target target = target_of(rule->smoothing, classes, label);
    if (gradient != NULL)
        subtract_target(gradient, classes, rule->weight, sum, &target, label);
    return log(sum) + target_distance(rule->smoothing, logits, classes, label, largest);
}

static struct sample_result sample_result_of(const struct loss_rule *rule, const float *logits, uint32_t classes,
                                             const struct mixed_label *label, float *gradient)
{
    if (label->label < 0) {
        for (uint32_t i = 0; i < classes && gradient != NULL; i++)
            gradient[i] = 0.0f;
        return (struct sample_result){ 0 };
    }
    assert((uint32_t)label->label < classes && (uint32_t)label->other < classes);
    const bool is_weighted = rule->class_weights != NULL;
    const uint32_t best = largest(logits, classes);
    const double sum = exponentials(logits, classes, logits[best], gradient);
    const double loss = is_weighted ? weighted_loss(rule, logits, classes, sum, logits[best], label, gradient)
                                    : plain_loss(rule, logits, classes, sum, logits[best], label, gradient);
    if (!isfinite(loss) && gradient != NULL)
        gradient[label->label] = NAN;   /* so the check of gradients finds it too */
    return (struct sample_result){ (double)rule->weight * loss, true, best == (uint32_t)mixing_answer(label),
                                   is_weighted ? mixing_class_weight(label, rule->class_weights) : 0 };
}

struct loss_work {
    enum value_type type;
    const struct tensor_layout *tensor;
    const void *logits;
    struct loss_rule rule;
    struct answer *answers;     /* per sample, or NULL */
    void *gradients;            /* or NULL */
    float *rows;
    const struct mixed_label *labels;
    struct sample_result *samples;
};

static void read_row(const struct loss_work *work, size_t sample, float *row)
{
    const size_t at = sample * tensor_count(work->tensor);
    for (size_t i = 0; i < work->tensor->shape.channels; i++)
        row[i] = value_read(work->type, work->logits, at + i);
}

/* Writes a row of numbers; the padding of the last block becomes 0. */
static void write_row(const struct loss_work *work, size_t sample, const float *row)
{
    const size_t classes = work->tensor->shape.channels, count = tensor_count(work->tensor);
    for (size_t i = 0; i < count; i++)
        value_write(work->type, work->gradients, sample * count + i, i < classes ? row[i] : 0.0f);
}

static void loss_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct loss_work *work = arg;
    const uint32_t classes = work->tensor->shape.channels;
    float *const logits = work->rows + (size_t)member * 2 * classes;
    float *const gradient = work->gradients != NULL ? logits + classes : NULL;
    for (size_t i = first; i < end; i++) {
        read_row(work, i, logits);
        work->samples[i] = sample_result_of(&work->rule, logits, classes, &work->labels[i], gradient);
        if (work->answers != NULL)
            work->answers[i] = (struct answer){ work->labels[i].label, largest(logits, classes) };
        if (gradient != NULL)
            write_row(work, i, gradient);
    }
}

static void result_add(struct plan *plan, const struct sample_result *samples, bool counts_answers)
{
    struct backend_result *const result = &plan->result;
    for (uint32_t i = 0; i < plan->base.count; i++) {
        result->loss_sum += samples[i].loss;
        result->correct += counts_answers && samples[i].is_correct;
        result->counted += counts_answers && samples[i].is_counted;
        result->weight_sum += counts_answers ? (double)samples[i].class_weight : 0;
    }
}

static struct loss_rule rule_of(const struct plan *plan, uint32_t layer)
{
    const struct backend_spec *const spec = &plan_backend(plan)->spec;
    const float weight = plan_layer(plan, layer)->loss_weight;
    return plan->base.training ? (struct loss_rule){ weight, (double)spec->label_smoothing, spec->class_weights }
                               : (struct loss_rule){ weight, 0, NULL };
}

static int loss_forward(struct plan *plan, uint32_t layer)
{
    const struct loss_state *const state = plan->base.states[layer];
    const uint32_t value = plan_input(&plan->base, layer, 0), to = plan_flow(&plan->base, layer, 0)->buffer;
    struct loss_work work = {
        .type = plan_type(plan),
        .tensor = &plan->tensors[value],
        .logits = plan_value(plan, value),
        .rule = rule_of(plan, layer),
        .answers = plan_layer(plan, layer)->kind == LAYER_SOFTMAX_LOSS ? plan_data(plan, plan->base.answers) : NULL,
        .gradients = to != BUFFER_NONE ? plan_data(plan, to) : NULL,
        .labels = plan_data(plan, plan->labels),
        .samples = plan_data(plan, state->samples),
        .rows = plan_data(plan, state->rows),
    };
    plan_run(plan, plan->base.count, 16, loss_samples, &work);
    const bool is_last = plan_layer(plan, layer)->kind == LAYER_SOFTMAX_LOSS;
    result_add(plan, work.samples, is_last);
    if (is_last && work.rule.class_weights != NULL)
        plan_backend(plan)->memory.gradients[0] = (float)plan->result.weight_sum;
    return 0;
}

const struct layer_ops onednn_loss_ops = {
    .uses = { .gradient_early = true },
    .state_bytes = sizeof(struct loss_state),
    .plan = loss_plan,
    .forward = loss_forward,
};
