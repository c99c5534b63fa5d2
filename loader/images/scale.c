/* A picture becomes a sample, row by row. Called by decoders for every image. */
#include "loader/images/scale.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include "loader/images/channels.h"
#include "loader/images/scale_rows.h"
#include "loader/images/view_copy.h"

/* One picture being scaled. */
struct scaling {
    const struct scale *scale;
    const struct picture *picture;
    const struct augment_view *view;
    const struct image_shape *shape;
    struct scale_rows rows;
    int16_t *line;              /* a row of the picture's width, scaled from top to bottom only */
    uint8_t *row;               /* a row of the sample in the picture's channels */
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
    const size_t row_bytes = (size_t)scaling->shape->width * scaling->picture->channels;
    const size_t line_values = (size_t)scaling->picture->width * scaling->picture->channels + SCALE_LINE_BEYOND;
    scaling->line = scratch_need(&scale->line, line_values * sizeof(*scaling->line) + row_bytes);
    if (scaling->line == NULL)
        return -ENOMEM;
    scaling->row = (uint8_t *)(scaling->line + line_values);
    return 0;
}

static void scale_row(const struct scaling *scaling, uint32_t y, uint8_t *row_out)
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
    scaling->rows.add_rows(&sum, (size_t)picture->width * picture->channels, scaling->line);
    scaling->rows.add_pixels(&scaling->scale->x, picture->left, picture->channels, scaling->line,
                             scaling->shape->width, row_out);
}

static void write_row(const struct scaling *scaling, uint32_t y, uint8_t *row_out)
{
    if (scaling->is_copy)
        view_copy_row(scaling->picture, scaling->view, scaling->shape->width, y, row_out);
    else
        scale_row(scaling, y, row_out);
}

static void write_sample(const struct scaling *scaling, uint8_t *sample)
{
    const struct image_shape *const shape = scaling->shape;
    const bool is_converted = scaling->picture->channels != shape->channels;
    for (uint32_t y = 0; y < shape->height; y++) {
        uint8_t *const row = sample + (size_t)y * shape->width * shape->channels;
        write_row(scaling, y, is_converted ? scaling->row : row);
        if (is_converted)
            channels_convert(scaling->row, scaling->picture->channels, shape->width, row);
    }
}

int scale_picture(struct scale *scale, const struct picture *picture, const struct augment_view *view,
                  const struct image_shape *shape, uint8_t *sample_out)
{
    struct scaling scaling = { .scale = scale, .picture = picture, .view = view, .shape = shape,
                               .rows = scale_rows_find(), .is_copy = view_is_copy(view, shape) };
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
