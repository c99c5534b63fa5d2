/* The table of all metrics, and values as JSON. */
#include "tools/lib/run/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The field of struct metric_values, and its type. */
#define FIELD(name) .offset = offsetof(struct metric_values, name), \
    .type = _Generic(((struct metric_values *)NULL)->name, uint32_t : METRIC_U32, uint64_t : METRIC_U64, \
                     double : METRIC_DOUBLE, bool : METRIC_BOOL)

#define IN_ROWS (IN_TRAIN | IN_VALIDATION | IN_EPOCH | IN_EPOCH_VALIDATION)
#define IN_EVALUATION (IN_VALIDATION | IN_EPOCH_VALIDATION)
#define IN_FEED (IN_TRAIN | IN_PROGRESS | IN_TIME)

/* Rows for members of one JSON object are consecutive. */
const struct metric metric_table[] = {
    /* ---- the process ---- */
    { NULL, FIELD(process.is_running), .unit = UNIT_YES_NO, .prometheus = "running",
      .help = "1 while the run continues, 0 when it has ended." },
    { NULL, FIELD(process.updated), .unit = UNIT_SECONDS, .prometheus = "last_update_seconds",
      .help = "When these numbers were written, in seconds since 1970." },
    { NULL, FIELD(process.planned_steps), .unit = UNIT_COUNT, .prometheus = "planned_steps",
      .help = "Training steps that the run will do." },
    { NULL, FIELD(process.step), .unit = UNIT_COUNT, .prometheus = "step",
      .help = "Training steps done, including those of earlier processes of the run." },
    { NULL, FIELD(process.epoch), .unit = UNIT_COUNT, .prometheus = "epoch",
      .help = "The epoch, counted from 1; 0 before the first row." },
    { NULL, FIELD(process.images), .unit = UNIT_COUNT, .prometheus = "images_total",
      .help = "Images that were trained on, also those that a resume repeats." },
    { NULL, FIELD(process.records_skipped), .unit = UNIT_COUNT, .prometheus = "records_skipped_total",
      .labels = "reason=\"corrupt\"", .counts_again = true,
      .help = "Records that are skipped; each damaged one is counted once." },
    { NULL, FIELD(process.read_seconds), .unit = UNIT_SECONDS, .needs = NEEDS_LOADER,
      .prometheus = "stage_busy_seconds_total", .labels = "stage=\"read\"",
      .help = "Working time of the readers.",
      .family = "Working time, summed over threads or towers of the processes that wrote this file." },
    { NULL, FIELD(process.decode_seconds), .unit = UNIT_SECONDS, .needs = NEEDS_LOADER,
      .prometheus = "stage_busy_seconds_total", .labels = "stage=\"decode\"",
      .help = "Working time of the decoders." },
    { NULL, FIELD(process.forward_seconds), .unit = UNIT_SECONDS, .prometheus = "stage_busy_seconds_total",
      .labels = "stage=\"forward\"",
      .help = "The towers' time in forward passes." },
    { NULL, FIELD(process.backward_seconds), .unit = UNIT_SECONDS, .prometheus = "stage_busy_seconds_total",
      .labels = "stage=\"backward\"",
      .help = "The towers' time in backward passes." },
    { NULL, FIELD(process.update_seconds), .unit = UNIT_SECONDS, .prometheus = "stage_busy_seconds_total",
      .labels = "stage=\"update\"",
      .help = "The towers' time in updates of the weights." },
    { NULL, FIELD(process.input_wait_seconds), .unit = UNIT_SECONDS, .prometheus = "input_wait_seconds_total",
      .help = "Time that towers of the processes that wrote this file waited for input." },
    { NULL, FIELD(process.checkpoint_failures), .unit = UNIT_COUNT, .prometheus = "checkpoint_failures_total",
      .help = "Checkpoints that could not be saved." },
    { NULL, FIELD(process.checkpoint_seconds), .unit = UNIT_SECONDS, .needs = NEEDS_CHECKPOINT,
      .prometheus = "checkpoint_seconds",
      .help = "Time to save the latest checkpoint, in parallel with training." },
    { NULL, FIELD(process.cost_seconds), .unit = UNIT_SECONDS, .prometheus = "cost_seconds_total", .counts_again = true,
      .help = "Time that the run has taken, from the start of its processes on." },
    { NULL, FIELD(process.cost_money), .unit = UNIT_MONEY, .needs = NEEDS_PRICE, .prometheus = "cost_money_total",
      .counts_again = true,
      .help = "What the run has cost so far, in the currency that the label of pipetrain_info names." },
    { NULL, FIELD(process.cost_joules), .unit = UNIT_NUMBER, .needs = NEEDS_ENERGY, .prometheus = "cost_joules_total",
      .counts_again = true,
      .help = "Energy that was measured during the run." },

    { NULL, FIELD(process.last_rank.number), .unit = UNIT_COUNT, .needs = NEEDS_RANKS, .prometheus = "rank_last",
      .help = "The rank for which the others waited longest in all." },
    { NULL, FIELD(process.last_rank.share), .unit = UNIT_SHARE, .needs = NEEDS_RANKS, .prometheus = "rank_last_share",
      .help = "Share of the steps in which that rank was last at the sums." },
    { NULL, FIELD(process.last_rank.behind_seconds), .unit = UNIT_SECONDS, .needs = NEEDS_RANKS,
      .prometheus = "rank_last_behind_seconds",
      .help = "How much later that rank was than the median of the others, mean over the steps." },

    /* ---- what was trained and learned ---- */
    { "steps", IN_SPEED, FIELD(run.steps), .unit = UNIT_COUNT, .label = "steps",
      .help = "Training steps done." },
    { "epochs", IN_SPEED, FIELD(run.epochs), .unit = UNIT_NUMBER, .label = "epochs",
      .help = "Training steps done / those of an epoch." },
    { "images", IN_ROWS | IN_SPEED, FIELD(images), .unit = UNIT_COUNT, .label = "images",
      .help = "Images that were trained on or evaluated." },
    { "loss", IN_ROWS | IN_LEARNED, FIELD(loss), .unit = UNIT_NUMBER, .prometheus = "loss", .tag = "loss",
      .compared = "loss", .label = "training loss", .is_headline = true, .chart = CHART_LOSS,
      .help = "Mean loss since the row before, or of the last evaluation." },
    { "accuracy", IN_ROWS, FIELD(accuracy), .unit = UNIT_SHARE, .prometheus = "accuracy", .labels = "k=\"1\"",
      .tag = "accuracy/top1", .chart = CHART_ACCURACY,
      .help = "Share of images classified correctly since the row before, or in the last evaluation." },
    { "balanced_accuracy", IN_EVALUATION, FIELD(measures.balanced_accuracy), .unit = UNIT_SHARE,
      .prometheus = "balanced_accuracy", .tag = "accuracy/balanced", .chart = CHART_CLASSES, .curve = "balanced accuracy",
      .help = "Mean recall of the classes in the last evaluation." },
    { "macro.precision", IN_EVALUATION, FIELD(measures.macro.precision), .unit = UNIT_SHARE, .prometheus = "precision",
      .labels = "average=\"macro\"", .tag = "classes/macro_precision",
      .help = "Precision in the last evaluation, mean over the classes.",
      .family = "Precision of the classes in the last evaluation, averaged." },
    { "macro.recall", IN_EVALUATION, FIELD(measures.macro.recall), .unit = UNIT_SHARE, .prometheus = "recall",
      .labels = "average=\"macro\"", .tag = "classes/macro_recall",
      .help = "Recall in the last evaluation, mean over the classes.",
      .family = "Recall of the classes in the last evaluation, averaged." },
    { "macro.f1", IN_EVALUATION, FIELD(measures.macro.f1), .unit = UNIT_SHARE, .prometheus = "f1",
      .labels = "average=\"macro\"", .tag = "classes/macro_f1", .chart = CHART_CLASSES, .curve = "macro F1",
      .is_faint = true,
      .help = "F1 in the last evaluation, mean over the classes.",
      .family = "F1 of the classes in the last evaluation, averaged." },
    { "weighted.precision", IN_EVALUATION, FIELD(measures.weighted.precision), .unit = UNIT_SHARE, .prometheus = "precision",
      .labels = "average=\"weighted\"", .tag = "classes/weighted_precision",
      .help = "Precision in the last evaluation, mean over the classes, weighted by their samples." },
    { "weighted.recall", IN_EVALUATION, FIELD(measures.weighted.recall), .unit = UNIT_SHARE, .prometheus = "recall",
      .labels = "average=\"weighted\"", .tag = "classes/weighted_recall",
      .help = "Recall in the last evaluation, mean over the classes, weighted by their samples." },
    { "weighted.f1", IN_EVALUATION, FIELD(measures.weighted.f1), .unit = UNIT_SHARE, .prometheus = "f1",
      .labels = "average=\"weighted\"", .tag = "classes/weighted_f1",
      .help = "F1 in the last evaluation, mean over the classes, weighted by their samples." },
    { "validation.images", IN_LEARNED, FIELD(run.validation.images), .unit = UNIT_COUNT, .label = "validation images",
      .help = "Images of the last evaluation." },
    { "validation.correct", IN_LEARNED, FIELD(run.validation.correct), .unit = UNIT_COUNT,
      .help = "Images classified correctly in the last evaluation." },
    { "validation.accuracy", IN_LEARNED, FIELD(run.validation.accuracy), .unit = UNIT_SHARE,
      .compared = "validation_accuracy", .label = "validation accuracy, last", .is_headline = true,
      .help = "Share of images classified correctly in the last evaluation." },
    { "validation.loss", IN_LEARNED, FIELD(run.validation.loss), .unit = UNIT_NUMBER, .compared = "validation_loss",
      .label = "validation loss",
      .help = "Mean loss of the last evaluation." },
    { "validation.complete", IN_LEARNED, FIELD(run.validation.is_complete), .unit = UNIT_YES_NO,
      .help = "Whether the last evaluation included all records." },
    { "validation.balanced_accuracy", IN_LEARNED, FIELD(run.validation.measures.balanced_accuracy), .unit = UNIT_SHARE,
      .compared = "validation_balanced_accuracy", .label = "balanced accuracy, last",
      .help = "Mean recall of the classes in the last evaluation." },
    { "validation.macro.precision", IN_LEARNED, FIELD(run.validation.measures.macro.precision), .unit = UNIT_SHARE,
      .compared = "validation_macro_precision", .label = "macro precision, last",
      .help = "Precision in the last evaluation, mean over the classes." },
    { "validation.macro.recall", IN_LEARNED, FIELD(run.validation.measures.macro.recall), .unit = UNIT_SHARE,
      .compared = "validation_macro_recall", .label = "macro recall, last",
      .help = "Recall in the last evaluation, mean over the classes." },
    { "validation.macro.f1", IN_LEARNED, FIELD(run.validation.measures.macro.f1), .unit = UNIT_SHARE,
      .compared = "validation_macro_f1", .label = "macro F1, last",
      .help = "F1 in the last evaluation, mean over the classes." },
    { "validation.weighted.precision", IN_LEARNED, FIELD(run.validation.measures.weighted.precision), .unit = UNIT_SHARE,
      .compared = "validation_weighted_precision", .label = "weighted precision, last",
      .help = "Precision in the last evaluation, mean over the classes, weighted by their samples." },
    { "validation.weighted.recall", IN_LEARNED, FIELD(run.validation.measures.weighted.recall), .unit = UNIT_SHARE,
      .compared = "validation_weighted_recall", .label = "weighted recall, last",
      .help = "Recall in the last evaluation, mean over the classes, weighted by their samples." },
    { "validation.weighted.f1", IN_LEARNED, FIELD(run.validation.measures.weighted.f1), .unit = UNIT_SHARE,
      .compared = "validation_weighted_f1", .label = "weighted F1, last",
      .help = "F1 in the last evaluation, mean over the classes, weighted by their samples." },
    { "best.accuracy", IN_LEARNED, FIELD(run.best.accuracy), .unit = UNIT_SHARE, .needs = NEEDS_EVALUATION,
      .label = "validation accuracy, best", .is_headline = true,
      .help = "Accuracy of the best complete evaluation." },
    { "best.value", IN_LEARNED, FIELD(run.best.value), .unit = UNIT_NUMBER, .needs = NEEDS_EVALUATION,
      .label = "train.best_by, best", .is_headline = true,
      .help = "Value in the best evaluation of what train.best_by names." },
    { "best.correct", IN_LEARNED, FIELD(run.best.correct), .unit = UNIT_COUNT, .needs = NEEDS_EVALUATION,
      .help = "Images classified correctly in the best evaluation." },
    { "best.step", IN_LEARNED, FIELD(run.best.step), .unit = UNIT_COUNT, .needs = NEEDS_EVALUATION,
      .label = "best at step",
      .help = "Training steps done before the best evaluation." },

    /* ---- speed ---- */
    { "seconds", IN_ROWS | IN_SPEED, FIELD(seconds), .unit = UNIT_SECONDS, .label = "training time",
      .is_headline = true,
      .help = "Time of training, or of the evaluation." },
    { "images_per_second", IN_ROWS | IN_SPEED, FIELD(images_per_second), .unit = UNIT_RATE,
      .prometheus = "images_per_second", .tag = "perf/images_per_sec", .compared = "images_per_second",
      .label = "images/s", .is_headline = true, .chart = CHART_SPEED,
      .help = "Speed since the row before, or of the last evaluation." },
    { "mean_images_per_second", IN_SPEED, FIELD(run.mean_images_per_second), .unit = UNIT_RATE,
      .label = "images/s, whole run", .is_headline = true,
      .help = "Speed of the whole run, with warm-up." },
    { "warmup_steps", IN_SPEED, FIELD(run.warmup_steps), .unit = UNIT_COUNT,
      .help = "First steps, which speeds and times leave out." },
    { "speed.mean", IN_SPEED, FIELD(run.speed.mean), .unit = UNIT_RATE, .compared = "mean",
      .help = "Speed after warm-up." },
    { "speed.uncertainty", IN_SPEED, FIELD(run.speed.uncertainty), .unit = UNIT_RATE, .compared = "uncertainty",
      .help = "Standard error of the speed." },
    { "speed.jitter", IN_SPEED, FIELD(run.speed.jitter), .unit = UNIT_RATE, .compared = "jitter",
      .help = "1.4826 times the median distance of the steps' speeds from their median." },
    { "step_ms.p50", IN_SPEED, FIELD(run.step.p50_ms), .unit = UNIT_MS, .compared = "step_p50_ms",
      .label = "step p50, ms", .is_headline = true,
      .help = "Median time of a step." },
    { "step_ms.p90", IN_SPEED, FIELD(run.step.p90_ms), .unit = UNIT_MS, .compared = "step_p90_ms",
      .label = "step p90, ms",
      .help = "90th percentile of the time of a step." },
    { "step_ms.p99", IN_SPEED, FIELD(run.step.p99_ms), .unit = UNIT_MS, .compared = "step_p99_ms",
      .label = "step p99, ms", .is_headline = true,
      .help = "99th percentile of the time of a step." },
    { "start_to_first_step_seconds", IN_TIME, FIELD(run.start_to_first_step_seconds), .unit = UNIT_SECONDS,
      .label = "first step after",
      .help = "From the start of the process to the end of its first step." },
    { "correct", IN_VALIDATION, FIELD(correct), .unit = UNIT_COUNT,
      .help = "Images classified correctly in the evaluation." },
    { "skipped_steps", IN_TRAIN | IN_FAULTS, FIELD(skipped_steps), .unit = UNIT_COUNT, .needs = NEEDS_SKIPPING,
      .label = "skipped steps",
      .help = "Steps that were skipped, because gradients were not finite." },
    { "learning_rate", IN_TRAIN | IN_EPOCH, FIELD(learning_rate), .unit = UNIT_NUMBER, .prometheus = "learning_rate",
      .tag = "lr", .chart = CHART_RATE,
      .help = "Of the latest training step." },
    { "gradient_norm", IN_TRAIN, FIELD(gradient_norm), .unit = UNIT_NUMBER, .needs = NEEDS_CLIPPING,
      .tag = "grad_norm",
      .help = "Norm of the mean gradients of the latest training step, before it is limited." },
    { NULL, IN_TRAIN, FIELD(epoch), .unit = UNIT_COUNT, .tag = "epoch",
      .help = "The epoch, counted from 1." },
    { NULL, IN_TRAIN, FIELD(step_seconds), .unit = UNIT_SECONDS, .prometheus = "step_seconds",
      .help = "Mean time of a training step since the row before." },
    { NULL, IN_TRAIN, FIELD(step_ms), .unit = UNIT_MS, .tag = "perf/step_ms",
      .help = "Mean time of a training step." },
    { NULL, IN_TRAIN, FIELD(input_wait_ms), .unit = UNIT_MS, .tag = "perf/input_wait_ms",
      .help = "Mean time that a tower waits for input in a training step." },

    /* ---- where the towers' time went ---- */
    { "fractions.input_wait", IN_TRAIN | IN_TIME, FIELD(share.input_wait), .unit = UNIT_SHARE,
      .prometheus = "tower_time_ratio", .labels = "part=\"input_wait\"", .tag = "time/input_wait",
      .compared = "input_wait", .label = "input wait", .chart = CHART_INPUT_WAIT,
      .help = "Waiting for a batch.", .family = "Where the towers' time went since the row before; sums to 1." },
    { "fractions.exposed_copy", IN_TRAIN | IN_TIME, FIELD(share.exposed_copy), .unit = UNIT_SHARE,
      .prometheus = "tower_time_ratio", .labels = "part=\"exposed_copy\"", .tag = "time/exposed_copy",
      .compared = "exposed_copy", .label = "exposed copy",
      .help = "Waiting for the copy of a batch to the device." },
    { "fractions.forward", IN_TRAIN | IN_TIME, FIELD(share.forward), .unit = UNIT_SHARE,
      .prometheus = "tower_time_ratio", .labels = "part=\"forward\"", .tag = "time/forward", .compared = "forward",
      .label = "time in forward",
      .help = "Forward passes." },
    { "fractions.backward", IN_TRAIN | IN_TIME, FIELD(share.backward), .unit = UNIT_SHARE,
      .prometheus = "tower_time_ratio", .labels = "part=\"backward\"", .tag = "time/backward", .compared = "backward",
      .label = "time in backward",
      .help = "Backward passes." },
    { "fractions.exposed_reduction", IN_TRAIN | IN_TIME, FIELD(share.exposed_reduction), .unit = UNIT_SHARE,
      .prometheus = "tower_time_ratio", .labels = "part=\"exposed_reduction\"", .tag = "time/exposed_reduction",
      .compared = "exposed_reduction", .label = "exposed reduction",
      .help = "Waiting for other towers." },
    { "fractions.exposed_exchange", IN_TRAIN | IN_TIME, FIELD(share.exposed_exchange), .unit = UNIT_SHARE,
      .prometheus = "tower_time_ratio", .labels = "part=\"exposed_exchange\"", .tag = "time/exposed_exchange",
      .compared = "exposed_exchange", .label = "exposed exchange",
      .help = "Waiting for what other towers have computed of the head (model.parts)." },
    { "fractions.update", IN_TRAIN | IN_TIME, FIELD(share.update), .unit = UNIT_SHARE,
      .prometheus = "tower_time_ratio", .labels = "part=\"update\"", .tag = "time/update", .compared = "update",
      .label = "time in update",
      .help = "Updates of the weights." },
    { "fractions.other", IN_TRAIN | IN_TIME, FIELD(share.other), .unit = UNIT_SHARE, .prometheus = "tower_time_ratio",
      .labels = "part=\"other\"", .tag = "time/other",
      .help = "The rest." },
    { "explained", IN_TIME, FIELD(run.explained), .unit = UNIT_SHARE,
      .help = "The towers' time by their own clocks / the time by the host's clock." },

    /* ---- input ---- */
    { "queues.ring.depth", IN_FEED, FIELD(feed.ring.depth), .unit = UNIT_COUNT, .needs = NEEDS_LOADER,
      .label = "host queue: depth",
      .help = "Batches that the queue on the host has room for." },
    { "queues.ring.least", IN_FEED, FIELD(feed.ring.fill.least), .unit = UNIT_COUNT, .needs = NEEDS_LOADER,
      .prometheus = "queue_depth_least", .labels = "queue=\"ring\"", .chart = CHART_RING, .curve = "least",
      .is_faint = true,
      .help = "Fewest batches in the queue on the host.",
      .family = "Fewest batches in the queue since the row before." },
    { "queues.ring.median", IN_FEED, FIELD(feed.ring.fill.median), .unit = UNIT_COUNT, .needs = NEEDS_LOADER,
      .help = "Batches in the queue on the host, median." },
    { "queues.ring.mean", IN_FEED, FIELD(feed.ring.fill.mean), .unit = UNIT_NUMBER, .needs = NEEDS_LOADER,
      .prometheus = "queue_depth", .labels = "queue=\"ring\"", .tag = "feed/ring",
      .label = "host queue: mean batches", .chart = CHART_RING, .curve = "mean",
      .help = "Batches in the queue on the host, on average.",
      .family = "Batches in a tower's queue, on average since the row before: on the host, on the device." },
    { "queues.ring.empty", IN_FEED, FIELD(feed.ring.fill.empty), .unit = UNIT_SHARE, .needs = NEEDS_LOADER,
      .prometheus = "queue_empty_ratio", .labels = "queue=\"ring\"", .tag = "feed/ring_empty",
      .label = "host queue: found empty",
      .help = "Share of takes that found the queue on the host empty.",
      .family = "Share of takes that found the queue empty." },
    { "queues.slots.depth", IN_FEED, FIELD(feed.slots.depth), .unit = UNIT_COUNT, .label = "device queue: depth",
      .help = "Batches that the queue on the device has room for." },
    { "queues.slots.least", IN_FEED, FIELD(feed.slots.fill.least), .unit = UNIT_COUNT,
      .prometheus = "queue_depth_least", .labels = "queue=\"slots\"", .chart = CHART_SLOTS, .curve = "least",
      .is_faint = true,
      .help = "Fewest batches in the queue on the device." },
    { "queues.slots.median", IN_FEED, FIELD(feed.slots.fill.median), .unit = UNIT_COUNT,
      .help = "Batches in the queue on the device, median." },
    { "queues.slots.mean", IN_FEED, FIELD(feed.slots.fill.mean), .unit = UNIT_NUMBER, .prometheus = "queue_depth",
      .labels = "queue=\"slots\"", .tag = "feed/slots", .label = "device queue: mean batches", .chart = CHART_SLOTS,
      .curve = "mean",
      .help = "Batches in the queue on the device, on average." },
    { "queues.slots.empty", IN_FEED, FIELD(feed.slots.fill.empty), .unit = UNIT_SHARE,
      .prometheus = "queue_empty_ratio", .labels = "queue=\"slots\"", .tag = "feed/slots_empty",
      .label = "device queue: found empty",
      .help = "Share of takes that found the queue on the device empty." },
    { "loader_busy.readers", IN_FEED, FIELD(feed.busy.readers), .unit = UNIT_SHARE, .needs = NEEDS_LOADER,
      .prometheus = "loader_busy_ratio", .labels = "stage=\"read\"", .tag = "feed/readers_busy",
      .label = "readers busy", .chart = CHART_LOADER, .curve = "readers", .is_faint = true,
      .help = "Share of time that the readers were busy.",
      .family = "Share of time since the row before that the threads were busy." },
    { "loader_busy.decoders", IN_FEED, FIELD(feed.busy.decoders), .unit = UNIT_SHARE, .needs = NEEDS_LOADER,
      .prometheus = "loader_busy_ratio", .labels = "stage=\"decode\"", .tag = "feed/decoders_busy",
      .label = "decoders busy", .chart = CHART_LOADER, .curve = "decoders",
      .help = "Share of time that the decoders were busy." },
    { "reading_computed", IN_TIME, FIELD(run.reading_computed), .unit = UNIT_SHARE, .needs = NEEDS_LOADER,
      .help = "CPU time of the readers / their busy time; the rest they waited for files." },
    { "decoding_computed", IN_TIME, FIELD(run.decoding_computed), .unit = UNIT_SHARE, .needs = NEEDS_LOADER,
      .help = "CPU time of the decoders / their busy time; the rest they waited for cores." },

    { "last_rank.rank", IN_TIME, FIELD(run.last_rank.rank), .unit = UNIT_COUNT, .needs = NEEDS_RANKS,
      .label = "rank that others waited for longest",
      .help = "The rank that was latest at the sums in the mean over the steps." },
    { "last_rank.together", IN_TIME, FIELD(run.last_rank.together), .unit = UNIT_COUNT, .needs = NEEDS_RANKS,
      .help = "How many ranks of its host are late together with it: all of them, or 1." },
    { "last_rank.share", IN_TIME, FIELD(run.last_rank.share), .unit = UNIT_SHARE, .needs = NEEDS_RANKS,
      .label = "steps in which that rank was last",
      .help = "Share of the steps in which that rank was last." },
    { "last_rank.behind_ms", IN_TIME, FIELD(run.last_rank.behind_ms), .unit = UNIT_MS, .needs = NEEDS_RANKS,
      .label = "how much later it was than the others",
      .help = "How much later that rank was than the median of the others, mean over the steps." },
    { "last_rank.most_ms", IN_TIME, FIELD(run.last_rank.most_ms), .unit = UNIT_MS, .needs = NEEDS_RANKS,
      .help = "How much later it was in the step in which it was the latest." },
    { "last_rank.input_ms", IN_TIME, FIELD(run.last_rank.input_ms), .unit = UNIT_MS, .needs = NEEDS_RANKS,
      .help = "How much longer that rank waited for input than the median of the others, mean over the steps." },
    { "last_rank.slow", IN_TIME, FIELD(run.last_rank.is_slow), .unit = UNIT_YES_NO, .needs = NEEDS_RANKS,
      .label = "that rank slowed the run",
      .help = "Whether that rank slowed the run by so much that the verdict names it." },

    /* ---- what it cost ---- */
    { "cost.seconds", IN_SPENT, FIELD(run.cost.seconds), .unit = UNIT_SECONDS, .compared = "cost_seconds",
      .label = "time from start to end",
      .help = "Time from the start of the run's processes to their ends, with indexing, evaluation and saving." },
    { "cost.machine_seconds", IN_SPENT, FIELD(run.cost.machine_seconds), .unit = UNIT_SECONDS,
      .help = "That time, times the machines that the run was on." },
    { "cost.money", IN_SPENT, FIELD(run.cost.money), .unit = UNIT_MONEY, .needs = NEEDS_PRICE, .compared = "cost_money",
      .label = "cost", .is_headline = true,
      .help = "Machine time at the price of report.price." },
    { "cost.images_per_money", IN_SPENT, FIELD(run.cost.images_per_money), .unit = UNIT_PER_MONEY, .needs = NEEDS_PRICE,
      .compared = "images_per_money", .label = "images trained on for a unit of money",
      .help = "Images that were trained on / cost of the run." },
    { "cost.joules", IN_SPENT, FIELD(run.cost.joules), .unit = UNIT_NUMBER, .needs = NEEDS_ENERGY,
      .compared = "joules", .label = "energy, joules", .is_headline = true,
      .help = "Energy of the CPU packages and GPUs that could be read, whatever used it." },
    { "cost.images_per_joule", IN_SPENT, FIELD(run.cost.images_per_joule), .unit = UNIT_NUMBER, .needs = NEEDS_ENERGY,
      .compared = "images_per_joule", .label = "images trained on for a joule",
      .help = "Images that were trained on / energy." },
    { "cost.energy_complete", IN_SPENT, FIELD(run.cost.is_whole_energy), .unit = UNIT_YES_NO, .needs = NEEDS_ENERGY,
      .label = "energy of all machines and GPUs",
      .help = "Whether all CPU packages and GPUs of all machines could be read, all the time." },
    { "cost.best.seconds", IN_SPENT, FIELD(run.cost.best.seconds), .unit = UNIT_SECONDS, .needs = NEEDS_EVALUATION,
      .compared = "seconds_to_best", .label = "time up to the best evaluation",
      .help = "Time from the start of the run to the end of its best evaluation." },
    { "cost.best.money", IN_SPENT, FIELD(run.cost.best.money), .unit = UNIT_MONEY,
      .needs = NEEDS_EVALUATION | NEEDS_PRICE, .compared = "money_to_best", .label = "cost up to the best evaluation",
      .help = "Cost of that time." },
    { "cost.best.joules", IN_SPENT, FIELD(run.cost.best.joules), .unit = UNIT_NUMBER,
      .needs = NEEDS_EVALUATION | NEEDS_ENERGY, .compared = "joules_to_best",
      .label = "energy up to the best evaluation, joules",
      .help = "Energy of that time." },

    /* ---- the machine, faults ---- */
    { "cores.own", IN_COSTS, FIELD(run.cores.own), .unit = UNIT_SHARE,
      .help = "Share of the cores' time that the run used." },
    { "cores.others", IN_COSTS, FIELD(run.cores.others), .unit = UNIT_SHARE, .compared = "others",
      .help = "Share of the cores' time that other programs used." },
    { "cores.stolen", IN_COSTS, FIELD(run.cores.stolen), .unit = UNIT_SHARE, .compared = "stolen",
      .help = "Share of the cores' time that the host of a virtual machine gave to others." },
    { "cores.throttled", IN_COSTS, FIELD(run.cores.throttled), .unit = UNIT_SHARE,
      .help = "Share of the periods in which the CPU quota of the control group was used up." },
    { "copy.seconds", IN_COSTS, FIELD(run.copy.seconds), .unit = UNIT_SECONDS,
      .help = "Time of the copies of batches to the devices." },
    { "copy.hidden", IN_COSTS, FIELD(run.copy.hidden), .unit = UNIT_SHARE, .label = "copies hidden",
      .help = "Share of that time that no tower waited for." },
    { "rollbacks", IN_FAULTS, FIELD(run.rollbacks), .unit = UNIT_COUNT, .needs = NEEDS_ROLLBACKS,
      .label = "rollbacks",
      .help = "How often the run went back to a checkpoint." },
    { "decoder_warnings", IN_FAULTS, FIELD(run.decoder_warnings), .unit = UNIT_COUNT, .label = "decoder warnings",
      .help = "Images whose errors the decoder tolerated." },
    { "corrupt_records", IN_FAULTS, FIELD(run.corrupt_records), .unit = UNIT_COUNT, .label = "damaged records",
      .help = "Records that were damaged and skipped." },
    { "memory.planned_bytes", IN_MEMORY, FIELD(run.planned_bytes), .unit = UNIT_BYTES,
      .help = "Host memory that was planned." },
    { "memory.peak_rss_bytes", IN_MEMORY, FIELD(run.peak_rss_bytes), .unit = UNIT_BYTES, .label = "peak memory",
      .help = "Peak memory of the process." },
    { .help = NULL },
};

