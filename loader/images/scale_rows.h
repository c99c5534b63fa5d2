/* The sums of scaling, where its time goes: in plain loops, and with the processor's wider instructions where it has
 * them. All give the same pixels. */
#ifndef PIPETRAIN_SCALE_ROWS_H
#define PIPETRAIN_SCALE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/scale_axis.h"

/* Lines of pixels scaled along one axis are in 64ths, so that two roundings are as good as one. */
#define SCALE_LINE_BITS 6
#define SCALE_ROWS_SHIFT (SCALE_WEIGHT_BITS - SCALE_LINE_BITS)
#define SCALE_PIXELS_SHIFT (SCALE_WEIGHT_BITS + SCALE_LINE_BITS)

/* A weighted sum of rows that follow each other. */
struct scale_rows_sum {
    const uint8_t *rows;
    size_t row_bytes;
    uint32_t row_count;
    const int16_t *weights;
};

/* Two lines that become two rows of a sample at once. */
struct scale_pair {
    const int16_t *lines[2];    /* the first pixel is number `left` of the axis */
    uint32_t left, channels;
    uint8_t *rows[2];           /* may be the same one */
};

struct scale_rows {
    bool (*is_possible)(void);  /* with this processor */
    /* A line of `count` values: every column's sum. */
    void (*add_rows)(const struct scale_rows_sum *sum, size_t count, int16_t *line_out);
    /* Rows of `count` pixels, as planned: the sums of the axis's spans, rounded to [0, 255]. Values of the lines up to
     * scale_line_beyond behind their last may be read; they are multiplied by 0. */
    void (*add_pixels)(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count);
};

/* Values to be there behind the last of a line. */
size_t scale_line_beyond(const struct scale_axis *axis, uint32_t channels);
/* The fastest first; the last one, plain loops, is possible everywhere. */
extern const struct scale_rows *const scale_rows_ways[];
extern const size_t scale_rows_way_count;
/* The fastest that is possible. */
const struct scale_rows *scale_rows_find(void);

extern const struct scale_rows scale_rows_plain, scale_rows_avx2;

#endif
