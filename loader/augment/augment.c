/* Which part of an image is wanted. Called by decoders for every record. */
#include "loader/augment/augment.h"

#include <math.h>

#include "loader/images/image.h"

/* Where the sample's pixels lie along one axis of the image once that is scaled to `scaled` pixels: the `wanted`
 * in the middle. */
struct axis { double from, length; };

static struct axis axis_middle(uint32_t image, double scaled, uint32_t wanted)
{
    const double pixel = image / scaled;
    return (struct axis){ .from = floor((scaled - wanted) / 2) * pixel, .length = wanted * pixel };
}

/* The image is scaled so that both sides are `scale` times the sample's, one of them more where the aspects
 * differ, to whole pixels (rounded down). */
static void view_middle(double scale, const struct image_shape *wanted, uint32_t image_height, uint32_t image_width,
                        struct augment_view *view)
{
    const double by_height = (double)wanted->height / image_height, by_width = (double)wanted->width / image_width;
    const double factor = scale * fmax(by_height, by_width);
    const double scaled_height = fmax(wanted->height, floor(image_height * factor));
    const double scaled_width = fmax(wanted->width, floor(image_width * factor));
    const struct axis y = axis_middle(image_height, scaled_height, wanted->height);
    const struct axis x = axis_middle(image_width, scaled_width, wanted->width);
    *view = (struct augment_view){ .left = x.from, .top = y.from, .width = x.length, .height = y.length,
                                   .filter = view->filter };
}

static bool has_size(const struct image_shape *shape, uint32_t height, uint32_t width)
{
    return shape->height == height && shape->width == width;
}

void augment_view(const struct augment *augment, const struct image_request *request, uint32_t image_height,
                  uint32_t image_width, struct augment_view *view_out)
{
    *view_out = (struct augment_view){ .width = image_width, .height = image_height };
    if (augment == NULL || has_size(&request->shape, image_height, image_width))
        return;
    view_out->filter = augment->filter;
    if (request->pass == PASS_EVALUATE && augment->evaluation_scale > 0)
        view_middle(augment->evaluation_scale, &request->shape, image_height, image_width, view_out);
}
