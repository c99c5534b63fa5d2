/* Images whose pixels are floats. Called by decoders for every record, and while a data set is opened for the
 * range of some. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/example.h"
#include "loader/images/converted.h"

#define FLOAT_BYTES 4u
/* How far beyond a range its ends may be rounded, in parts of it. */
#define SLACK 1e-4f

const struct image_range image_ranges[IMAGE_RANGE_COUNT] = {
    [IMAGE_RANGE_AUTO] = { "auto", 0, 0 },
    [IMAGE_RANGE_UNIT] = { "0..1", 0, 1 },
    [IMAGE_RANGE_HALF] = { "-0.5..0.5", -0.5f, 0.5f },
    [IMAGE_RANGE_SIGNED] = { "-1..1", -1, 1 },
    [IMAGE_RANGE_BYTE] = { "0..255", 0, 255 },
};

static inline float float_at(const uint8_t *bytes)
{
    uint32_t word;
    float value;
    memcpy(&word, bytes, sizeof(word));
    word = le32toh(word);
    memcpy(&value, &word, sizeof(value));
    return value;
}

/* The runs of an image's floats, wherever they are kept. */
static void visit(const struct stored_image *image, void (*run)(void *arg, const uint8_t *run, size_t count), void *arg)
{
    if (image->list != NULL)
        feature_visit(image->list, &(struct value_visitor){ .floats = run, .arg = arg });
    else
        run(arg, image->bytes, image->byte_count / FLOAT_BYTES);
}

struct extremes {
    float lowest, highest;
};

static void widen(void *arg, const uint8_t *run, size_t count)
{
    struct extremes *const extremes = arg;
    for (size_t i = 0; i < count; i++) {
        const float value = float_at(run + FLOAT_BYTES * i);
        if (!isfinite(value))
            *extremes = (struct extremes){ NAN, NAN };
        if (value < extremes->lowest)
            extremes->lowest = value;
        if (value > extremes->highest)
            extremes->highest = value;
    }
}

void image_floats_widen(const struct stored_image *image, float *lowest, float *highest)
{
    struct extremes extremes = { *lowest, *highest };
    visit(image, widen, &extremes);
    *lowest = extremes.lowest;
    *highest = extremes.highest;
}

const struct image_range *image_range_find(float lowest, float highest)
{
    for (size_t i = IMAGE_RANGE_UNIT; i < IMAGE_RANGE_COUNT; i++) {
        const struct image_range *const range = &image_ranges[i];
        const float slack = SLACK * (range->brightest - range->darkest);
        if (lowest >= range->darkest - slack && highest <= range->brightest + slack)
            return range;
    }
    return NULL;
}

/* Floats on their way to bytes. */
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

static float find_outside(const struct image_range *range, const uint8_t *run)
{
    while (is_inside(place_in_range(range, float_at(run))))
        run += FLOAT_BYTES;
    return float_at(run);
}

static void convert_run(void *arg, const uint8_t *run, size_t count)
{
    struct conversion *const conversion = arg;
    const struct image_range range = *conversion->range;
    uint8_t *const out = conversion->at;
    uint32_t outside = 0;
    for (size_t i = 0; i < count; i++) {
        const float place = place_in_range(&range, float_at(run + FLOAT_BYTES * i));
        outside += !is_inside(place);
        out[i] = (uint8_t)(int32_t)(is_inside(place) ? place : 0.0f);
    }
    if (outside > 0 && conversion->outside_count == 0)
        conversion->outside = find_outside(&range, run);
    conversion->outside_count += outside;
    conversion->at += count;
}

static uint64_t float_count(const struct stored_image *image)
{
    return image->list != NULL ? image->list->value_count : image->byte_count / FLOAT_BYTES;
}

/* The image with bytes for floats, in the thread's memory. */
static int convert(struct converted *converted, const struct stored_image *image, struct stored_image *bytes_out,
                   char *problem, size_t problem_size)
{
    uint8_t *const bytes = converted_begin(converted, image, float_count(image), "floats", bytes_out, problem,
                                           problem_size);
    if (bytes == NULL)
        return -EBADMSG;
    struct conversion conversion = { .range = image->range, .at = bytes };
    visit(image, convert_run, &conversion);
    if (conversion.outside_count == 0)
        return 0;
    snprintf(problem, problem_size,
             "feature '%s' holds %g: of its floats %" PRIu64 " are not in %s (image_range says another range)",
             image->key, (double)conversion.outside, conversion.outside_count, image->range->name);
    return -EBADMSG;
}

static int decode(void *codec, const struct stored_image *image, const struct image_request *request,
                  uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    struct stored_image bytes;
    if (image->list == NULL && image->byte_count % FLOAT_BYTES != 0) {
        snprintf(problem_out, problem_size, "feature '%s' holds %zu bytes, which are no floats as in the first record",
                 image->key, image->byte_count);
        return -EBADMSG;
    }
    if (convert(codec, image, &bytes, problem_out, problem_size) < 0)
        return -EBADMSG;
    return converted_decode(codec, &bytes, request, pixels_out, problem_out, problem_size);
}

const struct image_ops image_float_hwc_ops = {
    .name = "floats (H, W, C)", .takes_floats = true, .open = converted_open_hwc, .close = converted_close,
    .codec_bytes = CONVERTED_CODEC_BYTES, .decode = decode };
const struct image_ops image_float_chw_ops = {
    .name = "floats (C, H, W)", .takes_floats = true, .open = converted_open_chw, .close = converted_close,
    .codec_bytes = CONVERTED_CODEC_BYTES, .decode = decode };
