/* An array of images, whatever its numbers and the order of its dimensions, as the uint8 pixels that shards hold. */
#ifndef PIPETRAIN_IMAGE_ARRAY_H
#define PIPETRAIN_IMAGE_ARRAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/convert/arrays/array.h"

struct image_shape_found {
    uint32_t height, width, depth;
    bool is_planar;             /* channels come before rows (N, C, H, W) */
};

/* The smallest and the largest number of arrays. */
struct number_range { double least, most; };

/* pixel = number * scale + offset, rounded to the nearest. */
struct pixel_scale { const char *name; double scale, offset; };

/* The shape of the images of an array (N, H, W), (N, H, W, C) or (N, C, H, W), C up to 4. 0, or -EBADMSG after
 * stop_fail. */
int image_array_shape(const struct array *images, struct image_shape_found *shape_out, struct stop *stop);
/* Widen the range to the array's numbers; reads all of it, where it is not uint8. 0, -ECANCELED when interrupted, or a
 * negative errno after stop_fail, as where a number is none (NaN). */
int image_array_range(const struct array *images, struct number_range *range, const atomic_bool *interrupted,
                      struct stop *stop);
/* How numbers of this range are pixels: 0 ... 255 as they are, floating-point 0 ... 1 and -1 ... 1 stretched, booleans
 * 0 and 255. NULL where it is none of these. */
const struct pixel_scale *image_array_scale(const struct npy *npy, const struct number_range *range);

/* Bytes image_array_read needs besides the pixels. */
size_t image_array_scratch(const struct array *images, const struct image_shape_found *shape);
/* Image `index` as rows of pixels of channels. Any thread. 0, or a negative errno after stop_fail. */
int image_array_read(const struct array *images, const struct image_shape_found *shape, const struct pixel_scale *scale,
                     uint64_t index, uint8_t *scratch, uint8_t *pixels_out, struct stop *stop);

#endif
