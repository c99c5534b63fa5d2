/* What was decided before the first step, where the settings leave it to the program. */
#include "tools/run/summary/summary_plan.h"

#include "tools/config/towers/settings_sync.h"

/* In the order of the pipeline, as the plan is printed. */
static const char *const purpose_keys[MEMORY_PURPOSE_COUNT] = {
    [MEMORY_BATCHES] = "batches",
    [MEMORY_LOADER] = "loader",
    [MEMORY_IMAGES] = "large_images",
    [MEMORY_SLOTS] = "slots",
    [MEMORY_ARENAS] = "weights_and_states",
    [MEMORY_VALUES] = "activations",
    [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_WEIGHT_COPIES] = "copies_of_weights",
    [MEMORY_SNAPSHOTS] = "snapshots",
    [MEMORY_REDUCTION] = "reduction",
    [MEMORY_RESULTS] = "results",
    [MEMORY_TRACE] = "trace",
};

static uint64_t purpose_bytes(const struct memory_plan *plan, enum memory_purpose purpose)
{
    uint64_t bytes = plan->host.bytes[purpose];
    for (uint32_t device = 0; device < plan->device_count; device++)
        bytes += plan->devices[device].bytes[purpose];
    return bytes;
}

void summary_plan_write(const struct run_plan *plan, const struct settings *settings, struct json *json)
{
    json_open_object(json, "plan");
    json_u64(json, "steps_per_epoch", schedule_steps_per_epoch(&plan->schedule));
    json_u64(json, "steps", schedule_step_count(&plan->schedule));
    json_u64(json, "threads_per_tower", plan->threads_per_tower);
    json_u64(json, "cores", plan->cores);
    json_u64(json, "read_threads", plan->read_threads);
    json_u64(json, "decode_threads", plan->decode_threads);
    json_u64(json, "prefetch_depth", (uint64_t)settings->input.prefetch_depth);
    json_u64(json, "staging_depth", (uint64_t)settings->input.staging_depth);
    json_quoted(json, "mode", plan->devices.mode->name);
    json_quoted(json, "wire", settings_use_bf16_grads(settings) ? "bf16" : "fp32");
    json_open_object(json, "memory_bytes");
    for (int purpose = 0; purpose < MEMORY_PURPOSE_COUNT; purpose++)
        json_u64(json, purpose_keys[purpose], purpose_bytes(&plan->memory, (enum memory_purpose)purpose));
    json_close_object(json);
    json_close_object(json);
}
