/* The table of all metrics, and values as JSON. */
#include "tools/lib/run/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The field of a row, and its type. */
#define FIELD(name) .offset = offsetof(struct metric_values, name), \
    .type = _Generic(((struct metric_values *)NULL)->name, uint32_t : METRIC_U32, uint64_t : METRIC_U64, \
                     double : METRIC_DOUBLE, bool : METRIC_BOOL)

#define IN_ROWS (IN_TRAIN | IN_VALIDATION | IN_EPOCH | IN_EPOCH_VALIDATION)
#define IN_FEED (IN_TRAIN | IN_PROGRESS | IN_TIME)

/* Members of the same JSON object follow each other. */
const struct metric metric_table[] = {
    /* ---- the process ---- */
    { NULL, FIELD(process.is_running), .prometheus = "running",
      .help = "1 while the run continues, 0 when it has ended." },
    { NULL, FIELD(process.updated), .prometheus = "last_update_seconds",
      .help = "When these numbers were written, in seconds since 1970." },
    { NULL, FIELD(process.planned_steps), .prometheus = "planned_steps",
      .help = "Training steps that the run will do." },
    { NULL, FIELD(process.step), .prometheus = "step",
      .help = "Training steps done, including those of earlier processes of the run." },
    { NULL, FIELD(process.epoch), .prometheus = "epoch",
      .help = "The epoch, counted from 1; 0 before the first row." },
    { NULL, FIELD(process.images), .prometheus = "images_total",
      .help = "Images that were trained on, also those that a resume repeats." },
    { NULL, FIELD(process.records_skipped), .prometheus = "records_skipped_total", .labels = "reason=\"corrupt\"",
      .counts_again = true, .help = "Records that are skipped; each damaged one is counted once." },
    { NULL, FIELD(process.read_seconds), .needs = NEEDS_LOADER, .prometheus = "stage_busy_seconds_total",
      .labels = "stage=\"read\"", .help = "Working time of the readers.",
      .family = "Working time, summed over threads or towers of the processes that wrote this file." },
    { NULL, FIELD(process.decode_seconds), .needs = NEEDS_LOADER, .prometheus = "stage_busy_seconds_total",
      .labels = "stage=\"decode\"", .help = "Working time of the decoders." },
    { NULL, FIELD(process.forward_seconds), .prometheus = "stage_busy_seconds_total", .labels = "stage=\"forward\"",
      .help = "The towers' time in forward passes." },
    { NULL, FIELD(process.backward_seconds), .prometheus = "stage_busy_seconds_total", .labels = "stage=\"backward\"",
      .help = "The towers' time in backward passes." },
    { NULL, FIELD(process.update_seconds), .prometheus = "stage_busy_seconds_total", .labels = "stage=\"update\"",
      .help = "The towers' time in updates of the weights." },
    { NULL, FIELD(process.input_wait_seconds), .prometheus = "input_wait_seconds_total",
      .help = "Time that towers of the processes that wrote this file waited for input." },
    { NULL, FIELD(process.checkpoint_failures), .prometheus = "checkpoint_failures_total",
      .help = "Checkpoints that could not be saved." },
    { NULL, FIELD(process.checkpoint_seconds), .needs = NEEDS_CHECKPOINT, .prometheus = "checkpoint_seconds",
      .help = "Time to save the latest checkpoint, in parallel with training." },

    /* ---- what was trained and learned ---- */
    { "steps", IN_SPEED, FIELD(run.steps), .help = "Training steps done." },
    { "epochs", IN_SPEED, FIELD(run.epochs), .help = "Training steps done / those of an epoch." },
    { "images", IN_ROWS | IN_SPEED, FIELD(images), .help = "Images that were trained on or evaluated." },
    { "loss", IN_ROWS | IN_LEARNED, FIELD(loss), .prometheus = "loss", .tag = "loss", .compared = "loss",
      .help = "Mean loss since the row before, or of the last evaluation." },
    { "accuracy", IN_ROWS, FIELD(accuracy), .prometheus = "accuracy", .labels = "k=\"1\"", .tag = "accuracy/top1",
      .help = "Share of images classified correctly since the row before, or in the last evaluation." },
    { "validation.images", IN_LEARNED, FIELD(run.validation.images), .help = "Images of the last evaluation." },
    { "validation.correct", IN_LEARNED, FIELD(run.validation.correct),
      .help = "Images classified correctly in the last evaluation." },
    { "validation.accuracy", IN_LEARNED, FIELD(run.validation.accuracy), .compared = "validation_accuracy",
      .help = "Share of images classified correctly in the last evaluation." },
    { "validation.loss", IN_LEARNED, FIELD(run.validation.loss), .compared = "validation_loss",
      .help = "Mean loss of the last evaluation." },
    { "validation.complete", IN_LEARNED, FIELD(run.validation.is_complete),
      .help = "Whether the last evaluation included all records." },
    { "best.accuracy", IN_LEARNED, FIELD(run.best.accuracy), .needs = NEEDS_EVALUATION,
      .help = "Accuracy of the best complete evaluation." },
    { "best.correct", IN_LEARNED, FIELD(run.best.correct), .needs = NEEDS_EVALUATION,
      .help = "Images classified correctly in the best evaluation." },
    { "best.step", IN_LEARNED, FIELD(run.best.step), .needs = NEEDS_EVALUATION,
      .help = "Training steps done before the best evaluation." },

    /* ---- speed ---- */
    { "seconds", IN_ROWS | IN_SPEED, FIELD(seconds), .help = "Time of training, or of the evaluation." },
    { "images_per_second", IN_ROWS | IN_SPEED, FIELD(images_per_second), .prometheus = "images_per_second",
      .tag = "perf/images_per_sec", .compared = "images_per_second",
      .help = "Speed since the row before, or of the last evaluation." },
    { "mean_images_per_second", IN_SPEED, FIELD(run.mean_images_per_second),
      .help = "Speed of the whole run, with warm-up." },
    { "warmup_steps", IN_SPEED, FIELD(run.warmup_steps), .help = "First steps, which speeds and times leave out." },
    { "speed.mean", IN_SPEED, FIELD(run.speed.mean), .compared = "mean", .help = "Speed after warm-up." },
    { "speed.uncertainty", IN_SPEED, FIELD(run.speed.uncertainty), .compared = "uncertainty",
      .help = "Standard error of the speed." },
    { "speed.jitter", IN_SPEED, FIELD(run.speed.jitter), .compared = "jitter",
      .help = "1.4826 times the median distance of the steps' speeds from their median." },
    { "step_ms.p50", IN_SPEED, FIELD(run.step.p50_ms), .compared = "step_p50_ms", .help = "Median time of a step." },
    { "step_ms.p90", IN_SPEED, FIELD(run.step.p90_ms), .compared = "step_p90_ms",
      .help = "90th percentile of the time of a step." },
    { "step_ms.p99", IN_SPEED, FIELD(run.step.p99_ms), .compared = "step_p99_ms",
      .help = "99th percentile of the time of a step." },
    { "start_to_first_step_seconds", IN_TIME, FIELD(run.start_to_first_step_seconds),
      .help = "From the start of the process to the end of its first step." },
    { "correct", IN_VALIDATION, FIELD(correct), .help = "Images classified correctly in the evaluation." },
    { "skipped_steps", IN_TRAIN | IN_FAULTS, FIELD(skipped_steps), .needs = NEEDS_SKIPPING,
      .help = "Steps that were skipped, because gradients were not finite." },
    { "learning_rate", IN_TRAIN | IN_EPOCH, FIELD(learning_rate), .prometheus = "learning_rate", .tag = "lr",
      .help = "Of the latest training step." },
    { "gradient_norm", IN_TRAIN, FIELD(gradient_norm), .needs = NEEDS_CLIPPING, .tag = "grad_norm",
      .help = "Norm of the mean gradients of the latest training step, before it is limited." },
    { NULL, IN_TRAIN, FIELD(epoch), .tag = "epoch", .help = "The epoch, counted from 1." },
    { NULL, IN_TRAIN, FIELD(step_seconds), .prometheus = "step_seconds",
      .help = "Mean time of a training step since the row before." },
    { NULL, IN_TRAIN, FIELD(step_ms), .tag = "perf/step_ms", .help = "Mean time of a training step." },
    { NULL, IN_TRAIN, FIELD(input_wait_ms), .tag = "perf/input_wait_ms",
      .help = "Mean time that a tower waits for input in a training step." },

    /* ---- where the towers' time went ---- */
    { "fractions.input_wait", IN_TRAIN | IN_TIME, FIELD(share.input_wait), .prometheus = "tower_time_ratio",
      .labels = "part=\"input_wait\"", .tag = "time/input_wait", .compared = "input_wait",
      .help = "Waiting for a batch.", .family = "Where the towers' time went since the row before; sums to 1." },
    { "fractions.exposed_copy", IN_TRAIN | IN_TIME, FIELD(share.exposed_copy), .prometheus = "tower_time_ratio",
      .labels = "part=\"exposed_copy\"", .tag = "time/exposed_copy", .compared = "exposed_copy",
      .help = "Waiting for the copy of a batch to the device." },
    { "fractions.forward", IN_TRAIN | IN_TIME, FIELD(share.forward), .prometheus = "tower_time_ratio",
      .labels = "part=\"forward\"", .tag = "time/forward", .compared = "forward", .help = "Forward passes." },
    { "fractions.backward", IN_TRAIN | IN_TIME, FIELD(share.backward), .prometheus = "tower_time_ratio",
      .labels = "part=\"backward\"", .tag = "time/backward", .compared = "backward", .help = "Backward passes." },
    { "fractions.exposed_reduction", IN_TRAIN | IN_TIME, FIELD(share.exposed_reduction),
      .prometheus = "tower_time_ratio", .labels = "part=\"exposed_reduction\"", .tag = "time/exposed_reduction",
      .compared = "exposed_reduction", .help = "Waiting for other towers." },
    { "fractions.update", IN_TRAIN | IN_TIME, FIELD(share.update), .prometheus = "tower_time_ratio",
      .labels = "part=\"update\"", .tag = "time/update", .compared = "update", .help = "Updates of the weights." },
    { "fractions.other", IN_TRAIN | IN_TIME, FIELD(share.other), .prometheus = "tower_time_ratio",
      .labels = "part=\"other\"", .tag = "time/other", .help = "The rest." },
    { "explained", IN_TIME, FIELD(run.explained),
      .help = "The towers' time by their own clocks / the time by the host's clock." },

    /* ---- input ---- */
    { "queues.ring.depth", IN_FEED, FIELD(feed.ring.depth), .needs = NEEDS_LOADER,
      .help = "Batches that the queue on the host has room for." },
    { "queues.ring.least", IN_FEED, FIELD(feed.ring.fill.least), .needs = NEEDS_LOADER,
      .prometheus = "queue_depth_least", .labels = "queue=\"ring\"",
      .help = "Fewest batches in the queue on the host.",
      .family = "Fewest batches in the queue since the row before." },
    { "queues.ring.median", IN_FEED, FIELD(feed.ring.fill.median), .needs = NEEDS_LOADER,
      .help = "Batches in the queue on the host, median." },
    { "queues.ring.mean", IN_FEED, FIELD(feed.ring.fill.mean), .needs = NEEDS_LOADER, .prometheus = "queue_depth",
      .labels = "queue=\"ring\"", .tag = "feed/ring", .help = "Batches in the queue on the host, on average.",
      .family = "Batches in a tower's queue, on average since the row before: on the host, on the device." },
    { "queues.ring.empty", IN_FEED, FIELD(feed.ring.fill.empty), .needs = NEEDS_LOADER,
      .prometheus = "queue_empty_ratio", .labels = "queue=\"ring\"", .tag = "feed/ring_empty",
      .help = "Share of takes that found the queue on the host empty.",
      .family = "Share of takes that found the queue empty." },
    { "queues.slots.depth", IN_FEED, FIELD(feed.slots.depth),
      .help = "Batches that the queue on the device has room for." },
    { "queues.slots.least", IN_FEED, FIELD(feed.slots.fill.least), .prometheus = "queue_depth_least",
      .labels = "queue=\"slots\"", .help = "Fewest batches in the queue on the device." },
    { "queues.slots.median", IN_FEED, FIELD(feed.slots.fill.median),
      .help = "Batches in the queue on the device, median." },
    { "queues.slots.mean", IN_FEED, FIELD(feed.slots.fill.mean), .prometheus = "queue_depth",
      .labels = "queue=\"slots\"", .tag = "feed/slots", .help = "Batches in the queue on the device, on average." },
    { "queues.slots.empty", IN_FEED, FIELD(feed.slots.fill.empty), .prometheus = "queue_empty_ratio",
      .labels = "queue=\"slots\"", .tag = "feed/slots_empty",
      .help = "Share of takes that found the queue on the device empty." },
    { "loader_busy.readers", IN_FEED, FIELD(feed.busy.readers), .needs = NEEDS_LOADER,
      .prometheus = "loader_busy_ratio", .labels = "stage=\"read\"", .tag = "feed/readers_busy",
      .help = "Share of time that the readers were busy.",
      .family = "Share of time since the row before that the threads were busy." },
    { "loader_busy.decoders", IN_FEED, FIELD(feed.busy.decoders), .needs = NEEDS_LOADER,
      .prometheus = "loader_busy_ratio", .labels = "stage=\"decode\"", .tag = "feed/decoders_busy",
      .help = "Share of time that the decoders were busy." },
    { "reading_computed", IN_TIME, FIELD(run.reading_computed), .needs = NEEDS_LOADER,
      .help = "CPU time of the readers / their busy time; the rest they waited for files." },
    { "decoding_computed", IN_TIME, FIELD(run.decoding_computed), .needs = NEEDS_LOADER,
      .help = "CPU time of the decoders / their busy time; the rest they waited for cores." },

    /* ---- the machine, faults ---- */
    { "cores.own", IN_COSTS, FIELD(run.cores.own), .help = "Share of the cores' time that the run used." },
    { "cores.others", IN_COSTS, FIELD(run.cores.others), .compared = "others",
      .help = "Share of the cores' time that other programs used." },
    { "cores.stolen", IN_COSTS, FIELD(run.cores.stolen), .compared = "stolen",
      .help = "Share of the cores' time that the host of a virtual machine gave to others." },
    { "cores.throttled", IN_COSTS, FIELD(run.cores.throttled),
      .help = "Share of the periods in which the CPU quota of the control group was used up." },
    { "copy.seconds", IN_COSTS, FIELD(run.copy.seconds), .help = "Time of the copies of batches to the devices." },
    { "copy.hidden", IN_COSTS, FIELD(run.copy.hidden), .help = "Share of that time that no tower waited for." },
    { "rollbacks", IN_FAULTS, FIELD(run.rollbacks), .needs = NEEDS_ROLLBACKS,
      .help = "How often the run went back to a checkpoint." },
    { "decoder_warnings", IN_FAULTS, FIELD(run.decoder_warnings),
      .help = "Images whose errors the decoder tolerated." },
    { "corrupt_records", IN_FAULTS, FIELD(run.corrupt_records), .help = "Damaged records that were skipped." },
    { "memory.planned_bytes", IN_MEMORY, FIELD(run.planned_bytes), .help = "Host memory that was planned." },
    { "memory.peak_rss_bytes", IN_MEMORY, FIELD(run.peak_rss_bytes), .help = "Peak memory of the process." },
    { .help = NULL },
};

