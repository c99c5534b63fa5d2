/* Charts of curves as static SVG: the same width everywhere, so that text has one size; colours and strokes are those
 * of classes (page_style.c). */
#ifndef PIPETRAIN_CHART_H
#define PIPETRAIN_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/report/draw/axis.h"

#define CHART_WIDTH 400
#define CHART_COLOURS 8u        /* classes c0 to c7; those of more curves are used again */

enum curve_kind { CURVE_LINE, CURVE_FAINT, CURVE_POINTS };

/* Values that are not finite are passed over; x need not rise. */
struct curve {
    enum curve_kind kind;
    uint32_t run;               /* whose it is, from 0: the colour, and the number at its end */
    const char *label;          /* in the legend, NULL: in none */
    const double *x, *y;        /* lent */
    size_t count;
    bool is_numbered;           /* the run's number from 1 stands at its end */
};

struct chart {
    const char *title, *x_name;
    const struct curve *curves;
    size_t curve_count;
    double x_unit;              /* what x is divided by: 1, or 60 for minutes */
    bool y_is_share;            /* told in per cent */
    bool y_from_zero;
    bool y_may_be_log;          /* where values differ much */
};

/* Where charts draw: the lines of an axis, with ticks and names. y in SVG's units, downwards. */
struct chart_area { double left, right, top, bottom; };
void chart_open(FILE *out, const char *title, const char *remark, int height);  /* remark: behind the title */
void chart_close(FILE *out);
void chart_x_axis(FILE *out, const struct chart_area *area, const struct axis *axis, const char *name);
void chart_y_axis(FILE *out, const struct chart_area *area, const struct axis *axis, bool is_share);

/* A figure with the chart; false, and nothing is written, where there is no value to draw. */
bool chart_write(FILE *out, const struct chart *chart);

#endif
