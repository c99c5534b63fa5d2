/* The shape of raw pixels, where the record's sizes, the network's input and the number of bytes have to agree. */
#ifndef PIPETRAIN_RAW_H
#define PIPETRAIN_RAW_H

#include "loader/images/image.h"

/* The shape of the stored pixels: the record's, if it goes with the number of pixels and has the network's number of
 * channels or one that can be converted (1 and 3); else the wanted one, if the number of pixels fits and the record
 * does not contradict. 0, or -EBADMSG with a text as image_ops.decode writes it. */
int raw_shape_find(const struct stored_image *image, const struct image_shape *wanted, struct image_shape *shape_out,
                   char *problem_out, size_t problem_size);
/* Whether the record gives a height and a width that go with the number of pixels. */
bool raw_shape_is_said(const struct stored_image *image, const struct image_shape *wanted);
/* The size of each number of an image whose type is not known yet: 1, 2, 4 or 8 bytes, so that the number of pixels
 * fits the record's sizes, or else the wanted shape; 1 if nothing fits. */
uint32_t raw_number_bytes(const struct stored_image *image, const struct image_shape *wanted);

/* memcpy, but from LARGE_COPY_BYTES on with non-temporal stores: the destination is not read again soon, and a batch
 * of such images does not fit into the caches. */
#define LARGE_COPY_BYTES ((size_t)64 << 10)
void large_copy(uint8_t *to, const uint8_t *from, size_t bytes);

#endif
