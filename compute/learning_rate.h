/* Learning rate schedules: the learning rate as a function of the step. Steps are counted from 0 over all epochs of
 * the run, so a resumed run has the rates that it would have had. */
#ifndef PIPETRAIN_LEARNING_RATE_H
#define PIPETRAIN_LEARNING_RATE_H

#include <stdbool.h>
#include <stdint.h>

enum rate_schedule {
    RATE_CONSTANT,
    RATE_PIECEWISE,         /* another factor after each boundary */
    RATE_EXPONENTIAL,       /* base * factor^(step / period); staircase: the exponent is rounded down */
    RATE_INVERSE_TIME,      /* base / (1 + factor * step), as Keras' `decay` */
    RATE_COSINE,            /* half a cosine from base to end, after the warm-up (Loshchilov, Hutter 2017) */
    RATE_POLYNOMIAL,        /* end + (base - end) * (1 - share of the steps)^power */
    RATE_ONE_CYCLE,         /* up to base and down again by half cosines, as PyTorch's OneCycleLR (Smith, Topin 2018) */
    RATE_SCHEDULE_COUNT
};

#define RATE_BOUNDARIES_MAX 16u
#define RATE_CYCLE_START 25.0   /* one_cycle starts at base / RATE_CYCLE_START */
#define RATE_CYCLE_END 1e4      /* and ends at its start / RATE_CYCLE_END */

/* Times are in steps of the run; they need not be whole. */
struct learning_rate {
    enum rate_schedule schedule;
    double base;            /* the rate at the start; one_cycle: the largest rate */
    double warmup;          /* before this step the rate is multiplied by a factor; 0: no warm-up */
    double warmup_from;     /* that factor at step 0; it rises linearly to 1 at step `warmup`, as PyTorch's LinearLR */
    double end;             /* cosine, polynomial: the rate from step `last` on */
    double last;            /* cosine, polynomial, one_cycle: the step at which they end */
    double factor, period;  /* exponential, inverse_time */
    bool staircase;         /* exponential */
    double power;           /* polynomial */
    double peak;            /* one_cycle: share of the steps up to the largest rate */
    /* piecewise, ascending: a step has the factor of the last boundary before it; the factor is 1 up to and including
     * the first boundary. */
    uint32_t boundary_count;
    double boundaries[RATE_BOUNDARIES_MAX], factors[RATE_BOUNDARIES_MAX];
};

/* The learning rate of training step `step` (local.step). */
double learning_rate_at(const struct learning_rate *rate, uint64_t step);
/* Halve all rates, `times` times. */
void learning_rate_halve(struct learning_rate *rate, uint64_t times);

#endif
