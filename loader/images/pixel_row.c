/* Converting channels of a row of pixels, and mirroring. Called by scale_picture and resize_picture. */
#include "loader/images/pixel_row.h"

#include <assert.h>
#include <string.h>

/* Luma weights of ITU-R BT.601 with 16 fraction bits. */
#define LUMA_RED 19595u
#define LUMA_GREEN 38470u
#define LUMA_BLUE 7471u

static void to_colour(const uint8_t *pixels, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        memset(out + 3 * i, pixels[i], 3);
}

static void to_grey(const uint8_t *pixels, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *const pixel = pixels + 3 * i;
        out[i] = (uint8_t)((LUMA_RED * pixel[0] + LUMA_GREEN * pixel[1] + LUMA_BLUE * pixel[2] + 0x8000u) >> 16);
    }
}

void channels_convert(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *out)
{
    assert(channels == 1 || channels == 3);
    (channels == 1 ? to_colour : to_grey)(pixels, count, out);
}

void row_mirror(uint8_t *row, uint32_t width, uint32_t channels)
{
    for (size_t left = 0, right = width - 1; left < right; left++, right--) {
        for (uint32_t c = 0; c < channels; c++) {
            const uint8_t kept = row[left * channels + c];
            row[left * channels + c] = row[right * channels + c];
            row[right * channels + c] = kept;
        }
    }
}
