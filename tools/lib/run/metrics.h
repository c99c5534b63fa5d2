/* The metrics of a run: a row of metric_table describes a metric completely. metrics.jsonl, summary.json, the files for
 * Prometheus and TensorBoard, --compare, --tune and the report page are made from this table. A new metric needs a row,
 * a field in struct metric_values, and an assignment where it is measured: report.c (rows), summary.c (the whole run)
 * or prometheus.c (the process). */
#ifndef PIPETRAIN_METRICS_H
#define PIPETRAIN_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/json.h"
#include "tools/lib/cpu_times.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/feed.h"

/* Conditions of metrics. A metric whose conditions are not met is left out of every file. */
enum metric_need {
    NEEDS_LOADER = 1,           /* input that is not synthetic */
    NEEDS_SKIPPING = 2,         /* train.on_nan = skip, in summary.json also fp16 */
    NEEDS_CLIPPING = 4,         /* train.clip_norm */
    NEEDS_EVALUATION = 8,       /* there was a complete evaluation */
    NEEDS_ROLLBACKS = 16,       /* train.on_nan = rollback */
    NEEDS_CHECKPOINT = 32,      /* this process has saved a checkpoint */
    NEEDS_PRICE = 64,           /* report.price */
    NEEDS_ENERGY = 128,         /* energy was measured */
    NEEDS_RANKS = 256           /* several ranks that wait for each other's sums, and have done so */
};

#define METRIC_UNKNOWN UINT64_MAX       /* a count that is null in JSON */

/* Values for Prometheus of the process that writes the file; busy and waiting times are summed over threads or
 * towers. */
struct process_values {
    bool is_running;
    double updated;             /* seconds since 1970 */
    uint64_t planned_steps, step, epoch, images, records_skipped, checkpoint_failures;
    double checkpoint_seconds;
    double cost_seconds, cost_money, cost_joules;
    struct { uint32_t number; double share, behind_seconds; } last_rank;        /* as struct last_rank_values */
    double read_seconds, decode_seconds, forward_seconds, backward_seconds, update_seconds, input_wait_seconds;
};

/* What the run costs (cost.h), from its start on and up to its best evaluation. */
struct cost_values {
    double seconds, machine_seconds, money, images_per_money, joules, images_per_joule;
    bool is_whole_energy;       /* no part of the energy is unknown */
    struct { double seconds, money, joules; } best;
};

/* The rank that costs the run most (rank_waits.h). */
struct last_rank_values { uint32_t rank, together; double share, behind_ms, most_ms, input_ms; bool is_slow; };

/* Values that exist only for a whole run. */
struct run_values {
    uint64_t steps, warmup_steps;
    double epochs, mean_images_per_second, start_to_first_step_seconds, explained;
    struct speeds speed;
    struct step_percentiles step;
    double reading_computed, decoding_computed;
    struct {
        uint64_t images, correct;
        double accuracy, loss;
        bool is_complete;
        struct mean_measures measures;      /* NAN where they are unknown, as in struct metric_values */
    } validation;
    struct { double accuracy, value; uint64_t correct, step; } best;
    struct cores_use cores;
    struct { double seconds, hidden; } copy;
    struct last_rank_values last_rank;
    struct cost_values cost;
    uint64_t rollbacks, decoder_warnings, corrupt_records, planned_bytes, peak_rss_bytes;
};

/* The values of a row of metrics.jsonl, or of the whole run for summary.json. Unknown doubles are NAN. */
struct metric_values {
    unsigned has;               /* the conditions that are met: bits of enum metric_need */
    uint32_t epoch;             /* from 1 */
    uint64_t images, correct, skipped_steps;
    double loss, accuracy, seconds, images_per_second;
    struct mean_measures measures;      /* of an evaluation; without one, or where they are unknown, NAN */
    double learning_rate;       /* of the latest training step */
    double gradient_norm;       /* of the mean gradients of the latest training step */
    double step_seconds, step_ms, input_wait_ms;        /* means over training steps; input_wait_ms: also over towers */
    struct fractions share;
    struct feed_use feed;
    struct process_values process;
    struct run_values run;
};

