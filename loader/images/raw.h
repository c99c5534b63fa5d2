/* The shape of raw pixels, which has to match the record's sizes, the network's input and the number of bytes. */
#ifndef PIPETRAIN_RAW_H
#define PIPETRAIN_RAW_H

#include "loader/images/image.h"

/* Find the shape of the stored pixels. It is the record's shape, if this matches the number of pixels and has as many
 * channels as the network or a number that can be converted (1 and 3); else the wanted shape, if this matches the
 * number of pixels and the record does not contradict it. 0, or -EBADMSG with a text as from image_ops.decode. */
int raw_shape_find(const struct stored_image *image, const struct image_shape *wanted, struct image_shape *shape_out,
                   char *problem_out, size_t problem_size);
/* Does the record give a height and a width that match the number of pixels? */
bool raw_shape_is_said(const struct stored_image *image, const struct image_shape *wanted);
/* The size of each number of an image whose type is not yet known: 1, 2, 4 or 8 bytes, so that the number of pixels
 * matches the record's sizes, or else the wanted shape; 1 if nothing matches. */
uint32_t raw_number_bytes(const struct stored_image *image, const struct image_shape *wanted);

/* memcpy, but with non-temporal stores from LARGE_COPY_BYTES on: the destination is not read again soon, and a batch of
 * such images does not fit into the caches. */
#define LARGE_COPY_BYTES ((size_t)64 << 10)
void large_copy(uint8_t *to, const uint8_t *from, size_t bytes);

#endif
