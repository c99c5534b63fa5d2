/* Charts of bars as static SVG, like those of curves (chart.h). */
#ifndef PIPETRAIN_BARS_H
#define PIPETRAIN_BARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Shares of a whole, in the order of `names`; a run's bar. */
struct stack { uint32_t run; const double *shares; };

/* A bar for each, one below the other, with a legend: that of a single bar has its shares. Segments are of classes s0,
 * s1, ... in the order of `names`. Where they are numbered each has its run's number. */
void bars_stacked(FILE *out, const char *title, const char *const *names, size_t name_count, const struct stack *stacks,
                  size_t stack_count, bool are_numbered);

/* Counts over bins of equal ratios: counts[i] is of first * ratio^i and more, and less than the next. */
struct histogram {
    const char *title, *x_name;
    uint32_t run;
    double first, ratio;
    const double *counts;       /* lent */
    size_t count;
    double least, most;         /* the axis' ends */
    const char *const *mark_names;      /* lines across at `marks`, those that are finite */
    const double *marks;
    size_t mark_count;
};

/* A figure with it. */
void bars_histogram(FILE *out, const struct histogram *histogram);

#endif
