/* A record's payload read as a sample: pixels and a label, by the features' names. The
 * format is found once, from the first record; every later record must agree with it. */
#ifndef PIPETRAIN_SAMPLE_H
#define PIPETRAIN_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/images/pixel_survey.h"
#include "loader/samples/label.h"
#include "loader/samples/sample_key.h"

/* What samples are read from. Read-only once sample_find_format and sample_settle_pixels have filled it in. */
struct sample_format {
    struct label_format label;
    enum pixel_layout layout;           /* as configured */
    const struct image_range *range;    /* as configured, or NULL */
    enum feature_kind stored_as;        /* found: images are bytes, or lists of floats or integers */
    bool is_tensor;                     /* found: the bytes are TensorProtos */
    enum number_kind numbers;           /* found: the type of pixels in lists and tensors */
    uint32_t number_bytes;              /* found: of each number of pixels that are bytes */
    struct pixel_reading reading;       /* settled: how raw pixels are read */
    const struct image_ops *image;      /* found, or settled for raw pixels; NULL before */
    uint32_t stored_height, stored_width;       /* of the first image where images are files; else 0 */
    const char *keys[SAMPLE_KEY_COUNT]; /* image and label: as configured or NULL, then as found */
    size_t key_bytes[SAMPLE_KEY_COUNT];
};

/* What is wanted of a record, and where it goes. */
struct sample_target {
    struct image_request request;
    uint8_t *pixels;
    int32_t *label;
};

/* Find out from a first payload which features hold image and label, and how each is
 * stored, where pixels of `shape` are wanted. 0, or -EBADMSG with a text that lists the
 * features there are. Keys found point to constants; keys configured stay. */
int sample_find_format(struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                       size_t bytes, char *problem_out, size_t problem_size);
/* Whether this first payload, whose format is found, leaves open what its label is. Then some payloads are to be asked
 * whether theirs is a number's byte (label.h), and the label is settled with the first payload. */
bool sample_label_is_open(const struct sample_format *format, const uint8_t *payload, size_t bytes);
bool sample_label_is_number_byte(const struct sample_format *format, const uint8_t *payload, size_t bytes);
/* 0, or -EBADMSG with a text. */
int sample_settle_label(struct sample_format *format, const uint8_t *payload, size_t bytes, bool is_number,
                        char *problem_out, size_t problem_size);
/* Where the format found has no image yet, its pixels are raw: a survey is begun, takes the images of some payloads,
 * any that can be read, and settles how all are read. */
void sample_begin_survey(const struct sample_format *format, struct pixel_survey *survey);
/* 0 or -ENOMEM. A payload without such an image is left out. */
int sample_survey_pixels(const struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                         size_t bytes, struct pixel_survey *survey);
/* 0, or -EBADMSG with a text. */
int sample_settle_pixels(struct sample_format *format, const struct image_shape *shape,
                         const struct pixel_survey *survey, char *problem_out, size_t problem_size);
/* How images are stored: "floats (H, W, C) of 0..1". */
void sample_describe_images(const struct sample_format *format, char *text_out, size_t text_size);

/* Read a payload: pixels (HWC) by the codec of format->image, and the label in [0, classes). 0, with the text of
 * a warning of the image's decoder or ""; or -EBADMSG with a text. The target may be written in part on failure. */
int sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                const struct sample_target *target, char *problem_out, size_t problem_size);

/* What a survey of labels wants to know of a record. */
struct sample_label {
    int64_t stored;             /* without label_offset */
    bool has_repeats;           /* image or label are there more than once: the last ones count */
};
/* Read the label alone, whether it is in range or not. 0, or -EBADMSG with a text. */
int sample_read_label(const struct sample_format *format, const uint8_t *payload, size_t bytes,
                      struct sample_label *label_out, char *problem_out, size_t problem_size);

#endif
