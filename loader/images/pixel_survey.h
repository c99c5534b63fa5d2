/* What the stored numbers of some of a set's images show of how they are meant: their type, what number is white, and
 * which of them are neighbours. Used by main while a data set is opened, and for the image of a single record. */
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

/* The numbers seen, read as one type. */
struct number_stats {
    const struct number_type *type;
    uint64_t count;
    uint64_t nonzero_count, tiny_count;         /* not 0; of these, so near to it that no pixel is */
    uint64_t dark_counts[PIXEL_SCALES];         /* not 0, and nearer to it than half a step of 0..1, 0..255, 0..65535 */
    uint64_t narrow_images, varied_images;      /* of those of several numbers, those that lie in 0..1 */
    float lowest, highest;                      /* NaN when one is not finite */
    double sum, squares;
    double roughness_hwc, roughness_chw;        /* differences of neighbours in each layout, summed */
    double roughness_turned;                    /* where height and width are exchanged, of the images that are no */
    double roughness_upright;                   /* squares; and where they are not: the smoother layout of each */
    double neighbour_count;                     /* pairs in either of these sums */
    bool has_channels;                          /* several */
    /* Mean differences, added up over the images. If numbers are (H, W, C): of successive channels of a pixel, and of
     * the last channel of a pixel and the first of the next. If they are (C, H, W): of a pixel in successive planes, and
     * of pixels a little apart in them. */
    double inside_pixels, across_pixels, inside_planes, across_planes;
};

struct pixel_survey {
    struct number_stats stats[PIXEL_TYPES_MAX];
    uint32_t type_count;        /* that images may be read as */
    uint32_t stats_count;       /* those, and types that are only compared with them to notice a mistake */
    uint64_t image_count;
    uint64_t sized_count;       /* images whose records give a height and width for numbers of this size */
    struct scratch values;
};

/* In photographs neighbours of the wrong layout differ 1.5 to 4 times more. A single image is weaker evidence. */
#define PIXEL_CLEAR_SET 1.15
#define PIXEL_CLEAR_IMAGE 1.5

/* What a survey is not free to find out. */
struct pixel_choice {
    const struct image_range *range;    /* NULL: found */
    enum pixel_layout layout;
    enum pixel_layout usual_layout;     /* where the pixels do not tell; HWC or CHW */
    double clear;                       /* a layout is wrong if its neighbours differ so many times more: below */
};

/* When to warn that a set's images are nearly black: the brightest of their pixels, of 255, is below this, and there
 * are enough images for that not to be chance. */
#define PIXELS_NEARLY_BLACK 16
#define PIXELS_WARNED_IMAGES 8u
/* In correctly read images no number other than 0 becomes a black pixel. More than this share of them: the range is
 * wrong, or the type. */
#define PIXELS_DARK_SHARE_MAX 0.1

/* How a set's pixels are read. */
struct pixel_reading {
    const struct number_type *type;
    const struct image_range *range;
    enum pixel_layout layout;           /* HWC or CHW */
    bool is_layout_found;               /* by the pixels */
    bool is_layout_doubtful;            /* several channels, none configured, and the pixels do not tell */
    bool has_channels;                  /* several */
    bool is_turned;                     /* height and width are probably exchanged */
    bool is_signed;                     /* bytes that are probably signed */
    bool is_type_doubtful;              /* 16-bit numbers that may as well be bytes of images of another shape */
    bool is_mixed;                      /* some images lie in 0..1, where others are of 0..255 */
    double dark_share;                  /* of the numbers that are not 0, those that become 0 */
    float lowest, highest;              /* of the numbers seen */
};

/* Begin a survey of images whose numbers are of one type, or whichever of those of `bytes` bytes each fits. */
void pixel_survey_begin_type(struct pixel_survey *survey, enum number_kind kind);
void pixel_survey_begin(struct pixel_survey *survey, uint32_t bytes);
/* Add an image, whatever its type says. One whose shape cannot be found says nothing of the layout. 0 or -ENOMEM. */
int pixel_survey_add(struct pixel_survey *survey, const struct stored_image *image, const struct image_shape *wanted);
/* Decide. 0, or -EBADMSG with a text that follows "feature 'KEY' holds ". */
int pixel_survey_settle(const struct pixel_survey *survey, const struct pixel_choice *choice,
                        struct pixel_reading *reading_out, char *problem_out, size_t problem_size);
void pixel_survey_release(struct pixel_survey *survey);

/* How images so read are decoded. */
const struct image_ops *pixel_reading_ops(const struct pixel_reading *reading);
/* "floats (H, W, C) of 0..1" */
void pixel_reading_describe(const struct pixel_reading *reading, char *text_out, size_t text_size);
/* What a number is as a pixel: 0 to 255. */
float pixel_reading_value(const struct pixel_reading *reading, float number);

/* The range that floats from `lowest` to `highest` lie in, the narrowest first; NULL where it is none in use. */
const struct image_range *image_range_find(float lowest, float highest);

#endif
