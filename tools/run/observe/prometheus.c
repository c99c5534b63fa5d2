/* Keeps the latest numbers, and writes them in Prometheus' text format 0.0.4 at every row. */
#include "tools/run/observe/prometheus.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/file/file.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"
#include "tools/version.h"

#define TEXT_MAX 16384u         /* bytes; no text is longer, whatever the run is called */
#define LABEL_MAX 512u          /* bytes of a label's value that are written */

struct prometheus {
    const struct observed_run *run;     /* borrowed */
    const char *path;
    bool is_off;                        /* after an error */
    bool has_begun, is_running;
    bool has_row[PHASE_COUNT];
    uint32_t epoch;                     /* this and what follows: of the latest row */
    uint64_t step, images, corrupt_records;
    double learning_rate, step_seconds;
    double loss[PHASE_COUNT], accuracy[PHASE_COUNT], images_per_second[PHASE_COUNT];
    struct fractions share;
    struct step_times times;            /* of the towers of this process, in training */
    uint64_t read_ns, decode_ns;
    struct fill_use ring, slots;
    struct loader_busy busy;
    char text[TEXT_MAX];                /* terminated */
    size_t bytes;
};

static const char *const splits[PHASE_COUNT] = { [PHASE_TRAIN] = "train", [PHASE_EVALUATE] = "validation" };

__attribute__((format(printf, 2, 3)))
static void put(struct prometheus *prometheus, const char *format, ...)
{
    va_list arguments;
    const size_t room = sizeof(prometheus->text) - prometheus->bytes;
    va_start(arguments, format);
    const int bytes = vsnprintf(prometheus->text + prometheus->bytes, room, format, arguments);
    va_end(arguments);
    if (bytes > 0 && (size_t)bytes < room)
        prometheus->bytes += (size_t)bytes;
    else
        prometheus->text[prometheus->bytes] = '\0';
}

static void put_head(struct prometheus *prometheus, const char *name, const char *type, const char *help)
{
    put(prometheus, "# HELP pipetrain_%s %s\n# TYPE pipetrain_%s %s\n", name, help, name, type);
}

/* In the spelling of Go, which Prometheus is written in. labels NULL: none. */
static void put_number(struct prometheus *prometheus, const char *name, const char *labels, double value)
{
    const char *const open = labels != NULL ? "{" : "", *const close = labels != NULL ? "}" : "";
    put(prometheus, "pipetrain_%s%s%s%s ", name, open, labels != NULL ? labels : "", close);
    if (isnan(value))
        put(prometheus, "NaN\n");
    else if (isinf(value))
        put(prometheus, "%cInf\n", value > 0 ? '+' : '-');
    else
        put(prometheus, "%.17g\n", value);
}

static void put_gauge(struct prometheus *prometheus, const char *name, const char *help, double value)
{
    put_head(prometheus, name, "gauge", help);
    put_number(prometheus, name, NULL, value);
}

static void put_counter(struct prometheus *prometheus, const char *name, const char *labels, const char *help,
                        uint64_t value)
{
    put_head(prometheus, name, "counter", help);
    put_number(prometheus, name, labels, (double)value);
}

struct label_text { char text[2 * LABEL_MAX + 1]; };

/* A label's value, escaped. */
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

static void put_run(struct prometheus *prometheus, double now)
{
    const struct observed_run *const run = prometheus->run;
    put_head(prometheus, "info", "gauge", "The run: its value is 1.");
    put(prometheus, "pipetrain_info{version=\"%s\",model=\"%s\",run=\"%s\"} 1\n", label(PIPETRAIN_VERSION).text,
        label(run->net->model).text, label(run->directory).text);
    put_gauge(prometheus, "running", "1 while the run continues, 0 when it has ended.", prometheus->is_running);
    put_gauge(prometheus, "last_update_seconds", "When these numbers were written, in seconds since 1970.", now);
    put_gauge(prometheus, "planned_steps", "Training steps that the run will do.",
              (double)schedule_step_count(&run->plan->schedule));
    put_gauge(prometheus, "step", "Training steps done, including those of earlier processes of the run.",
              (double)prometheus->step);
    put_gauge(prometheus, "epoch", "The epoch, counted from 1; 0 before the first row.", prometheus->epoch);
    put_counter(prometheus, "images_total", NULL, "Images that were trained on.", prometheus->images);
    put_counter(prometheus, "records_skipped_total", "reason=\"corrupt\"",
                "Records that are skipped; each damaged one is counted once.", prometheus->corrupt_records);
}

