/* The image and the label of a record, as they are stored. Their features are found by configured names, or by the
 * names that are usual in data sets. */
#ifndef PIPETRAIN_FOUND_SAMPLE_H
#define PIPETRAIN_FOUND_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/example.h"

#include "loader/images/pixel_survey.h"

/* Names of the features; NULL: any usual name. is_in_rows: bytes with features for their size are pixels in rows (H,
 * W, C), whatever their values are. */
struct sample_names { const char *image, *label; bool is_in_rows; };

/* FOUND_ROWS (H, W, C) and FOUND_PLANES (C, H, W) are bytes from 0 to 255. FOUND_FLOATS and FOUND_INTEGERS are any
 * other numbers, in either layout, stored as bytes or as a list. */
enum found_image {
    FOUND_NOTHING, FOUND_ROWS, FOUND_PLANES, FOUND_JPEG, FOUND_PNG, FOUND_FLOATS, FOUND_INTEGERS, FOUND_UNKNOWN
};
#define FOUND_KIND_COUNT 8

struct found_sample {
    enum found_image image;
    const char *key;            /* name of the image's feature, if it exists */
    const uint8_t *bytes;       /* the bytes of the image, which are in the payload */
    size_t byte_count;
    /* the numbers of the image, if they are a list of floats or integers instead of bytes */
    struct feature list;
    uint32_t height, width, channels;   /* 0: unknown */
    bool is_turned;             /* the image is a JPEG with another EXIF orientation than upright */
    bool is_transposed;         /* turned upright, that image has its height and width exchanged */
    bool is_unsized;            /* image is FOUND_UNKNOWN but may be pixels: no feature has the height or the width */
    struct pixel_reading reading;       /* for pixels: how to read them, derived from this image alone */
    char flaw[224];             /* for numbers: why they are not pixels; else "" */
    bool has_label;             /* there is an integer label */
    int64_t label;
};

/* Identify the image and the label of a payload. 0, or -EBADMSG with *bad_offset_out if it is not a
 * tf.train.Example. */
int found_sample_read(const struct sample_names *names, const uint8_t *payload, size_t bytes,
                      struct found_sample *sample_out, size_t *bad_offset_out);
/* Whether the image is raw pixels, stored as bytes or as other numbers. */
bool found_image_is_raw(enum found_image image);

/* Decoders of one thread, each opened for the first image that needs it. Initialised with zeros. */
#define FOUND_CODECS 5u         /* for encoded images, and for raw bytes and other numbers in two layouts each */
struct found_decoder {
    bool turns_upright;         /* set before the first image: JPEGs are turned as their EXIF orientation says */
    /* ops is NULL until the decoder is open */
    struct { const struct image_ops *ops; void *codec; } codecs[FOUND_CODECS];
};

/* Decode an image that is not FOUND_UNKNOWN to `shape`; pixels_out must have room for it. Returns the same as
 * image_ops.decode; -ENOMEM also if a decoder cannot be opened. */
int found_decoder_decode(struct found_decoder *decoder, const struct found_sample *sample,
                         const struct image_shape *shape, uint8_t *pixels_out, char *problem_out, size_t problem_size);
void found_decoder_release(struct found_decoder *decoder);

/* A name for messages: "JPEG", "raw pixels", ... */
const char *found_image_text(enum found_image image);

#endif
