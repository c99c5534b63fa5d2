/* Draws digits that look handwritten: the strokes of one of several styles, with random displacement of each point,
 * bending, slant, rotation and scale, a pen of random width, and a little noise. The drawing is a pure function of the
 * digit, the key and the sample's number. */
#ifndef PIPETRAIN_GLYPH_H
#define PIPETRAIN_GLYPH_H

#include <stdint.h>

#include "stage/random.h"

#define GLYPH_SIDE 28u
#define GLYPH_PIXELS (GLYPH_SIDE * GLYPH_SIDE)

/* Draw `digit` (0 to 9) as sample `number`: ink is 255, paper is 0; pixels_out has row after row. Any thread. */
void glyph_draw(unsigned digit, struct random_key key, uint64_t number, uint8_t pixels_out[GLYPH_PIXELS]);

/* A style of a digit: points in percent of the digit's box (x to the right, y down), and strokes whose letters refer
 * to points. A stroke is a smooth curve through its points; if it ends at its first point, the curve is closed. */
#define GLYPH_POINTS_MAX 16u
#define GLYPH_STROKES_MAX 4u
struct glyph_shape {
    int8_t points[GLYPH_POINTS_MAX][2];     /* the points a, b, c, ... */
    const char *strokes[GLYPH_STROKES_MAX]; /* unused ones are NULL */
};
struct glyph_shapes {
    const struct glyph_shape *shapes;
    uint32_t count;
};
/* The styles of each digit. */
extern const struct glyph_shapes glyph_shapes[10];

#endif