static void put_saves(struct prometheus *prometheus)
{
    const struct checkpoint_counts *const saves = prometheus->run->saves;
    put_counter(prometheus, "checkpoint_failures_total", NULL, "Checkpoints that this process could not save.",
                saves->failures);
    if (saves->saved > 0)
        put_gauge(prometheus, "checkpoint_seconds", "Time to save the latest checkpoint, in parallel with training.",
                  (double)saves->latest_ns / 1e9);
}

/* For the phases that have a row; `more` follows the label of the phase. */
static void put_splits(struct prometheus *prometheus, const char *name, const char *more, const char *help,
                       const double values[PHASE_COUNT])
{
    char labels[64];
    put_head(prometheus, name, "gauge", help);
    for (enum phase phase = 0; phase < PHASE_COUNT; phase++) {
        snprintf(labels, sizeof(labels), "split=\"%s\"%s", splits[phase], more);
        if (prometheus->has_row[phase])
            put_number(prometheus, name, labels, values[phase]);
    }
}

static void put_results(struct prometheus *prometheus)
{
    put_splits(prometheus, "loss", "", "Mean loss since the row before, or of the last evaluation.", prometheus->loss);
    put_splits(prometheus, "accuracy", ",k=\"1\"", "Share of images classified correctly since the row before, or in the last evaluation.",
               prometheus->accuracy);
    put_splits(prometheus, "images_per_second", "", "Speed since the row before, or of the last evaluation.", prometheus->images_per_second);
}

/* Values of a metric that differ in one label. */
struct labelled { const char *value; double number; };

static void put_labelled(struct prometheus *prometheus, const char *name, const char *key,
                         const struct labelled *rows, size_t count)
{
    char labels[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(labels, sizeof(labels), "%s=\"%s\"", key, rows[i].value);
        put_number(prometheus, name, labels, rows[i].number);
    }
}
#define PUT_LABELLED(prometheus, name, key, rows) \
    put_labelled(prometheus, name, key, rows, sizeof(rows) / sizeof(*(rows)))

static void put_times(struct prometheus *prometheus)
{
    const struct fractions *const share = &prometheus->share;
    const struct step_times *const times = &prometheus->times;
    const struct labelled shares[] = {
        { "input_wait", share->input_wait }, { "exposed_copy", share->exposed_copy }, { "forward", share->forward },
        { "backward", share->backward }, { "exposed_reduction", share->exposed_reduction },
        { "update", share->update }, { "other", share->other },
    };
    const struct labelled stages[] = {
        { "read", (double)prometheus->read_ns / 1e9 }, { "decode", (double)prometheus->decode_ns / 1e9 },
        { "forward", (double)times->forward / 1e9 }, { "backward", (double)times->backward / 1e9 },
        { "update", (double)times->update / 1e9 },
    };
    put_gauge(prometheus, "learning_rate", "Of the latest training step.", prometheus->learning_rate);
    put_gauge(prometheus, "step_seconds", "Mean time of a training step since the row before.",
              prometheus->step_seconds);
    put_head(prometheus, "tower_time_ratio", "gauge", "Where the towers' time went since the row before; sums to 1.");
    PUT_LABELLED(prometheus, "tower_time_ratio", "part", shares);
    put_head(prometheus, "stage_busy_seconds_total", "counter",
             "Working time of this process, summed over threads or towers.");
    PUT_LABELLED(prometheus, "stage_busy_seconds_total", "stage", stages);
    put_head(prometheus, "input_wait_seconds_total", "counter", "Time that towers of this process waited for input.");
    put_number(prometheus, "input_wait_seconds_total", NULL, (double)times->input_wait / 1e9);
}

static void put_feed(struct prometheus *prometheus)
{
    const struct fill_use *const ring = &prometheus->ring, *const slots = &prometheus->slots;
    const struct labelled means[] = { { "ring", ring->mean }, { "slots", slots->mean } };
    const struct labelled least[] = { { "ring", ring->least }, { "slots", slots->least } };
    const struct labelled empty[] = { { "ring", ring->empty }, { "slots", slots->empty } };
    const struct labelled busy[] = { { "read", prometheus->busy.readers }, { "decode", prometheus->busy.decoders } };
    put_head(prometheus, "queue_depth_least", "gauge", "Fewest batches in the queue since the row before.");
    PUT_LABELLED(prometheus, "queue_depth_least", "queue", least);
    put_head(prometheus, "queue_empty_ratio", "gauge", "Share of takes that found the queue empty.");
    PUT_LABELLED(prometheus, "queue_empty_ratio", "queue", empty);
    put_head(prometheus, "loader_busy_ratio", "gauge",
             "Share of time since the row before that the threads were busy.");
    PUT_LABELLED(prometheus, "loader_busy_ratio", "stage", busy);
    put_head(prometheus, "queue_depth", "gauge",
             "Batches in a tower's queue, on average since the row before: on the host, on the device.");
    PUT_LABELLED(prometheus, "queue_depth", "queue", means);
}

