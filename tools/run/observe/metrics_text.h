/* Metrics of a run as Prometheus reads them, text format 0.0.4 (doc/observing.md names them). Kept are the latest
 * numbers; a text of them is made at every row. Used by main only. */
#ifndef PIPETRAIN_METRICS_TEXT_H
#define PIPETRAIN_METRICS_TEXT_H

#include <stdbool.h>

#include "tools/run/observe/observation.h"

#define METRICS_TEXT_MAX 16384u         /* bytes; no text is longer, whatever the run is called */

struct metrics_text {
    const struct observed_run *run;     /* lent */
    bool is_running;
    bool has_row[PASS_COUNT];
    uint32_t epoch;                     /* this and what follows: of the latest row */
    uint64_t step, images, corrupt_records;
    double learning_rate, step_seconds;
    double loss[PASS_COUNT], accuracy[PASS_COUNT], images_per_second[PASS_COUNT];
    struct fractions share;
    struct step_times times;            /* of the towers of this process, in training */
    uint64_t read_ns, decode_ns;
    struct fill_use ring, slots;        /* what was found there */
    struct loader_busy busy;
    char text[METRICS_TEXT_MAX];        /* terminated */
    size_t bytes;
};

/* A run that has not begun. */
void metrics_text_init(struct metrics_text *metrics, const struct observed_run *run);
void metrics_text_add(struct metrics_text *metrics, const struct observation *observation);
/* Make the text anew; `now` in seconds since 1970. */
void metrics_text_write(struct metrics_text *metrics, double now);

#endif
