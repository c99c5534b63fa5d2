/* Images whose pixels are other numbers than bytes: made bytes in the thread's memory, which are then raw pixels. */
#ifndef PIPETRAIN_CONVERTED_H
#define PIPETRAIN_CONVERTED_H

#include "loader/images/image.h"
#include "loader/images/scratch.h"

/* What a thread takes for small images. */
#define CONVERTED_CODEC_BYTES ((size_t)128 << 10)

/* The codec of such images. */
struct converted {
    struct scratch bytes;
    const struct image_ops *raw;
    void *codec;                /* of raw */
};

/* Fit image_ops: rows of pixels, planes. */
int converted_open_hwc(void **codec_out);
int converted_open_chw(void **codec_out);
void converted_close(void *codec);

/* Room for the bytes of `count` numbers, called `numbers` in messages, or NULL with the problem; *bytes_out
 * becomes the image as those bytes, which are to be written. */
uint8_t *converted_begin(struct converted *converted, const struct stored_image *image, uint64_t count,
                         const char *numbers, struct stored_image *bytes_out, char *problem_out, size_t problem_size);
/* The image that was begun, its bytes written: as image_ops.decode. */
int converted_decode(struct converted *converted, const struct stored_image *bytes,
                     const struct image_request *request, uint8_t *pixels_out, char *problem_out, size_t problem_size);

#endif
