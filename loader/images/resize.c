/* Pillow's Image.resize, bit for bit. Called by decoders for every image that is resized as a whole. */
#include "loader/images/resize.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "loader/images/pixel_row.h"

/* Pillow's weights have 22 fraction bits: 32 bits minus 8 for the pixel and 2 for sums that overshoot. */
#define WEIGHT_BITS 22
#define WEIGHT_ONE (1 << WEIGHT_BITS)
#define SUM_START (1 << (WEIGHT_BITS - 1))      /* one half, for rounding */

/* One axis. Output pixel i is the weighted sum of lengths[i] input pixels from first[i] on; its weights begin at i *
 * room. */
struct axis {
    uint32_t count, room;
    uint32_t *first, *lengths;
    int32_t *weights;
};

static double filter_reach(enum filter filter, double step)
{
    return (filter == FILTER_BICUBIC ? 2 : 1) * fmax(step, 1);
}

static double bilinear(double x)
{
    return x < 1 ? 1 - x : 0;
}

static double bicubic(double x)
{
    const double a = -0.5;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static struct axis axis_of(uint32_t count, enum filter filter, double step)
{
    return (struct axis){ .count = count, .room = (uint32_t)ceil(filter_reach(filter, step)) * 2 + 1 };
}

static void round_weights(const double *shares, double total, uint32_t length, int32_t *weights_out)
{
    for (uint32_t i = 0; i < length; i++) {
        const double weight = shares[i] / total * WEIGHT_ONE;
        weights_out[i] = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
}

/* The picture has all pixels of the image that the filters reach, so its borders are treated as those of the image. */
static void axis_fill(struct axis *axis, double begin, double step, enum filter filter,
                      const struct pixel_range *pixels, double *shares)
{
    const double reach = filter_reach(filter, step), narrow = 1 / fmax(step, 1);
    const double low = pixels->first, high = (double)pixels->first + pixels->count;
    for (uint32_t i = 0; i < axis->count; i++) {
        const double center = (begin + i + 0.5) * step;
        const double from = fmax(floor(center - reach + 0.5), low), end = fmin(floor(center + reach + 0.5), high);
        double total = 0;
        axis->first[i] = (uint32_t)from;
        axis->lengths[i] = (uint32_t)(end - from);
        for (uint32_t k = 0; k < axis->lengths[i]; k++) {
            const double x = fabs((k + from - center + 0.5) * narrow);
            total += shares[k] = filter == FILTER_BICUBIC ? bicubic(x) : bilinear(x);
        }
        round_weights(shares, total, axis->lengths[i], axis->weights + (size_t)i * axis->room);
    }
}

static uint8_t round_sum(int32_t sum)
{
    const int32_t value = sum >> WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Scale a row of the picture to the sample's width. */
static void sum_columns(const struct axis *x, const struct picture *picture, const uint8_t *row, uint8_t *row_out)
{
    const uint32_t channels = picture->channels;
    for (uint32_t i = 0; i < x->count; i++) {
        const uint8_t *const from = row + (size_t)(x->first[i] - picture->left) * channels;
        const int32_t *const weights = x->weights + (size_t)i * x->room;
        for (uint32_t c = 0; c < channels; c++) {
            int32_t sum = SUM_START;
            for (uint32_t k = 0; k < x->lengths[i]; k++)
                sum += from[(size_t)k * channels + c] * weights[k];
            *row_out++ = round_sum(sum);
        }
    }
}

/* Write row i of the result: a weighted sum of `rows`, each of `width` bytes. */
static void sum_rows(const struct axis *y, uint32_t i, const struct picture *picture, const uint8_t *rows, size_t width,
                     int32_t *sums, uint8_t *row_out)
{
    for (size_t x = 0; x < width; x++)
        sums[x] = SUM_START;
    for (uint32_t k = 0; k < y->lengths[i]; k++) {
        const uint8_t *const row = rows + (y->first[i] - picture->top + k) * width;
        const int32_t weight = y->weights[(size_t)i * y->room + k];
        for (size_t x = 0; x < width; x++)
            sums[x] += row[x] * weight;
    }
    for (size_t x = 0; x < width; x++)
        row_out[x] = round_sum(sums[x]);
}

struct resizing {
    struct axis x, y;
    double *shares;
    int32_t *sums;
    uint8_t *rows;              /* the picture at the sample's width */
    uint8_t *row;               /* the row before its channels are converted */
};

static size_t axis_bytes(const struct axis *axis)
{
    return (size_t)axis->count * (2 * sizeof(uint32_t) + axis->room * sizeof(int32_t));
}

static void place_axis(struct axis *axis, uint8_t **at)
{
    axis->first = (uint32_t *)(void *)*at;
    axis->lengths = axis->first + axis->count;
    axis->weights = (int32_t *)(axis->lengths + axis->count);
    *at += axis_bytes(axis);
}

static int need_room(struct resizing *resizing, const struct picture *picture, uint32_t sample_width,
                     struct scratch *scratch)
{
    const size_t width = (size_t)sample_width * picture->channels;
    const size_t share_count = resizing->x.room > resizing->y.room ? resizing->x.room : resizing->y.room;
    size_t bytes;
    if (__builtin_mul_overflow(width, (size_t)picture->height + 1, &bytes))
        return -ENOMEM;
    bytes += share_count * sizeof(*resizing->shares) + axis_bytes(&resizing->x) + axis_bytes(&resizing->y) +
             width * sizeof(*resizing->sums);
    uint8_t *at = scratch_need(scratch, bytes);
    if (at == NULL)
        return -ENOMEM;
    resizing->shares = (double *)(void *)at;
    at += share_count * sizeof(*resizing->shares);
    place_axis(&resizing->x, &at);
    place_axis(&resizing->y, &at);
    resizing->sums = (int32_t *)(void *)at;
    resizing->row = (uint8_t *)(resizing->sums + width);
    resizing->rows = resizing->row + width;
    return 0;
}

int resize_picture(struct scratch *scratch, const struct picture *picture, const struct augment_view *view,
                   const struct image_shape *shape, uint8_t *sample_out)
{
    const struct augment_resize *const resize = &view->resize;
    struct resizing resizing = { .x = axis_of(shape->width, view->filter, resize->x_step),
                                 .y = axis_of(shape->height, view->filter, resize->y_step) };
    if (need_room(&resizing, picture, shape->width, scratch) < 0)
        return -ENOMEM;
    const struct pixel_range columns = { picture->left, picture->width }, rows = { picture->top, picture->height };
    axis_fill(&resizing.x, resize->column, resize->x_step, view->filter, &columns, resizing.shares);
    axis_fill(&resizing.y, resize->row, resize->y_step, view->filter, &rows, resizing.shares);
    const size_t width = (size_t)shape->width * picture->channels;
    const size_t sample_width = (size_t)shape->width * shape->channels;
    for (uint32_t y = 0; y < picture->height; y++)
        sum_columns(&resizing.x, picture, picture->pixels + y * picture->row_bytes, resizing.rows + y * width);
    for (uint32_t y = 0; y < shape->height; y++) {
        uint8_t *const row_out = sample_out + y * sample_width;
        const bool is_converted = picture->channels != shape->channels;
        uint8_t *const row = is_converted ? resizing.row : row_out;
        sum_rows(&resizing.y, y, picture, resizing.rows, width, resizing.sums, row);
        if (is_converted)
            channels_convert(row, picture->channels, shape->width, row_out);
        if (view->is_flipped)
            row_mirror(row_out, shape->width, shape->channels);
    }
    return 0;
}
