/* A value of summary.json as a cell of a table says it. */
#ifndef PIPETRAIN_CELL_H
#define PIPETRAIN_CELL_H

#include <jansson.h>

enum cell_form {
    CELL_TEXT,
    CELL_COUNT,                 /* 600,810 */
    CELL_RATE,                  /* 600,810; below 10 with decimals: 5.63 */
    CELL_NUMBER,                /* in five digits */
    CELL_SHARE,                 /* 99.02 % */
    CELL_BYTES,
    CELL_SECONDS,               /* 12.3 s, 4 min 05 s, 3 h 20 min */
    CELL_TIME,                  /* "2026-01-31T12:00:00.000Z" without fractions: 2026-01-31 12:00:00 UTC */
    CELL_DEVICES,               /* a list of {name, memory_bytes}: those that are equal once */
};

struct cell { char text[1024]; };       /* "" where there is no such value */

struct cell cell_of(const json_t *value, enum cell_form form);

#endif
