/* Where the time of runs went, and how long their steps took. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/report/draw/bars.h"
#include "tools/report/look.h"
#include "tools/report/page.h"

/* First what computes, then what waits. */
static const char *const share_names[] = {
    "forward", "backward", "update", "exposed copy", "exposed reduction", "input wait", "other",
};
static const char *const share_keys[] = {
    "forward", "backward", "update", "exposed_copy", "exposed_reduction", "input_wait", "other",
};
#define SHARE_COUNT (sizeof(share_names) / sizeof(share_names[0]))

/* Of one run, 0 where it tells none; false where it tells none at all. */
static bool read_shares(const struct shown_run *run, double shares[SHARE_COUNT])
{
    double sum = 0;
    for (size_t i = 0; i < SHARE_COUNT; i++) {
        const char *const path[] = { "fractions", share_keys[i], NULL };
        const double share = look_number_at(run->summary, path);
        shares[i] = share > 0 && share <= 1 ? share : 0;
        sum += shares[i];
    }
    return sum > 0;
}

/* `figures` is how many there are, of this function and the next. */
static int write_shares(const struct page *page, size_t *figures)
{
    double(*const shares)[SHARE_COUNT] = calloc(page->run_count, sizeof(*shares));
    struct stack *const stacks = calloc(page->run_count, sizeof(*stacks));
    size_t count = 0;
    for (uint32_t i = 0; i < page->run_count && shares != NULL && stacks != NULL; i++)
        if (read_shares(&page->runs[i], shares[count])) {
            stacks[count] = (struct stack){ page->runs[i].number, shares[count] };
            count++;
        }
    if (count > 0)
        bars_stacked(page->out, "Where the towers' time went", share_names, SHARE_COUNT, stacks, count,
                     page->run_count > 1);
    *figures += count > 0;
    const int rc = shares == NULL || stacks == NULL ? -ENOMEM : 0;
    free(shares);
    free(stacks);
    return rc;
}

/* The bins of a run's step times; no counts where it tells none. */
struct bins {
    double *counts;
    size_t count;
    double first, ratio;        /* in ms */
};

static double bins_end(const struct bins *bins)
{
    return bins->first * pow(bins->ratio, (double)bins->count);
}

static int read_counts(struct bins *bins, const json_t *counts)
{
    double *const values = calloc(json_array_size(counts), sizeof(*values));
    if (values == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < json_array_size(counts); i++)
        values[i] = fmax(0, json_number_value(json_array_get(counts, i)));
    bins->counts = values;
    bins->count = json_array_size(counts);
    return 0;
}

/* 0 also where there is nothing that could be drawn; -ENOMEM. */
static int read_bins(const struct shown_run *run, struct bins *bins)
{
    const char *const counts_path[] = { "step_ms_histogram", "counts", NULL };
    const char *const first_path[] = { "step_ms_histogram", "first", NULL };
    const char *const decade_path[] = { "step_ms_histogram", "per_decade", NULL };
    const json_t *const counts = look_at(run->summary, counts_path);
    const double first = look_number_at(run->summary, first_path);
    const double per_decade = look_number_at(run->summary, decade_path);
    *bins = (struct bins){ .counts = NULL };
    if (!(per_decade >= 1) || !isfinite(first) || json_array_size(counts) == 0)
        return 0;
    bins->first = pow(10, first / per_decade);
    bins->ratio = pow(10, 1 / per_decade);
    const double end = bins->first * pow(bins->ratio, (double)json_array_size(counts));
    return bins->first > 1e-12 && end < 1e15 ? read_counts(bins, counts) : 0;
}

static void write_histogram(const struct page *page, const struct shown_run *run, const struct bins *bins,
                            double least, double most)
{
    static const char *const names[] = { "p50", "p90", "p99" };
    double marks[3];
    char title[128];
    for (size_t i = 0; i < 3; i++) {
        const char *const path[] = { "step_ms", names[i], NULL };
        marks[i] = look_number_at(run->summary, path);
    }
    snprintf(title, sizeof(title), page->run_count > 1 ? "Step times of run %u" : "Step times", run->number + 1);
    bars_histogram(page->out, &(struct histogram){
        .title = title,
        .x_name = "milliseconds of a step; bars: how many steps",
        .run = run->number,
        .first = bins->first,
        .ratio = bins->ratio,
        .counts = bins->counts,
        .count = bins->count,
        .least = least,
        .most = most,
        .mark_names = names,
        .marks = marks,
        .mark_count = 3,
    });
}

/* All on one axis, so that they can be compared. */
static int write_histograms(const struct page *page, size_t *figures)
{
    struct bins *const bins = calloc(page->run_count, sizeof(*bins));
    double least = INFINITY, most = 0;
    int rc = bins != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < page->run_count && rc == 0; i++) {
        rc = read_bins(&page->runs[i], &bins[i]);
        if (bins[i].counts == NULL)
            continue;
        (*figures)++;
        least = fmin(least, bins[i].first);
        most = fmax(most, bins_end(&bins[i]));
    }
    for (uint32_t i = 0; i < page->run_count && rc == 0; i++)
        if (bins[i].counts != NULL)
            write_histogram(page, &page->runs[i], &bins[i], least, most);
    for (uint32_t i = 0; i < page->run_count && bins != NULL; i++)
        free(bins[i].counts);
    free(bins);
    return rc;
}

int page_times(const struct page *page)
{
    fputs("<h2>Time</h2>\n<div class=\"charts\">\n", page->out);
    size_t figures = 0;
    int rc = write_shares(page, &figures);
    if (rc == 0)
        rc = write_histograms(page, &figures);
    fputs("</div>\n", page->out);
    if (figures == 0)
        fputs("<p class=\"soft\">No step has been timed yet.</p>\n", page->out);
    return rc;
}
