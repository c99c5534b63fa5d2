/* The rank for which the others wait. Each tower reports how its step was spent, and the ranks wait for each other in the
 * sums only, so a rank is as late at the sums of a step as the rest of its step was longer than that of the others. What a
 * rank costs is the mean of that over all steps: a small delay in every step and a long one now and then are weighed by
 * the time that they take. Each tower measures only its own step: clocks of hosts are not compared. Used by main of
 * rank 0 only. */
#ifndef PIPETRAIN_RANK_WAITS_H
#define PIPETRAIN_RANK_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "stage/schedule.h"
#include "sync/trainer.h"

struct rank_waits;

/* For the ranks among which the schedule divides the towers. hosts: a number for each rank, the same for ranks of one
 * host; copied; NULL: each rank has a host of its own. 0 or -ENOMEM. */
int rank_waits_open(struct rank_waits **waits_out, const struct schedule *schedule, const uint32_t *hosts);
/* Accepts NULL. */
void rank_waits_close(struct rank_waits *waits);
/* Add a training step: the reports of all towers of the run, in tower order. */
void rank_waits_add(struct rank_waits *waits, struct step_report *const *reports);

/* The rank that costs the run most. */
struct last_rank {
    uint64_t steps;             /* that were counted; 0: nothing is known, or no rank ever waited for sums */
    uint32_t ranks;             /* of the run */
    uint32_t rank;
    uint32_t together;          /* so many ranks of its host are late, itself included: all of the host, or 1 */
    double share;               /* of the steps, in which it was last */
    double clear_share;         /* of the steps, in which it was last by at least LAST_STEP_SHARE of the step */
    /* Means over all steps, compared with the median of the other ranks: how much later it was; negative if earlier.
     * And how much longer its towers waited for input. */
    double behind_ms, input_ms;
    double most_ms;             /* how much later it was in the step in which it was the latest */
    double waited_ms;           /* mean over the steps of what the median of all ranks waited for sums */
    /* behind_ms divided by its standard error, by the means over LAST_BLOCKS_MIN to LAST_BLOCKS_MAX successive parts of
     * the run (method of batch means: parts are so long that what happens in one does not depend on the one before).
     * Parts of equal ranks differ by chance; what has happened once is large in one part only. INFINITY if all parts are
     * equal. */
    double certainty;
};
#define LAST_BLOCKS_MIN 16u
#define LAST_BLOCKS_MAX 32u
/* `waits` NULL: nothing is known. */
struct last_rank rank_waits_find(const struct rank_waits *waits);
/* Does the rank slow the run? A step takes `step_ms`. Only after LAST_STEPS steps, if it was later by at least 5 % of a
 * step, and by 1 ms or, where that is less, 10 % of a step; if the others waited at least half of that; and if that is no
 * chance: its certainty is at least LAST_CERTAINTY, or its clear_share at least 1/2 + 1/(3 R) with R ranks (67 % with two
 * ranks, of which each is last in half of the steps by chance), which also shows a delay in most steps of a run that
 * other programs disturb much. */
#define LAST_STEPS 50u
#define LAST_CERTAINTY 4.0
#define LAST_STEP_SHARE 0.05
#define LAST_MS 1.0
#define LAST_SHORT_STEP_SHARE 0.1
bool last_rank_is_slow(const struct last_rank *last, double step_ms);
/* Does it stand still now and then, and is in most steps as early as the others? Then it was late once by LAST_REST times
 * the mean, and last hardly more often than by chance. */
#define LAST_REST 10.0
#define LAST_CHANCE 0.15
bool last_rank_rests(const struct last_rank *last);

#endif
