/* A survey of raw pixels: from the numbers of some images of a set it finds their type, which number is white, and
 * whether pixels are stored as (H, W, C) or (C, H, W). Used by main while a data set is opened, and for the image of a
 * single record. */
#ifndef PIPETRAIN_PIXEL_SURVEY_H
#define PIPETRAIN_PIXEL_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/images/numbers.h"
#include "loader/images/scratch.h"

#define PIXEL_TYPES_MAX 8u
#define PIXEL_SCALES 3u         /* ranges that begin with 0 */

/* Statistics of the numbers if they are read as one type. */
struct number_stats {
    const struct number_type *type;
    uint64_t count;
    uint64_t nonzero_count, tiny_count;         /* tiny: not 0, but closer to it than any pixel */
    uint64_t dark_counts[PIXEL_SCALES];         /* not 0, but less than half a step of 0..1, 0..255, 0..65535 */
    uint64_t narrow_images, varied_images;      /* images of several numbers, and those of them within 0..1 */
    float lowest, highest;                      /* NaN if any number is not finite */
    double sum, squares;
    double roughness_hwc, roughness_chw;        /* sums of the differences of neighbours in each layout */
    double roughness_turned;                    /* of images that are not square: with height and width exchanged, */
    double roughness_upright;                   /* and not exchanged; the smoother layout of each */
    double neighbour_count;                     /* pairs in either of the first two sums */
    bool has_channels;                          /* several */
    /* Mean differences, added up over the images. If numbers are (H, W, C): of successive channels of a pixel, and of
     * the last channel of a pixel and the first of the next. If they are (C, H, W): of a pixel in successive planes,
     * and of pixels a little apart in them. */
    double inside_pixels, across_pixels, inside_planes, across_planes;
};

struct pixel_survey {
    struct number_stats stats[PIXEL_TYPES_MAX];
    uint32_t type_count;        /* the first stats: types that images may have */
    uint32_t stats_count;       /* all stats: the others are only compared with them, to notice mistakes */
    uint64_t image_count;
    uint64_t sized_count;       /* images whose records give a height and width for numbers of this size */
    struct scratch values;
};

/* A layout is wrong if its neighbours differ this many times more than those of the other one. For photographs it is
 * 1.5 to 4 times; a single image is weaker evidence than a set. */
#define PIXEL_CLEAR_SET 1.15
#define PIXEL_CLEAR_IMAGE 1.5

/* What is configured or assumed. */
struct pixel_choice {
    const struct image_range *range;    /* NULL: to be found */
    enum pixel_layout layout;           /* AUTO: to be found */
    enum pixel_layout usual_layout;     /* HWC or CHW, for pixels that show no layout */
    double clear;                       /* one of the two above */
};

/* Images are reported as nearly black if their brightest pixel of 255 is below this, and there are enough of them. */
#define PIXELS_NEARLY_BLACK 16
/* Images of exact numbers, which are not scaled, are reported as dark below this: they may have fewer than 8 bits. */
#define PIXELS_DARK 64
#define PIXELS_WARNED_IMAGES 8u
/* In images that are read correctly hardly any number but 0 becomes black. Above this share, range or type is wrong. */
#define PIXELS_DARK_SHARE_MAX 0.1

/* How the pixels of a set are read. */
struct pixel_reading {
    const struct number_type *type;
    const struct image_range *range;
    enum pixel_layout layout;           /* HWC or CHW */
    bool is_layout_found;               /* from the pixels */
    bool is_layout_doubtful;            /* several channels, no layout configured, and the pixels do not show one */
    bool has_channels;                  /* several */
    bool is_turned;                     /* height and width are probably exchanged */
    bool is_signed;                     /* bytes are probably signed */
    bool is_type_doubtful;              /* 16-bit numbers may as well be bytes of images of another shape */
    bool is_mixed;                      /* some images are of 0..1, others of 0..255 */
    double dark_share;                  /* of the nonzero numbers, those that become black */
    float lowest, highest;              /* number seen */
};

/* Begin a survey of images of a known type of number, or of any type of `bytes` bytes. */
void pixel_survey_begin_type(struct pixel_survey *survey, enum number_kind kind);
void pixel_survey_begin(struct pixel_survey *survey, uint32_t bytes);
/* Add an image; its `type` is ignored. An image of unknown shape adds nothing about the layout. 0 or -ENOMEM. */
int pixel_survey_add(struct pixel_survey *survey, const struct stored_image *image, const struct image_shape *wanted);
/* Decide. 0, or -EBADMSG with a text that follows "feature 'KEY' holds ". */
int pixel_survey_settle(const struct pixel_survey *survey, const struct pixel_choice *choice,
                        struct pixel_reading *reading_out, char *problem_out, size_t problem_size);
void pixel_survey_release(struct pixel_survey *survey);

/* The operations that decode such images. */
const struct image_ops *pixel_reading_ops(const struct pixel_reading *reading);
/* "floats (H, W, C) of 0..1" */
void pixel_reading_describe(const struct pixel_reading *reading, char *text_out, size_t text_size);
/* A number as a pixel of 0 to 255. */
float pixel_reading_value(const struct pixel_reading *reading, float number);

/* Whether there are several pixels, and none differs from the first by more than a step in any channel. */
bool pixels_are_flat(const uint8_t *pixels, size_t bytes, uint32_t channels);

/* The first range that contains floats from `lowest` to `highest`; NULL if there is none. */
const struct image_range *image_range_find(float lowest, float highest);

#endif
