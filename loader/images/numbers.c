/* Images whose pixels are other numbers than bytes of 0 to 255: made such bytes in the thread's memory, which are then
 * decoded as raw pixels. Called by decoders for every record. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "loader/images/image.h"
#include "loader/images/number_type.h"
#include "loader/images/scratch.h"

#define CODEC_BYTES ((size_t)128 << 10)     /* what a thread takes for small images */

const struct image_range image_ranges[IMAGE_RANGE_COUNT] = {
    [IMAGE_RANGE_AUTO] = { "auto", 0, 0 },
    [IMAGE_RANGE_UNIT] = { "0..1", 0, 1 },
    [IMAGE_RANGE_HALF] = { "-0.5..0.5", -0.5f, 0.5f },
    [IMAGE_RANGE_SIGNED] = { "-1..1", -1, 1 },
    [IMAGE_RANGE_BYTE] = { "0..255", 0, 255 },
    [IMAGE_RANGE_WORD] = { "0..65535", 0, 65535 },
};

struct numbers {
    struct scratch bytes;
    const struct image_ops *raw;
    void *codec;                /* of raw */
};

static void numbers_close(void *codec)
{
    struct numbers *const numbers = codec;
    if (numbers->codec != NULL)
        numbers->raw->close(numbers->codec);
    scratch_release(&numbers->bytes);
    free(numbers);
}

static int numbers_open(void **codec_out, const struct image_ops *raw)
{
    struct numbers *const numbers = calloc(1, sizeof(*numbers));
    if (numbers == NULL)
        return -ENOMEM;
    numbers->raw = raw;
    const int rc = raw->open(&numbers->codec);
    if (rc == 0)
        *codec_out = numbers;
    else
        numbers_close(numbers);
    return rc;
}

static int open_hwc(void **codec_out)
{
    return numbers_open(codec_out, &image_raw_hwc_ops);
}

static int open_chw(void **codec_out)
{
    return numbers_open(codec_out, &image_raw_chw_ops);
}

/* Numbers on their way to bytes. */
struct conversion {
    const struct image_range *range;
    uint8_t *at;                /* of the next byte */
    uint64_t outside_count;     /* numbers that are not in the range */
    float outside;              /* the first of them */
};

static inline float place_in_range(const struct image_range *range, float value)
{
    return (value - range->darkest) * (255.0f / (range->brightest - range->darkest)) + 0.5f;
}

static inline bool is_inside(float place)
{
    return place >= 0.0f && place < 256.0f;
}

static float find_outside(const struct image_range *range, const float *values)
{
    while (is_inside(place_in_range(range, *values)))
        values++;
    return *values;
}

static void convert_run(void *arg, const float *values, size_t count)
{
    struct conversion *const conversion = arg;
    const struct image_range range = *conversion->range;
    uint8_t *const out = conversion->at;
    uint32_t outside = 0;
    for (size_t i = 0; i < count; i++) {
        const float place = place_in_range(&range, values[i]);
        outside += !is_inside(place);
        out[i] = (uint8_t)(int32_t)(is_inside(place) ? place : 0.0f);
    }
    if (outside > 0 && conversion->outside_count == 0)
        conversion->outside = find_outside(&range, values);
    conversion->outside_count += outside;
    conversion->at += count;
}

/* The image as bytes, in the thread's memory. */
static int convert(struct numbers *numbers, const struct stored_image *image, struct stored_image *bytes_out,
                   char *problem, size_t problem_size)
{
    const uint64_t count = number_count(image);
    uint8_t *const bytes = scratch_need(&numbers->bytes, count > 0 ? count : 1);
    if (bytes == NULL) {
        snprintf(problem, problem_size, "there is not enough memory for its %" PRIu64 " %s", count, image->type->name);
        return -ENOMEM;
    }
    struct conversion conversion = { .range = image->range, .at = bytes };
    number_visit(image, convert_run, &conversion);
    if (conversion.outside_count > 0) {
        snprintf(problem, problem_size,
                 "feature '%s' holds %.9g: of its %s %" PRIu64 " are not in %s (data.image_range sets another range)",
                 image->key, (double)conversion.outside, image->type->name, conversion.outside_count,
                 image->range->name);
        return -EBADMSG;
    }
    *bytes_out = *image;
    bytes_out->bytes = bytes;
    bytes_out->byte_count = count;
    bytes_out->list = NULL;
    return 0;
}

static int decode(void *codec, const struct stored_image *image, const struct image_request *request,
                  uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    struct numbers *const numbers = codec;
    struct stored_image bytes;
    if (image->list == NULL && image->byte_count % image->type->bytes != 0) {
        snprintf(problem_out, problem_size, "feature '%s' holds %zu bytes, which are no %s as in the first record",
                 image->key, image->byte_count, image->type->name);
        return -EBADMSG;
    }
    const int rc = convert(numbers, image, &bytes, problem_out, problem_size);
    return rc < 0 ? rc
                  : numbers->raw->decode(numbers->codec, &bytes, request, pixels_out, problem_out, problem_size);
}

const struct image_ops image_numbers_hwc_ops = { .name = "numbers (H, W, C)", .open = open_hwc, .close = numbers_close,
                                                 .codec_bytes = CODEC_BYTES, .decode = decode };
const struct image_ops image_numbers_chw_ops = { .name = "numbers (C, H, W)", .open = open_chw, .close = numbers_close,
                                                 .codec_bytes = CODEC_BYTES, .decode = decode };
