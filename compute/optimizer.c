/* Update rules (doc/numerics.md). Called by the update of host backends from the tower's threads, each on a range of
 * its own, once per bucket and step. They run at the speed of memory. */
#include "compute/optimizer.h"

#include "compute/vector.h"

/* sqrtf is declared here, as a function that does not set errno, instead of in <math.h>: only then are the loops that
 * call it vectorised with the compiler's default options. */
float sqrtf(float value) __attribute__((const));
double sqrt(double value), pow(double base, double exponent);

VECTOR_LOOPS
static void update_sgd(const struct optimizer_numbers *numbers, float *restrict w, const float *restrict gradients,
                       size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        w[i] -= s.rate * g;
    }
}

VECTOR_LOOPS
static void update_momentum(const struct optimizer_numbers *numbers, float *restrict w, const float *restrict gradients,
                            float *restrict a, size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.momentum * a[i] + g;
        w[i] -= s.rate * a[i];
    }
}

VECTOR_LOOPS
static void update_nesterov(const struct optimizer_numbers *numbers, float *restrict w, const float *restrict gradients,
                            float *restrict a, size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.momentum * a[i] + g;
        w[i] -= s.rate * (g + s.momentum * a[i]);
    }
}

/* Adadelta as in Keras: the step is scaled by the average of squared steps before this one. */
VECTOR_LOOPS
static void update_adadelta(const struct optimizer_numbers *numbers, float *restrict w, const float *restrict gradients,
                            float *restrict a, float *restrict d, size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.rho * a[i] + (1.0f - s.rho) * g * g;
        const float u = g * sqrtf((d[i] + s.epsilon) / (a[i] + s.epsilon));
        w[i] -= s.rate * u;
        d[i] = s.rho * d[i] + (1.0f - s.rho) * u * u;
    }
}

VECTOR_LOOPS
static void update_rmsprop(const struct optimizer_numbers *numbers, float *restrict w,
                           const float *restrict gradients, float *restrict a, float *restrict m, size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.rho * a[i] + s.rho_rest * g * g;
        m[i] = s.momentum * m[i] + s.rate * (g / sqrtf(a[i] + s.epsilon));
        w[i] -= m[i];
    }
}

VECTOR_LOOPS
static void update_rmsprop_keras(const struct optimizer_numbers *numbers, float *restrict w,
                                 const float *restrict gradients, float *restrict a, size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.rho * a[i] + s.rho_rest * g * g;
        w[i] -= s.rate * (g / (sqrtf(a[i]) + s.epsilon));
    }
}

VECTOR_LOOPS
static void update_rmsprop_pytorch(const struct optimizer_numbers *numbers, float *restrict w,
                                   const float *restrict gradients, float *restrict a, float *restrict m, size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.rho * a[i] + s.rho_rest * g * g;
        m[i] = s.momentum * m[i] + g / (sqrtf(a[i]) + s.epsilon);
        w[i] -= s.rate * m[i];
    }
}

/* Adam and AdamW: either decay or shrink is 0. */
VECTOR_LOOPS
static void update_adam(const struct optimizer_numbers *numbers, float *restrict w, const float *restrict gradients,
                        float *restrict m, float *restrict v, size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        m[i] = s.momentum * m[i] + s.momentum_rest * g;
        v[i] = s.rho * v[i] + s.rho_rest * g * g;
        w[i] -= s.shrink * w[i] + s.rate * (m[i] / (s.root * sqrtf(v[i]) + s.epsilon));
    }
}

/* LARS as in the paper: the buffer includes the rate, so a change of the rate does not affect the momentum of earlier
 * steps. */
VECTOR_LOOPS
static void update_lars(const struct optimizer_numbers *numbers, float *restrict w, const float *restrict gradients,
                        float *restrict a, size_t count)
{
    const struct optimizer_numbers s = *numbers;
    for (size_t i = 0; i < count; i++) {
        const float g = s.scale * gradients[i] + s.decay * w[i];
        a[i] = s.momentum * a[i] + s.rate * g;
        w[i] -= a[i];
    }
}