/* The places where metrics are written as JSON. */
enum metric_place {
    IN_TRAIN = 1, IN_VALIDATION = 2, IN_EPOCH = 4,      /* rows of metrics.jsonl */
    IN_EPOCH_VALIDATION = 8,    /* the object "validation" in the rows of epochs */
    IN_PROGRESS = 16,           /* lines of --progress=json */
    /* Parts of summary.json, which has other values between them. */
    IN_SPEED = 32,
    IN_TIME = 64,               /* times of towers and of the loader's threads */
    IN_LEARNED = 128,           /* loss and accuracy */
    IN_COSTS = 256,             /* cores and copies */
    IN_FAULTS = 512,
    IN_MEMORY = 1024,
    IN_SPENT = 2048,            /* money and energy */
    IN_SUMMARY = IN_SPEED | IN_TIME | IN_LEARNED | IN_COSTS | IN_FAULTS | IN_MEMORY | IN_SPENT
};

/* The format of a number on the report page; money has the currency of report.price. */
enum metric_unit { UNIT_NUMBER, UNIT_COUNT, UNIT_SHARE, UNIT_RATE, UNIT_SECONDS, UNIT_MS, UNIT_BYTES, UNIT_YES_NO, UNIT_MONEY, UNIT_PER_MONEY };

/* A chart of the report page, which has one or two curves, each of one metric. */
enum metric_chart_number {
    CHART_NONE, CHART_LOSS, CHART_ACCURACY, CHART_CLASSES, CHART_SPEED, CHART_RATE, CHART_INPUT_WAIT, CHART_RING, CHART_SLOTS,
    CHART_LOADER, CHART_COUNT
};

struct metric_chart {
    const char *title;
    /* Of the axes; is_over_time: the horizontal axis is time instead of steps. */
    bool is_share, from_zero, may_be_log, is_over_time;
    bool has_validation;        /* there is a second curve, of validation */
    bool is_of_validation;      /* the curves are of validation; else of training */
    const char *whole;          /* the path of the metric by which numbers are divided; NULL: none */
};

enum metric_type { METRIC_U32, METRIC_U64, METRIC_DOUBLE, METRIC_BOOL };

#define METRICS_MAX 128         /* rows of the table */

struct metric {
    const char *path;           /* in JSON, such as "fractions.forward"; NULL: not written there */
    unsigned places;            /* bits of enum metric_place; if `path` is NULL: the rows from which observers get it */
    enum metric_type type;
    size_t offset;              /* of its field in struct metric_values */
    unsigned needs;             /* its conditions: bits of enum metric_need */
    enum metric_unit unit;
    const char *help;           /* one line */
    /* Name for Prometheus without "pipetrain_"; counters end in _total; NULL: not written there. */
    const char *prometheus;
    const char *labels;         /* labels that distinguish metrics of the same name; NULL: none */
    const char *family;         /* help for all metrics of this name, in the row of the first; NULL: `help` */
    /* A counter: a resumed run counts the events of earlier processes again, so their number is not added. */
    bool counts_again;
    const char *tag;            /* name for TensorBoard; NULL: not written there */
    const char *compared;       /* name in --compare; NULL: not compared */
    const char *label;          /* of a result on the report page; NULL: it is not one */
    bool is_headline;           /* is also shown above the charts */
    enum metric_chart_number chart;             /* on the report page */
    const char *curve;          /* its name in the legend; NULL: none */
    bool is_faint;              /* the second of two curves */
};

/* The table ends with a row whose help is NULL. */
extern const struct metric metric_table[];
/* In the order of the page; the entry of CHART_NONE has no title. */
extern const struct metric_chart metric_charts[CHART_COUNT];

const char *metric_unit_name(enum metric_unit unit);

static inline size_t metric_index(const struct metric *metric)
{
    return (size_t)(metric - metric_table);
}
static inline bool metric_is_given(const struct metric *metric, const struct metric_values *values)
{
    return (metric->needs & ~values->has) == 0;
}
/* Set the values of the last rank in `process` and `run`, and NEEDS_RANKS, if anything is known of it. */
void metrics_set_last_rank(struct metric_values *values, const struct account *account);
/* The conditions (bits of enum metric_need) that are met according to the settings of the run. */
unsigned metric_needs_met(const struct settings *settings);
/* The value of a metric; NAN if it is unknown. */
double metric_get(const struct metric *metric, const struct metric_values *values);
/* Set the value of a metric to one that was read from JSON. A count becomes 0 if `value` is NAN. */
void metric_set(const struct metric *metric, struct metric_values *values, double value);
/* Write the metrics of a place as members of the open object, in the order of the table. */
void metrics_write(const struct metric_values *values, enum metric_place place, struct json *json);

#endif
