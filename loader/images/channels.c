/* Numbers of channels. Called by decoders for images that have others than the network. */
#include "loader/images/channels.h"

#include <assert.h>
#include <string.h>

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

/* a * b / 255, rounded. */
static uint8_t multiply(uint32_t a, uint32_t b)
{
    const uint32_t product = a * b + 128;
    return (uint8_t)(((product >> 8) + product) >> 8);
}

void channels_mix_inks(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t black = pixels[4 * i + 3];
        for (size_t c = 0; c < 3; c++)
            pixels[3 * i + c] = multiply(pixels[4 * i + c], black);
    }
}
