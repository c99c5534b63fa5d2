/* Tests of what pages are drawn with: texts of others, axes, curves, bars. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/tools/report/markup.h"
#include "tools/report/draw/axis.h"
#include "tools/report/draw/bars.h"
#include "tools/report/draw/chart.h"
#include "tools/report/draw/html.h"
#include "tools/report/draw/spots.h"

/* ---- texts ---- */

static char *escaped(const char *text)
{
    char *out = NULL;
    size_t bytes;
    FILE *const stream = open_memstream(&out, &bytes);
    html_text(stream, text);
    fclose(stream);
    return out;
}

static void expect_escaped(const char *text, const char *expected)
{
    char *const out = escaped(text);
    assert_string_equal(out, expected);
    free(out);
}

TEST(texts_mean_themselves)
{
    expect_escaped("a <b> & \"c\" 'd'", "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
    expect_escaped("</pre><script>alert(1)</script>", "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
    expect_escaped("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\t\n", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\t\n");
    expect_escaped("\x01\x1b[31m\x7f\xc2\x85", "\xef\xbf\xbd\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd");
    expect_escaped("\xe2\x80\xae.\xe2\x81\xa9\t", "\xef\xbf\xbd.\xef\xbf\xbd\t");
    expect_escaped("\xff\xc3(\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    expect_escaped("\xef\xbf\xbe\xef\xbf\xbf.", "\xef\xbf\xbd\xef\xbf\xbd.");
    expect_escaped("\xc3", "\xef\xbf\xbd");
}

TEST(any_bytes_are_well_formed_text_and_attributes)
{
    srand(1);
    for (int round = 0; round < 2000; round++) {
        char text[24], whole[1024];
        for (size_t i = 0; i + 1 < sizeof(text); i++)
            text[i] = (char)(rand() % 4 == 0 ? "<>&\"'\xc3\xef\xbf"[rand() % 8] : rand() % 255 + 1);
        text[sizeof(text) - 1] = '\0';
        char *const out = escaped(text);
        snprintf(whole, sizeof(whole), "<p title=\"%s\">%s</p>", out, out);
        assert_null(markup_problem(whole));
        free(out);
    }
    assert_non_null(markup_problem("<p>a"));
    assert_non_null(markup_problem("<p title=\"a\"b\">c</p>"));
    assert_non_null(markup_problem("<p><b></p></b>"));
    assert_non_null(markup_problem("<p>a & b</p>"));
}

/* ---- axes ---- */

static bool is_round(double step)
{
    const double digits = step / pow(10, floor(log10(step) + 1e-9));
    return fabs(digits - 1) < 1e-6 || fabs(digits - 2) < 1e-6 || fabs(digits - 5) < 1e-6;
}

static void expect_ticks(const struct axis *axis, size_t least_count)
{
    assert_in_range(axis->tick_count, least_count, AXIS_TICKS_MAX);
    const double room = axis->is_log ? axis->least * 1e-6 : (axis->most - axis->least) * 1e-6;
    for (size_t i = 0; i < axis->tick_count; i++) {
        assert_true(axis->ticks[i] >= axis->least - room);
        assert_true(axis->ticks[i] <= (axis->is_log ? axis->most * (1 + 1e-6) : axis->most + room));
        if (i == 0)
            continue;
        assert_true(axis->ticks[i] > axis->ticks[i - 1]);
        assert_string_not_equal(axis_label(axis, i, false).text, axis_label(axis, i - 1, false).text);
    }
}

/* Sizes from 1e-9 to 1e9, spans from a thousandth of the size to all of it. */
TEST(ticks_are_round_within_the_axis_and_told_apart)
{
    for (double size = 1e-9; size < 1e10; size *= 3.7)
        for (double span = size; span > size / 1000; span /= 1.9)
            for (int sign = -1; sign <= 1; sign += 2) {
                const double least = sign < 0 ? -size : size - span;
                const struct axis exact = axis_exact(least, least + span, 6);
                assert_true(exact.least == least && exact.most == least + span);
                assert_true(is_round(exact.step));
                expect_ticks(&exact, 2);
                const struct axis rounded = axis_round(least, least + span, 5);
                assert_true(rounded.least <= least + span * 1e-6 && rounded.most >= least + span * (1 - 1e-6));
                assert_true(fabs(rounded.ticks[0] - rounded.least) <= span * 1e-6);
                assert_true(fabs(rounded.ticks[rounded.tick_count - 1] - rounded.most) <= span * 1e-6);
                expect_ticks(&rounded, 2);
            }
}

TEST(logarithmic_axes_have_ticks_for_any_ratio)
{
    for (double least = 1e-9; least < 1e9; least *= 7.3)
        for (double ratio = 1.01; ratio < 1e12; ratio *= 2.3) {
            const struct axis axis = axis_log(least, least * ratio, 6);
            expect_ticks(&axis, ratio > 1.5 ? 2 : 1);
            assert_true(fabs(axis_place(&axis, least * sqrt(ratio)) - 0.5) < 1e-9);
            assert_true(axis_place(&axis, 0) < 0 && axis_place(&axis, -5) < 0);
        }
}

/* A constant value, zero, the smallest and the largest differences. */
TEST(axes_of_equal_values_have_room)
{
    const double values[] = { 0, 1, -1, 1e-30, 1e30, -1e30, 0.1, DBL_MIN };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const double next = nextafter(values[i], INFINITY);
        const struct axis axes[] = { axis_exact(values[i], values[i], 6), axis_round(values[i], next, 6) };
        for (size_t a = 0; a < 2; a++) {
            assert_true(axes[a].least < axes[a].most);
            const double place = axis_place(&axes[a], values[i]);
            assert_true(place >= 0 && place <= 1);
        }
    }
}

TEST(labels_are_short_and_tell_their_unit)
{
    const struct axis small = axis_exact(0, 0.06, 6), large = axis_exact(0, 60000, 6), share = axis_exact(0, 1, 5);
    assert_string_equal(axis_label(&small, 1, false).text, "0.01");
    assert_string_equal(axis_label(&large, 6, false).text, "60k");
    assert_string_equal(axis_label(&share, 1, true).text, "20 %");
    const struct axis fine = axis_exact(0.98, 0.99, 5), decades = axis_log(0.001, 1000, 6);
    assert_string_equal(axis_label(&fine, 1, true).text, "98.2 %");
    assert_string_equal(axis_label(&decades, 0, false).text, "0.01");
}

/* ---- charts ---- */

static const double steps[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* The chart of one curve, NULL where there was nothing to draw; every number in it is one of a place within it. */
static char *chart_of(const double *x, const double *y, size_t count, bool may_be_log)
{
    char *text = NULL;
    size_t bytes;
    FILE *const stream = open_memstream(&text, &bytes);
    const struct curve curve = { .kind = CURVE_POINTS, .label = "a <b>", .x = x, .y = y, .count = count,
                                 .is_numbered = true };
    const struct chart chart = { .title = "\"loss\" & co", .x_name = "step", .curves = &curve, .curve_count = 1,
                                 .x_unit = 1, .y_may_be_log = may_be_log };
    const bool is_drawn = chart_write(stream, &chart);
    fclose(stream);
    assert_int_equal(is_drawn, *text != '\0');
    if (is_drawn && strstr(text, "nan") == NULL && strstr(text, "inf") == NULL)
        return text;
    assert_false(is_drawn);
    free(text);
    return NULL;
}

static void expect_drawn(const double *y, size_t count, size_t points)
{
    for (int may_be_log = 0; may_be_log < 2; may_be_log++) {
        char *const text = chart_of(steps, y, count, may_be_log == 1);
        size_t found = 0;
        assert_non_null(text);
        assert_null(markup_problem(text));
        for (const char *at = text; (at = strstr(at, "<circle class=\"c")) != NULL; at++) {
            double x_place, y_place;
            assert_int_equal(sscanf(at, "<circle class=\"c0\" cx=\"%lf\" cy=\"%lf\"", &x_place, &y_place), 2);
            assert_true(x_place >= 0 && x_place <= CHART_WIDTH && y_place >= 20 && y_place <= 200);
            found++;
        }
        assert_int_equal(found, points);
        free(text);
    }
}

TEST(charts_draw_what_is_finite)
{
    expect_drawn((const double[]){ 3, 2, 1, 0.5, 0.1, 0.01, 0.001, 0 }, 8, 8);
    expect_drawn((const double[]){ NAN, 2, INFINITY, 1, -INFINITY, 1e300, 3, NAN }, 8, 3);
    expect_drawn((const double[]){ -5, -5, -5 }, 3, 3);
    expect_drawn((const double[]){ 7 }, 1, 1);
    expect_drawn((const double[]){ 1e30, -1e30, 0 }, 3, 3);
    assert_null(chart_of(steps, (const double[]){ NAN, INFINITY, 1e31 }, 3, false));
    assert_null(chart_of(steps, steps, 0, false));
}

/* A rising line of so many points: spots are in order, their means too, and no point lies outside its band. */
TEST(many_points_become_spots_in_order)
{
    const size_t counts[] = { 1, 2, SPOTS_MAX, SPOTS_MAX + 1, 1000, 100000 };
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        double *const x = calloc(counts[c], sizeof(*x));
        struct spots spots;
        size_t points = 0;
        for (size_t i = 0; i < counts[c]; i++)
            x[i] = (double)i;
        const struct curve curve = { .x = x, .y = x, .count = counts[c] };
        const struct axis axis = axis_exact(0, (double)counts[c] - 1, 6);
        spots_make(&spots, &curve, &axis, 1);
        assert_int_equal(spots.are_all, counts[c] <= SPOTS_MAX);
        assert_in_range(spots.count, 1, SPOTS_MAX);
        for (size_t i = 0; i < spots.count; i++) {
            const struct spot *const spot = &spots.spots[i];
            assert_true(fabs(spot->x - spot->y) < 1e-6);
            assert_true(spot->least <= spot->y && spot->y <= spot->most);
            assert_true(i == 0 || spot->least > spots.spots[i - 1].most);
            points += spot->count;
        }
        assert_int_equal(points, counts[c]);
        free(x);
    }
}

/* ---- bars ---- */

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

TEST(segments_of_a_stack_are_as_wide_as_their_shares)
{
    static const char *const names[] = { "forward", "backward", "wait <for> input" };
    const double shares[] = { 0.25, 0.7, 0.05 };
    char *text = NULL;
    size_t bytes;
    FILE *const stream = open_memstream(&text, &bytes);
    bars_stacked(stream, "time", names, 3, &(struct stack){ 0, shares }, 1, false);
    fclose(stream);
    assert_null(markup_problem(text));
    const char *at = text;
    for (size_t i = 0; i < 3; i++) {
        double x, y, width;
        size_t place;
        at = strstr(at, "<rect class=\"s");
        const int read = sscanf(at, "<rect class=\"s%zu\" x=\"%lf\" y=\"%lf\" width=\"%lf\"", &place, &x, &y, &width);
        assert_int_equal(read, 4);
        assert_int_equal(place, i);
        assert_true(fabs(width / (CHART_WIDTH - 16) - shares[i]) < 0.001);
        at++;
    }
    assert_non_null(strstr(text, "70.0 %"));
    free(text);
}

/* Bars are merged until there is room for them, and none gets lost. */
TEST(bars_of_a_histogram_count_every_step)
{
    static const char *const names[] = { "p50", "p99" };
    for (size_t count = 1; count < 1200; count = count * 3 + 1) {
        double *const counts = calloc(count, sizeof(*counts)), sum = 0;
        for (size_t i = 0; i < count; i++)
            counts[i] = (double)(i % 7);
        const double ratio = pow(10, 0.01);
        const struct histogram histogram = {
            .title = "steps", .x_name = "ms", .first = 3, .ratio = ratio, .counts = counts, .count = count, .least = 3,
            .most = 3 * pow(ratio, (double)count), .mark_names = names, .marks = (const double[]){ 4, NAN },
            .mark_count = 2,
        };
        char *text = NULL;
        size_t bytes;
        FILE *const stream = open_memstream(&text, &bytes);
        bars_histogram(stream, &histogram);
        fclose(stream);
        assert_null(markup_problem(text));
        for (const char *at = text; (at = strstr(at, "<title>")) != NULL; at++) {
            double from, to, steps_there;
            assert_int_equal(sscanf(at, "<title>%lf to %lf: %lf<", &from, &to, &steps_there), 3);
            assert_true(from < to);
            sum += steps_there;
        }
        for (size_t i = 0; i < count; i++)
            sum -= counts[i];
        assert_true(sum == 0);
        assert_in_range(count_of(text, "class=\"bar"), count > 1 ? 1 : 0, 61);
        assert_int_equal(count_of(text, "class=\"mark\""), 1);
        free(text);
        free(counts);
    }
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
