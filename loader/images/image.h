/* How the bytes of a stored image become the pixels of a sample: a row of operations for every
 * way to store images. */
#ifndef PIPETRAIN_IMAGE_H
#define PIPETRAIN_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/augment/augment.h"
#include "stage/schedule.h"

struct feature;
struct number_type;

struct image_shape {
    uint32_t height, width, channels;
};

/* Bytes of the pixels, one each; false when they cannot be counted. */
bool image_shape_bytes(const struct image_shape *shape, size_t *bytes_out);

/* What is wanted of an image: where its sample stands in the run, which with the augmentation is all that
 * may decide how it is changed on the way, and the shape of its pixels. */
struct image_request {
    const struct augment *augment;      /* lent */
    enum pass pass;
    uint32_t epoch;             /* from 0 */
    uint64_t position;          /* of the sample in the pass */
    struct image_shape shape;
};

#define IMAGE_SIZE_UNSAID INT64_MIN

/* One of an image's sizes as the record says beside it: which feature says what, IMAGE_SIZE_UNSAID
 * where it is not there. */
struct image_size {
    const char *key;
    int64_t said;
};

/* The numbers that stand for the darkest and the brightest pixel. */
struct image_range {
    const char *name;           /* "0..1" */
    float darkest, brightest;
};
/* The ranges in use, by the choice of one: the first one a set's images lie in is meant. */
enum image_range_choice {
    IMAGE_RANGE_AUTO, IMAGE_RANGE_UNIT, IMAGE_RANGE_HALF, IMAGE_RANGE_SIGNED, IMAGE_RANGE_BYTE, IMAGE_RANGE_WORD
};
#define IMAGE_RANGE_COUNT 6u
extern const struct image_range image_ranges[IMAGE_RANGE_COUNT];

/* Numbers of pixels that are not encoded: rows of pixels of channels, or channels of rows of pixels. */
enum pixel_layout { PIXEL_LAYOUT_AUTO, PIXEL_LAYOUT_HWC, PIXEL_LAYOUT_CHW };

/* An image as a record holds it. */
struct stored_image {
    const char *key;            /* of its feature, for messages; NULL: it is a file, which they follow the name of */
    const uint8_t *bytes;
    size_t byte_count;
    const struct feature *list;         /* the feature where it is a list of numbers, and then there are no bytes */
    const struct number_type *type;     /* of its numbers, where it is not encoded */
    const struct image_range *range;    /* of its numbers */
    struct image_size height, width, channels;
};

struct image_ops {
    const char *name;           /* for the plan: "raw bytes (H, W, C)" */
    /* What one thread keeps from image to image, such as a library's handles: codec_bytes is what it takes
     * for images of common sizes; it grows where an image needs more and keeps that. 0 or a negative errno. NULL:
     * nothing, the codec is NULL. */
    int (*open)(void **codec_out);
    void (*close)(void *codec);
    size_t codec_bytes;
    bool takes_large;           /* images take more than that when they are large (image_memory.h) */
    /* Write the pixels wanted (HWC). 0; or -EBADMSG, or -ENOMEM, which is no fault of the image, with a text that
     * follows "record N at byte B: "; the pixels may be written in part then. Such a text also says of what flaws of
     * the image the decoder has passed over; else 0 leaves it alone. In the thread that opened the codec. */
    int (*decode)(void *codec, const struct stored_image *image, const struct image_request *request,
                  uint8_t *pixels_out, char *problem_out, size_t problem_size);
};

/* Raw pixels that are numbers of any type, as bytes or as a list. A number becomes the nearest of 0 to 255, halves the
 * higher one; more than half a step outside the range is refused. */
extern const struct image_ops image_numbers_hwc_ops, image_numbers_chw_ops;
/* Pixels as they are, of the shape wanted or of one the record says: rows of pixels, and planes of rows. Where all of
 * an image of the shape wanted is wanted the codec may be NULL. */
extern const struct image_ops image_raw_hwc_ops, image_raw_chw_ops;
/* A JPEG or PNG file of any size, each image by its first bytes. The orientation of a camera (EXIF) is not
 * applied, opacity is left out, of 16 bits the high ones count. */
extern const struct image_ops image_encoded_ops;

#endif
