/* Numbers of a run for Prometheus. */
#include "tools/run/observe/metrics_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/version.h"

#define LABEL_MAX 512u          /* bytes of a label's value that are told */

static const char *const splits[PASS_COUNT] = { [PASS_TRAIN] = "train", [PASS_EVALUATE] = "validation" };

void metrics_text_init(struct metrics_text *metrics, const struct observed_run *run)
{
    const struct schedule *const schedule = &run->plan->schedule;
    *metrics = (struct metrics_text){ .run = run, .is_running = true,
                                      .step = schedule_position(schedule, schedule->first).step };
}

void metrics_text_add(struct metrics_text *metrics, const struct observation *observation)
{
    const struct tally *const tally = observation->tally;
    const enum pass pass = observation->pass;
    metrics->has_row[pass] = true;
    metrics->epoch = observation->epoch;
    metrics->step = observation->step;
    metrics->loss[pass] = observation->loss;
    metrics->accuracy[pass] = observation->accuracy;
    metrics->images_per_second[pass] = tally_images_per_second(tally);
    metrics->images = account_training(observation->account)->images;
    metrics->times = account_process(observation->account)->times;
    metrics->corrupt_records = observation->loader->corrupt_records;
    metrics->read_ns = observation->loader->read_busy_ns;
    metrics->decode_ns = observation->loader->decode_busy_ns;
    if (pass != PASS_TRAIN)
        return;
    const struct queue_fills *const fills = account_interval_fills(observation->account);
    metrics->learning_rate = observation->learning_rate;
    metrics->step_seconds = tally->steps > 0 ? (double)tally->wall_ns / 1e9 / (double)tally->steps : NAN;
    metrics->share = tally_fractions(tally);
    metrics->ring = fill_use(&fills->ring);
    metrics->slots = fill_use(&fills->slots);
    metrics->busy = observation->busy;
}

__attribute__((format(printf, 2, 3)))
static void put(struct metrics_text *metrics, const char *format, ...)
{
    va_list arguments;
    const size_t room = sizeof(metrics->text) - metrics->bytes;
    va_start(arguments, format);
    const int bytes = vsnprintf(metrics->text + metrics->bytes, room, format, arguments);
    va_end(arguments);
    if (bytes > 0 && (size_t)bytes < room)
        metrics->bytes += (size_t)bytes;
    else
        metrics->text[metrics->bytes] = '\0';
}

static void put_head(struct metrics_text *metrics, const char *name, const char *type, const char *help)
{
    put(metrics, "# HELP pipetrain_%s %s\n# TYPE pipetrain_%s %s\n", name, help, name, type);
}

/* Numbers as Go reads them; labels NULL: none. */
static void put_number(struct metrics_text *metrics, const char *name, const char *labels, double value)
{
    const char *const open = labels != NULL ? "{" : "", *const close = labels != NULL ? "}" : "";
    put(metrics, "pipetrain_%s%s%s%s ", name, open, labels != NULL ? labels : "", close);
    if (isnan(value))
        put(metrics, "NaN\n");
    else if (isinf(value))
        put(metrics, "%cInf\n", value > 0 ? '+' : '-');
    else
        put(metrics, "%.17g\n", value);
}

static void put_gauge(struct metrics_text *metrics, const char *name, const char *help, double value)
{
    put_head(metrics, name, "gauge", help);
    put_number(metrics, name, NULL, value);
}

static void put_counter(struct metrics_text *metrics, const char *name, const char *labels, const char *help,
                        uint64_t value)
{
    put_head(metrics, name, "counter", help);
    put_number(metrics, name, labels, (double)value);
}

struct label_text { char text[2 * LABEL_MAX + 1]; };

/* What stands between the quotes of a label. */
static struct label_text label(const char *value)
{
    struct label_text label;
    size_t count = 0;
    for (size_t i = 0; value[i] != '\0' && i < LABEL_MAX; i++) {
        if (strchr("\\\"\n", value[i]) != NULL)
            label.text[count++] = '\\';
        label.text[count++] = value[i] == '\n' ? 'n' : value[i];
    }
    label.text[count] = '\0';
    return label;
}

static void put_run(struct metrics_text *metrics, double now)
{
    const struct observed_run *const run = metrics->run;
    put_head(metrics, "info", "gauge", "The run: its value is 1.");
    put(metrics, "pipetrain_info{version=\"%s\",model=\"%s\",run=\"%s\"} 1\n", label(PIPETRAIN_VERSION).text,
        label(run->net->model).text, label(run->directory).text);
    put_gauge(metrics, "running", "1 while the run goes on, 0 when it has ended.", metrics->is_running);
    put_gauge(metrics, "last_update_seconds", "When these numbers were written, in seconds since 1970.", now);
    put_gauge(metrics, "planned_steps", "Training steps that the run is to do.",
              (double)schedule_step_count(&run->plan->schedule));
    put_gauge(metrics, "step", "Training steps that are done, those of earlier processes of the run included.",
              (double)metrics->step);
    put_gauge(metrics, "epoch", "The epoch, counted from 1; 0: none has a row.", metrics->epoch);
    put_counter(metrics, "images_total", NULL, "Images that were trained on.", metrics->images);
    put_counter(metrics, "records_skipped_total", "reason=\"corrupt\"",
                "Records that are not used; damaged ones are counted once.", metrics->corrupt_records);
}

