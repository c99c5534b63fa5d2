/* From a picture to a sample: the view is cut out, scaled, mirrored, filled outside the image and converted to the
 * wanted number of channels. */
#ifndef PIPETRAIN_SCALE_H
#define PIPETRAIN_SCALE_H

#include "loader/images/image.h"
#include "loader/images/picture.h"
#include "loader/images/scale_kernels.h"

/* Memory that a thread keeps between calls, all zeros at first. Grows with the largest picture. */
struct scale {
    struct scale_axis x, y;
    struct scratch line;
};

/* Write the sample (HWC). The picture has to contain what the view touches (pixel_range_touched); the view is in the
 * picture's pixels. Both have equal numbers of channels, or 1 and 3: grey becomes three equal channels, colour becomes
 * its luma. A view of whole pixels of the sample's size is copied exactly; a view with a `resize` goes to
 * resize_picture. 0 or -ENOMEM. */
int scale_picture(struct scale *scale, const struct picture *picture, const struct augment_view *view,
                  const struct image_shape *shape, uint8_t *sample_out);
void scale_release(struct scale *scale);

/* Resize the image as a whole, as Pillow does, and cut the sample out: torchvision's Resize and CenterCrop, bit for
 * bit. (scale_picture computes the cut part only and rounds once; its pixels sometimes differ from Pillow's by 1.) The
 * picture is not reduced and contains what the view touches; channels are as for scale_picture. Columns are summed
 * first and rounded to bytes, then rows. 0 or -ENOMEM. */
int resize_picture(struct scratch *scratch, const struct picture *picture, const struct augment_view *view,
                   const struct image_shape *shape, uint8_t *sample_out);

/* Convert `count` pixels from 1 channel to 3 equal ones, or from 3 (red, green, blue) to their luma (Pillow's "L"):
 * 0.299 R + 0.587 G + 0.114 B with 16 fraction bits, rounded. */
void channels_convert(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *out);
/* Mirror a row of `width` pixels. */
void view_mirror_row(uint8_t *row, uint32_t width, uint32_t channels);

#endif
