/* Pictures, which are decoded pixels in memory, and the interface of decoders for encoded images. */
#ifndef PIPETRAIN_PICTURE_H
#define PIPETRAIN_PICTURE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/shards/text.h"

/* Pixels (HWC) of an image or of the part of it that is needed: the rectangle [left, left + width) x
 * [top, top + height). */
struct picture {
    const uint8_t *pixels;
    size_t row_bytes;           /* from one row to the next */
    uint32_t left, top, width, height, channels;
};

/* Pixels [first, first + count) of an axis. */
struct pixel_range { uint32_t first, count; };

/* The pixels that [from, from + length) touches on an axis of `size` pixels; at least one. */
static inline struct pixel_range pixel_range_touched(double from, double length, uint32_t size)
{
    const double first = fmin(fmax(floor(from), 0), size - 1.0);
    const double end = fmin(fmax(ceil(from + length), first + 1), size);
    return (struct pixel_range){ .first = (uint32_t)first, .count = (uint32_t)(end - first) };
}

/* A decoder may return a reduced image: this many eighths of the stored size means the full size. */
#define PICTURE_FULL_EIGHTHS 8u

struct picture_request {
    const struct augment_view *view;    /* in pixels of the stored image */
    const struct image_shape *shape;    /* of the sample */
    bool to_end;                        /* look for flaws in what follows the pixels, too */
};

/* A format of encoded images. Each thread opens a decoder of its own. Functions that fail write the reason to
 * `problem`, as the end of a sentence about the image. */
struct picture_ops {
    const char *name;           /* as returned by shard_kind_image */
    int (*open)(void **decoder_out);    /* 0 or -ENOMEM */
    void (*close)(void *decoder);       /* accepts NULL */
    /* Parse the header of an image and return its size: both sides >= 1, at most image_memory_pixels in all. The bytes
     * must stay valid until `read` returns or the next `begin`. 0, -EBADMSG, or -ENOMEM (the image may be valid). */
    int (*begin)(void *decoder, const uint8_t *bytes, size_t byte_count, uint32_t *height_out, uint32_t *width_out,
                 struct text *problem);
    /* Decode at least the pixels that the view touches, as 1 or 3 channels. Where it is faster, the image is decoded at
     * *eighths_out / 8 of its size, if the view then still has as many pixels as the sample; the picture is in
     * pixels of the reduced image. Its pixels stay valid until `end`. 0, with flaws that the decoder ignored in
     * `problem`; -EBADMSG; or -ENOMEM (the image may be valid). */
    int (*read)(void *decoder, const struct picture_request *request, struct picture *picture_out,
                uint32_t *eighths_out, struct text *problem);
    /* Call after `read`, even if it failed: frees the memory that only a large image takes. */
    void (*end)(void *decoder);
};

extern const struct picture_ops picture_jpeg_ops, picture_png_ops;

#endif
