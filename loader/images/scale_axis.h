/* Scaling along one axis: which pixels each pixel of the result is a weighted sum of. Mirroring and what lies
 * beyond the image are in the weights, too. */
#ifndef PIPETRAIN_SCALE_AXIS_H
#define PIPETRAIN_SCALE_AXIS_H

#include <stdint.h>

#include "loader/augment/augment.h"
#include "loader/images/picture.h"
#include "loader/images/scratch.h"

/* Weights are whole numbers of 2^-14. */
#define SCALE_WEIGHT_BITS 14

/* The pixels of a sum: [first, first + count). */
struct scale_span { uint32_t first, count; };

struct scale_axis {
    struct scale_span *spans;   /* one for every pixel of the result */
    int16_t *weights;           /* span i's begin at i * weight_room; their sum is 1, less what lies in zeros */
    uint32_t weight_room;       /* even; what no pixel of the span has is 0 */
    struct scratch memory;
};

/* One axis of a view. */
struct scale_view {
    double from, length;                /* length > 0 */
    struct picture_stretch pixels;      /* those there are; spans lie in them */
    enum beyond beyond;
    enum filter filter;
    bool is_flipped;
};

/* The axis with `count` >= 1 pixels of the result. Pixels outside the view (but for the rest of those at its borders)
 * have no weight, so that a view of whole pixels gives what that part of the image would give by itself. The filters
 * are those of Pillow (bicubic: a = -0.5), wider where the result is smaller than the view; FILTER_AREA is the mean
 * over the area a pixel of the result covers. 0 or -ENOMEM. */
int scale_axis_plan(struct scale_axis *axis, const struct scale_view *view, uint32_t count);
void scale_axis_release(struct scale_axis *axis);

#endif
