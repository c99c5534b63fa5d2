/* What the stages counted, as shares of their time. */
#include "tools/run/pace/facts.h"

#include "loader/dataset.h"
#include "tools/run/pace/sides.h"

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static bool is_encoded(const struct dataset *dataset)
{
    return dataset != NULL && dataset->format.image == &image_encoded_ops;
}

struct verdict_facts facts_of(const struct report *report, const struct report_end *end)
{
    const struct pipeline_counts *const counts = &end->counts;
    const struct dataset *const dataset = report->datasets[PHASE_TRAIN];
    const double wall_ns = (double)end->loader_wall_ns;
    return (struct verdict_facts){
        .steps = account_process(report->account)->steps,
        .share = account_fractions(report->account),
        .busy = report_feed(report, end).busy,
        .ring_empty = fill_use(&account_fills(report->account)->ring).empty,
        .reading_cpu = loader_reading_computed(&counts->loader),
        .copying = ratio((double)counts->feeders.copy_ns, wall_ns * report->plan->devices.towers.count),
        .main_busy = 1 - ratio((double)counts->main_waited_ns, wall_ns),
        .cores = report_cores(report),
        .step = account_percentiles(report->account),
        .images_per_second = account_speeds(report->account).mean,
        .is_encoded = is_encoded(dataset),
        .stored_side =
            is_encoded(dataset) ? sides_shorter(dataset->format.stored_height, dataset->format.stored_width) : 0,
        .taken_side =
            is_encoded(dataset) ? sides_shorter(dataset->options.shape.height, dataset->options.shape.width) : 0,
    };
}
