/* A survey of raw pixels. From the numbers of some images of a data set it finds the number type, the number that means
 * white, and the layout of pixels, (H, W, C) or (C, H, W). Used by main while a data set is opened, and for the image
 * of a single record. */
#ifndef PIPETRAIN_PIXEL_SURVEY_H
#define PIPETRAIN_PIXEL_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/images/numbers.h"
#include "loader/images/scratch.h"

#define PIXEL_TYPES_MAX 8u
#define PIXEL_SCALES 3u         /* number of ranges that begin at 0 */

/* Statistics of the numbers when read as one type. */
struct number_stats {
    const struct number_type *type;
    uint64_t count;
    uint64_t nonzero_count, tiny_count;         /* tiny: not 0, but nearer to 0 than any pixel */
    uint64_t dark_counts[PIXEL_SCALES];         /* not 0, but less than half a step of 0..1, 0..255 or 0..65535 */
    uint64_t narrow_images, varied_images;      /* varied: images with different numbers; narrow: those of them within
                                                 * 0..1 */
    float lowest, highest;                      /* NaN if a number is not finite */
    double sum, squares;
    double roughness_hwc, roughness_chw;        /* sums of the differences between neighbours in each layout */
    double roughness_turned;                    /* for images that are not square, in the smoother layout: with height
                                                 * and width exchanged */
    double roughness_upright;                   /* the same images, not exchanged */
    double neighbour_count;                     /* number of pairs in each of roughness_hwc and roughness_chw */
    bool has_channels;                          /* more than one channel */
    /* Mean differences, summed over the images. If the layout is (H, W, C): between successive channels of a pixel, and
     * between the last channel of a pixel and the first of the next. If it is (C, H, W): between successive planes at
     * the same pixel, and at pixels slightly apart. */
    double inside_pixels, across_pixels, inside_planes, across_planes;
};

struct pixel_survey {
    struct number_stats stats[PIXEL_TYPES_MAX];
    uint32_t type_count;        /* the first stats are of types that images may have */
    uint32_t stats_count;       /* the remaining stats are only compared with them, to detect mistakes */
    uint64_t image_count;
    uint64_t sized_count;       /* images whose records give a height and width that match numbers of this size */
    struct scratch values;
};

/* A layout is wrong if its neighbours differ this many times as much as those of the other layout. Photographs have 1.5
 * to 4; a single image is weaker evidence than a set. */
#define PIXEL_CLEAR_SET 1.15
#define PIXEL_CLEAR_IMAGE 1.5

/* Settings for the result of a survey. */
struct pixel_choice {
    const struct image_range *range;    /* NULL: to be found */
    enum pixel_layout layout;           /* AUTO: to be found */
    enum pixel_layout usual_layout;     /* HWC or CHW, used if the pixels show no layout */
    double clear;                       /* PIXEL_CLEAR_SET or PIXEL_CLEAR_IMAGE */
};

/* Images are reported as nearly black if their brightest pixel (of 255) is below this and there are
 * PIXELS_WARNED_IMAGES. */
#define PIXELS_NEARLY_BLACK 16
/* Images whose numbers are not scaled are reported as dark below this: they may have fewer than 8 bits. */
#define PIXELS_DARK 64
#define PIXELS_WARNED_IMAGES 8u
/* In images that are read correctly, almost only 0 becomes black. Above this fraction, the range or type is wrong. */
#define PIXELS_DARK_SHARE_MAX 0.1

/* How the pixels of a set are read. */
struct pixel_reading {
    const struct number_type *type;
    const struct image_range *range;
    enum pixel_layout layout;           /* HWC or CHW */
    bool is_layout_found;               /* the pixels show the layout */
    bool is_layout_doubtful;            /* there are several channels, no layout is configured, and the pixels show
                                         * none */
    bool has_channels;                  /* more than one channel */
    bool is_turned;                     /* height and width are probably exchanged */
    bool is_signed;                     /* bytes are probably signed */
    bool is_type_doubtful;              /* 16-bit numbers that may also be bytes of images of another shape */
    bool is_mixed;                      /* some images are in 0..1, others in 0..255 */
    double dark_share;                  /* fraction of the nonzero numbers that become black */
    float lowest, highest;              /* lowest and highest number */
};

/* Begin a survey of images with a known number type, or with any type of `bytes` bytes. */
void pixel_survey_begin_type(struct pixel_survey *survey, enum number_kind kind);
void pixel_survey_begin(struct pixel_survey *survey, uint32_t bytes);
/* Add an image; its `type` is ignored. An image of unknown shape is no evidence of the layout. 0 or -ENOMEM. */
int pixel_survey_add(struct pixel_survey *survey, const struct stored_image *image, const struct image_shape *wanted);
/* End the survey and choose. 0, or -EBADMSG with a text that follows "feature 'KEY' holds ". */
int pixel_survey_settle(const struct pixel_survey *survey, const struct pixel_choice *choice,
                        struct pixel_reading *reading_out, char *problem_out, size_t problem_size);
void pixel_survey_release(struct pixel_survey *survey);

/* The operations that decode images with this reading. */
const struct image_ops *pixel_reading_ops(const struct pixel_reading *reading);
/* Describe a reading: "floats (H, W, C) of 0..1". */
void pixel_reading_describe(const struct pixel_reading *reading, char *text_out, size_t text_size);
/* Convert a number to a pixel value of 0 to 255. */
float pixel_reading_value(const struct pixel_reading *reading, float number);

/* Is there more than one pixel, and do all differ from the first by at most one step in every channel? */
bool pixels_are_flat(const uint8_t *pixels, size_t bytes, uint32_t channels);

/* The first range that contains floats from `lowest` to `highest`; NULL if there is none. */
const struct image_range *image_range_find(float lowest, float highest);

#endif