const struct metric_chart metric_charts[CHART_COUNT] = {
    [CHART_LOSS] = { .title = "Loss", .may_be_log = true, .has_validation = true },
    [CHART_ACCURACY] = { .title = "Accuracy", .is_share = true, .has_validation = true },
    [CHART_CLASSES] = { .title = "Validation, mean over the classes", .is_share = true, .is_of_validation = true },
    [CHART_SPEED] = { .title = "Training speed, images/s", .is_over_time = true, .from_zero = true },
    [CHART_RATE] = { .title = "Learning rate" },
    [CHART_INPUT_WAIT] = { .title = "Input wait, share of tower time", .is_share = true, .from_zero = true },
    [CHART_RING] = { .title = "Host queue: how full", .is_share = true, .from_zero = true,
                     .whole = "queues.ring.depth" },
    [CHART_SLOTS] = { .title = "Device queue: how full", .is_share = true, .from_zero = true,
                      .whole = "queues.slots.depth" },
    [CHART_LOADER] = { .title = "Loader threads: share of time busy", .is_share = true, .from_zero = true },
};

const char *metric_unit_name(enum metric_unit unit)
{
    static const char *const names[] = {
        [UNIT_NUMBER] = "number", [UNIT_COUNT] = "count", [UNIT_SHARE] = "share", [UNIT_RATE] = "rate",
        [UNIT_SECONDS] = "seconds", [UNIT_MS] = "ms", [UNIT_BYTES] = "bytes", [UNIT_YES_NO] = "yes or no",
        [UNIT_MONEY] = "money", [UNIT_PER_MONEY] = "per money",
    };
    return names[unit];
}

_Static_assert(sizeof(metric_table) / sizeof(*metric_table) <= METRICS_MAX, "METRICS_MAX");

void metrics_set_last_rank(struct metric_values *values, const struct account *account)
{
    const struct last_rank last = rank_waits_find(account->waits);
    if (last.steps == 0)
        return;
    values->has |= NEEDS_RANKS;
    values->run.last_rank = (struct last_rank_values){ last.rank, last.together, last.share, last.behind_ms, last.most_ms,
                                                       last.input_ms,
                                                       last_rank_is_slow(&last, account_step_ms(account)) };
    values->process.last_rank.number = last.rank;
    values->process.last_rank.share = last.share;
    values->process.last_rank.behind_seconds = last.behind_ms / 1e3;
}

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

/* The length of the part of both paths that names common objects: 7 for "queues.ring.mean" and "queues.slots.mean". */
static size_t shared_bytes(const char *path, const char *other)
{
    size_t bytes = 0;
    for (size_t i = 0; path[i] != '\0' && path[i] == other[i]; i++)
        if (path[i] == '.')
            bytes = i + 1;
    return bytes;
}

/* Close the objects of the previous path that do not contain the next one, and open the others of the next one. Returns
 * the last part of the path. */
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
