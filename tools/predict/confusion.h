/* Rank the logits of a sample, and the confusion matrix of many samples. */
#ifndef PIPETRAIN_CONFUSION
#define PIPETRAIN_CONFUSION

#include <stddef.h>
#include <stdint.h>

#include "tools/lib/results/class_measures.h"

/* The class with the largest logit, the first of equal ones; NaN counts as the largest. */
uint32_t ranking_best(const float *logits, uint32_t classes);
/* The number of classes ranked before `label`. */
uint32_t ranking_position(const float *logits, uint32_t classes, uint32_t label);

struct ranked { uint32_t class; double probability; };
/* Find the `count` <= classes most likely classes, with their softmax. */
void ranking_top(const float *logits, uint32_t classes, uint32_t count, struct ranked *top_out);

/* The number of samples of class `label` that were predicted as class `predicted`. */
struct confusion_cell { uint32_t label, predicted; uint64_t samples; };

struct confusion {
    uint32_t classes;
    uint64_t samples, correct, among_five;      /* top-1, top-5 */
    struct class_counts *counts;        /* by class */
    /* After confusion_finish: the cells with samples, sorted by label, then by predicted class. */
    struct confusion_cell *cells;
    size_t cell_count, room;
};

/* Allocate memory for at most `samples` samples. 0 or -ENOMEM; call confusion_release in both cases. */
int confusion_init(struct confusion *confusion, uint32_t classes, uint64_t samples);
void confusion_release(struct confusion *confusion);
/* Count a sample of class `label`. */
void confusion_add(struct confusion *confusion, const float *logits, uint32_t label);
void confusion_finish(struct confusion *confusion);

/* The predictions for the samples of a class. */
struct class_score {
    const struct confusion_cell *cells; /* cells with samples of the class */
    size_t cell_count;
    const struct confusion_cell *mostly;        /* the most frequent wrong prediction; NULL: none */
};
struct class_score confusion_class(const struct confusion *confusion, uint32_t label);

#endif
