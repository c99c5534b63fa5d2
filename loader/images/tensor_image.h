/* Images stored as serialized tensors (tf.io.serialize_tensor), which include their type and shape. */
#ifndef PIPETRAIN_TENSOR_IMAGE_H
#define PIPETRAIN_TENSOR_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/images/numbers.h"

/* Are the bytes a TensorProto? */
bool tensor_image_is(const uint8_t *bytes, size_t byte_count);
/* Find type and layout from a first image. The layout is the configured one, or else that of the tensor's shape. 0, or
 * -EBADMSG with a text if pixels cannot have the type. */
int tensor_image_find(const struct stored_image *image, enum pixel_layout configured, enum number_kind *numbers_out,
                      enum pixel_layout *layout_out, char *problem_out, size_t problem_size);
/* Replace the image's bytes, a tensor, by its numbers, and set its sizes. 0, or -EBADMSG with a text if the bytes are
 * not a tensor with numbers of this kind. */
int tensor_image_read(struct stored_image *image, enum number_kind numbers, enum pixel_layout layout,
                      char *problem_out, size_t problem_size);

#endif
