/* What a view needs of an image. Called by decoders for every image that is cut or scaled. */
#include "loader/images/picture.h"

#include <math.h>

struct picture_stretch picture_stretch(double from, double length, uint32_t size)
{
    const double first = fmin(fmax(floor(from), 0), size - 1.0);
    const double end = fmin(fmax(ceil(from + length), first + 1), size);
    return (struct picture_stretch){ .first = (uint32_t)first, .count = (uint32_t)(end - first) };
}
