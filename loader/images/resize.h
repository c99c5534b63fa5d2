/* Resizing a picture to a sample as Pillow does: the alternative to scale.h, for views with a `resize`. */
#ifndef PIPETRAIN_RESIZE_H
#define PIPETRAIN_RESIZE_H

#include "loader/images/image.h"
#include "loader/images/picture.h"
#include "loader/images/scratch.h"

/* Resize the image as a whole, as Pillow does, and crop the sample: torchvision's Resize and CenterCrop, bit for bit.
 * (scale_picture computes only the cropped part and rounds once; its pixels sometimes differ from Pillow's by 1.) The
 * picture is not reduced and contains all pixels that the view overlaps; channels are as for scale_picture. Columns are
 * summed first and rounded to bytes, then rows. 0 or -ENOMEM. */
int resize_picture(struct scratch *scratch, const struct picture *picture, const struct augment_view *view,
                   const struct image_shape *shape, uint8_t *sample_out);

#endif
