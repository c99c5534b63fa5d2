/* The achievements of a run up to a batch: its best evaluation, skipped steps, signs of divergence. Part of
 * checkpoints, so that a resumed run continues with them. Used by main only; allocates nothing. */
#ifndef PIPETRAIN_RUN_PROGRESS_H
#define PIPETRAIN_RUN_PROGRESS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/config/settings.h"
#include "tools/lib/run/account.h"

#define RUN_PROGRESS_TEXT_BYTES 512u    /* enough for run_progress_write */
#define RUN_PROGRESS_ROLLBACKS_MAX 5u   /* in a run; each halves its learning rate */

/* What a run has taken from its start to some moment, over all its processes; all 0: unknown. */
struct run_spent {
    uint64_t wall_ns;           /* from the start of a process to its end, or to the checkpoint that is resumed */
    uint64_t machines_ns;       /* the same times the number of machines */
    uint64_t microjoules;       /* that were measured; 0: none */
    uint64_t is_partial;        /* 1: the energy of a part of the machines or of the time is not known */
};

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
    uint64_t best_by;                   /* the measure by which evaluations were compared: enum best_by */
    double best_value;                  /* that measure, of the best evaluation; may be NAN; 0: there was none */
    struct run_spent spent, best_spent;     /* up to now, set by the caller; up to the best evaluation */
};

/* ---- the measure by which evaluations are compared (train.best_by) ---- */

/* The measure of the latest complete evaluation; NAN if it is unknown. */
double best_by_value(enum best_by by, const struct account *account);
/* Does `value` reach `goal`? A loss reaches it from above. */
bool best_by_reaches(enum best_by by, double value, double goal);
/* The measure in words: "validation accuracy", "validation macro F1". */
const char *best_by_words(enum best_by by);
/* Is it a measure over the classes, which neither accuracy nor loss are? */
static inline bool best_by_is_of_classes(enum best_by by) { return by > BEST_BY_LOSS; }
/* The title of its column in a table, of at most 8 letters: "accuracy", "macro F1"; P is precision, R recall. For the
 * loss, which has a column of its own, it is that of the accuracy. */
const char *best_by_title(enum best_by by);
/* A value of the measure: "97.20 %", "0.9134". */
struct best_by_text { char text[32]; };
struct best_by_text best_by_text(enum best_by by, double value);

/* An evaluation, after `step` steps, with `correct` of `images` right. `value` is the measure by which it is compared;
 * accuracies are compared by `correct` and `images`. */
struct run_progress_evaluation { uint64_t correct, images, step; double value; };

/* The latest complete evaluation. */
struct run_progress_evaluation run_progress_latest(enum best_by by, const struct account *account);
/* Compare evaluations by this measure from now on. If it is another one than before, no evaluation is the best any
 * more; returns true if there was one. */
bool run_progress_set_best_by(struct run_progress *progress, enum best_by by);
/* Add a complete evaluation. Of equal evaluations the first one stays the best. */
void run_progress_add_evaluation(struct run_progress *progress, const struct run_progress_evaluation *evaluation);
/* Take the best evaluation of `from`, without the number of evaluations since. */
void run_progress_copy_best(struct run_progress *progress, const struct run_progress *from);
/* Was the latest evaluation the best one? */
static inline bool run_progress_is_best(const struct run_progress *progress)
{
    return progress->best_images > 0 && progress->stale == 0;
}
/* The accuracy of the best evaluation; NAN without one. */
static inline double run_progress_best(const struct run_progress *progress)
{
    return progress->best_images > 0 ? (double)progress->best_correct / (double)progress->best_images : NAN;
}

/* The measure of the best evaluation; NAN without one. */
static inline double run_progress_best_value(const struct run_progress *progress)
{
    return progress->best_images == 0 ? NAN
           : progress->best_by == BEST_BY_ACCURACY ? run_progress_best(progress) : progress->best_value;
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
