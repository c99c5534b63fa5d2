/* Softmax cross-entropy with integer labels: sum of losses, correct answers, and in a
 * training plan the gradient of the logits' sum of losses. */
#include "compute/onednn/onednn_plan.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "compute/team.h"

/* What is known of one sample. Summed in sample order, so that the sum does not depend
 * on the number of threads. */
struct outcome { double loss; bool is_counted, is_correct; };

struct loss_state { uint32_t outcomes; };       /* buffer */

static void loss_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .gradient_early = true };
}

static int loss_plan(struct plan *plan, uint32_t layer)
{
    struct loss_state *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    const int rc = plan_buffer(plan, plan->base.count * sizeof(struct outcome), &state->outcomes);
    if (rc == 0)
        plan_use(plan, state->outcomes, layer, PHASE_FORWARD, PHASE_FORWARD);
    return rc;
}

/* The first largest logit. A logit that is not a number comes out as the largest, so that
 * it reaches the loss. */
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

static struct outcome outcome_of(const float *logits, uint32_t classes, int32_t label, float *gradient)
{
    if (label < 0) {
        for (uint32_t i = 0; i < classes && gradient != NULL; i++)
            gradient[i] = 0.0f;
        return (struct outcome){ 0 };
    }
    assert((uint32_t)label < classes);
    const uint32_t best = largest(logits, classes);
    const double sum = exponentials(logits, classes, logits[best], gradient);
    const float factor = (float)(1.0 / sum);
    for (uint32_t i = 0; i < classes && gradient != NULL; i++)
        gradient[i] = gradient[i] * factor - (i == (uint32_t)label ? 1.0f : 0.0f);
    return (struct outcome){ log(sum) + ((double)logits[best] - (double)logits[label]), true,
                             best == (uint32_t)label };
}

struct loss_work {
    const struct edge *edge;
    const float *logits;
    float *gradients;           /* or NULL */
    const int32_t *labels;
    struct outcome *outcomes;
};

static void loss_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct loss_work *work = arg;
    const uint32_t classes = work->edge->shape.channels;
    const size_t row = edge_floats(work->edge);
    (void)member;
    for (size_t i = first; i < end; i++) {
        float *gradient = work->gradients != NULL ? work->gradients + i * row : NULL;
        work->outcomes[i] = outcome_of(work->logits + i * row, classes, work->labels[i], gradient);
        for (size_t padding = classes; padding < row && gradient != NULL; padding++)
            gradient[padding] = 0.0f;
    }
}

static void result_sum(struct plan *plan, const struct outcome *outcomes)
{
    struct backend_result result = { .loss_scale = 1 };
    for (uint32_t i = 0; i < plan->base.count; i++) {
        result.loss_sum += outcomes[i].loss;
        result.correct += outcomes[i].is_correct;
        result.counted += outcomes[i].is_counted;
    }
    plan->result = result;
}

static int loss_forward(struct plan *plan, uint32_t layer)
{
    const struct loss_state *const state = plan->states[layer];
    const uint32_t value = plan_input(&plan->base, layer, 0);
    struct loss_work work = {
        .edge = &plan->edges[value],
        .logits = plan_value(plan, value),
        .gradients = plan_has_inputs(&plan->base, layer) ? plan_gradient(plan, value) : NULL,
        .labels = plan_data(plan, plan->labels),
        .outcomes = plan_data(plan, state->outcomes),
    };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 16, loss_samples, &work);
    result_sum(plan, work.outcomes);
    return 0;
}

static void loss_release(struct plan *plan, uint32_t layer)
{
    free(plan->states[layer]);
}

const struct layer_ops onednn_loss_ops = {
    .use = loss_use,
    .plan = loss_plan,
    .forward = loss_forward,
    .release = loss_release,
};
