/* Update rules over flat ranges of the arenas (doc/numerics.md). Elementwise,
 * so any split of a range gives the same bits. */
#ifndef PIPETRAIN_OPTIMIZER_H
#define PIPETRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_NESTEROV, OPTIMIZER_ADADELTA, OPTIMIZER_KIND_COUNT };

struct optimizer {
    enum optimizer_kind kind;
    float momentum;             /* momentum, nesterov */
    float rho, epsilon;         /* adadelta */
    float weight_decay;         /* g += weight_decay * w in ranges that decay */
};

/* One training step of the run. */
struct optimizer_step {
    uint64_t number;            /* counted from 0 over all epochs (span.step) */
    float learning_rate;
    float gradient_scale;       /* 1 / samples the gradients are sums over */
};

#define OPTIMIZER_STATES_MAX 2

/* Flat ranges of equal length. */
struct optimizer_range {
    float *weights;
    const float *gradients;     /* sums over samples */
    float *states[OPTIMIZER_STATES_MAX];
    size_t count;
    bool decays;                /* weight decay applies */
};

/* Buffers of arena size the rule keeps: 0, 1 or 2; all start at zero. */
uint32_t optimizer_state_count(enum optimizer_kind kind);
/* One update on the host, in the calling thread:
 * g = gradient_scale * gradients (+ weight decay), then the rule with the step's learning rate. */
void optimizer_update(const struct optimizer *optimizer, const struct optimizer_step *step,
                      const struct optimizer_range *range);

#endif
