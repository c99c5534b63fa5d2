/* What is done to an image between its record and its place in a batch: which part of it becomes the
 * sample, whether it is mirrored, how its colours change (doc/augmentation.md). Everything is a pure function of
 * the augmentation and of the request, whose place in the run is counted, not the record's: the pixels are the same
 * for any number of threads, after a run was resumed, and where a damaged record was replaced. */
#ifndef PIPETRAIN_AUGMENT_H
#define PIPETRAIN_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/schedule.h"

struct image_request;

/* Pixels of a view beyond the image: zeros, or the nearest pixel of the image. */
enum beyond { BEYOND_ZERO, BEYOND_EDGE };

/* How a view is scaled to the sample's size; bilinear and bicubic are averages over all pixels
 * a smaller sample stands for. */
enum filter { FILTER_BILINEAR, FILTER_AREA, FILTER_BICUBIC, FILTER_NEAREST, FILTER_COUNT };

/* Which part of an image becomes the sample. Those from RESIZED to SHIFT are random. */
enum crop {
    CROP_AUTO,      /* all of an image of the sample's size; of others RESIZED in training, CENTRAL in evaluation */
    CROP_NONE,      /* all of it */
    CROP_CENTRAL,   /* the middle of the image scaled to `scale` times the sample's size, its aspect kept; or resized
                     * to `resize` pixels, as torchvision does it */
    CROP_RESIZED,   /* torchvision's RandomResizedCrop */
    CROP_BOX,       /* TensorFlow's sample_distorted_bounding_box as tf_cnn_benchmarks calls it */
    CROP_PAD,       /* the image with `pad` zeros on all sides, moved by up to as much */
    CROP_SHIFT,     /* the image moved by up to `shift` of its sides, as Keras does */
    CROP_COUNT,
    CROP_EVALUATED  /* of training: what evaluation takes */
};

/* Constant while a run goes. NULL in the place of one: the whole image, scaled by FILTER_BILINEAR. */
struct augment {
    uint64_t seed;              /* of the run */
    enum crop crop[PHASE_COUNT]; /* of evaluation: one that is not random */
    enum filter filter;
    double scale;               /* >= 1 */
    uint32_t resize;            /* of CENTRAL: pixels of the shorter side, at least the sample's sides; 0 = by scale */
    uint32_t pad;               /* pixels of the sample; at most one less than its side counts */
    double shift;               /* share of the side, < 1 */
    bool flips;                 /* half of the training images, at random */
    bool changes_colour;        /* of every training image */
    double mixup, cutmix;       /* training images are mixed in pairs (loader/augment/mixing.h); 0 = not by this */
    double mixed;               /* share of the images that are mixed, where they are */
};

/* The image is resized as a whole, by Pillow's arithmetic (FILTER_BILINEAR or FILTER_BICUBIC), and the sample is the
 * part of the result that begins at pixel (row, column). */
struct augment_resize {
    double y_step, x_step;      /* pixels of the image for one of the result; 0 = it is not resized as a whole */
    double row, column;         /* whole numbers */
};

/* The part of an image that becomes the sample, in the image's pixels: pixel (y, x) is the square from
 * (y, x) to (y + 1, x + 1). It may lie beyond the image in part, never as a whole. */
struct augment_view {
    double left, top, width, height;    /* width and height > 0 */
    bool is_flipped;                    /* left becomes right, after scaling */
    enum beyond beyond;
    enum filter filter;
    struct augment_resize resize;       /* where it is one, the part above is what the sample's pixels are made of */
};

/* What of an image of image_height x image_width (>= 1) is wanted. Any thread. */
void augment_view(const struct augment *augment, const struct image_request *request, uint32_t image_height,
                  uint32_t image_width, struct augment_view *view_out);
/* Change the colours of a sample (HWC, of the request's shape), where that is wanted. Any thread; allocates
 * nothing. */
void augment_colour(const struct augment *augment, const struct image_request *request, uint8_t *pixels);
/* In a line of words what is done to the images of a pass, the scaling to the sample's size included. */
void augment_describe(const struct augment *augment, enum phase phase, char *text, size_t text_size);

#endif
