/* Augmentation: which part of an image becomes the sample, whether it is mirrored, how its pixels change, and how
 * pairs of samples are mixed (doc/augmentation.md). All of it is a pure function of the augmentation and of the
 * sample's position in the run, not of the record: pixels do not depend on the number of threads or on a resume, and a
 * damaged record is replaced without changing the augmentation. */
#ifndef PIPETRAIN_AUGMENT_H
#define PIPETRAIN_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/batch.h"
#include "stage/schedule.h"

struct image_request;
struct image_shape;
struct scratch;

/* How pixels of a view outside the image are filled: with zeros, or with the nearest pixel of the image. */
enum beyond { BEYOND_ZERO, BEYOND_EDGE };

/* Whether images are turned upright as the EXIF data of a JPEG say, in all phases; views are of the upright image. */
enum orientation_rule { ORIENTATION_NONE, ORIENTATION_EXIF };

/* The filter that scales a view to the sample. When images are reduced, bilinear and bicubic average over all pixels,
 * as Pillow and torchvision's antialias=True do. */
enum filter { FILTER_BILINEAR, FILTER_AREA, FILTER_BICUBIC, FILTER_NEAREST, FILTER_COUNT };

/* Which part of an image becomes the sample. RESIZED to SHIFT are random. */
enum crop {
    CROP_AUTO,      /* the whole image if it has the sample's size; otherwise RESIZED in training, CENTRAL in
                     * evaluation */
    CROP_NONE,      /* the whole image */
    CROP_CENTRAL,   /* the middle of the image, scaled with its aspect ratio to `scale` times the sample's size, or
                     * resized to `resize` pixels as in torchvision */
    CROP_RESIZED,   /* torchvision's RandomResizedCrop */
    CROP_BOX,       /* TensorFlow's sample_distorted_bounding_box with the parameters of tf_cnn_benchmarks */
    CROP_PAD,       /* pad with `pad` zeros on all sides, then crop a random part of the original size */
    CROP_SHIFT,     /* shift by up to `shift` of each side, as in Keras */
    CROP_COUNT,
    CROP_EVALUATED  /* for training: use the crop of evaluation */
};

/* Automatic augmentation (policy.h): how the operations that change a training image are chosen. */
enum policy { POLICY_NONE, POLICY_TRIVIAL_AUGMENT_WIDE, POLICY_RAND_AUGMENT, POLICY_AUTO_AUGMENT, POLICY_COUNT };
#define POLICY_OPERATIONS_MAX 16u       /* operations per image */
#define POLICY_MAGNITUDE_MAX 30u

struct augment_range { double low, high; };

#define AUGMENT_CHANNELS_MAX 16u        /* channels that have a value of their own where pixels are erased */

/* Constant during a run. Where a pointer to it is NULL, the whole image is used, scaled with FILTER_BILINEAR. */
struct augment {
    uint64_t seed;              /* the run's seed */
    enum crop crop[PHASE_COUNT]; /* the crop of evaluation must not be random */
    enum orientation_rule orientation;
    enum filter filter;
    double scale;               /* >= 1 */
    uint32_t resize;            /* for CENTRAL: the shorter side in pixels, at least the sample's sides; 0: use
                                 * `scale` */
    struct augment_range area, aspect;  /* of CROP_RESIZED: the share of the image, and width / height; both 0: as in
                                         * torchvision, 0.08 to 1 and 3/4 to 4/3 */
    uint32_t pad;               /* in pixels of the sample; smaller than its sides */
    double shift;               /* fraction of a side, < 1 */
    bool flips;                 /* mirror half of the training images */
    bool flips_vertically;      /* mirror half of the training images top to bottom */
    double rotation;            /* turn training images by up to this many degrees to either side */
    enum policy policy;         /* needs images of one or three channels */
    uint32_t policy_operations, policy_magnitude;       /* RAND_AUGMENT: number of operations, and their step */
    bool changes_colour;        /* change the colours of all training images */
    double erase;               /* probability that a box of a training image is erased */
    uint8_t erased[AUGMENT_CHANNELS_MAX];       /* the value there; 0 in further channels */
    double mixup, cutmix;       /* parameters of the Beta distributions; 0: not used */
    double mixed;               /* fraction of the images that are mixed */
};

/* A resize of the whole image with Pillow's arithmetic (FILTER_BILINEAR or FILTER_BICUBIC). The sample is the part of
 * the result that begins at pixel (row, column). */
struct augment_resize {
    double y_step, x_step;      /* input pixels per output pixel; 0: no resize */
    double row, column;         /* whole numbers */
};

/* The part of an image that becomes the sample, in pixels of the image: pixel (y, x) is the square from (y, x) to
 * (y + 1, x + 1). It may be partly outside the image, but not completely. */
struct augment_view {
    double left, top, width, height;    /* width and height > 0 */
    bool is_flipped;                    /* mirror left to right, after scaling */
    enum beyond beyond;
    enum filter filter;
    struct augment_resize resize;       /* if set, the rectangle above has the pixels of the image that the sample
                                         * depends on */
};

/* Find the view of an image of image_height x image_width (>= 1) for this request. Any thread. */
void augment_view(const struct augment *augment, const struct image_request *request, uint32_t image_height,
                  uint32_t image_width, struct augment_view *view_out);
/* Change the colours of a sample (HWC, of the request's shape) in place, if the augmentation does so. Any thread;
 * allocates nothing. */
void augment_colour(const struct augment *augment, const struct image_request *request, uint8_t *pixels);
/* Change the pixels of a training sample (HWC, of the request's shape) in place: vertical flip, rotation, the
 * operations of automatic augmentation, colours, erasing. 0, or -ENOMEM. `scratch` is the thread's own and grows to
 * augment_room_bytes with the first sample. Any thread. */
int augment_apply(const struct augment *augment, const struct image_request *request, struct scratch *scratch,
                  uint8_t *pixels);
/* The memory that augment_apply needs for samples of this shape; SIZE_MAX if it overflows. */
size_t augment_room_bytes(const struct augment *augment, const struct image_shape *shape);
/* Describe in one line how the images of a phase are scaled and augmented. */
void augment_describe(const struct augment *augment, enum phase phase, char *text, size_t text_size);

static inline bool mixing_is_on(const struct augment *augment)
{
    return augment->mixup > 0 || augment->cutmix > 0;
}

/* Draw how the sample at `position` of the epoch's training phase, of height x width pixels, is mixed with its partner:
 * by mixup (Zhang, Cisse, Dauphin, Lopez-Paz 2018) or CutMix (Yun et al. 2019). The device mixes the samples
 * (compute/mixing.h). A pure function of all arguments. A sample is mixed with probability `mixed`; if both methods are
 * on, each has probability 1/2. The sample's share is drawn from Beta(a, a), where a is the parameter of the method.
 * The box of CutMix has sqrt(1 - share) times both sides, around a uniform centre, and is clipped to the image; the
 * share is then the fraction of pixels outside the box. Any thread; allocates nothing. */
struct mix mixing_draw(const struct augment *augment, uint32_t epoch, uint64_t position, uint32_t height,
                       uint32_t width);

#endif
