/* Many points become few. */
#include "tools/report/draw/spots.h"

#include <math.h>
#include <string.h>

bool spot_is_drawn(double value)
{
    return isfinite(value) && fabs(value) <= AXIS_VALUE_MAX;
}

static bool is_point(const struct curve *curve, size_t i)
{
    return spot_is_drawn(curve->x[i]) && spot_is_drawn(curve->y[i]);
}

static size_t count_points(const struct curve *curve)
{
    size_t count = 0;
    for (size_t i = 0; i < curve->count; i++)
        count += is_point(curve, i);
    return count;
}

bool spots_ends(const struct chart *chart, double ends[4])
{
    const double none[] = { INFINITY, -INFINITY, INFINITY, -INFINITY };
    memcpy(ends, none, sizeof(none));
    for (size_t c = 0; c < chart->curve_count; c++) {
        const struct curve *const curve = &chart->curves[c];
        for (size_t i = 0; i < curve->count; i++) {
            if (!is_point(curve, i))
                continue;
            ends[0] = fmin(ends[0], curve->x[i] / chart->x_unit);
            ends[1] = fmax(ends[1], curve->x[i] / chart->x_unit);
            ends[2] = fmin(ends[2], curve->y[i]);
            ends[3] = fmax(ends[3], curve->y[i]);
        }
    }
    return ends[0] <= ends[1];
}

static void add_point(struct spot *spot, double x, double y)
{
    spot->least = spot->count == 0 ? y : fmin(spot->least, y);
    spot->most = spot->count == 0 ? y : fmax(spot->most, y);
    spot->count++;
    spot->x += (x - spot->x) / (double)spot->count;
    spot->y += (y - spot->y) / (double)spot->count;
}

/* Empty ones go. */
static void close_ranks(struct spots *spots)
{
    for (size_t i = 0; i < SPOTS_MAX; i++)
        if (spots->spots[i].count > 0)
            spots->spots[spots->count++] = spots->spots[i];
}

void spots_make(struct spots *spots_out, const struct curve *curve, const struct axis *x_axis, double x_unit)
{
    size_t used = 0;
    memset(spots_out, 0, sizeof(*spots_out));
    spots_out->are_all = count_points(curve) <= SPOTS_MAX;
    for (size_t i = 0; i < curve->count; i++) {
        if (!is_point(curve, i))
            continue;
        const double x = curve->x[i] / x_unit;
        const double place = fmin(fmax(axis_place(x_axis, x), 0), 1) * (SPOTS_MAX - 1);
        add_point(&spots_out->spots[spots_out->are_all ? used++ : (size_t)place], x, curve->y[i]);
    }
    close_ranks(spots_out);
}