static void run_sgd(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    update_sgd(numbers, range->weights, range->gradients, range->count);
}

static void run_momentum(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    update_momentum(numbers, range->weights, range->gradients, range->states[0], range->count);
}

static void run_nesterov(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    update_nesterov(numbers, range->weights, range->gradients, range->states[0], range->count);
}

static void run_adadelta(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    update_adadelta(numbers, range->weights, range->gradients, range->states[0], range->states[1], range->count);
}

static void run_rmsprop(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    update_rmsprop(numbers, range->weights, range->gradients, range->states[0], range->states[1], range->count);
}

static void run_rmsprop_pytorch(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    update_rmsprop_pytorch(numbers, range->weights, range->gradients, range->states[0], range->states[1], range->count);
}

static void run_rmsprop_keras(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    update_rmsprop_keras(numbers, range->weights, range->gradients, range->states[0], range->count);
}

static void run_adam(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    update_adam(numbers, range->weights, range->gradients, range->states[0], range->states[1], range->count);
}

/* The factor that LARS applies to the rate; 1 when a norm is 0. */
static double trust_ratio(const struct optimizer_numbers *numbers, double weight_squares, double gradient_squares)
{
    const double w = sqrt(weight_squares), g = (double)numbers->scale * sqrt(gradient_squares);
    return w > 0 && g > 0 ? numbers->trust * w / (g + (double)numbers->decay * w) : 1;
}

static void run_lars(const struct optimizer_numbers *numbers, const struct optimizer_range *range)
{
    struct optimizer_numbers own = *numbers;
    if (range->weight_squares != NULL)
        own.rate = (float)((double)own.rate * trust_ratio(numbers, *range->weight_squares, *range->gradient_squares));
    update_lars(&own, range->weights, range->gradients, range->states[0], range->count);
}

/* ---- the numbers and the table of rules ---- */

/* Corrects the bias of averages that start at 0, which are too small by the factor 1 - beta^t. */
static void correct_adam(const struct optimizer *optimizer, const struct optimizer_step *step,
                         struct optimizer_numbers *numbers)
{
    const double t = (double)step->number + 1;
    numbers->momentum = (float)optimizer->beta1;
    numbers->momentum_rest = (float)(1 - optimizer->beta1);
    numbers->rho = (float)optimizer->beta2;
    numbers->rho_rest = (float)(1 - optimizer->beta2);
    numbers->rate = (float)((double)step->learning_rate / (1 - pow(optimizer->beta1, t)));
    numbers->root = (float)(1 / sqrt(1 - pow(optimizer->beta2, t)));
}

static void correct_adamw(const struct optimizer *optimizer, const struct optimizer_step *step,
                          struct optimizer_numbers *numbers)
{
    correct_adam(optimizer, step, numbers);
    numbers->shrink = (float)((double)step->learning_rate * (double)numbers->decay);
    numbers->decay = 0.0f;
}

