/* The steps of a tower that are queued and not yet reported: step n has the place n % depth, and memory there
 * that the device writes what it has to say to. Used from the tower's thread. */
#ifndef PIPETRAIN_FLIGHTS_H
#define PIPETRAIN_FLIGHTS_H

#include "compute/health.h"
#include "sync/step_clock.h"

struct step_report;

/* What the device says of a step; pinned. */
struct outcome { struct backend_result *pieces; struct health health; };

struct flights {
    struct device *device;
    uint32_t depth;             /* steps that may be queued and not yet reported */
    struct step_report **reports;
    uint32_t pieces_max;        /* of a step */
    struct outcome *outcomes;   /* pinned, and behind them the results of their pieces */
    uint64_t queued, finished;  /* steps */
};

/* As many as the device computes ahead, and one, of at most `pieces_max` pieces each. 0 or a negative errno;
 * flights_close after either. */
int flights_open(struct flights *flights, struct device *device, uint32_t pieces_max);
/* Accepts flights that are all 0. */
void flights_close(struct flights *flights);
/* The step that is queued next will be reported by that; returns where the device tells of it. */
struct outcome *flights_begin(struct flights *flights, struct step_report *report);
/* The oldest step that is queued and not yet reported. */
struct step_report *flights_oldest(const struct flights *flights, const struct outcome **outcome_out);
/* What the device says of all pieces of a step, whose span the report has; was_inspected: of its health, too. */
void outcome_tell(const struct outcome *outcome, struct tower *tower, bool was_inspected, struct step_report *report);
/* Is that one due before another is queued? */
static inline bool flights_are_full(const struct flights *flights)
{
    return flights->queued - flights->finished == flights->depth;
}

#endif
