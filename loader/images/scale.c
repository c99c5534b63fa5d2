/* A picture becomes a sample, row by row. Called by decoders for every image. */
#include "loader/images/scale.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "loader/images/channels.h"
#include "loader/images/resize.h"
#include "loader/images/scale_rows.h"
#include "loader/images/view_copy.h"

/* One picture being scaled. Rows are made by twos: two lines, and two rows in the picture's channels where the sample
 * has others. */
struct scaling {
    const struct scale *scale;
    const struct picture *picture;
    const struct augment_view *view;
    const struct image_shape *shape;
    const struct scale_rows *sums;
    int16_t *lines[2];          /* rows of the picture's width, scaled from top to bottom only */
    uint8_t *rows[2];
    bool is_copy;
};

static int plan_axes(struct scale *scale, const struct picture *picture, const struct augment_view *view,
                     const struct image_shape *shape)
{
    const struct scale_view x = { view->left, view->width, { picture->left, picture->width }, view->beyond,
                                  view->filter, view->is_flipped };
    const struct scale_view y = { view->top, view->height, { picture->top, picture->height }, view->beyond,
                                  view->filter, false };
    const int rc = scale_axis_plan(&scale->x, &x, shape->width);
    return rc == 0 ? scale_axis_plan(&scale->y, &y, shape->height) : rc;
}

static int need_lines(struct scale *scale, struct scaling *scaling)
{
    const struct picture *const picture = scaling->picture;
    const size_t row_bytes = (size_t)scaling->shape->width * picture->channels;
    const size_t values = scaling->is_copy ? 0
                                           : (size_t)picture->width * picture->channels +
                                                 scale_line_beyond(&scale->x, picture->channels);
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
    const struct scale_span *const span = &axis->spans[y];
    const struct scale_rows_sum sum = {
        .rows = picture->pixels + (span->first - picture->top) * picture->row_bytes,
        .row_bytes = picture->row_bytes,
        .row_count = span->count,
        .weights = axis->weights + (size_t)y * axis->weight_room,
    };
    scaling->sums->add_rows(&sum, (size_t)picture->width * picture->channels, line_out);
}

/* Rows y[0] and y[1]. */
static void scale_rows(const struct scaling *scaling, const uint32_t y[2], uint8_t *const rows[2])
{
    const struct picture *const picture = scaling->picture;
    const struct scale_pair pair = { { scaling->lines[0], scaling->lines[1] }, picture->left, picture->channels,
                                     { rows[0], rows[1] } };
    for (int i = 0; i < 2; i++)
        scale_line(scaling, y[i], scaling->lines[i]);
    scaling->sums->add_pixels(&scaling->scale->x, &pair, scaling->shape->width);
}

static void write_rows(const struct scaling *scaling, const uint32_t y[2], uint8_t *const rows[2])
{
    if (!scaling->is_copy)
        scale_rows(scaling, y, rows);
    for (int i = 0; i < 2 && scaling->is_copy; i++)
        view_copy_row(scaling->picture, scaling->view, scaling->shape->width, y[i], rows[i]);
}

/* Of an odd number the last row is made twice. */
static void write_sample(const struct scaling *scaling, uint8_t *sample)
{
    const struct image_shape *const shape = scaling->shape;
    const bool is_converted = scaling->picture->channels != shape->channels;
    const size_t row_bytes = (size_t)shape->width * shape->channels;
    for (uint32_t first = 0; first < shape->height; first += 2) {
        const uint32_t y[2] = { first, first + 1 < shape->height ? first + 1 : first };
        uint8_t *const rows[2] = { sample + y[0] * row_bytes, sample + y[1] * row_bytes };
        write_rows(scaling, y, is_converted ? scaling->rows : rows);
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
                               .sums = scale_rows_find(), .is_copy = view_is_copy(view, shape) };
    if (!scaling.is_copy && plan_axes(scale, picture, view, shape) < 0)
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
