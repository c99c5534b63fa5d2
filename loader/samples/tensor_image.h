/* Images that are serialized tensors (tf.io.serialize_tensor): type and shape are in each. */
#ifndef PIPETRAIN_TENSOR_IMAGE_H
#define PIPETRAIN_TENSOR_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/images/numbers.h"

bool tensor_image_is(const uint8_t *bytes, size_t byte_count);
/* The type and the layout of a first image that is a tensor: the layout configured, or else what the shape says. 0, or
 * -EBADMSG with a text where its type is none of pixels. */
int tensor_image_find(const struct stored_image *image, enum pixel_layout configured, enum number_kind *numbers_out,
                      enum pixel_layout *layout_out, char *problem_out, size_t problem_size);
/* Make an image whose bytes are a tensor one whose bytes are its numbers, with its sizes. 0, or -EBADMSG with a text
 * where the bytes are no tensor of such numbers. */
int tensor_image_read(struct stored_image *image, enum number_kind numbers, enum pixel_layout layout,
                      char *problem_out, size_t problem_size);

#endif
