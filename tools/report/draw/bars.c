/* Stacked bars and histograms. */
#include "tools/report/draw/bars.h"

#include <math.h>
#include <string.h>

#include "tools/report/draw/chart.h"
#include "tools/report/draw/html.h"

#define BAR_HEIGHT 24
#define LEGEND_HEIGHT 17
#define LETTER_WIDTH 6.3        /* of a label, about */
#define HISTOGRAM_HEIGHT 240
#define BARS_MAX 60u            /* more of them are drawn as one */
#define MARK_HEIGHT 13          /* of the rows that names of marks stand in, each right of its line */
#define MARK_WIDTH 62           /* of a name with its value, about */

/* A segment has its name where that fits into it. */
static void write_segment(FILE *out, const char *name, size_t place, double x, double y, double width, double share)
{
    fprintf(out, "<rect class=\"s%zu\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"><title>", place, x, y, width,
            BAR_HEIGHT - 4);
    html_format(out, "%s %.1f %%", name, 100 * share);
    fputs("</title></rect>\n", out);
    if (width > LETTER_WIDTH * (double)strlen(name) + 8) {
        fprintf(out, "<text class=\"x t%zu\" x=\"%.1f\" y=\"%.1f\">", place, x + width / 2, y + 14.5);
        html_text(out, name);
        fputs("</text>\n", out);
    }
}

static void write_stack(FILE *out, const struct stack *stack, const char *const *names, size_t name_count, double left,
                        double y)
{
    const double whole = CHART_WIDTH - 8 - left;
    double x = left;
    for (size_t i = 0; i < name_count; i++) {
        const double width = stack->shares[i] * whole;
        if (!(width > 0) || x + width > left + whole + 1)
            continue;
        write_segment(out, names[i], i, x, y, width, stack->shares[i]);
        x += width;
    }
}

static void write_legend_row(FILE *out, const char *name, size_t place, const double *share, double y)
{
    fprintf(out, "<rect class=\"s%zu\" x=\"12\" y=\"%.1f\" width=\"11\" height=\"11\"/><text x=\"30\" y=\"%.1f\">",
            place, y - 10, y);
    html_text(out, name);
    fputs("</text>", out);
    if (share != NULL)
        fprintf(out, "<text class=\"y\" x=\"200\" y=\"%.1f\">%.1f %%</text>", y, 100 * *share);
    fputc('\n', out);
}

void bars_stacked(FILE *out, const char *title, const char *const *names, size_t name_count, const struct stack *stacks,
                  size_t stack_count, bool are_numbered)
{
    const int bars = BAR_HEIGHT * (int)stack_count + 4, height = bars + 6 + LEGEND_HEIGHT * (int)name_count;
    const bool is_one = stack_count == 1;
    chart_open(out, title, "", height + 4);
    for (size_t i = 0; i < stack_count; i++) {
        const double y = 4 + BAR_HEIGHT * (double)i;
        if (are_numbered)
            fprintf(out, "<text class=\"end c%u\" x=\"8\" y=\"%.1f\">%u</text>\n", stacks[i].run % CHART_COLOURS,
                    y + 14.5, stacks[i].run + 1);
        write_stack(out, &stacks[i], names, name_count, are_numbered ? 30 : 8, y);
    }
    for (size_t i = 0; i < name_count; i++)
        write_legend_row(out, names[i], i, is_one ? &stacks[0].shares[i] : NULL,
                         bars + LEGEND_HEIGHT * (double)(i + 1));
    chart_close(out);
}

static const struct chart_area area = { .left = 50, .right = CHART_WIDTH - 18, .top = 48,
                                        .bottom = HISTOGRAM_HEIGHT - 40 };

static double x_of(const struct axis *axis, double value)
{
    return area.left + (area.right - area.left) * fmin(1, fmax(0, axis_place(axis, value)));
}

/* So many bins a bar that there are no more than BARS_MAX between the axis' ends. */
static size_t bins_of_bar(const struct histogram *histogram)
{
    const double bins = log(histogram->most / histogram->least) / log(histogram->ratio);
    return bins > BARS_MAX ? (size_t)ceil(bins / BARS_MAX) : 1;
}

static double bar_count(const struct histogram *histogram, size_t first, size_t bins)
{
    double count = 0;
    for (size_t i = first; i < first + bins && i < histogram->count; i++)
        count += histogram->counts[i];
    return count;
}

static void write_bar(FILE *out, const struct histogram *histogram, const struct axis *x_axis,
                      const struct axis *y_axis, size_t first, size_t bins)
{
    const double count = bar_count(histogram, first, bins);
    const double from = histogram->first * pow(histogram->ratio, (double)first);
    const double to = from * pow(histogram->ratio, (double)bins), left = x_of(x_axis, from);
    const double height = fmax(1, (area.bottom - area.top) * axis_place(y_axis, count));
    if (!(count > 0))
        return;
    fprintf(out, "<rect class=\"bar c%u\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\">",
            histogram->run % CHART_COLOURS, left, area.bottom - height, fmax(0.6, x_of(x_axis, to) - left - 0.4),
            height);
    fprintf(out, "<title>%.4g to %.4g: %.0f</title></rect>\n", from, to, count);
}

static void write_marks(FILE *out, const struct histogram *histogram, const struct axis *x_axis)
{
    for (size_t i = 0; i < histogram->mark_count; i++) {
        const double x = x_of(x_axis, histogram->marks[i]), y = 10 + MARK_HEIGHT * (double)i;
        const bool is_last = x > area.right - MARK_WIDTH;
        if (!isfinite(histogram->marks[i]))
            continue;
        fprintf(out, "<path class=\"mark\" d=\"M%.1f %.1fV%.1f\"/><text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", x, y - 8,
                area.bottom, is_last ? "y" : "l", is_last ? x - 4 : x + 4, y + 2);
        html_format(out, "%s %.4g", histogram->mark_names[i], histogram->marks[i]);
        fputs("</text>\n", out);
    }
}

void bars_histogram(FILE *out, const struct histogram *histogram)
{
    const size_t bins = bins_of_bar(histogram);
    double most = 0;
    for (size_t i = 0; i < histogram->count; i += bins)
        most = fmax(most, bar_count(histogram, i, bins));
    const struct axis x_axis = axis_log(histogram->least, histogram->most, 8);
    const struct axis y_axis = axis_round(0, most > 0 ? most : 1, 4);
    chart_open(out, histogram->title, ", logarithmic", HISTOGRAM_HEIGHT);
    chart_y_axis(out, &area, &y_axis, false);
    for (size_t i = 0; i < histogram->count; i += bins)
        write_bar(out, histogram, &x_axis, &y_axis, i, bins);
    chart_x_axis(out, &area, &x_axis, histogram->x_name);
    write_marks(out, histogram, &x_axis);
    chart_close(out);
}
