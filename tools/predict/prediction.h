/* What is told of an image: its likeliest classes, as a table, as tab-separated values or as lines of JSON. Used by
 * main only. */
#ifndef PIPETRAIN_PREDICTION_H
#define PIPETRAIN_PREDICTION_H

#include <stdint.h>
#include <stdio.h>

#include "formats/json.h"
#include "tools/predict/ranking.h"

enum prediction_form { PREDICTION_TABLE, PREDICTION_TSV, PREDICTION_JSON, PREDICTION_FORM_COUNT };

struct prediction_printer {
    enum prediction_form form;
    FILE *out;                  /* lent, as what follows */
    const char **names;         /* of all classes, "" for one that has none; NULL: none has */
    uint32_t classes, top;      /* top <= classes */
    uint32_t path_columns;      /* of the table: of the longest path, or less */
    struct ranked *ranked;      /* room for top */
    struct json line;
};

/* Room for the first `top` classes. 0 or -ENOMEM; prediction_printer_release after either. */
int prediction_printer_init(struct prediction_printer *printer, uint32_t classes, uint32_t top);
void prediction_printer_release(struct prediction_printer *printer);
/* The line above all others, where the form has one. */
void prediction_print_head(struct prediction_printer *printer);
void prediction_print(struct prediction_printer *printer, const char *path, const float *logits);
/* An image that could not be read: a line where the form has one for it. */
void prediction_print_problem(struct prediction_printer *printer, const char *path, const char *problem);

#endif
