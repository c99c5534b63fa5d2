/* Pixels in another number of channels. */
#ifndef PIPETRAIN_CHANNELS_H
#define PIPETRAIN_CHANNELS_H

#include <stddef.h>
#include <stdint.h>

/* `count` pixels from 1 channel to 3 equal ones, or from 3 (red, green, blue) to their luma: 0.299 R + 0.587 G +
 * 0.114 B of ITU-R BT.601 in 16 bits, rounded. */
void channels_convert(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *out);
/* `count` pixels of four inks (cyan, magenta, yellow, black; 0 is full ink), the first three channels of which are
 * multiplied by the fourth, to 3 channels in the same place. */
void channels_mix_inks(uint8_t *pixels, size_t count);

#endif
