/* The axis of a chart: which values it spans, where its ticks are and what they are called. Pure functions. */
#ifndef PIPETRAIN_AXIS_H
#define PIPETRAIN_AXIS_H

#include <stdbool.h>
#include <stddef.h>

#define AXIS_TICKS_MAX 12u
#define AXIS_VALUE_MAX 1e30     /* what is larger, either way, is not drawn */

struct axis {
    double least, most;         /* least < most */
    bool is_log;                /* then both are over 0 */
    double step;                /* between ticks; 0: they are 1, 2, 5, 10, ... or powers of ten */
    size_t tick_count;
    double ticks[AXIS_TICKS_MAX];       /* rising, within least and most */
};

struct axis_label { char text[24]; };

/* Where values from least to most are; equal ones get room around them. |values| <= AXIS_VALUE_MAX. */
struct axis axis_exact(double least, double most, unsigned ticks);      /* it ends where they do */
struct axis axis_round(double least, double most, unsigned ticks);      /* it ends at ticks */
/* Logarithmic, as far as they do; least > 0. */
struct axis axis_log(double least, double most, unsigned ticks);
/* From 0 at the axis' least value to 1 at its most; beyond them for others. */
double axis_place(const struct axis *axis, double value);
/* A tick in as few digits as tell it from its neighbours: "0.02", "1.5k"; of a share "35 %". */
struct axis_label axis_label(const struct axis *axis, size_t tick, bool is_share);

#endif
