/* The progress of a training as one line. */
#ifndef PIPETRAIN_PROGRESS_LINE_H
#define PIPETRAIN_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_LINE_COLUMNS 79u       /* of a line that fits any terminal */
#define PROGRESS_LINE_MAX 250u          /* wider ones are not made */

struct progress_line {
    uint32_t epoch, epochs;     /* epoch: from 1, as the step */
    uint64_t step, steps;       /* of this pass over the data */
    bool evaluates;             /* and then neither loss nor accuracy nor wait are shown */
    double loss, accuracy;      /* a share of 1; NAN where nothing is computed, and then neither is shown */
    double images_per_second, input_wait;       /* wait: a share of 1 */
    bool has_feed;              /* what follows is known */
    uint32_t batches, depth;    /* ready in a tower's queue on the host, median; how many it holds */
    double readers, decoders;   /* shares of 1 that they were busy */
    double epoch_left, run_left;        /* seconds to the end of the pass and of the run; NAN: not known */
};

/* What the lines before left to the bar, so that it keeps its place and its width from line to line; zeros to begin
 * with. One for the lines of training, one for those of evaluation. */
struct progress_room { unsigned columns, form, rest; };

/* For a terminal, at most so many columns wide: the place, a bar that takes the room there is, loss, accuracy, images a
 * second, wait, the feed, time left. Where room is short the feed is left out, then words, then the bar, then wait,
 * time left, speed and what else does not fit is left out: never part of a word or number but of the place. */
void progress_line_bar(const struct progress_line *line, unsigned columns, struct progress_room *room,
                       char text_out[PROGRESS_LINE_MAX + 1]);
/* The same without a bar, in PROGRESS_LINE_COLUMNS, for logs. */
void progress_line_write(const struct progress_line *line, char text_out[PROGRESS_LINE_COLUMNS + 1]);

#endif
