/* Update rules over flat ranges of the arenas (doc/numerics.md). Elementwise,
 * so any split of a range gives the same bits. */
#ifndef PIPETRAIN_OPTIMIZER_H
#define PIPETRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum optimizer_kind {
    OPTIMIZER_SGD,
    OPTIMIZER_MOMENTUM,
    OPTIMIZER_NESTEROV,
    OPTIMIZER_ADADELTA,         /* Keras' (Zeiler 2012) */
    OPTIMIZER_RMSPROP,          /* TensorFlow's: epsilon under the root, momentum, a mean square that begins at 1 */
    OPTIMIZER_RMSPROP_KERAS,    /* Keras' and, without momentum, PyTorch's: epsilon beside the root */
    OPTIMIZER_ADAM,             /* Kingma, Ba 2015, as PyTorch has it: epsilon is added to the corrected root.
                                 * TensorFlow's is this with epsilon / sqrt(1 - beta2^t): added before it */
    OPTIMIZER_ADAMW,            /* the same, weights decay beside it (Loshchilov, Hutter 2019), as PyTorch has it */
    OPTIMIZER_LARS,             /* You, Gitman, Ginsburg 2017: momentum, each parameter at a rate of its own:
                                 * rate * trust * |w| / (|g| + weight_decay * |w|), and rate where a norm is 0 */
    OPTIMIZER_KIND_COUNT
};

/* Which parameters weight decay is for. */
enum decay_scope {
    DECAY_NO_NORMS,             /* all but gamma and beta of batch normalisation */
    DECAY_ALL,
    DECAY_WEIGHTS               /* weights of convolutions and dense layers: no biases either */
};

struct optimizer {
    enum optimizer_kind kind;
    float momentum;             /* momentum, nesterov, rmsprop, lars */
    double rho;                 /* adadelta, rmsprop, rmsprop_keras: of the running averages */
    double beta1, beta2;        /* adam, adamw: of the averages of gradients and of their squares */
    double trust;               /* lars */
    float epsilon;              /* of those with rho or betas */
    double clip_value;          /* no number of a step's gradient is larger, before its norm is looked at; 0: any */
    double clip_norm;           /* all gradients of a step are shortened to this norm where it is larger; 0: never */
    enum decay_scope decay_scope;
    float weight_decay;         /* in ranges that decay g += weight_decay * w; adamw: w -= rate * weight_decay * w */
};

/* One training step of the run. */
struct optimizer_step {
    uint64_t number;            /* counted from 0 over all epochs (span.step): t of a rule is number + 1 */
    float learning_rate;
    float gradient_scale;       /* 1 / samples the gradients are sums over */
};

#define OPTIMIZER_STATES_MAX 2
#define CLIP_EPSILON 1e-6       /* added to the norm that clip_norm is divided by */

/* Flat ranges of equal length. */
struct optimizer_range {
    float *weights;
    const float *gradients;     /* sums over samples */
    float *states[OPTIMIZER_STATES_MAX];
    size_t count;
    bool decays;                /* weight decay applies */
    /* lars: the range is a parameter with a rate of its own, and these are the sums of squares of all its weights and
     * gradients (floats.h); NULL: at the rate of the step. */
    const double *weight_squares, *gradient_squares;
    const double *all_squares;  /* clip_norm: the sum of squares of the gradients of all ranges; else NULL */
};

/* What a rule computes with in one step: of doubles, each rounded once. */
struct optimizer_numbers {
    float rate, scale, decay, epsilon;
    float momentum, momentum_rest;      /* adam: beta1; the rest to 1 */
    float rho, rho_rest;                /* adam: beta2 */
    float root;                         /* adam: factor of the root of squares */
    float shrink;                       /* adamw: share of the weight that goes */
    double trust;                       /* lars */
    double clip_norm;
};

/* Does the rule look at the norms of every parameter? */
static inline bool optimizer_adapts(enum optimizer_kind kind)
{
    return kind == OPTIMIZER_LARS;
}

/* Buffers of arena size the rule keeps: 0, 1 or 2. */
uint32_t optimizer_state_count(enum optimizer_kind kind);
/* What every number of buffer `state` begins with. */
float optimizer_state_start(enum optimizer_kind kind, uint32_t state);
/* For the update of a range in a step; `decays` is the range's. */
struct optimizer_numbers optimizer_numbers(const struct optimizer *optimizer, const struct optimizer_step *step,
                                           bool decays);
/* One update on the host, in the calling thread:
 * g = gradient_scale * gradients (+ weight decay), then the rule with the step's learning rate. */
void optimizer_update(const struct optimizer *optimizer, const struct optimizer_step *step,
                      const struct optimizer_range *range);

#endif