static void make_text(struct prometheus *prometheus)
{
    prometheus->bytes = 0;
    prometheus->text[0] = '\0';
    put_run(prometheus, (double)clock_read_ns(CLOCK_REALTIME) / 1e9);
    put_saves(prometheus);
    put_results(prometheus);
    if (!prometheus->has_row[PHASE_TRAIN])
        return;
    put_times(prometheus);
    put_feed(prometheus);
}

/* ---- the file ---- */

/* Not synced: it is written again soon. */
static int replace_in(int folder_fd, const char *file, const char *text, size_t bytes)
{
    const int fd = whole_file_make(folder_fd, file);
    if (fd < 0)
        return fd;
    int rc = file_write(fd, text, bytes);
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0)
        rc = whole_file_appear(folder_fd, file);
    if (rc != 0)
        whole_file_drop(folder_fd, file);
    return rc;
}

/* Readers see the whole new text or the whole old one. Allocates nothing. On error the old file stays. */
static int replace_file(const char *path, const char *text, size_t bytes)
{
    char folder[PATH_MAX] = ".";
    const char *const slash = strrchr(path, '/');
    const char *const file = slash != NULL ? slash + 1 : path;
    const size_t length = slash == path ? 1 : slash != NULL ? (size_t)(slash - path) : 0;
    if (length >= sizeof(folder) || strlen(file) > WHOLE_FILE_NAME_MAX)
        return -ENAMETOOLONG;
    if (length > 0) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    const int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0)
        return -errno;
    const int rc = replace_in(folder_fd, file, text, bytes);
    close(folder_fd);
    return rc;
}

static void write_metrics(struct prometheus *prometheus)
{
    make_text(prometheus);
    const int rc = replace_file(prometheus->path, prometheus->text, prometheus->bytes);
    if (rc != 0)
        log_message(LOG_ERROR, "%s: metrics are not written: %s: the run continues without", prometheus->path,
                    strerror(-rc));
    prometheus->is_off = rc != 0;
}

/* ---- the observer ---- */

struct prometheus *prometheus_open(const struct observed_run *run)
{
    const char *const path = run->settings->report.prometheus;
    const struct schedule *const schedule = &run->plan->schedule;
    if (*path == '\0')
        return NULL;
    struct prometheus *const prometheus = calloc(1, sizeof(*prometheus));
    if (prometheus == NULL) {
        log_message(LOG_ERROR, "%s: metrics are not written: %s: the run continues without", path, strerror(ENOMEM));
        return NULL;
    }
    prometheus->run = run;
    prometheus->path = path;
    prometheus->is_running = true;
    prometheus->step = schedule_position(schedule, schedule->first).step;
    return prometheus;
}

void prometheus_begin(struct prometheus *prometheus)
{
    if (prometheus == NULL)
        return;
    prometheus->has_begun = true;
    write_metrics(prometheus);
}

static void add_row(struct prometheus *prometheus, const struct observation *observation)
{
    const struct tally *const tally = observation->tally;
    const enum phase phase = observation->phase;
    prometheus->has_row[phase] = true;
    prometheus->epoch = observation->epoch;
    prometheus->step = observation->step;
    prometheus->loss[phase] = observation->loss;
    prometheus->accuracy[phase] = observation->accuracy;
    prometheus->images_per_second[phase] = tally_images_per_second(tally);
    prometheus->images = observation->account->state.training.images;
    prometheus->times = observation->account->process.times;
    prometheus->corrupt_records = observation->loader->corrupt_records;
    prometheus->read_ns = observation->loader->read_busy_ns;
    prometheus->decode_ns = observation->loader->decode_busy_ns;
    if (phase != PHASE_TRAIN)
        return;
    const struct queue_fills *const fills = &observation->account->interval_fills;
    prometheus->learning_rate = observation->learning_rate;
    prometheus->step_seconds = tally->steps > 0 ? (double)tally->wall_ns / 1e9 / (double)tally->steps : NAN;
    prometheus->share = tally_fractions(tally);
    prometheus->ring = fill_use(&fills->ring);
    prometheus->slots = fill_use(&fills->slots);
    prometheus->busy = observation->busy;
}

void prometheus_put(struct prometheus *prometheus, const struct observation *observation)
{
    if (prometheus == NULL || prometheus->is_off)
        return;
    add_row(prometheus, observation);
    write_metrics(prometheus);
}

void prometheus_close(struct prometheus *prometheus)
{
    if (prometheus == NULL)
        return;
    prometheus->is_running = false;
    if (prometheus->has_begun && !prometheus->is_off)
        write_metrics(prometheus);
    free(prometheus);
}
