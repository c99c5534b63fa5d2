/* The results of an evaluation, as text, JSON or CSV. Main thread only. */
#ifndef PIPETRAIN_EVALUATION_RESULT_H
#define PIPETRAIN_EVALUATION_RESULT_H

#include <stdio.h>

#include "tools/predict/confusion.h"

/* All pointers are borrowed. */
struct evaluation_result {
    const char *model, *weights;
    uint64_t steps;             /* training steps of the weights; UINT64_MAX: not known */
    const struct confusion *confusion;  /* finished */
    const char **names;                 /* of all classes, "" for one without a name; NULL: no class has a name */
    double loss;                        /* mean */
    uint64_t unreadable;                /* damaged records */
    double seconds;                     /* of all batches */
};

/* Print at 80 columns the result, precision, recall and F1 of each class, and the confusion matrix or, if it is too
 * wide, the most confused pairs of classes. */
void evaluation_print(const struct evaluation_result *result, FILE *out);
/* Print only the first lines: loss, accuracy and damaged records. */
void evaluation_print_result(const struct evaluation_result *result, FILE *out);
/* Write the result as one JSON object and a newline. 0, or -ENOMEM with nothing written. */
int evaluation_write_json(const struct evaluation_result *result, FILE *out);
/* Write the confusion matrix: a header line with the classes, then a line for every class that has samples, with the
 * number of its samples that were predicted as each class. */
void evaluation_write_csv(const struct evaluation_result *result, FILE *out);
/* The fewest bytes that it writes if every class, as far as there are samples for it, has one. */
uint64_t evaluation_csv_bytes(uint32_t classes, uint64_t samples);

#endif
