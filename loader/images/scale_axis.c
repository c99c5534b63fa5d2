/* Weights for scaling along one axis. Called by decoders for every image that is scaled. */
#include "loader/images/scale_axis.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define SCALE_ONE (1 << SCALE_WEIGHT_BITS)

/* `ratio` is how many pixels of the view a pixel of the result stands for; distances are from its middle to the
 * middle of a pixel, in pixels of the view. */
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

/* An axis being planned. */
struct planning {
    const struct scale_view *view;
    const struct kernel *kernel;
    double ratio, reach;
    uint32_t reached_most;      /* pixels that a pixel of the result reaches */
    int64_t first, end;         /* pixels of the view */
    double *shares;             /* of those reached by one pixel of the result */
};

static struct planning planning_of(const struct scale_view *view, uint32_t count)
{
    const struct kernel *const kernel = &kernels[view->filter];
    const double ratio = view->length / count, reach = kernel->reach(ratio);
    return (struct planning){
        .view = view,
        .kernel = kernel,
        .ratio = ratio,
        .reach = reach,
        .reached_most = (uint32_t)ceil(2 * reach),
        .first = (int64_t)floor(view->from),
        .end = (int64_t)ceil(view->from + view->length),
    };
}

static int need_room(struct scale_axis *axis, struct planning *planning, uint32_t count)
{
    const size_t share_bytes = planning->reached_most * sizeof(*planning->shares);
    const size_t other_bytes = share_bytes + count * sizeof(*axis->spans);
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count * sizeof(*axis->weights), axis->weight_room, &bytes) ||
        __builtin_add_overflow(bytes, other_bytes, &bytes))
        return -ENOMEM;
    planning->shares = scratch_need(&axis->memory, bytes);
    if (planning->shares == NULL)
        return -ENOMEM;
    axis->spans = (struct scale_span *)(void *)(planning->shares + planning->reached_most);
    axis->weights = (int16_t *)(void *)(axis->spans + count);
    return 0;
}

/* floor() would be a call for processors of long ago. */
static int64_t round_down(double value)
{
    const int64_t cut = (int64_t)value;
    return cut - (value < (double)cut);
}

/* The pixels a pixel of the result reaches, no further than the view; never more for having been rounded. */
struct reached { int64_t from, end; };

static struct reached find_reached(const struct planning *planning, double center)
{
    const int64_t from = round_down(center - planning->reach + 0.5), most = from + planning->reached_most;
    const int64_t far = round_down(center + planning->reach + 0.5), end = far < most ? far : most;
    return (struct reached){
        .from = from > planning->first ? from : planning->first,
        .end = end < planning->end ? end : planning->end,
    };
}

/* The nearest pixel there is. */
static uint32_t clamp_pixel(int64_t pixel, const struct picture_stretch *pixels)
{
    const int64_t last = (int64_t)pixels->first + pixels->count - 1;
    return (uint32_t)(pixel < pixels->first ? pixels->first : pixel > last ? last : pixel);
}

/* The nearest whole number, of more than -SCALE_ONE: bicubic sums begin below 0. */
static int32_t round_sum(double sum)
{
    return (int32_t)(sum + (SCALE_ONE + 0.5)) - SCALE_ONE;
}

/* Returns their sum. */
static double find_shares(const struct planning *planning, const struct reached *reached, double center)
{
    double total = 0, *share = planning->shares;
    for (int64_t i = reached->from; i < reached->end; i++)
        total += *share++ = planning->kernel->weight((double)i + 0.5 - center, planning->ratio);
    return total;
}

/* Shares are rounded so that their sums from the first are: no error adds up, a plain area stays as it is. */
static void set_weights(const struct planning *planning, const struct reached *reached, double total,
                        const struct scale_span *span, int16_t *weights)
{
    const struct scale_view *const view = planning->view;
    const double one = SCALE_ONE / total, *share = planning->shares;
    double sum = 0;
    int32_t before = 0;
    for (int64_t i = reached->from; i < reached->end; i++) {
        sum += *share++ * one;
        const int32_t rounded = round_sum(sum);
        const uint32_t pixel = clamp_pixel(i, &view->pixels);
        if (pixel == i || view->beyond == BEYOND_EDGE)
            weights[pixel - span->first] = (int16_t)(weights[pixel - span->first] + rounded - before);
        before = rounded;
    }
}

static void plan_pixel(struct scale_axis *axis, const struct planning *planning, uint32_t i, uint32_t place)
{
    const struct scale_view *const view = planning->view;
    const double center = view->from + (i + 0.5) * planning->ratio;
    const struct reached reached = find_reached(planning, center);
    struct scale_span *const span = &axis->spans[place];
    int16_t *const weights = axis->weights + (size_t)place * axis->weight_room;
    span->first = clamp_pixel(reached.from, &view->pixels);
    span->count = clamp_pixel(reached.end - 1, &view->pixels) - span->first + 1;
    memset(weights, 0, axis->weight_room * sizeof(*weights));
    set_weights(planning, &reached, find_shares(planning, &reached, center), span, weights);
}

int scale_axis_plan(struct scale_axis *axis, const struct scale_view *view, uint32_t count)
{
    struct planning planning = planning_of(view, count);
    const uint32_t most = planning.reached_most;
    const uint32_t room = most < view->pixels.count ? most : view->pixels.count;
    axis->weight_room = room + room % 2;
    if (need_room(axis, &planning, count) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        plan_pixel(axis, &planning, i, view->is_flipped ? count - 1 - i : i);
    return 0;
}

void scale_axis_release(struct scale_axis *axis)
{
    scratch_release(&axis->memory);
}
