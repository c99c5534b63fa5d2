/* Curves over the steps and the time of runs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/report/draw/chart.h"
#include "tools/report/page.h"

#define SERIES_MAX 2

struct series {
    enum row_kind rows;
    enum value value;
    enum curve_kind kind;
    const char *label;          /* NULL: there is no second one */
};

static const struct {
    const char *title;
    enum value x;
    struct series series[SERIES_MAX];
    bool is_share, from_zero, may_be_log;
} charts[] = {
    { "Loss", VALUE_STEP,
      { { ROW_TRAIN, VALUE_LOSS, CURVE_FAINT, "training" },
        { ROW_VALIDATION, VALUE_LOSS, CURVE_POINTS, "validation" } }, false, false, true },
    { "Accuracy", VALUE_STEP,
      { { ROW_TRAIN, VALUE_ACCURACY, CURVE_FAINT, "training" },
        { ROW_VALIDATION, VALUE_ACCURACY, CURVE_POINTS, "validation" } }, true, false, false },
    { "Images a second, in training", VALUE_ELAPSED,
      { { ROW_TRAIN, VALUE_SPEED, CURVE_LINE, NULL } }, false, true, false },
    { "Learning rate", VALUE_STEP,
      { { ROW_TRAIN, VALUE_RATE, CURVE_LINE, NULL } }, false, false, false },
    { "Input wait, share of the towers' time", VALUE_STEP,
      { { ROW_TRAIN, VALUE_INPUT_WAIT, CURVE_LINE, NULL } }, true, true, false },
    { "Queue on the host: how full it was found", VALUE_STEP,
      { { ROW_TRAIN, VALUE_RING_FILL, CURVE_LINE, "mean" },
        { ROW_TRAIN, VALUE_RING_LEAST, CURVE_FAINT, "least" } }, true, true, false },
    { "Queue on the device: how full it was found", VALUE_STEP,
      { { ROW_TRAIN, VALUE_SLOTS_FILL, CURVE_LINE, "mean" },
        { ROW_TRAIN, VALUE_SLOTS_LEAST, CURVE_FAINT, "least" } }, true, true, false },
    { "Loader: share of time at work", VALUE_STEP,
      { { ROW_TRAIN, VALUE_DECODERS_BUSY, CURVE_LINE, "decoders" },
        { ROW_TRAIN, VALUE_READERS_BUSY, CURVE_FAINT, "readers" } }, true, true, false },
};
#define CHART_COUNT (sizeof(charts) / sizeof(charts[0]))

/* What the time of the longest run is told in. */
struct time_unit { const char *name; double seconds; };

static struct time_unit time_unit_of(const struct page *page)
{
    double longest = 0;
    for (uint32_t i = 0; i < page->run_count; i++)
        longest = fmax(longest, page->runs[i].metrics.elapsed);
    return longest < 180 ? (struct time_unit){ "seconds of training and evaluation", 1 }
         : longest < 3 * 3600 ? (struct time_unit){ "minutes of training and evaluation", 60 }
         : longest < 3 * 86400 ? (struct time_unit){ "hours of training and evaluation", 3600 }
                               : (struct time_unit){ "days of training and evaluation", 86400 };
}

static bool has_values(const struct columns *rows, enum value value)
{
    for (size_t i = 0; i < rows->count; i++)
        if (isfinite(rows->values[value][i]))
            return true;
    return false;
}

/* The curves of one run in one chart; the last of them has the run's number. Returns how many. */
static size_t make_curves(const struct shown_run *run, size_t chart, bool is_numbered, struct curve *curves)
{
    size_t count = 0;
    for (size_t i = 0; i < SERIES_MAX; i++) {
        const struct series *const series = &charts[chart].series[i];
        const struct columns *const rows = &run->metrics.rows[series->rows];
        if ((i > 0 && series->label == NULL) || !has_values(rows, series->value))
            continue;
        curves[count++] = (struct curve){
            .kind = series->kind,
            .run = run->number,
            .label = series->label,
            .x = rows->values[charts[chart].x],
            .y = rows->values[series->value],
            .count = rows->count,
        };
    }
    if (count == 1 && curves[0].kind == CURVE_FAINT)
        curves[0].kind = CURVE_LINE;
    if (count > 0)
        curves[charts[chart].series[1].kind == CURVE_POINTS ? count - 1 : 0].is_numbered = is_numbered;
    return count;
}

static bool write_chart(const struct page *page, size_t chart, struct curve *curves)
{
    const struct time_unit unit = time_unit_of(page);
    const bool over_time = charts[chart].x == VALUE_ELAPSED;
    size_t count = 0;
    for (uint32_t i = 0; i < page->run_count; i++)
        count += make_curves(&page->runs[i], chart, page->run_count > 1, curves + count);
    return chart_write(page->out, &(struct chart){
        .title = charts[chart].title,
        .x_name = over_time ? unit.name : "step",
        .curves = curves,
        .curve_count = count,
        .x_unit = over_time ? unit.seconds : 1,
        .y_is_share = charts[chart].is_share,
        .y_from_zero = charts[chart].from_zero,
        .y_may_be_log = charts[chart].may_be_log,
    });
}

int page_curves(const struct page *page)
{
    struct curve *const curves = calloc((size_t)page->run_count * SERIES_MAX, sizeof(*curves));
    bool is_any = false;
    if (curves == NULL)
        return -ENOMEM;
    fputs("<h2>Curves</h2>\n<div class=\"charts\">\n", page->out);
    for (size_t chart = 0; chart < CHART_COUNT; chart++)
        is_any |= write_chart(page, chart, curves);
    fputs("</div>\n", page->out);
    if (!is_any)
        fputs("<p class=\"soft\">metrics.jsonl has no rows yet: there is nothing to draw.</p>\n", page->out);
    free(curves);
    return 0;
}
