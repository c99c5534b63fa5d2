/* Views that take pixels as they are: a part of an image, mirrored or not, with borders. */
#ifndef PIPETRAIN_VIEW_COPY_H
#define PIPETRAIN_VIEW_COPY_H

#include <stdbool.h>

#include "loader/images/image.h"
#include "loader/images/picture.h"

/* Whether the view is made of whole pixels, one for each of the sample. */
bool view_is_copy(const struct augment_view *view, const struct image_shape *shape);
/* Row y of such a view, `width` pixels in the picture's channels. The view touches the picture. */
void view_copy_row(const struct picture *picture, const struct augment_view *view, uint32_t width, uint32_t y,
              uint8_t *row_out);
/* Left and right change places in a row of `width` pixels. */
void view_mirror_row(uint8_t *row, uint32_t width, uint32_t channels);

#endif
