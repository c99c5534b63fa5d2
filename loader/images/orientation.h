/* The orientation in which a camera held an image, from the EXIF data of a JPEG: how stored pixels become upright. */
#ifndef PIPETRAIN_ORIENTATION_H
#define PIPETRAIN_ORIENTATION_H

#include <stdbool.h>

#include "loader/images/image.h"
#include "loader/images/picture.h"
#include "loader/images/scratch.h"

/* Pixel (y, x) of the upright image is the stored pixel (y, x), or (x, y) if is_transposed; then mirrors count stored
 * rows or columns from the end. All false: the image is stored upright. */
struct orientation { bool is_transposed, mirrors_rows, mirrors_columns; };

/* The EXIF orientation of a JPEG file; upright if it has none, or is no JPEG. */
struct orientation orientation_of(const uint8_t *bytes, size_t byte_count);
bool orientation_is_upright(const struct orientation *orientation);

struct image_size_pair { uint32_t height, width; };
/* The size of the upright image. */
struct image_size_pair orientation_size(const struct orientation *orientation, struct image_size_pair stored);
/* Find the stored part of an image of the size `stored` for a view of the upright image, only as far as decoders use
 * it. */
struct augment_view orientation_view(const struct orientation *orientation, struct image_size_pair stored,
                                     const struct augment_view *upright);
/* Turn a picture of an image of the size `stored`, which is the reduced size if the picture is reduced. The new pixels
 * are in `scratch`. 0 or -ENOMEM. */
int orientation_turn(const struct orientation *orientation, struct image_size_pair stored, struct scratch *scratch,
                     const struct picture *picture, struct picture *upright_out);

#endif
