/* The progress of a training as one line that fits a terminal of 80 columns. */
#ifndef PIPETRAIN_PROGRESS_LINE_H
#define PIPETRAIN_PROGRESS_LINE_H

#include <stdint.h>

#define PROGRESS_LINE_COLUMNS 79u

struct progress_line {
    uint32_t epoch;             /* from 1, as the step */
    uint64_t step, steps;       /* of the epoch */
    double loss, accuracy;      /* a share of 1; NAN where nothing is computed, and then neither is shown */
    double images_per_second, input_wait;      /* wait: a share of 1 */
};

/* What there is room for, from the place in the run to the wait: never part of a word or number. */
void progress_line_write(const struct progress_line *line, char text_out[PROGRESS_LINE_COLUMNS + 1]);

#endif
