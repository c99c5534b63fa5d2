/* The spec of a tower: the slices it meets, and how it computes. */
#include "tools/run/tower_plan.h"

#include "tools/config/towers/settings_sync.h"

/* The sizes of a full slice and of the last one of a pass become those of the pieces they are computed in. */
static void find_pieces(uint32_t full, uint32_t last, uint32_t piece_max, uint32_t counts[TOWER_COUNTS])
{
    const bool is_cut = piece_max > 0 && full > piece_max;
    counts[0] = is_cut ? piece_max : full;
    counts[1] = is_cut ? full % piece_max : 0;
    counts[2] = is_cut && last > piece_max ? last % piece_max : last;
}

/* What tower `tower` meets: full batches and the last one of a pass. */
static void find_counts(const struct schedule *schedule, uint32_t tower, struct tower_spec *spec)
{
    const uint64_t train_last = schedule_steps_per_epoch(schedule) - 1;
    const uint64_t steps = schedule_step_count(schedule);
    struct batch_slice full = { .count = 0 }, last = { .count = 0 };
    if (steps > 0)
        schedule_find(schedule, 0, tower, &full);
    if (train_last < steps)
        schedule_find(schedule, train_last, tower, &last);
    find_pieces(full.count, last.count, spec->piece_max, spec->train_counts);
    const uint64_t evaluations = schedule_batches_per_evaluation(schedule);
    if (evaluations == 0)
        return;
    const uint64_t first = schedule_batch_count(schedule) - evaluations;
    schedule_find(schedule, first, tower, &full);
    schedule_find(schedule, first + evaluations - 1, tower, &last);
    find_pieces(full.count, last.count, spec->piece_max, spec->evaluate_counts);
}

/* Measuring takes a second or two for ResNet-50, which a short run does not earn back. Without a folder to keep plans
 * in, another run of the same settings could find others the fastest, and compute other bits. */
#define STEPS_TO_MEASURE_FOR 5000u

static bool measures_plans(const struct run_plan *plan, const struct settings *settings)
{
    const bool is_worth_it = plan->devices.keeps_plans && plan->only_evaluated == 0 &&
                             schedule_step_count(&plan->schedule) >= STEPS_TO_MEASURE_FOR;
    return settings->devices.time_plans == PLAN_TIMES_AUTO ? is_worth_it
                                                           : settings->devices.time_plans == PLAN_TIMES_YES;
}

struct tower_spec tower_plan(const struct run_plan *plan, const struct settings *settings, uint32_t tower)
{
    const struct device_plan *const devices = &plan->devices;
    struct tower_spec spec = {
        .index = tower,
        .backend = devices->backend,
        .defers = devices->mode->defers,
        .has_bf16_grads = settings_use_bf16_grads(settings) && devices->backend->computes,
        .backend_spec = { .threads = plan->threads_per_tower,
                         .slice_max = plan->piece_max > 0 ? plan->piece_max : plan->layout.capacity,
                         .layout = settings->devices.layout,
                         .convolution = settings->devices.convolution,
                         .seed = (uint64_t)settings->run.seed,
                         .label_smoothing = (float)settings->train.label_smoothing,
                         .skips_nonfinite = settings->train.on_nan == ON_NAN_SKIP,
                         .allow_ref = settings->devices.allow_ref,
                         .precision = settings->devices.precision,
                         .graph = settings->devices.graph,
                         .device_towers = (devices->towers.count + devices->count - 1) / devices->count,
                         .workspace_max = (size_t)settings->devices.workspace,
                         .time_plans = measures_plans(plan, settings),
                         .plan_cache = devices->plan_cache[0] != '\0' ? devices->plan_cache : NULL },
        .piece_max = plan->piece_max,
        .optimizer = plan->optimizer,
        .average_decay = plan->only_evaluated > 0 ? 0 : settings->train.ema,
        .seed = (uint64_t)settings->run.seed,
        .evaluates_only = plan->only_evaluated > 0,
    };
    find_counts(&plan->schedule, tower, &spec);
    return spec;
}
