/* Scaling a picture to a sample, or copying it if no scaling is needed. Called by decoders for every image that is
 * cropped, scaled, mirrored or converted to another number of channels. */
#include "loader/images/scale.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "loader/images/pixel_row.h"
#include "loader/images/resize.h"
#include "loader/images/scale_kernels.h"

/* ---- copying ---- */

/* Does each pixel of the sample equal one whole pixel of the view? */
static bool view_is_copy(const struct augment_view *view, const struct image_shape *shape)
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

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Copy `width` pixels, starting at column `left` of the image. */
static void copy_columns(const struct picture *picture, const uint8_t *row, int64_t left, uint32_t width,
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

/* Write row y of a sample that is a part of the picture at its original size: `width` pixels with the picture's
 * channels. */
static void view_copy_row(const struct picture *picture, const struct augment_view *view, uint32_t width, uint32_t y,
                          uint8_t *row_out)
{
    const int64_t wanted = (int64_t)view->top + y - picture->top;
    const int64_t nearest = clamp(wanted, 0, (int64_t)picture->height - 1);
    if (wanted != nearest && view->beyond == BEYOND_ZERO) {
        memset(row_out, 0, (size_t)width * picture->channels);
        return;
    }
    copy_columns(picture, picture->pixels + (size_t)nearest * picture->row_bytes, (int64_t)view->left, width,
                 view->beyond, row_out);
    if (view->is_flipped)
        row_mirror(row_out, width, picture->channels);
}

/* ---- scaling ---- */

/* A picture being scaled, two rows at a time. */
struct scaling {
    const struct scale *scale;
    const struct picture *picture;
    const struct augment_view *view;
    const struct image_shape *shape;
    const struct scale_kernel *kernel;
    int16_t *lines[2];          /* vertical sums, as wide as the picture */
    uint8_t *rows[2];           /* scaled rows with the picture's channels, if the sample has another number of
                                 * channels */
    bool is_copy;
};

static int init_axes(struct scale *scale, const struct picture *picture, const struct augment_view *view,
                     const struct image_shape *shape)
{
    const struct scale_view x = { view->left, view->width, { picture->left, picture->width }, view->beyond,
                                  view->filter, view->is_flipped };
    const struct scale_view y = { view->top, view->height, { picture->top, picture->height }, view->beyond,
                                  view->filter, false };
    const int rc = scale_axis_init(&scale->x, &x, shape->width);
    return rc == 0 ? scale_axis_init(&scale->y, &y, shape->height) : rc;
}

static int need_lines(struct scale *scale, struct scaling *scaling)
{
    const struct picture *const picture = scaling->picture;
    const size_t row_bytes = (size_t)scaling->shape->width * picture->channels;
    const size_t values = scaling->is_copy ? 0
                                           : (size_t)picture->width * picture->channels +
                                                 scale_line_padding(&scale->x, picture->channels);
    int16_t *const lines = scratch_need(&scale->line, 2 * (values * sizeof(*lines) + row_bytes));
    if (lines == NULL)
        return -ENOMEM;
    memset(lines, 0, 2 * values * sizeof(*lines));
    for (size_t i = 0; i < 2; i++) {
        scaling->lines[i] = lines + i * values;
        scaling->rows[i] = (uint8_t *)(lines + 2 * values) + i * row_bytes;
    }
    return 0;
}

static void scale_line(const struct scaling *scaling, uint32_t y, int16_t *line_out)
{
    const struct picture *const picture = scaling->picture;
    const struct scale_axis *const axis = &scaling->scale->y;
    const struct pixel_range *const range = &axis->ranges[y];
    const struct scale_rows_sum sum = {
        .rows = picture->pixels + (range->first - picture->top) * picture->row_bytes,
        .row_bytes = picture->row_bytes,
        .row_count = range->count,
        .weights = axis->weights + (size_t)y * axis->weight_room,
    };
    scaling->kernel->add_rows(&sum, (size_t)picture->width * picture->channels, line_out);
}

static void scale_pair(const struct scaling *scaling, const uint32_t y[2], uint8_t *const rows[2])
{
    const struct picture *const picture = scaling->picture;
    const struct scale_pair pair = { { scaling->lines[0], scaling->lines[1] }, picture->left, picture->channels,
                                     { rows[0], rows[1] } };
    for (int i = 0; i < 2; i++)
        scale_line(scaling, y[i], scaling->lines[i]);
    scaling->kernel->add_pixels(&scaling->scale->x, &pair, scaling->shape->width);
}

static void write_pair(const struct scaling *scaling, const uint32_t y[2], uint8_t *const rows[2])
{
    if (!scaling->is_copy)
        scale_pair(scaling, y, rows);
    for (int i = 0; i < 2 && scaling->is_copy; i++)
        view_copy_row(scaling->picture, scaling->view, scaling->shape->width, y[i], rows[i]);
}

/* If the number of rows is odd, the last row is computed twice. */
static void write_sample(const struct scaling *scaling, uint8_t *sample)
{
    const struct image_shape *const shape = scaling->shape;
    const bool is_converted = scaling->picture->channels != shape->channels;
    const size_t row_bytes = (size_t)shape->width * shape->channels;
    for (uint32_t first = 0; first < shape->height; first += 2) {
        const uint32_t y[2] = { first, first + 1 < shape->height ? first + 1 : first };
        uint8_t *const rows[2] = { sample + y[0] * row_bytes, sample + y[1] * row_bytes };
        write_pair(scaling, y, is_converted ? scaling->rows : rows);
        for (int i = 0; i < 2 && is_converted; i++)
            channels_convert(scaling->rows[i], scaling->picture->channels, shape->width, rows[i]);
    }
}

int scale_picture(struct scale *scale, const struct picture *picture, const struct augment_view *view,
                  const struct image_shape *shape, uint8_t *sample_out)
{
    if (view->resize.x_step > 0)
        return resize_picture(&scale->line, picture, view, shape, sample_out);
    struct scaling scaling = { .scale = scale, .picture = picture, .view = view, .shape = shape,
                               .kernel = scale_kernel_find(), .is_copy = view_is_copy(view, shape) };
    if (!scaling.is_copy && init_axes(scale, picture, view, shape) < 0)
        return -ENOMEM;
    if (need_lines(scale, &scaling) < 0)
        return -ENOMEM;
    write_sample(&scaling, sample_out);
    return 0;
}

void scale_release(struct scale *scale)
{
    scale_axis_release(&scale->x);
    scale_axis_release(&scale->y);
    scratch_release(&scale->line);
}
