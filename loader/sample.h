/* A record's payload read as a sample: pixels and a label, by the features' names. The
 * format is found once, from the first record; every later record must agree with it. */
#ifndef PIPETRAIN_SAMPLE_H
#define PIPETRAIN_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* How the pixels are stored. More kinds come with their decoders. */
enum image_layout { IMAGE_RAW_HWC, IMAGE_RAW_CHW };

/* The features a sample is read from. The last three may be missing in records. */
enum sample_key { SAMPLE_IMAGE, SAMPLE_LABEL, SAMPLE_HEIGHT, SAMPLE_WIDTH, SAMPLE_DEPTH, SAMPLE_KEY_COUNT };

/* What a sample must be. Read-only once sample_find_format has filled it in. */
struct sample_format {
    uint32_t height, width, channels;   /* of the network */
    size_t sample_bytes;                /* their product */
    uint32_t classes;
    int64_t label_offset;               /* added to the stored label */
    enum image_layout layout;
    const char *keys[SAMPLE_KEY_COUNT]; /* image and label: as configured or NULL, then as found */
    size_t key_bytes[SAMPLE_KEY_COUNT];
};

/* Find out from a first payload which features hold image and label, and how the image
 * is stored. 0, or -EBADMSG with a text that lists the features there are. Keys found
 * point to constants; keys configured stay. */
int sample_find_format(struct sample_format *format, const uint8_t *payload, size_t bytes,
                       char *problem_out, size_t problem_size);
/* Read a payload: sample_bytes pixels (HWC) and the label in [0, classes). 0, or -EBADMSG
 * with a text. The pixels may be written in part on failure. */
int sample_read(const struct sample_format *format, const uint8_t *payload, size_t bytes,
                uint8_t *pixels_out, int32_t *label_out, char *problem_out, size_t problem_size);

#endif
