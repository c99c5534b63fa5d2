/* Images whose pixels are lists of integers. Called by decoders for every record. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "formats/example.h"
#include "loader/images/converted.h"

/* Integers on their way to bytes. */
struct conversion {
    uint8_t *at;                /* of the next byte */
    uint64_t outside_count;     /* integers that are no bytes */
    int64_t outside;            /* the first of them */
};

static void convert(void *arg, int64_t value)
{
    struct conversion *const conversion = arg;
    if ((value < 0 || value > UINT8_MAX) && conversion->outside_count++ == 0)
        conversion->outside = value;
    *conversion->at++ = (uint8_t)value;
}

static int decode(void *codec, const struct stored_image *image, const struct image_request *request,
                  uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    struct stored_image bytes;
    if (image->list == NULL) {
        snprintf(problem_out, problem_size, "feature '%s' holds bytes, and integers in the first record", image->key);
        return -EBADMSG;
    }
    struct conversion conversion = { .at = converted_begin(codec, image, image->list->value_count, "integers", &bytes,
                                                           problem_out, problem_size) };
    if (conversion.at == NULL)
        return -EBADMSG;
    feature_visit(image->list, &(struct value_visitor){ .int64 = convert, .arg = &conversion });
    if (conversion.outside_count == 0)
        return converted_decode(codec, &bytes, request, pixels_out, problem_out, problem_size);
    snprintf(problem_out, problem_size, "feature '%s' holds %" PRId64 ": of its integers %" PRIu64 " are not in 0..255",
             image->key, conversion.outside, conversion.outside_count);
    return -EBADMSG;
}

const struct image_ops image_integer_hwc_ops = {
    .name = "integers (H, W, C)", .takes_integers = true, .open = converted_open_hwc, .close = converted_close,
    .codec_bytes = CONVERTED_CODEC_BYTES, .decode = decode };
const struct image_ops image_integer_chw_ops = {
    .name = "integers (C, H, W)", .takes_integers = true, .open = converted_open_chw, .close = converted_close,
    .codec_bytes = CONVERTED_CODEC_BYTES, .decode = decode };
