/* Parts of images copied. Called by decoders for images that need no scaling. */
#include "loader/images/view_copy.h"

#include <math.h>
#include <string.h>

bool view_is_copy(const struct augment_view *view, const struct image_shape *shape)
{
    return view->width == shape->width && view->height == shape->height && floor(view->left) == view->left &&
           floor(view->top) == view->top;
}

static void fill(const uint8_t *pixel, uint32_t channels, enum beyond beyond, size_t count, uint8_t *out)
{
    if (beyond == BEYOND_ZERO)
        memset(out, 0, count * channels);
    for (size_t i = 0; i < count && beyond == BEYOND_EDGE; i++)
        memcpy(out + i * channels, pixel, channels);
}

void view_mirror_row(uint8_t *row, uint32_t width, uint32_t channels)
{
    for (size_t left = 0, right = width - 1; left < right; left++, right--) {
        for (uint32_t c = 0; c < channels; c++) {
            const uint8_t kept = row[left * channels + c];
            row[left * channels + c] = row[right * channels + c];
            row[right * channels + c] = kept;
        }
    }
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* `width` pixels from column `left` of the image on. */
static void copy_row(const struct picture *picture, const uint8_t *row, int64_t left, uint32_t width,
                     enum beyond beyond, uint8_t *row_out)
{
    const uint32_t channels = picture->channels;
    const int64_t from = clamp(picture->left - left, 0, width);
    const int64_t end = clamp((int64_t)picture->left + picture->width - left, from, width);
    fill(row, channels, beyond, (size_t)from, row_out);
    if (end > from)
        memcpy(row_out + from * channels, row + (left + from - picture->left) * channels,
               (size_t)(end - from) * channels);
    fill(row + (size_t)(picture->width - 1) * channels, channels, beyond, (size_t)(width - end),
         row_out + end * channels);
}

void view_copy_row(const struct picture *picture, const struct augment_view *view, uint32_t width, uint32_t y,
              uint8_t *row_out)
{
    const int64_t wanted = (int64_t)view->top + y - picture->top;
    const int64_t nearest = clamp(wanted, 0, (int64_t)picture->height - 1);
    if (wanted != nearest && view->beyond == BEYOND_ZERO) {
        memset(row_out, 0, (size_t)width * picture->channels);
        return;
    }
    copy_row(picture, picture->pixels + (size_t)nearest * picture->row_bytes, (int64_t)view->left, width,
             view->beyond, row_out);
    if (view->is_flipped)
        view_mirror_row(row_out, width, picture->channels);
}
