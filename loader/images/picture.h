/* Pixels of an image in memory, or of the part of it that is needed. */
#ifndef PIPETRAIN_PICTURE_H
#define PIPETRAIN_PICTURE_H

#include <stddef.h>
#include <stdint.h>

/* Rows of pixels (HWC): the rectangle [left, left + width) x [top, top + height) of the image. */
struct picture {
    const uint8_t *pixels;
    size_t row_bytes;           /* from one row to the next */
    uint32_t left, top, width, height, channels;
};

/* What a view needs of an axis of `size` pixels: the pixels it touches, at least one. */
struct picture_stretch { uint32_t first, count; };
struct picture_stretch picture_stretch(double from, double length, uint32_t size);

#endif
