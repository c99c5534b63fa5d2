/* One decoder of encoded images, like that of a loader thread, for all tests of a program. */
#ifndef PIPETRAIN_ENCODED_CODEC_H
#define PIPETRAIN_ENCODED_CODEC_H

#include "loader/images/image.h"

/* Group set-up and tear-down. */
int encoded_codec_open(void **state);
int encoded_codec_close(void **state);

/* Decode a file as a sample of this shape: as image_ops.decode. */
int encoded_codec_decode(const void *bytes, size_t byte_count, const struct image_shape *shape, uint8_t *sample_out,
                         char *problem_out, size_t problem_size);

#endif
