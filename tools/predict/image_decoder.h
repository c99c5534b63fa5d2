/* Reads and decodes one image after another, with the code and the pixels of an evaluation. Each thread has its own. */
#ifndef PIPETRAIN_IMAGE_DECODER_H
#define PIPETRAIN_IMAGE_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/scratch.h"
#include "tools/lib/run/run_plan.h"

#define IMAGE_PROBLEM_BYTES 512u

struct image_decoder {
    const struct run_plan *plan;        /* borrowed */
    void *codec;
    struct scratch file;
    bool is_turned;             /* the last image has an EXIF orientation other than upright */
};

/* 0 or a negative errno; call image_decoder_close in both cases. */
int image_decoder_open(struct image_decoder *decoder, const struct run_plan *plan);
void image_decoder_close(struct image_decoder *decoder);
/* Decode a JPEG or PNG, the image of sample `number`, to pixels. 0, with a flaw that was tolerated in `problem`, or "".
 * -EBADMSG: the image cannot be decoded, with the reason, a text to follow its name. -ENOMEM. */
int image_decoder_bytes(struct image_decoder *decoder, const void *bytes, size_t byte_count, uint64_t number,
                        uint8_t *pixels, char problem[IMAGE_PROBLEM_BYTES]);
/* The same with an image file. */
int image_decoder_file(struct image_decoder *decoder, const char *path, uint64_t number, uint8_t *pixels,
                       char problem[IMAGE_PROBLEM_BYTES]);

#endif
