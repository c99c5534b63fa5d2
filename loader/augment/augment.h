/* Augmentation: which part of an image becomes the sample, whether it is mirrored, how its colours change, and how
 * samples are mixed in pairs (doc/augmentation.md). Everything is a pure function of the augmentation and of the
 * sample's place in the run, not of the record: pixels are the same for any number of threads, after a resume, and
 * when a damaged record is replaced. */
#ifndef PIPETRAIN_AUGMENT_H
#define PIPETRAIN_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/batch.h"
#include "stage/schedule.h"

struct image_request;

/* The pixels of a view outside the image: zeros, or the nearest pixel of the image. */
enum beyond { BEYOND_ZERO, BEYOND_EDGE };

/* How a view is scaled to the sample. When images are reduced, bilinear and bicubic average over all pixels, as Pillow
 * and torchvision's antialias=True do. */
enum filter { FILTER_BILINEAR, FILTER_AREA, FILTER_BICUBIC, FILTER_NEAREST, FILTER_COUNT };

/* Which part of an image becomes the sample. RESIZED to SHIFT are random. */
enum crop {
    CROP_AUTO,      /* the whole image if it has the sample's size; else RESIZED in training, CENTRAL in evaluation */
    CROP_NONE,      /* the whole image */
    CROP_CENTRAL,   /* the middle of the image, scaled with its aspect to `scale` times the sample's size, or resized to
                     * `resize` pixels as torchvision does */
    CROP_RESIZED,   /* torchvision's RandomResizedCrop */
    CROP_BOX,       /* TensorFlow's sample_distorted_bounding_box with the arguments of tf_cnn_benchmarks */
    CROP_PAD,       /* pad with `pad` zeros on all sides, then a random part of the original size */
    CROP_SHIFT,     /* shift by up to `shift` of each side, as Keras does */
    CROP_COUNT,
    CROP_EVALUATED  /* of training: the crop of evaluation */
};

/* Constant during a run. A NULL pointer means: the whole image, scaled with FILTER_BILINEAR. */
struct augment {
    uint64_t seed;              /* of the run */
    enum crop crop[PHASE_COUNT]; /* not random for evaluation */
    enum filter filter;
    double scale;               /* >= 1 */
    uint32_t resize;            /* for CENTRAL: the shorter side in pixels, >= the sample's sides; 0: use `scale` */
    uint32_t pad;               /* in pixels of the sample; less than its sides */
    double shift;               /* share of a side, < 1 */
    bool flips;                 /* mirror half of the training images */
    bool changes_colour;        /* of every training image */
    double mixup, cutmix;       /* parameters of the Beta distributions; 0: not used */
    double mixed;               /* share of the images that are mixed */
};

/* The image is resized as a whole with Pillow's arithmetic (FILTER_BILINEAR or FILTER_BICUBIC), and the sample is the
 * part of the result that begins at pixel (row, column). */
struct augment_resize {
    double y_step, x_step;      /* input pixels per output pixel; 0: no such resize */
    double row, column;         /* whole numbers */
};

/* The part of an image that becomes the sample, in pixels of the image: pixel (y, x) is the square from (y, x) to
 * (y + 1, x + 1). It may be partly outside the image, but not completely. */
struct augment_view {
    double left, top, width, height;    /* width and height > 0 */
    bool is_flipped;                    /* mirror left and right, after scaling */
    enum beyond beyond;
    enum filter filter;
    struct augment_resize resize;       /* if set, the rectangle above is the input of the sample's pixels */
};

/* The part of an image of image_height x image_width (>= 1) for this request. Any thread. */
void augment_view(const struct augment *augment, const struct image_request *request, uint32_t image_height,
                  uint32_t image_width, struct augment_view *view_out);
/* Change the colours of a sample (HWC, of the request's shape) in place if the augmentation says so. Any thread;
 * allocates nothing. */
void augment_colour(const struct augment *augment, const struct image_request *request, uint8_t *pixels);
/* Describe in one line what is done to the images of a phase, including scaling. */
void augment_describe(const struct augment *augment, enum phase phase, char *text, size_t text_size);

static inline bool mixing_is_on(const struct augment *augment)
{
    return augment->mixup > 0 || augment->cutmix > 0;
}

/* How the sample at `position` of the epoch's training phase, of height x width pixels, is mixed with its partner:
 * mixup (Zhang, Cisse, Dauphin, Lopez-Paz 2018) or CutMix (Yun et al. 2019). Drawn here, mixed on the device
 * (compute/mixing.h). A pure function of all arguments. It is mixed with probability `mixed`; if both methods are on,
 * each has probability 1/2. Its own share is drawn from Beta(a, a), where a is the parameter of the method. CutMix
 * takes a box of sqrt(1 - share) times both sides around a uniform centre, clipped to the image; the share is then that
 * of the pixels outside. Any thread; allocates nothing. */
struct mix mixing_draw(const struct augment *augment, uint32_t epoch, uint64_t position, uint32_t height,
                       uint32_t width);

#endif
