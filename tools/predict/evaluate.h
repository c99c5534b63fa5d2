/* pipetrain evaluate: the validation set of a configuration, through a network that was trained. */
#ifndef PIPETRAIN_EVALUATE_H
#define PIPETRAIN_EVALUATE_H

#include <stdbool.h>

#include "tools/config/settings.h"

struct evaluate_request {
    const char *weights;        /* file; NULL: of the run of the settings (found_weights.h) */
    const char *csv;            /* file for the confusion matrix; NULL: none */
    bool may_replace;           /* another file of that name */
    bool is_json;
    bool is_quiet;              /* as text, only the line of the result */
};

/* All of it: the program's exit code. Settings as trained_read_settings leaves them; they are changed. Results go to
 * stdout, messages to stderr, and nothing else is written but the CSV file. */
int evaluate(struct settings *settings, const struct evaluate_request *request);

#endif
