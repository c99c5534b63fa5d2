/* The rows of metrics.jsonl, as columns of numbers: what curves are drawn from. */
#ifndef PIPETRAIN_METRICS_H
#define PIPETRAIN_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

enum row_kind { ROW_TRAIN, ROW_VALIDATION, ROW_KIND_COUNT };

/* What is read of a row, NAN where it has no such number. Fill is a share of a queue's depth. */
enum value {
    VALUE_STEP, VALUE_IMAGES, VALUE_LOSS, VALUE_ACCURACY, VALUE_SECONDS, VALUE_SPEED, VALUE_RATE,
    VALUE_INPUT_WAIT, VALUE_EXPOSED_COPY, VALUE_FORWARD, VALUE_BACKWARD, VALUE_EXPOSED_REDUCTION, VALUE_UPDATE,
    VALUE_OTHER,
    VALUE_RING_FILL, VALUE_RING_LEAST, VALUE_SLOTS_FILL, VALUE_SLOTS_LEAST, VALUE_READERS_BUSY, VALUE_DECODERS_BUSY,
    VALUE_ELAPSED,              /* seconds of training and evaluation at the row's end, from the first row's begin */
    VALUE_COUNT
};

/* The rows of a kind, in the file's order. */
struct columns {
    size_t count, room;
    double *values[VALUE_COUNT];
};

struct metrics {
    struct columns rows[ROW_KIND_COUNT];
    double elapsed;             /* of the last row */
    char last_time[40];         /* when it was written, as it says; "" = none did */
};

/* Take a row. 0; -EBADMSG where it is none of a run's; -ENOMEM. Rows of kinds that are not drawn are passed over. */
int metrics_add(struct metrics *metrics, const json_t *row);
void metrics_release(struct metrics *metrics);

#endif