_Static_assert(sizeof(metric_table) / sizeof(*metric_table) <= METRICS_MAX, "METRICS_MAX");

unsigned metric_needs_met(const struct settings *settings)
{
    return (settings->input.source != INPUT_SYNTHETIC ? NEEDS_LOADER : 0) |
           (settings->train.on_nan == ON_NAN_SKIP ? NEEDS_SKIPPING : 0) |
           (settings->train.clip_norm > 0 ? NEEDS_CLIPPING : 0);
}

static const void *field_of(const struct metric *metric, const struct metric_values *values)
{
    return (const char *)values + metric->offset;
}

static double count_value(uint64_t count)
{
    return count != METRIC_UNKNOWN ? (double)count : NAN;
}

double metric_get(const struct metric *metric, const struct metric_values *values)
{
    const void *const field = field_of(metric, values);
    switch (metric->type) {
    case METRIC_U32: return *(const uint32_t *)field;
    case METRIC_U64: return count_value(*(const uint64_t *)field);
    case METRIC_BOOL: return *(const bool *)field;
    default: return *(const double *)field;
    }
}

void metric_set(const struct metric *metric, struct metric_values *values, double value)
{
    void *const field = (char *)values + metric->offset;
    const double count = value > 0 ? value : 0;
    switch (metric->type) {
    case METRIC_U32: *(uint32_t *)field = (uint32_t)count; break;
    case METRIC_U64: *(uint64_t *)field = (uint64_t)count; break;
    case METRIC_BOOL: *(bool *)field = count != 0; break;
    default: *(double *)field = value;
    }
}

