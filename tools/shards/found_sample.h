/* The image and the label in a record, as they are stored: found by the names that data sets in use give them, or by
 * names that are configured. */
#ifndef PIPETRAIN_FOUND_SAMPLE_H
#define PIPETRAIN_FOUND_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/example.h"

#include "loader/images/pixel_survey.h"

/* NULL: the usual names. is_in_rows: bytes with features for their size are rows of pixels, whatever their values. */
struct sample_names { const char *image, *label; bool is_in_rows; };

/* Rows (H, W, C) and planes (C, H, W) are bytes of 0 to 255; floats and integers are any other numbers, in either
 * layout, as bytes or as a list. */
enum found_image {
    FOUND_NOTHING, FOUND_ROWS, FOUND_PLANES, FOUND_JPEG, FOUND_PNG, FOUND_FLOATS, FOUND_INTEGERS, FOUND_UNKNOWN
};
#define FOUND_KIND_COUNT 8

struct found_sample {
    enum found_image image;
    const char *key;            /* feature of the image, if there is one */
    const uint8_t *bytes;       /* of the image, in the payload */
    size_t byte_count;
    struct feature list;        /* of floats or integers, instead of bytes */
    uint32_t height, width, channels;   /* 0: unknown */
    bool is_turned;             /* a JPEG that its EXIF orientation rotates */
    bool is_unsized;            /* FOUND_UNKNOWN, and maybe pixels: no feature says height or width */
    struct pixel_reading reading;       /* of pixels; derived from this image alone */
    char flaw[224];             /* why its numbers are not pixels, or "" */
    bool has_label;             /* an integer */
    int64_t label;
};

/* 0, or -EBADMSG with *bad_offset_out if the payload is not a tf.train.Example. */
int found_sample_read(const struct sample_names *names, const uint8_t *payload, size_t bytes,
                      struct found_sample *sample_out, size_t *bad_offset_out);
/* Whether it is pixels, as bytes or as numbers. */
bool found_image_is_raw(enum found_image image);

/* Decoders of one thread, each opened for its first image. Starts as zeros. */
#define FOUND_CODECS 5u         /* encoded; raw bytes and numbers in two layouts each */
struct found_decoder {
    struct { const struct image_ops *ops; void *codec; } codecs[FOUND_CODECS];  /* ops is NULL: not open */
};

/* Decode an image of a known kind to `shape`, for which there is room. As image_ops.decode; -ENOMEM also if a decoder
 * cannot be opened. */
int found_decoder_decode(struct found_decoder *decoder, const struct found_sample *sample,
                         const struct image_shape *shape, uint8_t *pixels_out, char *problem_out, size_t problem_size);
void found_decoder_release(struct found_decoder *decoder);

/* "JPEG", "raw pixels", ... */
const char *found_image_text(enum found_image image);

#endif
