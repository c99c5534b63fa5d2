/* Prints the most likely classes of an image, as a table, tab-separated values or lines of JSON. Main thread only. */
#ifndef PIPETRAIN_PREDICTION_H
#define PIPETRAIN_PREDICTION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/json.h"
#include "tools/predict/confusion.h"

enum prediction_form { PREDICTION_TABLE, PREDICTION_TSV, PREDICTION_JSON, PREDICTION_FORM_COUNT };

struct prediction_printer {
    enum prediction_form form;
    FILE *out;                  /* this and the next member are borrowed */
    const char **names;         /* of all classes, "" for one without a name; NULL: no class has a name */
    uint32_t classes, top;      /* top <= classes */
    bool shows_logits;          /* in each row of TSV, and all of them in JSON */
    uint32_t embedding_count;   /* numbers of an embedding, in JSON; 0: none */
    uint32_t path_columns;      /* columns for paths in the table, at most the width of the widest path */
    struct ranked *ranked;      /* [top] */
    struct json line;
};

/* 0 or -ENOMEM; call prediction_printer_release in both cases. */
int prediction_printer_init(struct prediction_printer *printer, uint32_t classes, uint32_t top);
void prediction_printer_release(struct prediction_printer *printer);
/* Print the header line, if the form has one. */
void prediction_print_head(struct prediction_printer *printer);
/* `embedding` has embedding_count numbers. */
void prediction_print(struct prediction_printer *printer, const char *path, const float *logits,
                      const float *embedding);
/* Print a line for an image that could not be read, if the form has one. */
void prediction_print_problem(struct prediction_printer *printer, const char *path, const char *problem);

#endif
