/* What a run has achieved up to a batch: its best evaluation, skipped steps, signs of divergence. Part of a saved
 * state, so that a resumed run continues with it. Used by main only; allocates nothing. */
#ifndef PIPETRAIN_RUN_PROGRESS_H
#define PIPETRAIN_RUN_PROGRESS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define RUN_PROGRESS_TEXT_BYTES 256u    /* enough for run_progress_write */
#define RUN_PROGRESS_ROLLBACKS_MAX 5u   /* in a run; each halves its learning rate */

struct run_progress {                   /* begins as all 0 */
    uint64_t best_correct, best_images; /* of the best complete evaluation; no images: there was none */
    uint64_t best_step;                 /* training steps done at that evaluation */
    uint64_t stale;                     /* complete evaluations since */
    uint64_t skipped, skipped_in_row;   /* steps skipped because of NaN or Inf: all, and the latest in a row */
    uint64_t first_loss;                /* of the first step, in millionths; 0: unknown */
    uint64_t lost_steps;                /* steps of the latest epochs in a row that were no better than guessing */
    uint64_t has_warned;                /* that the run diverges */
    uint64_t rate_last;                 /* the step at which the learning-rate schedule ends, if it does; 0: unknown */
    uint64_t rollbacks;                 /* to a checkpoint */
};

/* An evaluation is complete: `correct` of `images`, after `step` steps. The first of equal ones stays the best. */
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

/* A training step is done. */
void run_progress_add_step(struct run_progress *progress, bool is_skipped);

/* The loss of the first step; later calls change nothing. */
void run_progress_note_first(struct run_progress *progress, double loss);

/* The training of an epoch. */
struct run_progress_epoch { double loss, accuracy; uint64_t steps; uint32_t classes; };

/* Add an epoch. Returns true, once, when the run has diverged: for whole epochs of RUN_PROGRESS_LOST_STEPS steps or
 * more the accuracy was that of guessing and the loss above that of the first step. */
#define RUN_PROGRESS_LOST_STEPS 20u
bool run_progress_add_epoch(struct run_progress *progress, const struct run_progress_epoch *epoch);

/* As numbers separated by blanks, for a checkpoint. Numbers that an earlier version did not write are read as 0. */
void run_progress_write(const struct run_progress *progress, char text_out[RUN_PROGRESS_TEXT_BYTES]);
/* 0, or -EINVAL for a text of another form or with impossible numbers: more correct answers than images, more steps
 * skipped in a row than in all, more than RUN_PROGRESS_ROLLBACKS_MAX rollbacks. */
int run_progress_read(struct run_progress *progress_out, const char *text);

#endif
