/* How a run goes: what its evaluations came to, up to a batch. A run that goes on in another process takes it along.
 * Used by main only; allocates nothing. */
#ifndef PIPETRAIN_COURSE_H
#define PIPETRAIN_COURSE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define COURSE_TEXT_BYTES 256u          /* any course, and the end of the text */
#define COURSE_ROLLBACKS_MAX 5u         /* in a run; each halves its learning rate */

struct course {                         /* begins as all 0 */
    uint64_t best_correct, best_images; /* of the best complete evaluation; no images: there was none */
    uint64_t best_step;                 /* steps that were done then */
    uint64_t stale;                     /* complete evaluations since */
    uint64_t skipped, skipped_in_row;   /* steps that were left out: all, and the latest ones */
    uint64_t first_loss;                /* of the first step, in millionths; 0: there was none */
    uint64_t lost_steps;                /* of the latest epochs in a row in which the run was lost */
    uint64_t has_warned;                /* that it is */
    uint64_t rate_last;                 /* the step at which the schedule of the rate ends, where it does; 0: unknown */
    uint64_t rollbacks;                 /* times the run went back to a saved state: each halved its rate */
};

/* An evaluation is complete: `correct` of `images`, behind `step` steps. Of equal ones the first stays the best. */
void course_add_evaluation(struct course *course, uint64_t correct, uint64_t images, uint64_t step);
/* Was the latest one the best? */
static inline bool course_is_best(const struct course *course)
{
    return course->best_images > 0 && course->stale == 0;
}
/* NAN without an evaluation. */
static inline double course_best(const struct course *course)
{
    return course->best_images > 0 ? (double)course->best_correct / (double)course->best_images : NAN;
}

/* A training step is done. */
void course_add_step(struct course *course, bool is_skipped);

/* What an epoch of training came to. */
struct course_epoch { double loss, accuracy; uint64_t steps; uint32_t classes; };

/* The loss of the first step; others change nothing. */
void course_note_first(struct course *course, double loss);
/* An epoch of training is done. True, once: whole epochs, and COURSE_LOST_STEPS at least, had the accuracy of guessing
 * and a loss above that of the first step: the run has diverged. */
#define COURSE_LOST_STEPS 20u
bool course_add_epoch(struct course *course, const struct course_epoch *epoch);

/* Numbers with blanks between them, for a saved state. What an earlier version did not write is 0 when it is read. */
void course_write(const struct course *course, char text_out[COURSE_TEXT_BYTES]);
/* 0, or -EINVAL when the text has another form, or has numbers that are impossible: more correct answers than images,
 * more steps skipped in a row than in total, more than COURSE_ROLLBACKS_MAX rollbacks. */
int course_read(struct course *course_out, const char *text);

#endif
