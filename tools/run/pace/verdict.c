/* The verdict line. */
#include "tools/run/pace/verdict.h"

#include <stdio.h>

#include "tools/config/number.h"

/* The loader's threads: which kind works all the time, so that the other waits. */
static void input_verdict(char *text, size_t text_size, double wait, const struct loader_counts *loader,
                          uint64_t wall_ns, const struct run_plan *plan, const struct settings *settings)
{
    const double wall = wall_ns > 0 ? (double)wall_ns : 1;
    const double reading = (double)loader->read_busy_ns / (wall * plan->read_threads);
    const double decoding = (double)loader->decode_busy_ns / (wall * plan->decode_threads);
    const bool decoders = decoding >= reading;
    const bool is_kept = plan->memory.kept_bytes > 0;
    const double busy = decoders ? decoding : reading;
    const uint32_t threads = decoders ? plan->decode_threads : plan->read_threads;
    if (busy < 0.5)
        snprintf(text, text_size,
                 "input limits (towers waited %.1f %% of their time) although no stage is busy: batches come in "
                 "bursts, raise input.prefetch_depth (now %lld)",
                 100 * wait, (long long)settings->input.prefetch_depth);
    else
        snprintf(text, text_size,
                 "%s limits (towers waited %.1f %% of their time; %u %s %.0f %% busy): raise input.%s to %u%s",
                 decoders ? "decoding" : "reading", 100 * wait, threads, decoders ? "decoders" : "readers", 100 * busy,
                 decoders ? "decode_threads" : "read_threads", threads + 1,
                 decoders || is_kept ? "" : ", or set input.source = cached to read every shard once");
}

void verdict_write(char *text, size_t text_size, uint64_t steps, const struct fractions *fractions,
                   const struct loader_counts *loader, uint64_t wall_ns, const struct run_plan *plan,
                   const struct settings *settings)
{
    const double wait = fractions->input_wait + fractions->exposed_copy;
    const double compute = fractions->forward + fractions->backward + fractions->update;
    if (!plan->devices.backend->computes)
        snprintf(text, text_size, "nothing was computed: the loader alone set the pace");
    else if (steps < VERDICT_STEPS || compute <= 0)
        snprintf(text, text_size, "too few steps to tell what limits: it takes %u", VERDICT_STEPS);
    else if (wait > VERDICT_INPUT_WAIT && settings->input.source == INPUT_SYNTHETIC)
        snprintf(text, text_size, "towers waited %.1f %% of their time for slots: raise input.staging_depth (now %lld)",
                 100 * wait, (long long)settings->input.staging_depth);
    else if (wait > VERDICT_INPUT_WAIT)
        input_verdict(text, text_size, wait, loader, wall_ns, plan, settings);
    else if (fractions->exposed_reduction > VERDICT_REDUCTION)
        snprintf(text, text_size,
                 "reduction limits (towers waited %.1f %% of their time): use fewer towers with more threads each, a "
                 "larger batch, or another sync.bucket (now %s)",
                 100 * fractions->exposed_reduction, number_bytes(plan->bucket_bytes).text);
    else
        snprintf(text, text_size,
                 "compute limits (towers computed %.1f %% of their time, waited %.1f %% for input): the feed keeps up",
                 100 * compute, 100 * wait);
}
