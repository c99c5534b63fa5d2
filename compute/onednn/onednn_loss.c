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
struct sample_result { double loss; bool is_counted, is_correct; };

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

/* gradient = weight * (softmax - target), where `gradient` holds exponentials with sum `sum`. */
static void subtract_target(float *gradient, uint32_t classes, float weight, double sum, const struct target *target,
                            const struct mixed_label *label)
{
    const uint32_t own = (uint32_t)label->label, other = (uint32_t)label->other;
    const float factor = (float)(1.0 / sum);
    for (uint32_t i = 0; i < classes; i++)
        gradient[i] = weight * (gradient[i] * factor - (i == own ? target->label : i == other ? target->other
                                                                                             : target->rest));
}

static struct sample_result sample_result_of(const float *logits, uint32_t classes, float weight, double smoothing,
                                             const struct mixed_label *label, float *gradient)
{
    if (label->label < 0) {
        for (uint32_t i = 0; i < classes && gradient != NULL; i++)
            gradient[i] = 0.0f;
        return (struct sample_result){ 0 };
    }
    assert((uint32_t)label->label < classes && (uint32_t)label->other < classes);
    const struct target target = target_of(smoothing, classes, label);
    const uint32_t best = largest(logits, classes);
    const double sum = exponentials(logits, classes, logits[best], gradient);
    if (gradient != NULL)
        subtract_target(gradient, classes, weight, sum, &target, label);
    const double loss = log(sum) + target_distance(smoothing, logits, classes, label, logits[best]);
    if (!isfinite(loss) && gradient != NULL)
        gradient[label->label] = NAN;   /* so the check of gradients finds it too */
    return (struct sample_result){ (double)weight * loss, true, best == (uint32_t)mixing_answer(label) };
}

struct loss_work {
    enum value_type type;
    const struct tensor_layout *tensor;
    const void *logits;
    float weight;
    double smoothing;
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
        work->samples[i] = sample_result_of(logits, classes, work->weight, work->smoothing, &work->labels[i], gradient);
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
    }
}

static int loss_forward(struct plan *plan, uint32_t layer)
{
    const struct loss_state *const state = plan->base.states[layer];
    const uint32_t value = plan_input(&plan->base, layer, 0), to = plan_flow(&plan->base, layer, 0)->buffer;
    struct loss_work work = {
        .type = plan_type(plan),
        .tensor = &plan->tensors[value],
        .logits = plan_value(plan, value),
        .weight = plan_layer(plan, layer)->loss_weight,
        .smoothing = plan->base.training ? (double)plan_backend(plan)->spec.label_smoothing : 0,
        .gradients = to != BUFFER_NONE ? plan_data(plan, to) : NULL,
        .labels = plan_data(plan, plan->labels),
        .samples = plan_data(plan, state->samples),
        .rows = plan_data(plan, state->rows),
    };
    plan_run(plan, plan->base.count, 16, loss_samples, &work);
    result_add(plan, work.samples, plan_layer(plan, layer)->kind == LAYER_SOFTMAX_LOSS);
    return 0;
}

/* Copies the input of the last loss, whose buffer no other value reuses in evaluation. */
int onednn_logits(struct plan *plan, float *logits_out)
{
    const uint32_t value = plan_input(&plan->base, plan->base.net->layer_count - 1, 0);
    const struct loss_work work = {
        .type = plan_type(plan), .tensor = &plan->tensors[value], .logits = plan_value(plan, value) };
    for (size_t i = 0; i < plan->base.count; i++)
        read_row(&work, i, logits_out + i * work.tensor->shape.channels);
    return 0;
}

const struct layer_ops onednn_loss_ops = {
    .uses = { .gradient_early = true },
    .state_bytes = sizeof(struct loss_state),
    .plan = loss_plan,
    .forward = loss_forward,
};
