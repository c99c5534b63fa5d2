/* Decoding the stored bytes of an image to the pixels of a sample: a table of operations (struct image_ops) for each
 * way of storing images. */
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

/* Multiply the three sizes; false if the product overflows. */
bool image_shape_bytes(const struct image_shape *shape, size_t *bytes_out);

/* A sample to be made from an image. The pixels depend only on the image, the augmentation and this request. */
struct image_request {
    const struct augment *augment;      /* may be NULL; must stay valid */
    enum phase phase;
    uint32_t epoch;             /* from 0 */
    uint64_t position;          /* position of the sample in the phase */
    struct image_shape shape;   /* shape of the sample */
    bool to_end;                /* check also the data after the last pixel for flaws */
};

#define IMAGE_SIZE_UNSAID INT64_MIN

/* One of an image's sizes as given by another feature of the record; IMAGE_SIZE_UNSAID if there is none. */
struct image_size {
    const char *key;
    int64_t said;
};

/* The numbers that mean black and white. */
struct image_range {
    const char *name;           /* "0..1" */
    float darkest, brightest;
};
/* Ranges in the order in which they are tried: the first one that contains all numbers of the first images is used. */
enum image_range_choice {
    IMAGE_RANGE_AUTO, IMAGE_RANGE_UNIT, IMAGE_RANGE_HALF, IMAGE_RANGE_SIGNED, IMAGE_RANGE_BYTE, IMAGE_RANGE_WORD
};
#define IMAGE_RANGE_COUNT 6u
extern const struct image_range image_ranges[IMAGE_RANGE_COUNT];

/* The layout of raw pixels: (H, W, C) or (C, H, W). */
enum pixel_layout { PIXEL_LAYOUT_AUTO, PIXEL_LAYOUT_HWC, PIXEL_LAYOUT_CHW };

/* An image as stored in a record. */
struct stored_image {
    const char *key;            /* name of its feature, for messages; NULL: the image is a file, and messages follow its
                                 * name */
    const uint8_t *bytes;
    size_t byte_count;
    const struct feature *list;         /* the feature if the image is a list of numbers; `bytes` is unused then */
    const struct number_type *type;     /* number type of raw pixels */
    const struct image_range *range;
    struct image_size height, width, channels;
};

struct image_ops {
    const char *name;           /* for messages: "raw bytes (H, W, C)" */
    /* Open a codec, which has a thread's library handles and buffers for all its images. 0 or a negative errno. NULL if
     * the images need no codec; it is NULL then. */
    int (*open)(void **codec_out);
    void (*close)(void *codec);
    size_t codec_bytes;         /* memory of a codec for images of common sizes; a larger image enlarges it */
    bool takes_large;           /* large images need more memory, which is counted in image_memory.h */
    /* Decode an image to the sample's pixels (HWC): crop, scale and mirror it; augment_apply follows later. 0, with a
     * warning in problem_out if the decoder ignored flaws of the image (otherwise problem_out is unchanged); or
     * -EBADMSG, or -ENOMEM (the image may be valid), with a text that follows "record N at byte B: ". After a failure a
     * part of the pixels may have been written. To be called by the thread that opened the codec. */
    int (*decode)(void *codec, const struct stored_image *image, const struct image_request *request,
                  uint8_t *pixels_out, char *problem_out, size_t problem_size);
};

/* Numbers of any type, as bytes or as a list, scaled from their range to 0..255 and rounded to nearest, halves up.
 * Numbers more than half a step outside the range are an error. */
extern const struct image_ops image_numbers_hwc_ops, image_numbers_chw_ops;
/* Bytes of 0..255, in the wanted shape or in the shape that the record gives. The codec may be NULL for images of the
 * wanted shape that are used whole. */
extern const struct image_ops image_raw_hwc_ops, image_raw_chw_ops;
/* JPEG and PNG files of any size, recognised by their first bytes. The EXIF orientation of a JPEG is applied if the
 * augmentation says so, opacity is dropped, and of 16-bit PNGs the high bytes are used. */
extern const struct image_ops image_encoded_ops;

#endif
