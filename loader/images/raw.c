/* Images stored as plain pixels. Called by decoders for every record. */
#include "loader/images/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "loader/shards/shard_kind.h"

bool image_shape_bytes(const struct image_shape *shape, size_t *bytes_out)
{
    return !__builtin_mul_overflow((size_t)shape->height, shape->width, bytes_out) &&
           !__builtin_mul_overflow(*bytes_out, shape->channels, bytes_out);
}

static int report_length(const struct stored_image *image, const struct image_shape *shape, char *problem,
                         size_t problem_size)
{
    const char *const encoding = shard_kind_image(image->bytes, image->byte_count);
    size_t bytes = 0;
    (void)image_shape_bytes(shape, &bytes);
    if (encoding != NULL)
        snprintf(problem, problem_size,
                 "feature '%s' holds a %s image: encoded images are not read yet, only raw pixels", image->key,
                 encoding);
    else
        snprintf(problem, problem_size,
                 "has %zu bytes of pixels, the network wants %zu (%" PRIu32 "x%" PRIu32 "x%" PRIu32 ")",
                 image->byte_count, bytes, shape->height, shape->width, shape->channels);
    return -EBADMSG;
}

/* Whether what is said of all three sizes could be said of the pixels. */
static bool pixels_agree(const struct stored_image *image, char *problem, size_t problem_size)
{
    const int64_t height = image->height.said, width = image->width.said, channels = image->channels.said;
    uint64_t bytes;
    if (height == IMAGE_SIZE_UNSAID || width == IMAGE_SIZE_UNSAID || channels == IMAGE_SIZE_UNSAID ||
        shard_kind_image(image->bytes, image->byte_count) != NULL)
        return true;
    if (height >= 0 && width >= 0 && channels >= 0 && !__builtin_mul_overflow((uint64_t)height, width, &bytes) &&
        !__builtin_mul_overflow(bytes, channels, &bytes) && bytes == image->byte_count)
        return true;
    snprintf(problem, problem_size, "has %zu bytes of pixels, but says it is %" PRId64 "x%" PRId64 "x%" PRId64,
             image->byte_count, height, width, channels);
    return false;
}

static bool size_agrees(const struct image_size *size, uint32_t wanted, char *problem, size_t problem_size)
{
    if (size->said == IMAGE_SIZE_UNSAID || size->said == (int64_t)wanted)
        return true;
    snprintf(problem, problem_size, "says its %s is %" PRId64 ", the network wants %" PRIu32, size->key, size->said,
             wanted);
    return false;
}

/* Plain pixels have the shape wanted, as they are. */
static int check_raw(const struct stored_image *image, const struct image_shape *shape, char *problem,
                     size_t problem_size)
{
    size_t bytes;
    if (!image_shape_bytes(shape, &bytes) || image->byte_count != bytes)
        return pixels_agree(image, problem, problem_size) ? report_length(image, shape, problem, problem_size)
                                                         : -EBADMSG;
    const bool agrees = size_agrees(&image->height, shape->height, problem, problem_size) &&
                        size_agrees(&image->width, shape->width, problem, problem_size) &&
                        size_agrees(&image->channels, shape->channels, problem, problem_size);
    return agrees ? 0 : -EBADMSG;
}

static int decode_hwc(void *codec, const struct stored_image *image, const struct image_request *request,
                      uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    (void)codec;
    const int rc = check_raw(image, &request->shape, problem_out, problem_size);
    if (rc == 0)
        memcpy(pixels_out, image->bytes, image->byte_count);
    return rc;
}

static int decode_chw(void *codec, const struct stored_image *image, const struct image_request *request,
                      uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    (void)codec;
    const uint32_t channels = request->shape.channels;
    const size_t plane_bytes = (size_t)request->shape.height * request->shape.width;
    const int rc = check_raw(image, &request->shape, problem_out, problem_size);
    for (size_t i = 0; i < plane_bytes && rc == 0; i++)
        for (uint32_t c = 0; c < channels; c++)
            *pixels_out++ = image->bytes[c * plane_bytes + i];
    return rc;
}

const struct image_ops image_raw_hwc_ops = { .decode = decode_hwc };
const struct image_ops image_raw_chw_ops = { .decode = decode_chw };
