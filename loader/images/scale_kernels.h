/* Scaling in two parts: the weights for each axis (scale_axis.c), and the weighted sums, which take most of the time
 * (scale_kernels.c: plain loops and AVX2, with equal results). The weights also implement mirroring and pixels outside
 * the image. */
#ifndef PIPETRAIN_SCALE_KERNELS_H
#define PIPETRAIN_SCALE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/augment/augment.h"
#include "loader/images/picture.h"
#include "loader/images/scratch.h"

/* Weights are fixed-point numbers with 14 fraction bits. Between the vertical and the horizontal sum, pixels have 6
 * fraction bits, so that the result is as exact as with one rounding. */
#define SCALE_WEIGHT_BITS 14
#define SCALE_LINE_BITS 6
#define SCALE_ROWS_SHIFT (SCALE_WEIGHT_BITS - SCALE_LINE_BITS)
#define SCALE_PIXELS_SHIFT (SCALE_WEIGHT_BITS + SCALE_LINE_BITS)

/* One axis: output pixel i is the weighted sum of the input pixels ranges[i]. */
struct scale_axis {
    struct pixel_range *ranges;
    int16_t *weights;           /* the weights of ranges[i] begin at i * weight_room. Their sum is 1 minus the weight of
                                 * zeros outside the image */
    uint32_t weight_room;       /* even; the weights after the end of a range are 0 */
    struct scratch memory;
};

/* One axis of a view. */
struct scale_view {
    double from, length;                /* length > 0 */
    struct pixel_range pixels;          /* pixels of the picture; all ranges are inside */
    enum beyond beyond;
    enum filter filter;
    bool is_flipped;
};

/* Compute ranges and weights for `count` >= 1 output pixels. Pixels outside the view have no weight, except for the
 * rest of a pixel at its border: a view of whole pixels gives the same result as that part of the image alone. Filters
 * are Pillow's (bicubic: a = -0.5) and are wider when the image is reduced; FILTER_AREA is the mean over the area of an
 * output pixel. 0 or -ENOMEM. */
int scale_axis_init(struct scale_axis *axis, const struct scale_view *view, uint32_t count);
void scale_axis_release(struct scale_axis *axis);

/* The input of a vertical sum: consecutive rows and their weights. */
struct scale_rows_sum {
    const uint8_t *rows;
    size_t row_bytes;
    uint32_t row_count;
    const int16_t *weights;
};

/* Two lines, results of vertical sums, that are scaled horizontally together. */
struct scale_pair {
    const int16_t *lines[2];    /* the lines begin at pixel `left` of the axis */
    uint32_t left, channels;
    uint8_t *rows[2];           /* the output rows; both may be the same row */
};

struct scale_kernel {
    bool (*is_supported)(void); /* does this CPU support the kernel? */
    /* Compute a vertical sum: a line of `count` values. */
    void (*add_rows)(const struct scale_rows_sum *sum, size_t count, int16_t *line_out);
    /* Compute two horizontal sums: rows of `count` pixels, rounded and clamped to 0..255. Up to scale_line_padding
     * values after the end of a line may be read, with weight 0. */
    void (*add_pixels)(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count);
};

/* The number of values that must be readable after the end of a line. */
size_t scale_line_padding(const struct scale_axis *axis, uint32_t channels);
/* All kernels, the fastest first. The last one, plain loops, is supported everywhere. */
extern const struct scale_kernel *const scale_kernels[];
extern const size_t scale_kernel_count;
/* The fastest supported kernel. */
const struct scale_kernel *scale_kernel_find(void);

extern const struct scale_kernel scale_kernel_plain;

#endif
