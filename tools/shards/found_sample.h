/* The image and the label in a record, as they are stored: found by the names that data sets in use give them, or by
 * names that are configured. */
#ifndef PIPETRAIN_FOUND_SAMPLE_H
#define PIPETRAIN_FOUND_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/example.h"

#include "loader/images/pixel_survey.h"

/* NULL: the names in use. Where is_in_rows bytes whose sizes are said are taken for rows of pixels, without a look at
 * them. */
struct sample_names { const char *image, *label; bool is_in_rows; };

/* Rows of pixels of channels or planes of rows are bytes of 0 to 255; floats and integers are any other numbers, in
 * either layout, as bytes or as a list. */
enum found_image {
    FOUND_NOTHING, FOUND_ROWS, FOUND_PLANES, FOUND_JPEG, FOUND_PNG, FOUND_FLOATS, FOUND_INTEGERS, FOUND_UNKNOWN
};
#define FOUND_KIND_COUNT 8

struct found_sample {
    enum found_image image;
    const char *key;            /* of the image's feature, unless there is no image */
    const uint8_t *bytes;       /* of the image, in the payload */
    size_t byte_count;
    struct feature list;        /* where it is one of floats or integers, and then there are no bytes */
    uint32_t height, width, channels;   /* 0 where the image is unknown, or the size of a list is */
    bool is_turned;             /* a JPEG that is not upright by its EXIF data */
    struct pixel_reading reading;       /* of pixels, by this image alone, which others of the set may not be like */
    char flaw[224];             /* why its numbers are no pixels, or "" */
    bool has_label;             /* an integer */
    int64_t label;
};

/* 0, or -EBADMSG with *bad_offset_out where the payload is not a tf.train.Example. */
int found_sample_read(const struct sample_names *names, const uint8_t *payload, size_t bytes,
                      struct found_sample *sample_out, size_t *bad_offset_out);
/* Is it pixels, be it bytes or numbers? */
bool found_image_is_raw(enum found_image image);
/* The image as training decodes it, and how; NULL where there is no image known. */
const struct image_ops *found_sample_image(const struct found_sample *sample, struct stored_image *image_out);
/* "JPEG", "raw pixels", ... */
const char *found_image_text(enum found_image image);

#endif
