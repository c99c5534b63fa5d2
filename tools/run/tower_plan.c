/* The spec of a tower: the slices it meets, and how it computes. */
#include "tools/run/tower_plan.h"

/* The slice sizes tower `tower` meets: in full batches and in the last one of a pass. */
static void find_counts(const struct schedule *schedule, uint32_t tower, struct tower_spec *spec)
{
    const uint64_t train_last = schedule_steps_per_epoch(schedule) - 1;
    const uint64_t steps = schedule_step_count(schedule);
    struct span span;
    if (steps > 0 && schedule_find(schedule, 0, tower, &span) == 0)
        spec->train_counts[0] = span.count;
    if (train_last < steps && schedule_find(schedule, train_last, tower, &span) == 0)
        spec->train_counts[1] = span.count;
    const uint64_t evaluations = schedule_batches_per_evaluation(schedule);
    if (evaluations == 0)
        return;
    const uint64_t first = schedule_batch_count(schedule) - evaluations;
    if (schedule_find(schedule, first, tower, &span) == 0)
        spec->evaluate_counts[0] = span.count;
    if (schedule_find(schedule, first + evaluations - 1, tower, &span) == 0)
        spec->evaluate_counts[1] = span.count;
}

struct tower_spec tower_plan(const struct run_plan *plan, const struct settings *settings, uint32_t tower)
{
    const struct device_plan *const devices = &plan->devices;
    struct tower_spec spec = {
        .index = tower,
        .backend = devices->backend,
        .backend_spec = { .threads = plan->threads_per_tower,
                         .slice_max = plan->layout.capacity,
                         .layout = settings->devices.layout,
                         .convolution = settings->devices.convolution,
                         .seed = (uint64_t)settings->run.seed,
                         .label_smoothing = (float)settings->train.label_smoothing,
                         .allow_ref = settings->devices.allow_ref,
                         .precision = settings->devices.precision,
                         .graph = settings->devices.graph,
                         .device_towers = (devices->towers.count + devices->count - 1) / devices->count,
                         .workspace_max = (size_t)settings->devices.workspace,
                         .time_plans = settings->devices.time_plans,
                         .plan_cache = devices->plan_cache[0] != '\0' ? devices->plan_cache : NULL },
        .optimizer = plan->optimizer,
        .seed = (uint64_t)settings->run.seed,
        .evaluates_only = plan->only_evaluated > 0,
    };
    find_counts(&plan->schedule, tower, &spec);
    return spec;
}
