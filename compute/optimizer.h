/* Update rules of optimizers (doc/numerics.md), applied to ranges of the arenas. Elementwise, so any split of a
 * range gives the same bits. Used by the backends, and on a GPU with the same formulas
 * (compute/cuda/kernels_step.cu). */
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
    OPTIMIZER_RMSPROP,          /* TensorFlow's: epsilon inside the root, momentum, a mean square that starts at 1 */
    OPTIMIZER_RMSPROP_KERAS,    /* Keras' and, without momentum, PyTorch's: epsilon outside the root */
    OPTIMIZER_ADAM,             /* PyTorch's (Kingma, Ba 2015): epsilon is added to the corrected root. TensorFlow's
                                 * equals this with epsilon / sqrt(1 - beta2^t) */
    OPTIMIZER_ADAMW,            /* PyTorch's (Loshchilov, Hutter 2019): Adam with decoupled weight decay */
    OPTIMIZER_LARS,             /* You, Gitman, Ginsburg 2017: momentum, with a rate per parameter:
                                 * rate * trust * |w| / (|g| + weight_decay * |w|), and rate when a norm is 0 */
    OPTIMIZER_RMSPROP_PYTORCH,  /* PyTorch's with momentum: epsilon outside the root; the momentum excludes the rate */
    OPTIMIZER_KIND_COUNT
};

/* The parameters to which weight decay applies. */
enum decay_scope {
    DECAY_NO_NORMS,             /* all except gamma and beta of batch normalisation */
    DECAY_ALL,
    DECAY_WEIGHTS               /* only weights of convolutions and dense layers */
};

struct optimizer {
    enum optimizer_kind kind;
    float momentum;             /* momentum, nesterov, rmsprop, lars */
    double rho;                 /* adadelta, rmsprop, rmsprop_keras: decay of the running averages */
    double beta1, beta2;        /* adam, adamw: decay of the averages of gradients and of their squares */
    double trust;               /* lars */
    float epsilon;              /* for the rules with rho or betas */
    double clip_value;          /* clamp every number of the mean gradient to this, before clip_norm; 0: off */
    double clip_norm;           /* scale all gradients of a step down to this norm if theirs is larger; 0: off */
    enum decay_scope decay_scope;
    float weight_decay;         /* g += weight_decay * w; adamw: w -= rate * weight_decay * w */
};

/* One training step of the run. */
struct optimizer_step {
    uint64_t number;            /* counted from 0 over all epochs (local.step): t of a rule is number + 1 */
    float learning_rate;
    float gradient_scale;       /* 1 / number of samples in the sums of gradients */
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
    /* lars: the sums of squares of the weights and gradients of the parameter that contains the range (floats.h);
     * NULL: the range is updated at the rate of the step. */
    const double *weight_squares, *gradient_squares;
    const double *all_squares;  /* clip_norm: the sum of squares of the gradients of all ranges; else NULL */
};

/* The numbers with which a rule computes in one step, each rounded once from doubles. */
struct optimizer_numbers {
    float rate, scale, decay, epsilon;
    float momentum, momentum_rest;      /* momentum (adam: beta1), and 1 - momentum */
    float rho, rho_rest;                /* rho (adam: beta2), and 1 - rho */
    float root;                         /* adam: factor of the root of the mean square */
    float shrink;                       /* adamw: rate * weight_decay */
    double trust;                       /* lars */
    double clip_norm;
};

/* The properties of a rule for the settings: its name, NULL after the last rule; the names of its settings that not all
 * rules have, separated by spaces ("betas epsilon"); and its default numbers, where 0 stands for the default of the
 * other rules. */
struct optimizer_usual { double learning_rate, rho, epsilon, weight_decay; };
const char *optimizer_name(int kind);
const char *optimizer_keys(int kind);
const struct optimizer_usual *optimizer_usual(enum optimizer_kind kind);

/* Does the rule use the norms of every parameter? */
bool optimizer_adapts(enum optimizer_kind kind);
/* The number of state buffers of the rule: 0, 1 or 2. */
uint32_t optimizer_state_count(enum optimizer_kind kind);
/* The initial value of all numbers of buffer `state`. */
float optimizer_state_start(enum optimizer_kind kind, uint32_t state);
/* The numbers for the update of a range in a step; `decays` is that of the range. */
struct optimizer_numbers optimizer_numbers(const struct optimizer *optimizer, const struct optimizer_step *step,
                                           bool decays);
/* Update a range on the host, in the calling thread: g = gradient_scale * gradients (+ weight decay), then the rule
 * with the step's learning rate. */
void optimizer_update(const struct optimizer *optimizer, const struct optimizer_step *step,
                      const struct optimizer_range *range);

#endif
