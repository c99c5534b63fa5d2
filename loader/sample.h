/* A record's payload as a sample: pixels and a label, found by the names of features. The format is found once, from
 * the first record; all others must have the same. */
#ifndef PIPETRAIN_SAMPLE_H
#define PIPETRAIN_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/images/stored_pixels.h"
#include "loader/label.h"

/* The features of a sample. Records may lack the last three. */
enum sample_key { SAMPLE_IMAGE, SAMPLE_LABEL, SAMPLE_HEIGHT, SAMPLE_WIDTH, SAMPLE_DEPTH, SAMPLE_KEY_COUNT };

/* The usual names of each feature in the order in which they are tried, NULL after the last. Those of the sizes begin
 * with the name that goes with a plain image key and then the one that goes with "image/...". */
#define SAMPLE_KEY_NAMES 6u
extern const char *const sample_key_names[SAMPLE_KEY_COUNT][SAMPLE_KEY_NAMES];

/* The first of `names` (the last one is NULL) that the payload has, with its feature; or NULL. 0, or -EBADMSG with
 * *bad_offset_out if the payload is not a tf.train.Example. */
int sample_key_find(const char *const *names, const uint8_t *payload, size_t bytes, const char **name_out,
                    struct feature *feature_out, size_t *bad_offset_out);

/* Read-only after sample_find_format and sample_settle_pixels. */
struct sample_format {
    struct label_format label;
    enum pixel_layout layout;           /* configured */
    const struct image_range *range;    /* configured, or NULL */
    enum feature_kind stored_as;        /* images are bytes, or lists of floats or integers */
    struct stored_pixels stored;        /* of images that are not encoded */
    struct pixel_reading reading;       /* how raw pixels are read; set by sample_settle_pixels */
    const struct image_ops *image;      /* NULL until it is known */
    uint32_t stored_height, stored_width;       /* of the first encoded image; else 0 */
    const char *keys[SAMPLE_KEY_COUNT]; /* image and label: configured or NULL at first, then found */
    size_t key_bytes[SAMPLE_KEY_COUNT];
};

/* What to decode, and where to. */
struct sample_target {
    struct image_request request;
    uint8_t *pixels;
    int32_t *label;
};

/* Find from a first payload which features hold image and label and how they are stored; pixels of `shape` are wanted.
 * 0, or -EBADMSG with a text that lists the features of the payload. Keys that are found point to constants. */
int sample_find_format(struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                       size_t bytes, char *problem_out, size_t problem_size);
/* Whether the label of this first payload is ambiguous (label_is_open). If so, call sample_label_is_number_byte for
 * other payloads and then sample_settle_label. */
bool sample_label_is_open(const struct sample_format *format, const uint8_t *payload, size_t bytes);
bool sample_label_is_number_byte(const struct sample_format *format, const uint8_t *payload, size_t bytes);
/* 0, or -EBADMSG with a text. */
int sample_settle_label(struct sample_format *format, const uint8_t *payload, size_t bytes, bool is_number,
                        char *problem_out, size_t problem_size);
/* If format->image is still NULL, images are raw pixels: begin a survey, add some payloads, and settle. */
void sample_begin_survey(const struct sample_format *format, struct pixel_survey *survey);
/* 0 or -ENOMEM. A payload without such an image is skipped. */
int sample_survey_pixels(const struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                         size_t bytes, struct pixel_survey *survey);
/* 0, or -EBADMSG with a text. */
int sample_settle_pixels(struct sample_format *format, const struct image_shape *shape,
                         const struct pixel_survey *survey, char *problem_out, size_t problem_size);
/* How images are stored: "floats (H, W, C) of 0..1". */
void sample_describe_images(const struct sample_format *format, char *text_out, size_t text_size);

/* Read a payload: pixels (HWC) with a codec of format->image, and the label in [0, classes). 0, with the image
 * decoder's warning or ""; or -EBADMSG with a text. The target may be partly written on failure. */
int sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                const struct sample_target *target, char *problem_out, size_t problem_size);

struct sample_label {
    int64_t stored;             /* without label_offset */
    bool has_repeats;           /* the record has several image or label features; the last ones are used */
};
/* Read the label only, in range or not. 0, or -EBADMSG with a text. */
int sample_read_label(const struct sample_format *format, const uint8_t *payload, size_t bytes,
                      struct sample_label *label_out, char *problem_out, size_t problem_size);

#endif
