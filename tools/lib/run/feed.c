/* Computes and prints the use of the input pipeline. */
#include "tools/lib/run/feed.h"

#include <inttypes.h>
#include <math.h>

#include "tools/lib/text/wrapped.h"

/* The share of the threads' time, limited to 1: work is counted when it ends, and may have begun before the
 * interval. */
static double share(uint64_t before_ns, uint64_t after_ns, uint64_t wall_ns, uint32_t threads)
{
    const double room = (double)wall_ns * threads;
    return room > 0 ? fmin((double)(after_ns - before_ns) / room, 1) : 0;
}

struct loader_busy loader_busy(const struct loader_counts *before, const struct loader_counts *after, uint64_t wall_ns,
                               const struct run_plan *plan)
{
    return (struct loader_busy){
        .readers = share(before->read_busy_ns, after->read_busy_ns, wall_ns, plan->read_threads),
        .decoders = share(before->decode_busy_ns, after->decode_busy_ns, wall_ns, plan->decode_threads),
    };
}

double loader_reading_computed(const struct loader_counts *counts)
{
    return counts->read_busy_ns > 0 ? (double)counts->read_cpu_ns / (double)counts->read_busy_ns : 0;
}

double loader_decoding_computed(const struct loader_counts *counts)
{
    return counts->decode_busy_ns > 0 ? fmin((double)counts->decode_cpu_ns / (double)counts->decode_busy_ns, 1) : 0;
}

void feed_meter_start(struct feed_meter *meter, const struct loader_counts *now, uint64_t now_ns)
{
    if (meter->runs)
        return;
    meter->since = *now;
    meter->since_ns = now_ns;
    meter->runs = true;
}

void feed_meter_stop(struct feed_meter *meter, const struct loader_counts *now, uint64_t now_ns)
{
    if (!meter->runs)
        return;
    meter->sum.read_busy_ns += now->read_busy_ns - meter->since.read_busy_ns;
    meter->sum.decode_busy_ns += now->decode_busy_ns - meter->since.decode_busy_ns;
    meter->wall_ns += now_ns - meter->since_ns;
    meter->runs = false;
}

struct loader_busy feed_meter_busy(const struct feed_meter *meter, const struct run_plan *plan)
{
    static const struct loader_counts none;
    return loader_busy(&none, &meter->sum, meter->wall_ns, plan);
}

struct feed_use feed_use(const struct queue_fills *fills, const struct loader_busy *busy,
                         const struct settings *settings)
{
    return (struct feed_use){
        .ring = { (uint64_t)settings->input.prefetch_depth, fill_use(&fills->ring) },
        .slots = { (uint64_t)settings->input.staging_depth, fill_use(&fills->slots) },
        .busy = *busy,
    };
}

void feed_print(const struct feed_use *use, const struct settings *settings, FILE *out)
{
    const struct fill_use *const ring = &use->ring.fill, *const slots = &use->slots.fill;
    if (settings->input.source != INPUT_SYNTHETIC)
        wrapped_print(out,
                      "queues    %u of %" PRIu64 " batches ready (median; least %u, none in %.1f %% of steps), "
                      "%u of %" PRIu64 " slots filled (least %u, none in %.1f %%); readers busy %.1f %%, decoders %.1f "
                      "%%", ring->median, use->ring.depth, ring->least, 100 * ring->empty, slots->median,
                      use->slots.depth, slots->least, 100 * slots->empty, 100 * use->busy.readers,
                      100 * use->busy.decoders);
    else
        wrapped_print(out, "queues    %u of %" PRIu64 " slots filled (median; least %u, none in %.1f %% of steps)",
                      slots->median, use->slots.depth, slots->least, 100 * slots->empty);
}
