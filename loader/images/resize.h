/* An image is resized as a whole, as Pillow does it, and a part of the result is the sample: what torchvision's Resize
 * and CenterCrop compute. (scale.h computes a part alone, with one rounding; its pixels differ from Pillow's by one
 * here and there.) */
#ifndef PIPETRAIN_RESIZE_H
#define PIPETRAIN_RESIZE_H

#include "loader/images/image.h"
#include "loader/images/picture.h"
#include "loader/images/scratch.h"

/* Write the sample (HWC) of a view with a resize. The picture has the image's own size and holds what the view touches;
 * channels are those of scale_picture. Columns are summed first and rounded to bytes, then rows. 0 or -ENOMEM. */
int resize_picture(struct scratch *scratch, const struct picture *picture, const struct augment_view *view,
                   const struct image_shape *shape, uint8_t *sample_out);

#endif
