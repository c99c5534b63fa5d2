/* What is done to an image between its record and its place in a batch: which part of it becomes the
 * sample, whether it is mirrored, how its colours change. Everything is a pure function of the augmentation and
 * of the request: the same for any number of threads, and after a run was resumed. */
#ifndef PIPETRAIN_AUGMENT_H
#define PIPETRAIN_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

struct image_request;

/* Pixels of a view beyond the image: zeros, or the nearest pixel of the image. */
enum beyond { BEYOND_ZERO, BEYOND_EDGE };

/* How a view is scaled to the sample's size; bilinear and bicubic are averages over all pixels
 * a smaller sample stands for. */
enum filter { FILTER_BILINEAR, FILTER_AREA, FILTER_BICUBIC, FILTER_NEAREST };

/* The part of an image that becomes the sample, in the image's pixels: pixel (y, x) is the square from
 * (y, x) to (y + 1, x + 1). It may lie beyond the image in part, never as a whole. */
struct augment_view {
    double left, top, width, height;    /* width and height > 0 */
    bool is_flipped;                    /* left becomes right, after scaling */
    enum beyond beyond;
    enum filter filter;
};

/* Constant while a run goes. NULL in the place of one: nothing but what is needed to fit. */
struct augment {
    enum filter filter;
    double evaluation_scale;    /* an evaluated image is scaled to this many times the sample's size, its aspect
                                 * kept, and the middle taken; >= 1, or 0: scaled to the sample's size */
};

/* What of an image of image_height x image_width (>= 1) is wanted. Any thread. */
void augment_view(const struct augment *augment, const struct image_request *request, uint32_t image_height,
                  uint32_t image_width, struct augment_view *view_out);

#endif
