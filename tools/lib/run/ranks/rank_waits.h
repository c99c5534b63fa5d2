/* The rank for which the others wait. A step's sums end at the same time in all ranks, so the towers of the rank that is
 * last wait the least for them (exposed reduction). Each tower measures only its own wait: clocks of hosts are not
 * compared. Used by main of rank 0 only. */
#ifndef PIPETRAIN_RANK_WAITS_H
#define PIPETRAIN_RANK_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "stage/schedule.h"
#include "sync/trainer.h"

struct rank_waits;

/* For the ranks among which the schedule divides the towers. 0 or -ENOMEM. */
int rank_waits_open(struct rank_waits **waits_out, const struct schedule *schedule);
/* Accepts NULL. */
void rank_waits_close(struct rank_waits *waits);
/* Add a training step: the reports of all towers of the run, in tower order. A step in which hardly any rank waits, such
 * as one without sums, is left out. */
void rank_waits_add(struct rank_waits *waits, struct step_report *const *reports);

/* The rank that was last most often. */
struct last_rank {
    uint64_t steps;             /* that were counted; 0: nothing is known */
    uint32_t ranks;             /* of the run */
    uint32_t rank;
    double share;               /* of the steps, in which it was last */
    /* Means over all steps, compared with the median of the other ranks: how much later it was; negative if earlier.
     * And how much longer its towers waited for input. */
    double behind_ms, input_ms;
};
/* `waits` NULL: nothing is known. */
struct last_rank rank_waits_find(const struct rank_waits *waits);
/* Does the rank slow the run? A step takes `step_ms`. Only after LAST_STEPS steps, if it was last in 1/2 + 1/(3 R) of
 * them, with R ranks (in 67 % with two ranks, of which each is last in half of the steps by chance), and later by at
 * least LAST_MS and LAST_STEP_SHARE of a step. */
#define LAST_STEPS 50u
#define LAST_MS 1.0
#define LAST_STEP_SHARE 0.05
bool last_rank_is_slow(const struct last_rank *last, double step_ms);

#endif