/* ---- JSON ---- */

static void write_value(const struct metric *metric, const struct metric_values *values, const char *key,
                        struct json *json)
{
    const void *const field = field_of(metric, values);
    const double value = metric_get(metric, values);
    if (isnan(value))
        json_double(json, key, NAN);
    else if (metric->type == METRIC_U32)
        json_u64(json, key, *(const uint32_t *)field);
    else if (metric->type == METRIC_U64)
        json_u64(json, key, *(const uint64_t *)field);
    else if (metric->type == METRIC_BOOL)
        json_bool(json, key, *(const bool *)field);
    else
        json_double(json, key, value);
}

/* The objects that the values of both paths are in, in bytes: 7 for "queues.ring.mean" and "queues.slots.mean". */
static size_t shared_bytes(const char *path, const char *other)
{
    size_t bytes = 0;
    for (size_t i = 0; path[i] != '\0' && path[i] == other[i]; i++)
        if (path[i] == '.')
            bytes = i + 1;
    return bytes;
}

/* Close the objects of the path before that the next one is not in, and open its own. Returns its last part. */
static const char *enter_objects(const char *before, const char *path, struct json *json)
{
    const size_t shared = shared_bytes(before, path);
    const char *part = path + shared;
    for (const char *dot = before + shared; (dot = strchr(dot, '.')) != NULL; dot++)
        json_close_object(json);
    for (const char *dot; (dot = strchr(part, '.')) != NULL; part = dot + 1) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)(dot - part), part);
        json_open_object(json, name);
    }
    return part;
}

void metrics_write(const struct metric_values *values, enum metric_place place, struct json *json)
{
    const char *path = "";
    for (const struct metric *metric = metric_table; metric->help != NULL; metric++) {
        if (metric->path == NULL || (metric->places & place) == 0 || !metric_is_given(metric, values))
            continue;
        write_value(metric, values, enter_objects(path, metric->path, json), json);
        path = metric->path;
    }
    enter_objects(path, "", json);
}
