/* Images stored as plain pixels: copied, in part where that is wanted, and scaled where the record says that
 * they have another size. Called by decoders for every record. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "loader/images/image.h"
#include "loader/images/large_copy.h"
#include "loader/images/raw_shape.h"
#include "loader/images/scale.h"
#include "loader/images/scratch.h"

/* What a thread takes for small images: pixels out of planes, lines, tables. */
#define CODEC_BYTES ((size_t)64 << 10)

struct raw {
    struct scale scale;
    struct scratch pixels;      /* of an image stored as planes */
};

/* How pixels are stored: `write` makes rows of pixels of an image's bytes. */
struct raw_order {
    void (*write)(const uint8_t *bytes, const struct image_shape *shape, uint8_t *pixels_out);
    bool is_written;            /* they are not that already */
};

bool image_shape_bytes(const struct image_shape *shape, size_t *bytes_out)
{
    return !__builtin_mul_overflow((size_t)shape->height, shape->width, bytes_out) &&
           !__builtin_mul_overflow(*bytes_out, shape->channels, bytes_out);
}

static int open_raw(void **codec_out)
{
    *codec_out = calloc(1, sizeof(struct raw));
    return *codec_out != NULL ? 0 : -ENOMEM;
}

static void close_raw(void *codec)
{
    struct raw *const raw = codec;
    scale_release(&raw->scale);
    scratch_release(&raw->pixels);
    free(raw);
}

static void write_rows(const uint8_t *rows, const struct image_shape *shape, uint8_t *pixels_out)
{
    large_copy(pixels_out, rows, (size_t)shape->height * shape->width * shape->channels);
}

static void write_planes(const uint8_t *planes, const struct image_shape *shape, uint8_t *pixels_out)
{
    const size_t plane_bytes = (size_t)shape->height * shape->width;
    for (size_t i = 0; i < plane_bytes; i++)
        for (uint32_t c = 0; c < shape->channels; c++)
            *pixels_out++ = planes[c * plane_bytes + i];
}

static const struct raw_order hwc = { write_rows, false }, chw = { write_planes, true };

/* The image as rows of pixels, or NULL for want of memory. */
static const uint8_t *find_rows(struct raw *raw, const struct raw_order *order, const struct stored_image *image,
                                const struct image_shape *shape)
{
    if (!order->is_written)
        return image->bytes;
    uint8_t *const pixels = scratch_need(&raw->pixels, image->byte_count);
    if (pixels != NULL)
        order->write(image->bytes, shape, pixels);
    return pixels;
}

static int write_view(struct raw *raw, const uint8_t *rows, const struct image_shape *stored,
                      const struct augment_view *view, const struct image_shape *wanted, uint8_t *pixels_out)
{
    const struct picture picture = {
        .pixels = rows,
        .row_bytes = (size_t)stored->width * stored->channels,
        .width = stored->width,
        .height = stored->height,
        .channels = stored->channels,
    };
    return rows != NULL ? scale_picture(&raw->scale, &picture, view, wanted, pixels_out) : -ENOMEM;
}

/* The view is all of an image that has the shape wanted. */
static bool is_whole(const struct augment_view *view, const struct image_shape *stored,
                     const struct image_shape *wanted)
{
    return view->left == 0 && view->top == 0 && view->width == wanted->width && view->height == wanted->height &&
           stored->width == wanted->width && stored->height == wanted->height &&
           stored->channels == wanted->channels && !view->is_flipped && view->resize.x_step == 0;
}

static int decode(struct raw *raw, const struct raw_order *order, const struct stored_image *image,
                  const struct image_request *request, uint8_t *pixels_out, char *problem, size_t problem_size)
{
    struct image_shape stored;
    struct augment_view view;
    if (raw_shape_find(image, &request->shape, &stored, problem, problem_size) < 0)
        return -EBADMSG;
    augment_view(request->augment, request, stored.height, stored.width, &view);
    if (is_whole(&view, &stored, &request->shape)) {
        order->write(image->bytes, &stored, pixels_out);
    } else if (write_view(raw, find_rows(raw, order, image, &stored), &stored, &view, &request->shape,
                          pixels_out) < 0) {
        snprintf(problem, problem_size, "there is not enough memory to scale its image");
        return -ENOMEM;
    }
    augment_colour(request->augment, request, pixels_out);
    return 0;
}

static int decode_hwc(void *codec, const struct stored_image *image, const struct image_request *request,
                      uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    return decode(codec, &hwc, image, request, pixels_out, problem_out, problem_size);
}

static int decode_chw(void *codec, const struct stored_image *image, const struct image_request *request,
                      uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    return decode(codec, &chw, image, request, pixels_out, problem_out, problem_size);
}

const struct image_ops image_raw_hwc_ops = {
    .name = "raw bytes (H, W, C)",
    .open = open_raw, .close = close_raw, .codec_bytes = CODEC_BYTES, .decode = decode_hwc };
const struct image_ops image_raw_chw_ops = {
    .name = "raw bytes (C, H, W)",
    .open = open_raw, .close = close_raw, .codec_bytes = CODEC_BYTES, .decode = decode_chw };
