/* What the stages counted, as shares of their time. */
#include "tools/run/pace/facts.h"

#include <math.h>
#include <sys/resource.h>

#include "loader/dataset.h"
#include "stage/clock.h"
#include "tools/run/pace/sides.h"

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* Processor time of this process over the time since the start. */
static double cores_busy(const struct report *report)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    const double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    return ratio(seconds * 1e9, (double)(clock_now_ns() - report->process_start_ns) * report->plan->cores);
}

/* What is neither idle nor this process's. */
static double others_busy(const struct report *report, double busy)
{
    const double idle = report_idle_cores(report) / report->plan->cores;
    return isnan(idle) ? 0 : fmax(1 - idle - busy, 0);
}

static bool is_encoded(const struct dataset *dataset)
{
    return dataset != NULL && dataset->format.image == &image_encoded_ops;
}

struct verdict_facts facts_of(const struct report *report, const struct report_end *end)
{
    const struct pipeline_counts *const counts = &end->counts;
    const struct dataset *const dataset = report->datasets[PASS_TRAIN];
    const double busy = cores_busy(report);
    const double wall_ns = (double)end->loader_wall_ns;
    return (struct verdict_facts){
        .steps = account_process(report->account)->steps,
        .share = account_fractions(report->account),
        .busy = report_feed(report, end).busy,
        .ring_empty = fill_use(&account_fills(report->account)->ring).empty,
        .reading_cpu = loader_reading_computed(&counts->loader),
        .copying = ratio((double)counts->feeders.copy_ns, wall_ns * report->plan->devices.towers.count),
        .main_busy = 1 - ratio((double)counts->main_waited_ns, wall_ns),
        .cores_busy = busy,
        .others_busy = others_busy(report, busy),
        .images_per_second = tally_images_per_second(account_process(report->account)),
        .is_encoded = is_encoded(dataset),
        .stored_side =
            is_encoded(dataset) ? sides_shorter(dataset->format.stored_height, dataset->format.stored_width) : 0,
        .taken_side =
            is_encoded(dataset) ? sides_shorter(dataset->options.shape.height, dataset->options.shape.width) : 0,
    };
}
