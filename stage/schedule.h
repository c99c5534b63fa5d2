/* Which samples every batch of a run holds: pure arithmetic over batch numbers.
 * A run is one sequence of global batches: for each epoch its training phase, then its evaluation phase. Batch t of a
 * phase covers positions [t*batch, min((t+1)*batch, records)) of the phase, divided into one contiguous local batch per
 * tower. Their sizes differ by at most one, counted in pairs of samples where those are mixed; they may be empty.
 * Numbers of threads, depths and towers change who does the work, never which samples a step sees.
 *
 * A process may begin with any batch of the run, `first`. Numbers of batches, steps and epochs are always the run's. */
#ifndef PIPETRAIN_SCHEDULE_H
#define PIPETRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum phase { PHASE_TRAIN, PHASE_EVALUATE, PHASE_COUNT };

/* Some of the run's towers. */
struct tower_range { uint32_t first, count; };

struct schedule {
    uint64_t records[PHASE_COUNT];  /* records per phase; 0 evaluation records = no evaluation; 0 training
                                     * records = nothing but one evaluation */
    uint32_t batch;                 /* samples of a full global batch, >= 1 */
    uint32_t towers;                /* of the run, >= 1 */
    uint32_t slices;                /* every batch is cut into so many microbatches, of which each tower computes
                                     * neighbouring ones (schedule_slices_fit holds); 0: not */
    struct tower_range here;        /* those of this process; count 0: all of them (schedule_here) */
    uint32_t epochs;                /* >= 1 */
    uint64_t steps;                 /* stop training after so many steps; 0 = epochs decide.
                                     * The evaluation after the last (partial) epoch still runs. */
    bool drop_last;                 /* training: leave out the last batch of an epoch when it is partial */
    bool pairs;                 /* samples 2k and 2k + 1 of a batch are in one local batch (struct mix) */
    uint64_t first;                 /* the batch this process begins with, of schedule_seek; 0 = the run's first */
};

/* A place between two batches of a run, as a checkpoint names it: `step` steps are done, and the next batch belongs
 * to epoch `epoch`. After the last step of an epoch its evaluation comes next, of which `evaluated` batches are
 * done; after the whole evaluation it is the next epoch. */
struct position { uint32_t epoch; uint64_t step, evaluated; };

/* The local batch of a tower: its share of a global batch. */
struct local_batch {
    uint64_t number;            /* of the global batch in the run, from 0, all phases counted */
    enum phase phase;
    uint32_t epoch;             /* from 0 */
    uint64_t step;              /* training: global step from 0; evaluation: batch in the phase from 0 */
    uint64_t first_position;    /* of this local batch in the phase */
    uint32_t count;             /* its samples, may be 0 */
    uint32_t global_count;      /* samples in the global batch, >= 1 */
    bool first_of_phase, last_of_phase;
};

/* The towers of this process. */
static inline struct tower_range schedule_here(const struct schedule *schedule)
{
    const struct tower_range all = { .first = 0, .count = schedule->towers };
    return schedule->here.count > 0 ? schedule->here : all;
}

/* The local batch of the run's tower `tower` in global batch `number`, which may be before `first`. 0, or -ENODATA
 * past the end of the run. O(1). */
int schedule_find(const struct schedule *schedule, uint64_t number, uint32_t tower, struct local_batch *local_out);

/* The next batch at `position`; the number of batches in the run when that is its end. A longer run has the same
 * batch at that position, though it evaluates later. 0, or -EINVAL when the run has no such position. O(1). */
int schedule_seek(const struct schedule *schedule, struct position position, uint64_t *number_out);
/* The position before global batch `number` <= batches in the run. */
struct position schedule_position(const struct schedule *schedule, uint64_t number);

/* Batches per training epoch, per evaluation phase; steps and batches of the whole run, those
 * before `first` included. */
uint64_t schedule_steps_per_epoch(const struct schedule *schedule);
uint64_t schedule_batches_per_evaluation(const struct schedule *schedule);
uint64_t schedule_step_count(const struct schedule *schedule);
uint64_t schedule_batch_count(const struct schedule *schedule);
/* Steps of the run from `first` on. */
uint64_t schedule_steps_left(const struct schedule *schedule);
/* The most samples of a batch that any tower gets, tower 0: ceil(batch / towers), or the next even number. */
uint32_t schedule_local_max(const struct schedule *schedule);

/* ---- slices whose number does not depend on the towers (train.slices) ----
 * Sums over the slices of a batch are added in pairs (stage/pairwise.h). A tower has to compute whole subtrees of that
 * tree, so that the additions are the same for any number of towers. */

/* Can `towers` towers share the slices? One tower, or slices / 2^k. */
bool schedule_slices_fit(uint32_t slices, uint32_t towers);

/* Samples of a batch, counted from its first one. */
struct batch_part { uint32_t first, count; };
/* Part `part` of `parts` of a batch of `samples`. Sizes differ by at most one, or one pair; so do the sums of as many
 * neighbours. Parts may be empty; the first one is as large as any. */
struct batch_part batch_part_find(uint32_t samples, bool pairs, uint32_t parts, uint32_t part);

#endif
