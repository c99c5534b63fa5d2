/* Converting channels of a row of pixels, and mirroring. */
#ifndef PIPETRAIN_PIXEL_ROW_H
#define PIPETRAIN_PIXEL_ROW_H

#include <stddef.h>
#include <stdint.h>

/* Convert `count` pixels from 1 channel to 3 equal channels, or from 3 (red, green, blue) to luma (Pillow's "L"): 0.299
 * R + 0.587 G + 0.114 B with 16 fraction bits, rounded. */
void channels_convert(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *out);
/* Mirror a row of `width` pixels. */
void row_mirror(uint8_t *row, uint32_t width, uint32_t channels);

#endif
