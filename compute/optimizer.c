/* Update rules (doc/numerics.md). Called through a backend's update from the
 * tower's threads, each on a range of its own, once per bucket and step; with few
 * operations per number they run at the speed of the memory. */
#include "compute/optimizer.h"

#include "compute/vector.h"

/* Declared here, as setting no errno, and not by <math.h>: only then are the loops
 * that call it vectorised with the compiler's default options. */
float sqrtf(float value) __attribute__((const));

/* What every rule computes with. */
struct numbers { float rate, scale, decay, momentum, rho, epsilon; };

VECTOR_LOOPS
static void update_sgd(const struct numbers *numbers, float *restrict w, const float *restrict gradients, size_t count)
{
    const struct numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        w[i] -= s.rate * g;
    }
}

VECTOR_LOOPS
static void update_momentum(const struct numbers *numbers, float *restrict w, const float *restrict gradients,
                            float *restrict a, size_t count)
{
    const struct numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.momentum * a[i] + g;
        w[i] -= s.rate * a[i];
    }
}

VECTOR_LOOPS
static void update_nesterov(const struct numbers *numbers, float *restrict w, const float *restrict gradients,
                            float *restrict a, size_t count)
{
    const struct numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.momentum * a[i] + g;
        w[i] -= s.rate * (g + s.momentum * a[i]);
    }
}

/* As in Keras: the step is scaled by the old average of squared steps. */
VECTOR_LOOPS
static void update_adadelta(const struct numbers *numbers, float *restrict w, const float *restrict gradients,
                            float *restrict a, float *restrict d, size_t count)
{
    const struct numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.rho * a[i] + (1.0f - s.rho) * g * g;
        const float u = g * sqrtf((d[i] + s.epsilon) / (a[i] + s.epsilon));
        w[i] -= s.rate * u;
        d[i] = s.rho * d[i] + (1.0f - s.rho) * u * u;
    }
}

static void run_sgd(const struct numbers *numbers, const struct optimizer_range *range)
{
    update_sgd(numbers, range->weights, range->gradients, range->count);
}

static void run_momentum(const struct numbers *numbers, const struct optimizer_range *range)
{
    update_momentum(numbers, range->weights, range->gradients, range->states[0], range->count);
}

static void run_nesterov(const struct numbers *numbers, const struct optimizer_range *range)
{
    update_nesterov(numbers, range->weights, range->gradients, range->states[0], range->count);
}

static void run_adadelta(const struct numbers *numbers, const struct optimizer_range *range)
{
    update_adadelta(numbers, range->weights, range->gradients, range->states[0], range->states[1], range->count);
}

static const struct rule {
    uint32_t state_count;
    void (*run)(const struct numbers *numbers, const struct optimizer_range *range);
} rules[OPTIMIZER_KIND_COUNT] = {
    [OPTIMIZER_SGD] = { 0, run_sgd },
    [OPTIMIZER_MOMENTUM] = { 1, run_momentum },
    [OPTIMIZER_NESTEROV] = { 1, run_nesterov },
    [OPTIMIZER_ADADELTA] = { 2, run_adadelta },
};

uint32_t optimizer_state_count(enum optimizer_kind kind)
{
    return rules[kind].state_count;
}

void optimizer_update(const struct optimizer *optimizer, const struct optimizer_step *step,
                      const struct optimizer_range *range)
{
    const struct numbers numbers = {
        .rate = step->learning_rate, .scale = step->gradient_scale,
        .decay = range->decays ? optimizer->weight_decay : 0.0f,
        .momentum = optimizer->momentum, .rho = optimizer->rho, .epsilon = optimizer->epsilon,
    };
    rules[optimizer->kind].run(&numbers, range);
}
