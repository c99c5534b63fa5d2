/* Curves, axes, legends. Where spots stand for many points, the curve is their mean on a band from the least to the
 * most. */
#include "tools/report/draw/chart.h"

#include <math.h>
#include <string.h>

#include "tools/report/draw/html.h"
#include "tools/report/draw/spots.h"

#define HEIGHT 240
#define LABELS_MAX 12u          /* at ends of curves */
#define LABEL_HEIGHT 12.0
#define LOG_RATIO 20            /* from which values are drawn logarithmically */
#define SHARE_LEAST 0.01        /* that an axis of shares from 0 reaches to: less than that is nothing to look at */

static const struct chart_area area = { .left = 56, .right = CHART_WIDTH - 18, .top = 24, .bottom = HEIGHT - 40 };

struct scales { struct axis x, y; };

static double x_of(const struct scales *scales, double x)
{
    return area.left + (area.right - area.left) * axis_place(&scales->x, x);
}

static double y_of(const struct scales *scales, double y)
{
    return area.bottom - (area.bottom - area.top) * fmin(1, fmax(0, axis_place(&scales->y, y)));
}

void chart_open(FILE *out, const char *title, const char *remark, int height)
{
    fputs("<figure><figcaption>", out);
    html_text(out, title);
    fprintf(out, "<span>%s</span></figcaption>\n", remark);
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", CHART_WIDTH, height);
    html_text(out, title);
    fputs("\">\n", out);
}

void chart_close(FILE *out)
{
    fputs("</svg></figure>\n", out);
}

