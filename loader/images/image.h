/* From the stored bytes of an image to the pixels of a sample: a table of operations (struct image_ops) for each way in
 * which images are stored. */
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

/* The product of the three; false if it overflows. */
bool image_shape_bytes(const struct image_shape *shape, size_t *bytes_out);

/* A sample to be made of an image. Pixels depend on the augmentation and on this, and on nothing else. */
struct image_request {
    const struct augment *augment;      /* may be NULL; must stay valid */
    enum phase phase;
    uint32_t epoch;             /* from 0 */
    uint64_t position;          /* of the sample in the pass */
    struct image_shape shape;   /* of the sample */
    bool to_end;                /* look for flaws in what follows the pixels, too */
};

#define IMAGE_SIZE_UNSAID INT64_MIN

/* One of an image's sizes as another feature of the record gives it; IMAGE_SIZE_UNSAID if there is none. */
struct image_size {
    const char *key;
    int64_t said;
};

/* The numbers that stand for black and white. */
struct image_range {
    const char *name;           /* "0..1" */
    float darkest, brightest;
};
/* In the order in which they are tried: the first range that contains all numbers of the first images is used. */
enum image_range_choice {
    IMAGE_RANGE_AUTO, IMAGE_RANGE_UNIT, IMAGE_RANGE_HALF, IMAGE_RANGE_SIGNED, IMAGE_RANGE_BYTE, IMAGE_RANGE_WORD
};
#define IMAGE_RANGE_COUNT 6u
extern const struct image_range image_ranges[IMAGE_RANGE_COUNT];

/* The layout of raw pixels: (H, W, C) or (C, H, W). */
enum pixel_layout { PIXEL_LAYOUT_AUTO, PIXEL_LAYOUT_HWC, PIXEL_LAYOUT_CHW };

/* An image in a record. */
struct stored_image {
    const char *key;            /* of its feature, for messages; NULL: it is a file, and messages follow its name */
    const uint8_t *bytes;
    size_t byte_count;
    const struct feature *list;         /* the feature if it is a list of numbers; `bytes` is not used then */
    const struct number_type *type;     /* of raw pixels */
    const struct image_range *range;
    struct image_size height, width, channels;
};

struct image_ops {
    const char *name;           /* for the plan: "raw bytes (H, W, C)" */
    /* Open a codec, which holds what a thread keeps between images (library handles, buffers). 0 or a negative errno.
     * NULL if there is none; the codec is NULL then. */
    int (*open)(void **codec_out);
    void (*close)(void *codec);
    size_t codec_bytes;         /* memory of a codec for images of common sizes; it grows where an image needs more */
    bool takes_large;           /* large images take more, which is counted in image_memory.h */
    /* Write the sample's pixels (HWC). 0, with a warning in problem_out if the decoder ignored flaws of the image (else
     * problem_out is unchanged); or -EBADMSG, or -ENOMEM (the image may be valid), with a text that follows "record N
     * at byte B: "; pixels may have been written then. Call in the thread that opened the codec. */
    int (*decode)(void *codec, const struct stored_image *image, const struct image_request *request,
                  uint8_t *pixels_out, char *problem_out, size_t problem_size);
};

/* Numbers of any type, as bytes or as a list, scaled from their range to 0..255 and rounded to nearest, halves up.
 * Numbers more than half a step outside the range are refused. */
extern const struct image_ops image_numbers_hwc_ops, image_numbers_chw_ops;
/* Bytes of 0..255, of the wanted shape or of the one the record gives. The codec may be NULL for images of the wanted
 * shape that are used whole. */
extern const struct image_ops image_raw_hwc_ops, image_raw_chw_ops;
/* JPEG and PNG files of any size, told apart by their first bytes. EXIF orientation is not applied, opacity is dropped,
 * 16-bit PNGs keep their high bytes. */
extern const struct image_ops image_encoded_ops;

#endif
