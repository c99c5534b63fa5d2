/* What an evaluation found, for people and for scripts. Used by main only. */
#ifndef PIPETRAIN_EVALUATION_REPORT_H
#define PIPETRAIN_EVALUATION_REPORT_H

#include <stdio.h>

#include "tools/predict/confusion.h"

/* All lent. */
struct evaluation_report {
    const char *model, *weights;
    uint64_t steps;             /* that the weights were trained for; UINT64_MAX: not known */
    const struct confusion *confusion;  /* finished */
    const char **names;                 /* of all classes, "" for one that has none; NULL: none has */
    double loss;                        /* mean */
    uint64_t unreadable;                /* records that are damaged */
    double seconds;                     /* of all batches */
};

/* At 80 columns: the result, accuracy by class, and the confusion matrix, or, where it is too wide, the pairs that are
 * confused most. */
void evaluation_print(const struct evaluation_report *report, FILE *out);
/* Its beginning alone: loss and what is right, and what could not be read. */
void evaluation_print_result(const struct evaluation_report *report, FILE *out);
/* The result as one JSON object and a line's end. 0 or -ENOMEM, then nothing was written. */
int evaluation_write_json(const struct evaluation_report *report, FILE *out);
/* The confusion matrix: a line with the classes, then one for every class that samples are of, with how many are taken
 * for each class. */
void evaluation_write_csv(const struct evaluation_report *report, FILE *out);

#endif