static const struct rule {
    const char *name, *keys;    /* optimizer.h */
    struct optimizer_usual usual;
    bool adapts;
    uint32_t state_count;
    float starts[OPTIMIZER_STATES_MAX];
    void (*correct)(const struct optimizer *optimizer, const struct optimizer_step *step,
                    struct optimizer_numbers *numbers);     /* NULL: the numbers of the optimizer are used unchanged */
    void (*run)(const struct optimizer_numbers *numbers, const struct optimizer_range *range);
} rules[OPTIMIZER_KIND_COUNT] = {
    [OPTIMIZER_SGD] = { "sgd", "", .usual = { .learning_rate = 0.01 }, .run = run_sgd },
    [OPTIMIZER_MOMENTUM] = { "momentum", "momentum", .usual = { .learning_rate = 0.01 },
                             .state_count = 1, .run = run_momentum },
    [OPTIMIZER_NESTEROV] = { "nesterov", "momentum", .usual = { .learning_rate = 0.01 },
                             .state_count = 1, .run = run_nesterov },
    [OPTIMIZER_ADADELTA] = { "adadelta", "rho epsilon", .state_count = 2, .run = run_adadelta },
    [OPTIMIZER_RMSPROP] = { "rmsprop", "momentum rho epsilon",
                            .usual = { .learning_rate = 0.01, .rho = 0.9, .epsilon = 1 },
                            .state_count = 2, .starts = { 1.0f }, .run = run_rmsprop },
    [OPTIMIZER_RMSPROP_KERAS] = { "rmsprop_keras", "rho epsilon", .usual = { .learning_rate = 0.001, .rho = 0.9 },
                                  .state_count = 1, .run = run_rmsprop_keras },
    [OPTIMIZER_ADAM] = { "adam", "betas epsilon", .usual = { .learning_rate = 0.001 },
                         .state_count = 2, .correct = correct_adam, .run = run_adam },
    [OPTIMIZER_ADAMW] = { "adamw", "betas epsilon", .usual = { .learning_rate = 0.001, .weight_decay = 0.01 },
                          .state_count = 2, .correct = correct_adamw, .run = run_adam },
    [OPTIMIZER_LARS] = { "lars", "momentum trust", .adapts = true, .state_count = 1, .run = run_lars },
    [OPTIMIZER_RMSPROP_PYTORCH] = { "rmsprop_pytorch", "momentum rho epsilon",
                                    .usual = { .learning_rate = 0.001, .rho = 0.9 },
                                    .state_count = 2, .run = run_rmsprop_pytorch },
};

const char *optimizer_name(int kind)
{
    return kind < OPTIMIZER_KIND_COUNT ? rules[kind].name : NULL;
}

const char *optimizer_keys(int kind)
{
    return rules[kind].keys;
}

const struct optimizer_usual *optimizer_usual(enum optimizer_kind kind)
{
    return &rules[kind].usual;
}

bool optimizer_adapts(enum optimizer_kind kind)
{
    return rules[kind].adapts;
}

uint32_t optimizer_state_count(enum optimizer_kind kind)
{
    return rules[kind].state_count;
}

float optimizer_state_start(enum optimizer_kind kind, uint32_t state)
{
    return rules[kind].starts[state];
}

struct optimizer_numbers optimizer_numbers(const struct optimizer *optimizer, const struct optimizer_step *step,
                                           bool decays)
{
    struct optimizer_numbers numbers = {
        .rate = step->learning_rate,
        .scale = step->gradient_scale,
        .decay = decays ? optimizer->weight_decay : 0.0f,
        .epsilon = optimizer->epsilon,
        .momentum = optimizer->momentum,
        .rho = (float)optimizer->rho,
        .rho_rest = (float)(1 - optimizer->rho),
        .trust = optimizer->trust,
        .clip_norm = optimizer->clip_norm,
    };
    const struct rule *const rule = &rules[optimizer->kind];
    if (rule->correct != NULL)
        rule->correct(optimizer, step, &numbers);
    return numbers;
}

/* The factor that scales gradients with this sum of squares, as in PyTorch's clip_grad_norm_. */
static float clipped_scale(const struct optimizer_numbers *numbers, double squares)
{
    const double share = numbers->clip_norm / ((double)numbers->scale * sqrt(squares) + CLIP_EPSILON);
    return share < 1 ? (float)((double)numbers->scale * share) : numbers->scale;
}

void optimizer_update(const struct optimizer *optimizer, const struct optimizer_step *step,
                      const struct optimizer_range *range)
{
    struct optimizer_numbers numbers = optimizer_numbers(optimizer, step, range->decays);
    if (range->all_squares != NULL)
        numbers.scale = clipped_scale(&numbers, *range->all_squares);
    rules[optimizer->kind].run(&numbers, range);
}
