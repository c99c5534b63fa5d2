/* The points of a curve as they are drawn: all of them, or of many so many as can be told apart. Pure functions. */
#ifndef PIPETRAIN_SPOTS_H
#define PIPETRAIN_SPOTS_H

#include "tools/report/draw/chart.h"

#define SPOTS_MAX 160u          /* of a curve: more would be two units apart */

/* One point, or many: their mean, the least and the most of them. */
struct spot { double x, y, least, most; size_t count; };

struct spots {
    size_t count;
    bool are_all;               /* every point is a spot */
    struct spot spots[SPOTS_MAX];
};

/* Is a value one that can be drawn? */
bool spot_is_drawn(double value);
/* The ends of all points of a chart that can be drawn, x divided by the chart's unit: x from ends[0] to ends[1], y from
 * ends[2] to ends[3]. False where there are none. */
bool spots_ends(const struct chart *chart, double ends[4]);
/* The spots of one curve, in its order where they are all, else from the left. */
void spots_make(struct spots *spots_out, const struct curve *curve, const struct axis *x_axis, double x_unit);

#endif