void chart_x_axis(FILE *out, const struct chart_area *at, const struct axis *axis, const char *name)
{
    fprintf(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", at->left, at->bottom, at->right);
    for (size_t i = 0; i < axis->tick_count; i++) {
        const double x = at->left + (at->right - at->left) * axis_place(axis, axis->ticks[i]);
        fprintf(out, "<path class=\"axis\" d=\"M%.1f %.1fv4\"/><text class=\"x\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x,
                at->bottom, x, at->bottom + 16, axis_label(axis, i, false).text);
    }
    fprintf(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">", (at->left + at->right) / 2, at->bottom + 32);
    html_text(out, name);
    fputs("</text>\n", out);
}

void chart_y_axis(FILE *out, const struct chart_area *at, const struct axis *axis, bool is_share)
{
    for (size_t i = 0; i < axis->tick_count; i++) {
        const double y = at->bottom - (at->bottom - at->top) * axis_place(axis, axis->ticks[i]);
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text class=\"y\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                at->left, y, at->right, at->left - 5, y + 4, axis_label(axis, i, is_share).text);
    }
}

static bool make_scales(const struct chart *chart, struct scales *scales)
{
    double ends[4];
    if (!spots_ends(chart, ends))
        return false;
    const bool is_log = chart->y_may_be_log && ends[2] > 0 && ends[3] / ends[2] > LOG_RATIO;
    const double least = chart->y_from_zero ? fmin(0, ends[2]) : ends[2];
    scales->x = axis_exact(ends[0], ends[1], 6);
    const double most = chart->y_is_share && chart->y_from_zero ? fmax(SHARE_LEAST, ends[3]) : ends[3];
    scales->y = is_log ? axis_log(ends[2], ends[3], 8) : axis_round(least, most, 5);
    if (chart->y_is_share)
        scales->y.most = fmin(scales->y.most, fmax(1, ends[3]));
    return true;
}

/* The next corner of a path. */
static void write_corner(FILE *out, bool is_first, double x, double y)
{
    fprintf(out, "%s%.1f %.1f", is_first ? "M" : "L", x, y);
}

static void write_line(FILE *out, const struct curve *curve, const struct scales *scales, const struct spots *spots)
{
    fprintf(out, "<path class=\"%s c%u\" d=\"", curve->kind == CURVE_FAINT ? "faint" : "line",
            curve->run % CHART_COLOURS);
    for (size_t i = 0; i < spots->count; i++)
        write_corner(out, i == 0, x_of(scales, spots->spots[i].x), y_of(scales, spots->spots[i].y));
    fputs("\"/>\n", out);
}

static void write_band(FILE *out, const struct curve *curve, const struct scales *scales, const struct spots *spots)
{
    fprintf(out, "<path class=\"band c%u\" d=\"", curve->run % CHART_COLOURS);
    for (size_t i = 0; i < spots->count; i++)
        write_corner(out, i == 0, x_of(scales, spots->spots[i].x), y_of(scales, spots->spots[i].most));
    for (size_t i = spots->count; i-- > 0;)
        write_corner(out, false, x_of(scales, spots->spots[i].x), y_of(scales, spots->spots[i].least));
    fputs("Z\"/>\n", out);
}

/* A line of one point cannot be seen. */
static void write_points(FILE *out, const struct curve *curve, const struct scales *scales, const struct spots *spots)
{
    for (size_t i = 0; i < spots->count && (curve->kind == CURVE_POINTS || spots->count == 1); i++) {
        const struct spot *const spot = &spots->spots[i];
        fprintf(out, "<circle class=\"c%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"><title>%.5g</title></circle>\n",
                curve->run % CHART_COLOURS, x_of(scales, spot->x), y_of(scales, spot->y), spot->y);
    }
}

/* Where the numbers of runs stand. */
struct labels { size_t count; uint32_t runs[LABELS_MAX]; double x[LABELS_MAX], y[LABELS_MAX]; };

/* From the top down. */
static void add_label(struct labels *labels, uint32_t run, double x, double y)
{
    if (labels->count == LABELS_MAX)
        return;
    size_t i = labels->count++;
    for (; i > 0 && labels->y[i - 1] > y; i--) {
        labels->runs[i] = labels->runs[i - 1];
        labels->x[i] = labels->x[i - 1];
        labels->y[i] = labels->y[i - 1];
    }
    labels->runs[i] = run;
    labels->x[i] = x;
    labels->y[i] = y;
}

static void write_labels(FILE *out, struct labels *labels)
{
    for (size_t i = 1; i < labels->count; i++)
        labels->y[i] = fmax(labels->y[i], labels->y[i - 1] + LABEL_HEIGHT);
    double lowest = area.bottom + 4;
    for (size_t i = labels->count; i-- > 0; lowest = labels->y[i] - LABEL_HEIGHT)
        labels->y[i] = fmin(labels->y[i], lowest);
    for (size_t i = 0; i < labels->count; i++)
        fprintf(out, "<text class=\"end c%u\" x=\"%.1f\" y=\"%.1f\">%u</text>\n", labels->runs[i] % CHART_COLOURS,
                labels->x[i] + 4, labels->y[i] + 4, labels->runs[i] + 1);
}

static void write_curve(FILE *out, const struct chart *chart, const struct curve *curve, const struct scales *scales,
                        struct labels *labels)
{
    struct spots spots;
    spots_make(&spots, curve, &scales->x, chart->x_unit);
    if (spots.count == 0)
        return;
    if (!spots.are_all)
        write_band(out, curve, scales, &spots);
    write_line(out, curve, scales, &spots);
    write_points(out, curve, scales, &spots);
    const struct spot *const last = &spots.spots[spots.count - 1];
    if (curve->is_numbered)
        add_label(labels, curve->run, x_of(scales, last->x), y_of(scales, last->y));
}

static bool is_first_of_label(const struct chart *chart, size_t place)
{
    for (size_t i = 0; i < place; i++)
        if (chart->curves[i].label != NULL && strcmp(chart->curves[i].label, chart->curves[place].label) == 0)
            return false;
    return true;
}

static void write_legend(FILE *out, const struct chart *chart)
{
    double x = area.left + 4;
    for (size_t i = 0; i < chart->curve_count; i++) {
        const struct curve *const curve = &chart->curves[i];
        if (curve->label == NULL || !is_first_of_label(chart, i))
            continue;
        fprintf(out, "<path class=\"%s key\" d=\"M%.1f 11h18\"/>", curve->kind == CURVE_FAINT ? "faint" : "line", x);
        if (curve->kind == CURVE_POINTS)
            fprintf(out, "<circle class=\"key\" cx=\"%.1f\" cy=\"11\" r=\"2.5\"/>", x + 9);
        fprintf(out, "<text x=\"%.1f\" y=\"15\">", x + 23);
        html_text(out, curve->label);
        fputs("</text>\n", out);
        x += 38 + 6.3 * (double)strlen(curve->label);
    }
}

bool chart_write(FILE *out, const struct chart *chart)
{
    struct scales scales;
    struct labels labels = { .count = 0 };
    if (!make_scales(chart, &scales))
        return false;
    chart_open(out, chart->title, scales.y.is_log ? ", logarithmic" : "", HEIGHT);
    chart_y_axis(out, &area, &scales.y, chart->y_is_share);
    chart_x_axis(out, &area, &scales.x, chart->x_name);
    for (size_t i = 0; i < chart->curve_count; i++)
        write_curve(out, chart, &chart->curves[i], &scales, &labels);
    write_labels(out, &labels);
    write_legend(out, chart);
    chart_close(out);
    return true;
}
