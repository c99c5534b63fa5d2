/* Decoding a record's payload to a sample: pixels and a label, found by the names of features. The format is found
 * once, from the first record; all other records must have the same format. */
#ifndef PIPETRAIN_SAMPLE_H
#define PIPETRAIN_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/images/stored_pixels.h"
#include "loader/label.h"

/* The features of a sample. Height, width and depth are optional. */
enum sample_key { SAMPLE_IMAGE, SAMPLE_LABEL, SAMPLE_HEIGHT, SAMPLE_WIDTH, SAMPLE_DEPTH, SAMPLE_KEY_COUNT };

/* The usual names of each feature in the order in which they are tried, terminated by NULL. The first name of a size
 * belongs to a plain image key, the second one to "image/...". */
#define SAMPLE_KEY_NAMES 6u
extern const char *const sample_key_names[SAMPLE_KEY_COUNT][SAMPLE_KEY_NAMES];

/* Find the first of `names` (terminated by NULL) that the payload has, and its feature; or NULL. 0, or -EBADMSG with
 * *bad_offset_out if the payload is not a tf.train.Example. */
int sample_key_find(const char *const *names, const uint8_t *payload, size_t bytes, const char **name_out,
                    struct feature *feature_out, size_t *bad_offset_out);

/* The sample of a record that is not decoded: a copy of its payload. */
struct raw_record {
    uint8_t *bytes;             /* owned by the batch, NULL: none */
    size_t count;
};

/* Constant after sample_find_format and sample_settle_pixels. */
struct sample_format {
    bool is_raw;                /* samples are struct raw_record, and no other field is used */
    struct label_format label;
    enum pixel_layout layout;           /* configured */
    const struct image_range *range;    /* configured, or NULL */
    enum feature_kind stored_as;        /* whether images are bytes or lists of floats or integers */
    struct stored_pixels stored;        /* for images that are not encoded */
    struct pixel_reading reading;       /* how raw pixels are read; set by sample_settle_pixels */
    const struct image_ops *image;      /* NULL until found */
    uint32_t stored_height, stored_width;       /* size of the first encoded image; 0 for others */
    const char *keys[SAMPLE_KEY_COUNT]; /* image and label: at first configured or NULL, then found */
    size_t key_bytes[SAMPLE_KEY_COUNT];
};

/* The request for a sample, and the memory for it. */
struct sample_target {
    struct image_request request;
    uint8_t *pixels;
    int32_t *label;
};

/* Find from a first payload which features are image and label and how they are stored; `shape` is the wanted shape. 0,
 * or -EBADMSG with a text that lists the features of the payload. Keys that are found point to constants. */
int sample_find_format(struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                       size_t bytes, char *problem_out, size_t problem_size);
/* Is the label of this first payload ambiguous (label_is_open)? If so, call sample_label_is_number_byte for other
 * payloads and then sample_settle_label. */
bool sample_label_is_open(const struct sample_format *format, const uint8_t *payload, size_t bytes);
bool sample_label_is_number_byte(const struct sample_format *format, const uint8_t *payload, size_t bytes);
/* Decide how the ambiguous label of a first payload is read (label_settle). 0, or -EBADMSG with a text. */
int sample_settle_label(struct sample_format *format, const uint8_t *payload, size_t bytes, bool is_number,
                        char *problem_out, size_t problem_size);
/* If format->image is still NULL, images are raw pixels: begin a survey, add some payloads, and settle the format. */
void sample_begin_survey(const struct sample_format *format, struct pixel_survey *survey);
/* Add a payload to the survey; one without such an image is skipped. 0 or -ENOMEM. */
int sample_survey_pixels(const struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                         size_t bytes, struct pixel_survey *survey);
/* End the survey and set how images are read. 0, or -EBADMSG with a text. */
int sample_settle_pixels(struct sample_format *format, const struct image_shape *shape,
                         const struct pixel_survey *survey, char *problem_out, size_t problem_size);
/* Describe how images are stored: "floats (H, W, C) of 0..1". */
void sample_describe_images(const struct sample_format *format, char *text_out, size_t text_size);

/* Decode a payload: pixels (HWC), with a codec of format->image, and the label in [0, classes). 0, with the image
 * decoder's warning or ""; or -EBADMSG or -ENOMEM with a text: the target may be partly written then. With is_raw the
 * pixels are a struct raw_record, which is set to a copy of the payload; there is no label. */
int sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                const struct sample_target *target, char *problem_out, size_t problem_size);

struct sample_label {
    int64_t stored;             /* without label_offset */
    bool has_repeats;           /* the record has several image or label features; the last ones are used */
};
/* Read only the label, without checking its range. 0, or -EBADMSG with a text. */
int sample_read_label(const struct sample_format *format, const uint8_t *payload, size_t bytes,
                      struct sample_label *label_out, char *problem_out, size_t problem_size);

#endif
