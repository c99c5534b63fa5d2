/* The learning rate as a function of the step: the one place that knows it. Steps are those of the run, counted from 0
 * over all epochs, so a run that goes on has the rates it would have had. */
#ifndef PIPETRAIN_LEARNING_RATE_H
#define PIPETRAIN_LEARNING_RATE_H

#include <stdbool.h>
#include <stdint.h>

enum rate_schedule {
    RATE_CONSTANT,
    RATE_PIECEWISE,         /* another factor behind each boundary */
    RATE_EXPONENTIAL,       /* base * factor^(step / period); a staircase: of whole periods */
    RATE_INVERSE_TIME,      /* base / (1 + factor * step), as Keras' `decay` */
    RATE_COSINE,            /* half a cosine from base to end (Loshchilov, Hutter 2017, without restarts) */
    RATE_POLYNOMIAL,        /* end + (base - end) * (1 - share of the steps)^power */
    RATE_ONE_CYCLE,         /* up to base and down again by half cosines, as PyTorch's OneCycleLR (Smith, Topin 2018) */
    RATE_SCHEDULE_COUNT
};

#define RATE_BOUNDARIES_MAX 16u
#define RATE_CYCLE_START 25.0   /* one_cycle begins at base / this, */
#define RATE_CYCLE_END 1e4      /* and ends at that / this */

/* Times are in steps of the run; they need not be whole. */
struct learning_rate {
    enum rate_schedule schedule;
    double base;            /* what the schedule begins with; of one_cycle the largest */
    double warmup;          /* before this step the rate is the schedule's times step / warmup, from 0; 0: none */
    double end;             /* cosine, polynomial: the rate at `last` and behind it */
    double last;            /* cosine, polynomial, one_cycle: where they end. The first two begin behind the warm-up */
    double factor, period;  /* exponential, inverse_time */
    bool staircase;         /* exponential */
    double power;           /* polynomial */
    double peak;            /* one_cycle: share of the steps up to the largest rate */
    /* piecewise, ascending: a step has the factor of the last boundary it is past, 1 before all of them. A
     * boundary's own step is not past it. */
    uint32_t boundary_count;
    double boundaries[RATE_BOUNDARIES_MAX], factors[RATE_BOUNDARIES_MAX];
};

/* Of training step `step` (span.step). */
double learning_rate_at(const struct learning_rate *rate, uint64_t step);
/* Half of it at every step, so many times. */
void learning_rate_halve(struct learning_rate *rate, uint64_t times);

#endif
