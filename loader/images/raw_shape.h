/* The shape of plain pixels: what the record says of it, the network wants and the bytes can be must agree. */
#ifndef PIPETRAIN_RAW_SHAPE_H
#define PIPETRAIN_RAW_SHAPE_H

#include "loader/images/image.h"

/* The shape of the pixels stored: what the record says where there are as many, with the network's channels or channels
 * that can become them (1 and 3); else the one wanted, if there are as many and nothing said is against it. 0,
 * or -EBADMSG with a text as of image_ops.decode. */
int raw_shape_find(const struct stored_image *image, const struct image_shape *wanted, struct image_shape *shape_out,
                   char *problem_out, size_t problem_size);
/* Whether the record gives a height and a width that go with the number of pixels. */
bool raw_shape_is_said(const struct stored_image *image, const struct image_shape *wanted);
/* The bytes of each number of an image whose type is not known yet: 1, 2, 4 or 8, so that there are as many numbers as
 * the sizes that the record says, or else as the network wants; 1 where nothing fits. */
uint32_t raw_number_bytes(const struct stored_image *image, const struct image_shape *wanted);

#endif
