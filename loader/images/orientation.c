/* Turns images upright. Called by decoders for images with an EXIF orientation, if augment.orientation asks for it. */
#include "loader/images/orientation.h"

#include <errno.h>

#include "formats/image_header.h"

/* A mirrored coordinate is rounded, so a part is this much wider on each side, in pixels. */
#define ROUNDING 0x1p-20

struct orientation orientation_of(const uint8_t *bytes, size_t byte_count)
{
    /* Tag 274 of TIFF 6.0. */
    static const struct orientation orientations[9] = {
        [2] = { false, false, true }, [3] = { false, true, true }, [4] = { false, true, false },
        [5] = { true, false, false }, [6] = { true, true, false }, [7] = { true, true, true },
        [8] = { true, false, true },
    };
    struct image_header header;
    const char *problem;
    const bool is_read = image_header_read(bytes, byte_count, &header, &problem) == 0;
    return orientations[is_read && header.orientation <= 8 ? header.orientation : 1];
}

bool orientation_is_upright(const struct orientation *orientation)
{
    return !orientation->is_transposed && !orientation->mirrors_rows && !orientation->mirrors_columns;
}

struct image_size_pair orientation_size(const struct orientation *orientation, struct image_size_pair stored)
{
    return orientation->is_transposed ? (struct image_size_pair){ stored.width, stored.height } : stored;
}

struct augment_view orientation_view(const struct orientation *orientation, struct image_size_pair stored,
                                     const struct augment_view *upright)
{
    struct augment_view view = *upright;
    if (orientation->is_transposed) {
        view.left = upright->top;
        view.top = upright->left;
        view.width = upright->height;
        view.height = upright->width;
    }
    if (orientation->mirrors_columns)
        view.left = stored.width - (view.left + view.width);
    if (orientation->mirrors_rows)
        view.top = stored.height - (view.top + view.height);
    view.left -= ROUNDING;
    view.top -= ROUNDING;
    view.width += 2 * ROUNDING;
    view.height += 2 * ROUNDING;
    return view;
}

static uint32_t mirror(bool is_mirrored, uint32_t first, uint32_t count, uint32_t size)
{
    return is_mirrored ? size - (first + count) : first;
}

/* The picture's rectangle in the upright image. */
static struct picture upright_rectangle(const struct orientation *orientation, struct image_size_pair stored,
                                        const struct picture *picture)
{
    const uint32_t left = mirror(orientation->mirrors_columns, picture->left, picture->width, stored.width);
    const uint32_t top = mirror(orientation->mirrors_rows, picture->top, picture->height, stored.height);
    struct picture upright = *picture;
    upright.left = orientation->is_transposed ? top : left;
    upright.top = orientation->is_transposed ? left : top;
    upright.width = orientation->is_transposed ? picture->height : picture->width;
    upright.height = orientation->is_transposed ? picture->width : picture->height;
    upright.row_bytes = (size_t)upright.width * picture->channels;
    return upright;
}

/* Copy a row of the upright picture: pixels of a stored row, or of a column. */
static void copy_row(const uint8_t *from, ptrdiff_t step, uint32_t count, uint32_t channels, uint8_t *to)
{
    for (uint32_t x = 0; x < count; x++, from += step)
        for (uint32_t c = 0; c < channels; c++)
            *to++ = from[c];
}

int orientation_turn(const struct orientation *orientation, struct image_size_pair stored, struct scratch *scratch,
                     const struct picture *picture, struct picture *upright_out)
{
    struct picture upright = upright_rectangle(orientation, stored, picture);
    uint8_t *const pixels = scratch_need(scratch, upright.row_bytes * upright.height);
    if (pixels == NULL)
        return -ENOMEM;
    const ptrdiff_t down = (ptrdiff_t)picture->row_bytes * (orientation->mirrors_rows ? -1 : 1);
    const ptrdiff_t right = (ptrdiff_t)picture->channels * (orientation->mirrors_columns ? -1 : 1);
    const uint8_t *const first = picture->pixels +
                                 (orientation->mirrors_rows ? (picture->height - 1) * picture->row_bytes : 0) +
                                 (orientation->mirrors_columns ? (size_t)(picture->width - 1) * picture->channels : 0);
    for (uint32_t y = 0; y < upright.height; y++)
        copy_row(first + (ptrdiff_t)y * (orientation->is_transposed ? right : down),
                 orientation->is_transposed ? down : right, upright.width, picture->channels,
                 pixels + y * upright.row_bytes);
    upright.pixels = pixels;
    *upright_out = upright;
    return 0;
}
