/* The achievements of a run up to a batch: its best evaluation, skipped steps, signs of divergence. Part of
 * checkpoints, so that a resumed run continues with them. Used by main only; allocates nothing. */
#ifndef PIPETRAIN_RUN_PROGRESS_H
#define PIPETRAIN_RUN_PROGRESS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define RUN_PROGRESS_TEXT_BYTES 256u    /* enough for run_progress_write */
#define RUN_PROGRESS_ROLLBACKS_MAX 5u   /* in a run; each halves its learning rate */

struct run_progress {                   /* begins as all 0 */
    uint64_t best_correct, best_images; /* of the best complete evaluation; both 0: there was none */
    uint64_t best_step;                 /* training steps done at that evaluation */
    uint64_t stale;                     /* complete evaluations since the best one */
    uint64_t skipped, skipped_in_row;   /* steps skipped because of NaN or Inf: all, and the latest in a row */
    uint64_t first_loss;                /* of the first step, in millionths; 0: unknown */
    uint64_t lost_steps;                /* steps of the latest epochs in a row that were no better than guessing */
    uint64_t has_warned;                /* it was reported that the run diverges */
    /* The step at which the learning-rate schedule ends; 0: unknown, or it has no end. */
    uint64_t rate_last;
    uint64_t rollbacks;                 /* number of rollbacks to a checkpoint */
};

/* Add a complete evaluation after `step` steps, with `correct` of `images` right. Of equal evaluations the first one
 * stays the best. */
void run_progress_add_evaluation(struct run_progress *progress, uint64_t correct, uint64_t images, uint64_t step);
/* Was the latest evaluation the best one? */
static inline bool run_progress_is_best(const struct run_progress *progress)
{
    return progress->best_images > 0 && progress->stale == 0;
}
/* The best accuracy; NAN without an evaluation. */
static inline double run_progress_best(const struct run_progress *progress)
{
    return progress->best_images > 0 ? (double)progress->best_correct / (double)progress->best_images : NAN;
}

/* Add a training step. */
void run_progress_add_step(struct run_progress *progress, bool is_skipped);

/* Set the loss of the first step; later calls have no effect. */
void run_progress_note_first(struct run_progress *progress, double loss);

/* Training results of an epoch. */
struct run_progress_epoch { double loss, accuracy; uint64_t steps; uint32_t classes; };

/* Add an epoch. Returns true, once, when the run has diverged: in consecutive epochs of together at least
 * RUN_PROGRESS_LOST_STEPS steps the accuracy was that of guessing, and the loss above that of the first step. */
#define RUN_PROGRESS_LOST_STEPS 20u
bool run_progress_add_epoch(struct run_progress *progress, const struct run_progress_epoch *epoch);

/* Write the numbers, separated by blanks, for a checkpoint. Numbers that an earlier version did not write are read as
 * 0. */
void run_progress_write(const struct run_progress *progress, char text_out[RUN_PROGRESS_TEXT_BYTES]);
/* 0, or -EINVAL for an invalid text or impossible numbers: more correct answers than images, more steps skipped in a
 * row than in total, more than RUN_PROGRESS_ROLLBACKS_MAX rollbacks. */
int run_progress_read(struct run_progress *progress_out, const char *text);

#endif
