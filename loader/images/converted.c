/* Numbers on their way to raw pixels. Called by decoders for every record. */
#include "loader/images/converted.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void converted_close(void *codec)
{
    struct converted *const converted = codec;
    if (converted->codec != NULL)
        converted->raw->close(converted->codec);
    scratch_release(&converted->bytes);
    free(converted);
}

static int open_converted(void **codec_out, const struct image_ops *raw)
{
    struct converted *const converted = calloc(1, sizeof(*converted));
    if (converted == NULL)
        return -ENOMEM;
    converted->raw = raw;
    const int rc = raw->open != NULL ? raw->open(&converted->codec) : 0;
    if (rc == 0)
        *codec_out = converted;
    else
        converted_close(converted);
    return rc;
}

int converted_open_hwc(void **codec_out)
{
    return open_converted(codec_out, &image_raw_hwc_ops);
}

int converted_open_chw(void **codec_out)
{
    return open_converted(codec_out, &image_raw_chw_ops);
}

uint8_t *converted_begin(struct converted *converted, const struct stored_image *image, uint64_t count,
                         const char *numbers, struct stored_image *bytes_out, char *problem_out, size_t problem_size)
{
    uint8_t *const bytes = scratch_need(&converted->bytes, count > 0 ? count : 1);
    if (bytes == NULL) {
        snprintf(problem_out, problem_size, "there is not enough memory for its %" PRIu64 " %s", count, numbers);
        return NULL;
    }
    *bytes_out = *image;
    bytes_out->bytes = bytes;
    bytes_out->byte_count = count;
    bytes_out->list = NULL;
    bytes_out->numbers = numbers;
    return bytes;
}

int converted_decode(struct converted *converted, const struct stored_image *bytes,
                     const struct image_request *request, uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    return converted->raw->decode(converted->codec, bytes, request, pixels_out, problem_out, problem_size);
}
