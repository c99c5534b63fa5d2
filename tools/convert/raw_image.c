/* What a record of a raw image holds. Called by the converters' samples, from any thread. */
#include "tools/convert/convert.h"

size_t convert_raw_image(const struct conversion *conversion, const uint8_t *pixels, int64_t label,
                         struct example_value values_out[SAMPLE_VALUES_MAX])
{
    const size_t bytes = (size_t)conversion->height * conversion->width * conversion->depth;

    values_out[0] = (struct example_value){ .name = "depth", .kind = FEATURE_INT64S, .int64 = conversion->depth };
    values_out[1] = (struct example_value){ .name = "height", .kind = FEATURE_INT64S, .int64 = conversion->height };
    values_out[2] = (struct example_value){ .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels,
                                           .byte_count = bytes };
    values_out[3] = (struct example_value){ .name = "label", .kind = FEATURE_INT64S, .int64 = label };
    values_out[4] = (struct example_value){ .name = "width", .kind = FEATURE_INT64S, .int64 = conversion->width };
    return 5;
}
