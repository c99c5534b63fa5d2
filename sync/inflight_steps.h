/* The steps of a tower that are queued and not yet reported: step n has the place n % depth, and memory there
 * that the device writes what it has to say to. Used from the tower's thread. */
#ifndef PIPETRAIN_INFLIGHT_STEPS_H
#define PIPETRAIN_INFLIGHT_STEPS_H

#include "compute/health.h"
#include "sync/step_clock.h"

struct step_report;

/* What the device says of a step; pinned. */
struct step_result { struct backend_result *pieces; struct health health; };

struct inflight_steps {
    struct device *device;
    uint32_t depth;             /* steps that may be queued and not yet reported */
    struct step_report **reports;
    uint32_t pieces_max;        /* of a step */
    struct step_result *results;   /* pinned, and behind them the results of their pieces */
    uint64_t queued, finished;  /* steps */
};

/* As many as the device computes ahead, and one, of at most `pieces_max` pieces each. 0 or a negative errno;
 * inflight_steps_close after either. */
int inflight_steps_open(struct inflight_steps *steps, struct device *device, uint32_t pieces_max);
/* Accepts steps that are all 0. */
void inflight_steps_close(struct inflight_steps *steps);
/* The step that is queued next will be reported by that; returns where the device tells of it. */
struct step_result *inflight_steps_begin(struct inflight_steps *steps, struct step_report *report);
/* The oldest step that is queued and not yet reported. */
struct step_report *inflight_steps_oldest(const struct inflight_steps *steps, const struct step_result **result_out);
/* What the device says of all pieces of a step, whose span the report has; was_inspected: of its health, too. */
void step_result_report(const struct step_result *result, struct tower *tower, bool was_inspected,
                        struct step_report *report);
/* Is that one due before another is queued? */
static inline bool inflight_steps_are_full(const struct inflight_steps *steps)
{
    return steps->queued - steps->finished == steps->depth;
}

#endif
