/* Progress of training as one line. */
#ifndef PIPETRAIN_PROGRESS_LINE_H
#define PIPETRAIN_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_LINE_COLUMNS 79u       /* of a line that fits any terminal */
#define PROGRESS_LINE_MAX 250u          /* bytes of the longest line */

struct progress_line {
    uint32_t epoch, epochs;     /* both count from 1 */
    uint64_t step, steps;       /* of this epoch or evaluation; counts from 1 */
    bool evaluates;             /* without loss, accuracy and wait */
    double loss, accuracy;      /* 0 ... 1; NAN: neither is printed */
    double images_per_second, input_wait;       /* input_wait: 0 ... 1 */
    bool has_feed;              /* the next four members are known */
    /* Batches that are ready in the host queue of a tower (median); capacity of the queue. */
    uint32_t batches, depth;
    double readers, decoders;   /* busy shares, 0 ... 1 */
    double epoch_left, run_left;        /* seconds to the end of the epoch and of the run; NAN: not known */
};

/* The state that keeps the bar's position and width the same from line to line; zero it first. Use one for training and
 * one for evaluation. */
struct progress_room { unsigned columns, form, rest; };

/* Write the line for a terminal of `columns` columns: epoch and step, a bar in the free space, loss, accuracy, images
 * per second, wait, input pipeline, time left. If space is short, parts are omitted in this order: input pipeline,
 * words, bar, wait, time left, speed, others. Words and numbers are never cut. */
void progress_line_bar(const struct progress_line *line, unsigned columns, struct progress_room *room,
                       char text_out[PROGRESS_LINE_MAX + 1]);
/* Write the line for logs: without a bar, in PROGRESS_LINE_COLUMNS. */
void progress_line_write(const struct progress_line *line, char text_out[PROGRESS_LINE_COLUMNS + 1]);

#endif
