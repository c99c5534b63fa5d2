/* Weights for scaling along one axis. Called by decoders for every image that is scaled. */
#include "loader/images/scale_kernels.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define SCALE_ONE (1 << SCALE_WEIGHT_BITS)

/* `ratio`: input pixels per output pixel. `distance`: from the centre of the output pixel to the centre of an input
 * pixel, in input pixels. */
struct kernel {
    double (*reach)(double ratio);
    double (*weight)(double distance, double ratio);
};

static double bilinear_reach(double ratio)
{
    return ratio > 1 ? ratio : 1;
}

static double bilinear_weight(double distance, double ratio)
{
    const double x = fabs(distance) / bilinear_reach(ratio);
    return x < 1 ? 1 - x : 0;
}

static double bicubic_reach(double ratio)
{
    return 2 * bilinear_reach(ratio);
}

static double bicubic_weight(double distance, double ratio)
{
    const double a = -0.5, x = fabs(distance) / bilinear_reach(ratio);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double area_reach(double ratio)
{
    return (ratio + 1) / 2;
}

static double area_weight(double distance, double ratio)
{
    return fmax(fmin(distance + 0.5, ratio / 2) - fmax(distance - 0.5, -ratio / 2), 0);
}

static double nearest_reach(double ratio)
{
    (void)ratio;
    return 0.5;
}

static double nearest_weight(double distance, double ratio)
{
    (void)distance, (void)ratio;
    return 1;
}

static const struct kernel kernels[] = {
    [FILTER_BILINEAR] = { bilinear_reach, bilinear_weight },
    [FILTER_AREA] = { area_reach, area_weight },
    [FILTER_BICUBIC] = { bicubic_reach, bicubic_weight },
    [FILTER_NEAREST] = { nearest_reach, nearest_weight },
};

struct axis_filter {
    const struct scale_view *view;
    const struct kernel *kernel;
    double ratio, reach;
    uint32_t reached_max;       /* largest number of input pixels in the filter of one output pixel */
    int64_t first, end;         /* input pixels of the view */
    double *shares;             /* weights of one output pixel, not normalised */
};

static struct axis_filter axis_filter_of(const struct scale_view *view, uint32_t count)
{
    const struct kernel *const kernel = &kernels[view->filter];
    const double ratio = view->length / count, reach = kernel->reach(ratio);
    return (struct axis_filter){
        .view = view,
        .kernel = kernel,
        .ratio = ratio,
        .reach = reach,
        .reached_max = (uint32_t)ceil(2 * reach),
        .first = (int64_t)floor(view->from),
        .end = (int64_t)ceil(view->from + view->length),
    };
}

static int need_room(struct scale_axis *axis, struct axis_filter *filter, uint32_t count)
{
    const size_t share_bytes = filter->reached_max * sizeof(*filter->shares);
    const size_t other_bytes = share_bytes + count * sizeof(*axis->ranges);
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count * sizeof(*axis->weights), axis->weight_room, &bytes) ||
        __builtin_add_overflow(bytes, other_bytes, &bytes))
        return -ENOMEM;
    filter->shares = scratch_need(&axis->memory, bytes);
    if (filter->shares == NULL)
        return -ENOMEM;
    axis->ranges = (struct pixel_range *)(void *)(filter->shares + filter->reached_max);
    axis->weights = (int16_t *)(void *)(axis->ranges + count);
    return 0;
}

/* floor(), which is a library call unless the compiler may assume SSE4.1. */
static int64_t round_down(double value)
{
    const int64_t cut = (int64_t)value;
    return cut - (value < (double)cut);
}

/* The input pixels in the filter of an output pixel, clipped to the view; rounding cannot make them more than
 * reached_max. */
struct reached { int64_t from, end; };

static struct reached find_reached(const struct axis_filter *filter, double center)
{
    const int64_t from = round_down(center - filter->reach + 0.5), most = from + filter->reached_max;
    const int64_t far = round_down(center + filter->reach + 0.5), end = far < most ? far : most;
    return (struct reached){
        .from = from > filter->first ? from : filter->first,
        .end = end < filter->end ? end : filter->end,
    };
}

/* The pixel of the picture that is nearest to `pixel`. */
static uint32_t clamp_pixel(int64_t pixel, const struct pixel_range *pixels)
{
    const int64_t last = (int64_t)pixels->first + pixels->count - 1;
    return (uint32_t)(pixel < pixels->first ? pixels->first : pixel > last ? last : pixel);
}

/* Round to nearest. Correct for sums above -SCALE_ONE; bicubic sums start below 0. */
static int32_t round_sum(double sum)
{
    return (int32_t)(sum + (SCALE_ONE + 0.5)) - SCALE_ONE;
}

/* Compute the shares of one output pixel. Returns their sum. */
static double find_shares(const struct axis_filter *filter, const struct reached *reached, double center)
{
    double total = 0, *share = filter->shares;
    for (int64_t i = reached->from; i < reached->end; i++)
        total += *share++ = filter->kernel->weight((double)i + 0.5 - center, filter->ratio);
    return total;
}

/* The cumulative sums are rounded instead of the single weights, so that errors do not add up and a uniform area stays
 * unchanged. */
static void set_weights(const struct axis_filter *filter, const struct reached *reached, double total,
                        const struct pixel_range *range, int16_t *weights)
{
    const struct scale_view *const view = filter->view;
    const double one = SCALE_ONE / total, *share = filter->shares;
    double sum = 0;
    int32_t before = 0;
    for (int64_t i = reached->from; i < reached->end; i++) {
        sum += *share++ * one;
        const int32_t rounded = round_sum(sum);
        const uint32_t pixel = clamp_pixel(i, &view->pixels);
        if (pixel == i || view->beyond == BEYOND_EDGE)
            weights[pixel - range->first] = (int16_t)(weights[pixel - range->first] + rounded - before);
        before = rounded;
    }
}

static void weigh_pixel(struct scale_axis *axis, const struct axis_filter *filter, uint32_t i, uint32_t place)
{
    const struct scale_view *const view = filter->view;
    const double center = view->from + (i + 0.5) * filter->ratio;
    const struct reached reached = find_reached(filter, center);
    struct pixel_range *const range = &axis->ranges[place];
    int16_t *const weights = axis->weights + (size_t)place * axis->weight_room;
    range->first = clamp_pixel(reached.from, &view->pixels);
    range->count = clamp_pixel(reached.end - 1, &view->pixels) - range->first + 1;
    memset(weights, 0, axis->weight_room * sizeof(*weights));
    set_weights(filter, &reached, find_shares(filter, &reached, center), range, weights);
}

int scale_axis_init(struct scale_axis *axis, const struct scale_view *view, uint32_t count)
{
    struct axis_filter filter = axis_filter_of(view, count);
    const uint32_t most = filter.reached_max;
    const uint32_t room = most < view->pixels.count ? most : view->pixels.count;
    axis->weight_room = room + room % 2;
    if (need_room(axis, &filter, count) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        weigh_pixel(axis, &filter, i, view->is_flipped ? count - 1 - i : i);
    return 0;
}

void scale_axis_release(struct scale_axis *axis)
{
    scratch_release(&axis->memory);
}