/* The time of the latest one when there is one. */
static void put_saves(struct metrics_text *metrics)
{
    const struct checkpoint_counts *const saves = metrics->run->saves;
    put_counter(metrics, "checkpoint_failures_total", NULL, "States that could not be saved, of this process.",
                saves->failures);
    if (saves->saved > 0)
        put_gauge(metrics, "checkpoint_seconds", "What saving the latest state took, beside the training.",
                  (double)saves->latest_ns / 1e9);
}

/* Of the passes that have a row; `more` goes behind the label of the pass. */
static void put_splits(struct metrics_text *metrics, const char *name, const char *more, const char *help,
                       const double values[PASS_COUNT])
{
    char labels[64];
    put_head(metrics, name, "gauge", help);
    for (enum pass pass = 0; pass < PASS_COUNT; pass++) {
        snprintf(labels, sizeof(labels), "split=\"%s\"%s", splits[pass], more);
        if (metrics->has_row[pass])
            put_number(metrics, name, labels, values[pass]);
    }
}

static void put_results(struct metrics_text *metrics)
{
    put_splits(metrics, "loss", "", "Mean loss since the row before, or of the last evaluation.", metrics->loss);
    put_splits(metrics, "accuracy", ",k=\"1\"", "Share of images whose class was found, as loss.", metrics->accuracy);
    put_splits(metrics, "images_per_second", "", "Speed, as loss.", metrics->images_per_second);
}

/* Numbers that only differ by one label. */
struct labelled { const char *value; double number; };

static void put_labelled(struct metrics_text *metrics, const char *name, const char *key,
                         const struct labelled *rows, size_t count)
{
    char labels[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(labels, sizeof(labels), "%s=\"%s\"", key, rows[i].value);
        put_number(metrics, name, labels, rows[i].number);
    }
}
#define PUT_LABELLED(metrics, name, key, rows) put_labelled(metrics, name, key, rows, sizeof(rows) / sizeof(*(rows)))

static void put_times(struct metrics_text *metrics)
{
    const struct fractions *const share = &metrics->share;
    const struct step_times *const times = &metrics->times;
    const struct labelled shares[] = {
        { "input_wait", share->input_wait }, { "exposed_copy", share->exposed_copy }, { "forward", share->forward },
        { "backward", share->backward }, { "exposed_reduction", share->exposed_reduction },
        { "update", share->update }, { "other", share->other },
    };
    const struct labelled stages[] = {
        { "read", (double)metrics->read_ns / 1e9 }, { "decode", (double)metrics->decode_ns / 1e9 },
        { "forward", (double)times->forward / 1e9 }, { "backward", (double)times->backward / 1e9 },
        { "update", (double)times->update / 1e9 },
    };
    put_gauge(metrics, "learning_rate", "Of the latest training step.", metrics->learning_rate);
    put_gauge(metrics, "step_seconds", "Mean time of a training step since the row before.", metrics->step_seconds);
    put_head(metrics, "tower_time_ratio", "gauge", "Where the towers' time went since the row before; sums to 1.");
    PUT_LABELLED(metrics, "tower_time_ratio", "part", shares);
    put_head(metrics, "stage_busy_seconds_total", "counter",
             "Working time of this process, summed over threads or towers.");
    PUT_LABELLED(metrics, "stage_busy_seconds_total", "stage", stages);
    put_head(metrics, "input_wait_seconds_total", "counter", "Time of this process that towers waited for input.");
    put_number(metrics, "input_wait_seconds_total", NULL, (double)times->input_wait / 1e9);
}

static void put_feed(struct metrics_text *metrics)
{
    const struct fill_use *const ring = &metrics->ring, *const slots = &metrics->slots;
    const struct labelled means[] = { { "ring", ring->mean }, { "slots", slots->mean } };
    const struct labelled least[] = { { "ring", ring->least }, { "slots", slots->least } };
    const struct labelled empty[] = { { "ring", ring->empty }, { "slots", slots->empty } };
    const struct labelled busy[] = { { "read", metrics->busy.readers }, { "decode", metrics->busy.decoders } };
    put_head(metrics, "queue_depth_least", "gauge", "The fewest batches found there since the row before.");
    PUT_LABELLED(metrics, "queue_depth_least", "queue", least);
    put_head(metrics, "queue_empty_ratio", "gauge", "How often the queue was found empty, of all times.");
    PUT_LABELLED(metrics, "queue_empty_ratio", "queue", empty);
    put_head(metrics, "loader_busy_ratio", "gauge", "Share of their time since the row before that threads worked.");
    PUT_LABELLED(metrics, "loader_busy_ratio", "stage", busy);
    put_head(metrics, "queue_depth", "gauge",
             "Batches found in a tower's queue, on average since the row before: on the host, on the device.");
    PUT_LABELLED(metrics, "queue_depth", "queue", means);
}

void metrics_text_write(struct metrics_text *metrics, double now)
{
    metrics->bytes = 0;
    metrics->text[0] = '\0';
    put_run(metrics, now);
    put_saves(metrics);
    put_results(metrics);
    if (!metrics->has_row[PASS_TRAIN])
        return;
    put_times(metrics);
    put_feed(metrics);
}
