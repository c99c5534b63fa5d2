/* A row for each value of struct trial_result. */
#include "tools/trial/trial_summary.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct trial_result, name)
#define LEVELS_MAX 4

struct place { const char *keys[LEVELS_MAX]; size_t offset; };

static const struct place numbers[] = {
    { { "seconds" }, FIELD(seconds) },
    { { "start_to_first_step_seconds" }, FIELD(start_seconds) },
    { { "images_per_second" }, FIELD(images_per_second) },
    { { "mean_images_per_second" }, FIELD(mean_images_per_second) },
    { { "speed", "mean" }, FIELD(speed.mean) },
    { { "speed", "uncertainty" }, FIELD(speed.uncertainty) },
    { { "speed", "jitter" }, FIELD(speed.jitter) },
    { { "step_ms", "p50" }, FIELD(step.p50_ms) },
    { { "step_ms", "p90" }, FIELD(step.p90_ms) },
    { { "step_ms", "p99" }, FIELD(step.p99_ms) },
    { { "fractions", "input_wait" }, FIELD(fractions.input_wait) },
    { { "fractions", "exposed_copy" }, FIELD(fractions.exposed_copy) },
    { { "fractions", "forward" }, FIELD(fractions.forward) },
    { { "fractions", "backward" }, FIELD(fractions.backward) },
    { { "fractions", "exposed_reduction" }, FIELD(fractions.exposed_reduction) },
    { { "fractions", "update" }, FIELD(fractions.update) },
    { { "fractions", "other" }, FIELD(fractions.other) },
    { { "queues", "ring", "depth" }, FIELD(ring.depth) },
    { { "queues", "ring", "least" }, FIELD(ring.least) },
    { { "queues", "ring", "median" }, FIELD(ring.median) },
    { { "queues", "ring", "mean" }, FIELD(ring.mean) },
    { { "queues", "ring", "empty" }, FIELD(ring.empty) },
    { { "queues", "slots", "depth" }, FIELD(slots.depth) },
    { { "queues", "slots", "least" }, FIELD(slots.least) },
    { { "queues", "slots", "median" }, FIELD(slots.median) },
    { { "queues", "slots", "mean" }, FIELD(slots.mean) },
    { { "queues", "slots", "empty" }, FIELD(slots.empty) },
    { { "loader_busy", "readers" }, FIELD(readers_busy) },
    { { "loader_busy", "decoders" }, FIELD(decoders_busy) },
    { { "copy", "hidden" }, FIELD(copy_hidden) },
    { { "cores", "others" }, FIELD(others) },
    { { "cores", "stolen" }, FIELD(stolen) },
    { { "reading_computed" }, FIELD(reading_computed) },
    { { "decoding_computed" }, FIELD(decoding_computed) },
    { { "loss" }, FIELD(loss) },
    { { "validation", "accuracy" }, FIELD(validation_accuracy) },
    { { "validation", "loss" }, FIELD(validation_loss) },
};
static const struct place counts[] = {
    { { "towers" }, FIELD(towers) },
    { { "batch" }, FIELD(batch) },
    { { "steps" }, FIELD(steps) },
    { { "images" }, FIELD(images) },
    { { "warmup_steps" }, FIELD(warmup_steps) },
    { { "validation", "images" }, FIELD(validation_images) },
    { { "memory", "planned_bytes" }, FIELD(planned_bytes) },
    { { "memory", "peak_rss_bytes" }, FIELD(peak_bytes) },
    { { "corrupt_records" }, FIELD(corrupt_records) },
    { { "plan", "cores" }, FIELD(cores) },
    { { "plan", "threads_per_tower" }, FIELD(threads_per_tower) },
    { { "plan", "read_threads" }, FIELD(read_threads) },
    { { "plan", "decode_threads" }, FIELD(decode_threads) },
    { { "plan", "prefetch_depth" }, FIELD(prefetch_depth) },
    { { "plan", "staging_depth" }, FIELD(staging_depth) },
    { { "plan", "memory_bytes", "batches" }, FIELD(ring_bytes) },
    { { "plan", "memory_bytes", "slots" }, FIELD(slots_bytes) },
    { { "data", "train", "first_image", "height" }, FIELD(stored_height) },
    { { "data", "train", "first_image", "width" }, FIELD(stored_width) },
    { { "data", "train", "first_image", "taken_height" }, FIELD(taken_height) },
    { { "data", "train", "first_image", "taken_width" }, FIELD(taken_width) },
};

static const json_t *find(const json_t *value, const struct place *place)
{
    for (size_t i = 0; i < LEVELS_MAX && place->keys[i] != NULL; i++)
        value = json_object_get(value, place->keys[i]);
    return value;
}

/* What is not finite is null. */
static bool is_number(const json_t *value)
{
    return value != NULL && (json_typeof(value) == JSON_REAL || json_typeof(value) == JSON_INTEGER);
}

static void *field(struct trial_result *result, const struct place *place)
{
    return (char *)result + place->offset;
}

static void take_text(const json_t *summary, const char *key, char *out, size_t out_size)
{
    const char *const text = json_string_value(json_object_get(summary, key));
    snprintf(out, out_size, "%s", text != NULL ? text : "");
}

static void take_all(const json_t *summary, struct trial_result *result)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const json_t *const value = find(summary, &numbers[i]);
        *(double *)field(result, &numbers[i]) = is_number(value) ? json_number_value(value) : NAN;
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        *(uint64_t *)field(result, &counts[i]) = (uint64_t)json_integer_value(find(summary, &counts[i]));
    const json_t *const synthetic = json_object_get(summary, "synthetic");
    result->is_synthetic = synthetic != NULL && json_typeof(synthetic) == JSON_TRUE;
    take_text(summary, "ended", result->ended, sizeof(result->ended));
    take_text(summary, "device", result->device, sizeof(result->device));
    take_text(summary, "verdict", result->verdict, sizeof(result->verdict));
}

int trial_summary_read(const char *path, struct trial_result *result_out)
{
    *result_out = (struct trial_result){ 0 };
    if (access(path, F_OK) != 0)
        return -ENODATA;
    json_t *const summary = json_load_file(path, 0, NULL);
    const int rc = summary != NULL && json_typeof(summary) == JSON_OBJECT ? 0 : -EBADMSG;
    if (rc == 0)
        take_all(summary, result_out);
    json_decref(summary);
    return rc;
}
