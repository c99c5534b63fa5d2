/* Pictures, that is decoded pixels in memory, and the interface of decoders for encoded images. */
#ifndef PIPETRAIN_PICTURE_H
#define PIPETRAIN_PICTURE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/images/image.h"
#include "loader/shards/text.h"

/* Pixels (HWC) of an image or of its needed part: the rectangle [left, left + width) x [top, top + height). */
struct picture {
    const uint8_t *pixels;
    size_t row_bytes;           /* distance from row to row */
    uint32_t left, top, width, height, channels;
};

/* Pixels [first, first + count) of an axis. */
struct pixel_range { uint32_t first, count; };

/* The pixels that overlap [from, from + length) on an axis of `size` pixels; at least one. */
static inline struct pixel_range pixel_range_touched(double from, double length, uint32_t size)
{
    const double first = fmin(fmax(floor(from), 0), size - 1.0);
    const double end = fmin(fmax(ceil(from + length), first + 1), size);
    return (struct pixel_range){ .first = (uint32_t)first, .count = (uint32_t)(end - first) };
}

/* A decoder may return a reduced image, with a scale in eighths; this is the full size. */
#define PICTURE_FULL_EIGHTHS 8u

struct picture_request {
    const struct augment_view *view;    /* in pixels of the stored image */
    const struct image_shape *shape;    /* shape of the sample */
    bool to_end;                        /* check also the data after the last pixel for flaws */
    bool is_copied;                     /* the caller copies the pixels: reserve memory for two of them */
};

/* A format of encoded images. Each thread opens its own decoder. Functions that fail write the reason to `problem`, as
 * the end of a sentence about the image. */
struct picture_ops {
    const char *name;           /* as shard_kind_image returns it: "JPEG", "PNG" */
    int (*open)(void **decoder_out);    /* 0 or -ENOMEM */
    void (*close)(void *decoder);       /* accepts NULL */
    /* Parse the header of an image and return its size: both sides >= 1, together at most image_memory_pixels pixels.
     * The bytes must stay valid until `read` returns or until the next `begin`. 0, -EBADMSG, or -ENOMEM (the image may
     * be valid). */
    int (*begin)(void *decoder, const uint8_t *bytes, size_t byte_count, uint32_t *height_out, uint32_t *width_out,
                 struct text *problem);
    /* Decode at least the pixels that the view overlaps, to 1 or 3 channels. If it is faster, the image is decoded at
     * *eighths_out / 8 of its size, provided that the view still has as many pixels as the sample; the picture's
     * rectangle is in pixels of the reduced image. Its pixels stay valid until `end`. 0, with flaws that the decoder
     * ignored in `problem`; -EBADMSG; or -ENOMEM (the image may be valid). */
    int (*read)(void *decoder, const struct picture_request *request, struct picture *picture_out,
                uint32_t *eighths_out, struct text *problem);
    /* To be called after `read`, also if that failed: frees the memory that only large images need. */
    void (*end)(void *decoder);
};

extern const struct picture_ops picture_jpeg_ops, picture_png_ops;

#endif
