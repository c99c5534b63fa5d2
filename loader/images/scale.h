/* From a picture to a sample: the view of it, scaled, mirrored, with what lies beyond the image, in as many channels as
 * are wanted. */
#ifndef PIPETRAIN_SCALE_H
#define PIPETRAIN_SCALE_H

#include "loader/images/image.h"
#include "loader/images/picture.h"
#include "loader/images/scale_axis.h"

/* What a thread keeps for it; zeros: nothing yet. Grows with the largest picture. */
struct scale {
    struct scale_axis x, y;
    struct scratch line;
};

/* Write the sample (HWC). The picture holds what the view touches (picture_stretch); the view is in its pixels.
 * Channels of the picture and of the sample are the same number, or 1 and 3: grey becomes three equal channels, and
 * colours the luma of ITU-R BT.601 (Pillow's "L"). A view of whole pixels and of the sample's size is copied,
 * exactly; one with a resize is resize_picture's. 0 or -ENOMEM. */
int scale_picture(struct scale *scale, const struct picture *picture, const struct augment_view *view,
                  const struct image_shape *shape, uint8_t *sample_out);
void scale_release(struct scale *scale);

#endif
