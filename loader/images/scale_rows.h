/* The sums of scaling, where its time goes: written for vectors, and compiled for the processors that have wider
 * ones. All give the same pixels. */
#ifndef PIPETRAIN_SCALE_ROWS_H
#define PIPETRAIN_SCALE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "loader/images/scale_axis.h"

/* Values of a line that may be read beyond it: they are multiplied by nothing that counts. */
#define SCALE_LINE_BEYOND ((size_t)16)

/* A weighted sum of rows that follow each other. */
struct scale_rows_sum {
    const uint8_t *rows;
    size_t row_bytes;
    uint32_t row_count;
    const int16_t *weights;
};

struct scale_rows {
    /* A line of `count` values, in 64ths: every column's sum. SCALE_LINE_BEYOND more values of the line are set to
     * zero. */
    void (*add_rows)(const struct scale_rows_sum *sum, size_t count, int16_t *line_out);
    /* A row of `count` pixels from a line whose first pixel is number `left` of the axis: the sums of the axis's spans,
     * rounded to [0, 255]. */
    void (*add_pixels)(const struct scale_axis *axis, uint32_t left, uint32_t channels, const int16_t *line,
                       uint32_t count, uint8_t *row_out);
};

/* The fastest here. */
struct scale_rows scale_rows_find(void);

#endif
