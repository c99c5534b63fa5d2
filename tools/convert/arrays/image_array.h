/* An array of images, whatever its numbers and the order of its dimensions, as the uint8 pixels that shards hold. */
#ifndef PIPETRAIN_IMAGE_ARRAY_H
#define PIPETRAIN_IMAGE_ARRAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "tools/convert/arrays/array.h"

struct image_shape_found {
    uint32_t height, width, depth;
    bool is_planar;             /* channels come before rows (N, C, H, W) */
};

/* The smallest and the largest number of arrays. */
struct number_range { double least, most; };

/* The shape of the images of an array (N, H, W), (N, H, W, C) or (N, C, H, W), C up to 4. 0, or -EBADMSG after
 * stop_fail. */
int image_array_shape(const struct array *images, struct image_shape_found *shape_out, struct stop *stop);
/* Widen the range to the array's numbers; reads all of it, where it is not uint8. 0, -ECANCELED when interrupted, or a
 * negative errno after stop_fail, as where a number is none (NaN). */
int image_array_range(const struct array *images, struct number_range *range, const atomic_bool *interrupted,
                      struct stop *stop);
/* Which numbers are black and white in an array whose numbers are of this range: integers are pixels of 0..255,
 * booleans of 0..1, floating-point numbers what they are in shards. NULL where they are no pixels. */
const struct image_range *image_array_meaning(const struct npy *npy, const struct number_range *range);

/* Bytes image_array_read needs besides the pixels. */
size_t image_array_scratch(const struct array *images, const struct image_shape_found *shape);
/* Image `index` as rows of pixels of channels, rounded to the nearest. Any thread. 0, or a negative errno after
 * stop_fail. */
int image_array_read(const struct array *images, const struct image_shape_found *shape,
                     const struct image_range *meaning, uint64_t index, uint8_t *scratch, uint8_t *pixels_out,
                     struct stop *stop);

#endif
