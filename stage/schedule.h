/* Which samples belong to every batch of a run: arithmetic on batch numbers. A run is one sequence of global batches:
 * for each epoch a training phase, then an evaluation phase. Batch t of a phase has positions [t*batch,
 * min((t+1)*batch, records)) of the phase, divided into one contiguous local batch per tower. The sizes of local
 * batches differ by at most one sample, or one pair if pairs of samples are mixed; they may be empty. The numbers of
 * threads, queue entries and towers determine who does the work, never which samples a step has.
 *
 * A process may begin with any batch of the run, `first`. Batches, steps and epochs are always numbered from the start
 * of the run. */
#ifndef PIPETRAIN_SCHEDULE_H
#define PIPETRAIN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum phase { PHASE_TRAIN, PHASE_EVALUATE, PHASE_COUNT };

/* The most towers of a run, in all its processes. */
#define RUN_TOWERS_MAX 65536u

/* A range of the run's towers. */
struct tower_range { uint32_t first, count; };

struct schedule {
    uint64_t records[PHASE_COUNT];  /* records per phase; 0 evaluation records: no evaluation; 0 training records: only
                                     * evaluations */
    uint32_t batch;                 /* samples of a complete global batch, >= 1 */
    uint32_t towers;                /* number of towers of the run, >= 1 */
    uint32_t slices;                /* number of microbatches of every batch, each tower computing a contiguous range of
                                     * them (schedule_slices_fit is true); 0: batches are not divided */
    struct tower_range here;        /* the towers of this process; count 0: all towers (schedule_here) */
    uint32_t epochs;                /* >= 1 */
    uint32_t evaluations;           /* without training records: number of evaluations; 0: one */
    uint64_t steps;                 /* stop training after this many steps; 0: epochs determine the end. The evaluation
                                     * after the last (incomplete) epoch still runs. */
    bool drop_last;                 /* training: skip the last batch of an epoch if it is incomplete */
    bool pairs;                 /* samples 2k and 2k + 1 of a batch are in one local batch (struct mix) */
    uint32_t lanes;             /* parts of every training batch with an order of their own (loader/order.h), each read
                                 * by one process: a multiple of the number of processes; 0 or 1: one order for all */
    uint64_t first;                 /* this process's first batch, from schedule_seek; 0: the run's first */
    bool repeats_evaluation;        /* `first` is the first batch of an evaluation that an earlier process began: towers
                                     * have the means over towers that an evaluation begins with */
};

/* A range of a run's lanes. */
struct lane_range { uint32_t first, count; };

/* A position between two batches of a run, as stored in a checkpoint: `step` steps are complete, and the next batch
 * belongs to epoch `epoch`. After the last step of an epoch the epoch's evaluation follows, of which `evaluated`
 * batches are complete; after the whole evaluation the position is in the next epoch. */
struct position { uint32_t epoch; uint64_t step, evaluated; };

/* The local batch of a tower: its share of a global batch. */
struct local_batch {
    uint64_t number;            /* number of the global batch in the run, from 0, counted over all phases */
    enum phase phase;
    uint32_t epoch;             /* from 0 */
    uint64_t step;              /* training: global step from 0; evaluation: batch in the phase from 0 */
    uint64_t first_position;    /* position of its first sample in the phase */
    uint32_t count;             /* number of samples, may be 0 */
    uint32_t global_count;      /* samples in the global batch, >= 1 */
    bool first_of_phase, last_of_phase;
};

/* The towers of this process. */
static inline struct tower_range schedule_here(const struct schedule *schedule)
{
    const struct tower_range all = { .first = 0, .count = schedule->towers };
    return schedule->here.count > 0 ? schedule->here : all;
}

/* The lanes whose samples the towers of this process have; { 0, 1 } for a run without lanes. */
struct lane_range schedule_lanes(const struct schedule *schedule);

/* Find the local batch of the run's tower `tower` in global batch `number`, which may be before `first`. 0, or -ENODATA
 * after the end of the run. O(1). */
int schedule_find(const struct schedule *schedule, uint64_t number, uint32_t tower, struct local_batch *local_out);

/* Find the number of the next batch at `position`; at the end of the run it is the number of batches. A longer run has
 * the same batch at the position, even if it evaluates later. 0, or -EINVAL if the run has no such position. O(1). */
int schedule_seek(const struct schedule *schedule, struct position position, uint64_t *number_out);
/* The position before global batch `number`; `number` is at most the number of batches in the run. */
struct position schedule_position(const struct schedule *schedule, uint64_t number);

/* Batches per training epoch and per evaluation phase; steps and batches of the whole run, also those before
 * `first`. */
uint64_t schedule_steps_per_epoch(const struct schedule *schedule);
uint64_t schedule_batches_per_evaluation(const struct schedule *schedule);
uint64_t schedule_step_count(const struct schedule *schedule);
uint64_t schedule_batch_count(const struct schedule *schedule);
/* Steps from `first` to the end of the run. */
uint64_t schedule_steps_left(const struct schedule *schedule);
/* The largest local batch, which is tower 0's: ceil(batch / towers) samples, or the next even number for pairs. */
uint32_t schedule_local_max(const struct schedule *schedule);

/* ---- slices: microbatches whose number does not depend on the towers (train.slices) ----
 *
 * Sums over the slices of a batch are added in pairs (stage/pairwise.h). A tower has to compute whole subtrees of that
 * tree, so that the additions are the same for any number of towers. */

/* Can this number of towers share the slices? It has to be 1 or slices / 2^k. */
bool schedule_slices_fit(uint32_t slices, uint32_t towers);

/* Can this number of processes share the lanes? */
static inline bool schedule_lanes_fit(uint32_t lane_count, uint32_t processes)
{
    return lane_count <= 1 || lane_count % processes == 0;
}

/* Samples of a batch: index of the first one, and their number. */
struct batch_part { uint32_t first, count; };
/* Part `part` of `parts` parts of a batch of `samples`. Part sizes differ by at most one sample, or one pair, and so do
 * the total sizes of equally long ranges of parts. Parts may be empty; no part is larger than the first. */
struct batch_part batch_part_find(uint32_t samples, bool pairs, uint32_t parts, uint32_t part);
/* The number of the part that has sample `sample` < samples. */
uint32_t batch_part_with(uint32_t samples, bool pairs, uint32_t parts, uint32_t sample);

#endif
