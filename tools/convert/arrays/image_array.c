/* Arrays of images. What is said of an array is found by main while the npy converter prepares. */
#include "tools/convert/arrays/image_array.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "loader/images/pixel_survey.h"

#define DEPTH_MAX 4u
#define IMAGE_NUMBERS_MAX ((uint64_t)16 << 20)
#define PIECE_BYTES ((size_t)1 << 20)

static bool is_depth(uint64_t size)
{
    return size >= 1 && size <= DEPTH_MAX;
}

static bool is_side(uint64_t size)
{
    return size >= 1 && size <= IMAGE_NUMBERS_MAX;
}

int image_array_shape(const struct array *images, struct image_shape_found *shape_out, struct stop *stop)
{
    const uint64_t *const dims = images->npy.dims;
    const uint32_t rank = images->npy.rank;
    const bool is_last = rank == 3 || (rank == 4 && is_depth(dims[3]));
    const uint64_t depth = rank == 3 ? 1 : dims[is_last ? 3 : 1];
    const uint64_t height = dims[is_last ? 1 : 2], width = dims[is_last ? 2 : 3];

    if ((rank != 3 && rank != 4) || !is_depth(depth))
        return array_fail_shape(images, stop, "is no array of images, which are (N, H, W), (N, H, W, C) or "
                                "(N, C, H, W), with 1 or 3 channels C: if each row is an image, save "
                                "array.reshape(-1, H, W), array.reshape(-1, H, W, 3) or, where all of red comes first "
                                "as in CIFAR-10's, array.reshape(-1, 3, H, W)");
    if (depth != 1 && depth != 3)
        return array_fail_shape(images, stop, "has images of neither 1 nor 3 channels, which is what networks take: "
                                "save those of grey, or of red, green and blue");
    if (!is_side(height) || !is_side(width) || height * width * depth > IMAGE_NUMBERS_MAX)
        return array_fail(images, stop, "has images without pixels, or of over 16 million numbers");
    *shape_out = (struct image_shape_found){ (uint32_t)height, (uint32_t)width, (uint32_t)depth, !is_last };
    return 0;
}

/* False where a number is none. */
static bool widen(struct number_range *range, const struct npy *npy, const uint8_t *numbers, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += npy->item_bytes) {
        const double number = npy_number(npy, numbers + at);
        if (!isfinite(number))
            return false;
        range->least = fmin(range->least, number);
        range->most = fmax(range->most, number);
    }
    return true;
}

static int read_range(const struct array *images, struct number_range *range, uint8_t *piece,
                      const atomic_bool *interrupted, struct stop *stop)
{
    const uint64_t all = images->npy.data_bytes;

    for (uint64_t offset = 0; offset < all; offset += PIECE_BYTES) {
        const size_t bytes = all - offset < PIECE_BYTES ? (size_t)(all - offset) : PIECE_BYTES;
        if (atomic_load(interrupted))
            return -ECANCELED;
        const int rc = array_read(images, offset, piece, bytes, stop);
        if (rc < 0)
            return rc;
        if (!widen(range, &images->npy, piece, bytes))
            return array_fail(images, stop, "has numbers that are infinite or none (NaN)");
    }
    return 0;
}

static bool is_uint8(const struct npy *npy)
{
    return npy->kind == NPY_UINT && npy->item_bytes == 1;
}

int image_array_range(const struct array *images, struct number_range *range, const atomic_bool *interrupted,
                      struct stop *stop)
{
    if (is_uint8(&images->npy)) {
        range->least = fmin(range->least, 0);
        range->most = fmax(range->most, UINT8_MAX);
        return 0;
    }
    uint8_t *const piece = malloc(PIECE_BYTES);
    if (piece == NULL) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory to read arrays");
        return -ENOMEM;
    }
    const int rc = read_range(images, range, piece, interrupted, stop);
    free(piece);
    return rc;
}

const struct image_range *image_array_meaning(const struct npy *npy, const struct number_range *range)
{
    if (npy->kind == NPY_BOOL)
        return &image_ranges[IMAGE_RANGE_UNIT];
    if (npy->kind == NPY_FLOAT)
        return image_range_find((float)range->least, (float)range->most);
    return range->least >= 0 && range->most <= UINT8_MAX ? &image_ranges[IMAGE_RANGE_BYTE] : NULL;
}

static size_t image_numbers(const struct image_shape_found *shape)
{
    return (size_t)shape->height * shape->width * shape->depth;
}

size_t image_array_scratch(const struct array *images, const struct image_shape_found *shape)
{
    return image_numbers(shape) * images->npy.item_bytes;
}

static uint8_t to_pixel(const struct npy *npy, const uint8_t *at, double scale, double offset)
{
    if (is_uint8(npy))
        return *at;
    const double pixel = npy_number(npy, at) * scale + offset + 0.5;
    return pixel < 0 ? 0 : pixel >= 256 ? UINT8_MAX : (uint8_t)pixel;
}

int image_array_read(const struct array *images, const struct image_shape_found *shape,
                     const struct image_range *meaning, uint64_t index, uint8_t *scratch, uint8_t *pixels_out,
                     struct stop *stop)
{
    const size_t area = (size_t)shape->height * shape->width, bytes = image_array_scratch(images, shape);
    const size_t item_bytes = images->npy.item_bytes;
    const double scale = 255.0 / ((double)meaning->brightest - (double)meaning->darkest);
    const double offset = -(double)meaning->darkest * scale;
    const size_t pixel_step = shape->is_planar ? 1 : shape->depth, channel_step = shape->is_planar ? area : 1;

    const int rc = array_read(images, index * bytes, scratch, bytes, stop);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < area; i++)
        for (size_t c = 0; c < shape->depth; c++)
            *pixels_out++ = to_pixel(&images->npy, scratch + (i * pixel_step + c * channel_step) * item_bytes, scale,
                                     offset);
    return 0;
}
