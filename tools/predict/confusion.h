/* What samples are and what they are taken for, counted: every sample is noted, and brought into order at the end, so
 * that memory does not grow with the square of the classes. Used by main only. */
#ifndef PIPETRAIN_CONFUSION_H
#define PIPETRAIN_CONFUSION_H

#include <stddef.h>
#include <stdint.h>

/* So many samples of a class that were taken for another, or for what they are. */
struct confusion_cell { uint32_t label, predicted; uint64_t samples; };

struct confusion {
    uint32_t classes;
    uint64_t samples, correct, among_five;      /* correct: the likeliest class is the label; among the first five */
    struct confusion_cell *cells;       /* after confusion_finish: by label, then by predicted, none of 0 samples */
    size_t cell_count, room;
};

/* For so many samples at most. 0 or -ENOMEM; confusion_release after either. */
int confusion_init(struct confusion *confusion, uint32_t classes, uint64_t samples);
void confusion_release(struct confusion *confusion);
/* A sample of class `label`, with its logits. */
void confusion_add(struct confusion *confusion, const float *logits, uint32_t label);
void confusion_finish(struct confusion *confusion);

/* One class. */
struct class_score {
    const struct confusion_cell *cells; /* of samples of it */
    size_t cell_count;
    uint64_t samples, correct;
    const struct confusion_cell *mostly;        /* what they are mostly taken for instead, NULL: nothing */
};
struct class_score confusion_class(const struct confusion *confusion, uint32_t label);

#endif
