/* Making a sample from a picture: the view is cropped, scaled, mirrored, filled outside the image and converted to the
 * wanted number of channels. */
#ifndef PIPETRAIN_SCALE_H
#define PIPETRAIN_SCALE_H

#include "loader/images/image.h"
#include "loader/images/picture.h"
#include "loader/images/scale_kernels.h"

/* Memory that a thread keeps between calls; starts as all zeros. Grows with the largest picture. */
struct scale {
    struct scale_axis x, y;
    struct scratch line;
};

/* Write the sample (HWC). The picture contains all pixels that the view overlaps (pixel_range_touched); the view is in
 * the picture's pixels. Both have the same number of channels, or 1 and 3: grey becomes three equal channels, colour
 * becomes luma. A view of whole pixels of the sample's size is copied exactly; a view with a `resize` is passed to
 * resize_picture. 0 or -ENOMEM. */
int scale_picture(struct scale *scale, const struct picture *picture, const struct augment_view *view,
                  const struct image_shape *shape, uint8_t *sample_out);
void scale_release(struct scale *scale);

#endif
