/* Keeps the latest numbers, and writes them in Prometheus' text format 0.0.4 at every row. Every sample has the label
 * `run`, the path of the run's directory: a collector merges the files of a folder, and samples of two runs that have the
 * same labels are an error there. */
#include "tools/lib/run/observe/prometheus.h"

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
#include "stage/text/decimal.h"
#include "stage/text/utf8.h"
#include "tools/lib/version.h"

#define TEXT_MAX 16384u         /* bytes without the labels `run` */
#define SAMPLES_MAX 64u         /* of a text */
#define LABEL_MAX 512u          /* bytes of the values of other labels that are written */
#define SAMPLE_MAX 160u         /* bytes of a counter's name and labels without `run` */
#define EARLIER_MAX ((size_t)4 << 20)   /* bytes of a file that is read */

/* Counters go on where the file of the run that is resumed ended: a reader takes a lower number for a restart at 0. */
enum counter {
    COUNTER_IMAGES, COUNTER_SKIPPED, COUNTER_FAILURES, COUNTER_READ, COUNTER_DECODE, COUNTER_FORWARD, COUNTER_BACKWARD,
    COUNTER_UPDATE, COUNTER_WAIT, COUNTER_COUNT,
};

static const struct { const char *name, *labels, *help; } counters[COUNTER_COUNT] = {
    [COUNTER_IMAGES] = { "images_total", "", "Images that were trained on, also those that a resume repeats." },
    [COUNTER_SKIPPED] = { "records_skipped_total", "reason=\"corrupt\"",
                          "Records that are skipped; each damaged one is counted once." },
    [COUNTER_FAILURES] = { "checkpoint_failures_total", "", "Checkpoints that could not be saved." },
    [COUNTER_READ] = { "stage_busy_seconds_total", "stage=\"read\"",
                       "Working time, summed over threads or towers of the processes that wrote this file." },
    [COUNTER_DECODE] = { "stage_busy_seconds_total", "stage=\"decode\"", NULL },
    [COUNTER_FORWARD] = { "stage_busy_seconds_total", "stage=\"forward\"", NULL },
    [COUNTER_BACKWARD] = { "stage_busy_seconds_total", "stage=\"backward\"", NULL },
    [COUNTER_UPDATE] = { "stage_busy_seconds_total", "stage=\"update\"", NULL },
    [COUNTER_WAIT] = { "input_wait_seconds_total", "",
                       "Time that towers of the processes that wrote this file waited for input." },
};

struct prometheus {
    const struct observed_run *run;     /* borrowed */
    const char *path;
    bool is_off;                        /* after an error */
    bool has_begun, is_running;
    bool has_row[PHASE_COUNT];
    uint32_t epoch;                     /* this and what follows: of the latest row */
    uint64_t step, corrupt_records;
    double learning_rate, step_seconds;
    double loss[PHASE_COUNT], accuracy[PHASE_COUNT], images_per_second[PHASE_COUNT];
    struct fractions share;
    struct step_times times;            /* of the towers of this process, in training */
    uint64_t read_ns, decode_ns;
    struct fill_use ring, slots;
    struct loader_busy busy;
    double earlier[COUNTER_COUNT];      /* the counters of the run's earlier processes */
    char *label;                        /* run="..." */
    char *text;                         /* terminated */
    size_t bytes, text_max;
};

static const char *const splits[PHASE_COUNT] = { [PHASE_TRAIN] = "train", [PHASE_EVALUATE] = "validation" };

__attribute__((format(printf, 2, 3)))
static void put(struct prometheus *prometheus, const char *format, ...)
{
    va_list arguments;
    const size_t room = prometheus->text_max - prometheus->bytes;
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

/* In the spelling of Go, which Prometheus is written in. labels "": none but the run. */
static void put_number(struct prometheus *prometheus, const char *name, const char *labels, double value)
{
    put(prometheus, "pipetrain_%s{%s%s%s} ", name, prometheus->label, *labels != '\0' ? "," : "", labels);
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
    put_number(prometheus, name, "", value);
}

/* A counter whose number in this process is `value`. */
static void put_counter(struct prometheus *prometheus, enum counter counter, double value)
{
    if (counters[counter].help != NULL)
        put_head(prometheus, counters[counter].name, "counter", counters[counter].help);
    put_number(prometheus, counters[counter].name, counters[counter].labels, prometheus->earlier[counter] + value);
}

/* The first `bytes_max` bytes of a label's value, escaped: every byte takes at most three, since a collector refuses a
 * whole file for a byte that is not UTF-8. */
static void escape(const char *value, size_t bytes_max, char *text)
{
    const size_t bytes = strlen(value);
    for (size_t at = 0, length; at < bytes && at < bytes_max; at += length) {
        length = utf8_character_bytes(value + at, bytes - at);
        if (length == 0) {
            text += sprintf(text, "\xef\xbf\xbd");
            length = 1;
        } else if (strchr("\\\"\n", value[at]) != NULL) {
            text += sprintf(text, "\\%c", value[at] == '\n' ? 'n' : value[at]);
        } else {
            memcpy(text, value + at, length);
            text += length;
        }
    }
    *text = '\0';
}

struct label_text { char text[3 * LABEL_MAX + 8]; };

static struct label_text label(const char *value)
{
    struct label_text label;
    escape(value, LABEL_MAX, label.text);
    return label;
}

static void put_run(struct prometheus *prometheus, double now)
{
    const struct observed_run *const run = prometheus->run;
    put_head(prometheus, "info", "gauge", "The run: its value is 1.");
    put(prometheus, "pipetrain_info{%s,name=\"%s\",version=\"%s\",model=\"%s\"} 1\n", prometheus->label,
        label(run->settings->run.name).text, label(PIPETRAIN_VERSION).text, label(run->net->model).text);
    put_gauge(prometheus, "running", "1 while the run continues, 0 when it has ended.", prometheus->is_running);
    put_gauge(prometheus, "last_update_seconds", "When these numbers were written, in seconds since 1970.", now);
    put_gauge(prometheus, "planned_steps", "Training steps that the run will do.",
              (double)schedule_step_count(&run->plan->schedule));
    put_gauge(prometheus, "step", "Training steps done, including those of earlier processes of the run.",
              (double)prometheus->step);
    put_gauge(prometheus, "epoch", "The epoch, counted from 1; 0 before the first row.", prometheus->epoch);
    put_counter(prometheus, COUNTER_IMAGES, (double)run->account->process.images);
    const double again = fmin((double)prometheus->corrupt_records, prometheus->earlier[COUNTER_SKIPPED]);
    put_counter(prometheus, COUNTER_SKIPPED, (double)prometheus->corrupt_records - again);  /* met once more */
}

static void put_busy(struct prometheus *prometheus)
{
    const struct step_times *const times = &prometheus->times;
    put_counter(prometheus, COUNTER_READ, (double)prometheus->read_ns / 1e9);
    put_counter(prometheus, COUNTER_DECODE, (double)prometheus->decode_ns / 1e9);
    put_counter(prometheus, COUNTER_FORWARD, (double)times->forward / 1e9);
    put_counter(prometheus, COUNTER_BACKWARD, (double)times->backward / 1e9);
    put_counter(prometheus, COUNTER_UPDATE, (double)times->update / 1e9);
    put_counter(prometheus, COUNTER_WAIT, (double)times->input_wait / 1e9);
}

static void put_saves(struct prometheus *prometheus)
{
    const struct checkpoint_counts *const saves = prometheus->run->saves;
    put_counter(prometheus, COUNTER_FAILURES, saves->failures);
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
    const struct labelled shares[] = {
        { "input_wait", share->input_wait }, { "exposed_copy", share->exposed_copy }, { "forward", share->forward },
        { "backward", share->backward }, { "exposed_reduction", share->exposed_reduction },
        { "update", share->update }, { "other", share->other },
    };
    put_gauge(prometheus, "learning_rate", "Of the latest training step.", prometheus->learning_rate);
    put_gauge(prometheus, "step_seconds", "Mean time of a training step since the row before.",
              prometheus->step_seconds);
    put_head(prometheus, "tower_time_ratio", "gauge", "Where the towers' time went since the row before; sums to 1.");
    PUT_LABELLED(prometheus, "tower_time_ratio", "part", shares);
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
    put_busy(prometheus);
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

/* The path of the directory from the root, which differs between all runs of a machine, and is that of every process of
 * a run. */
static int make_label(struct prometheus *prometheus)
{
    char real[PATH_MAX];
    const char *const path = realpath(prometheus->run->directory, real) != NULL ? real : prometheus->run->directory;
    static const char begins[] = "run=\"";
    char *const label = malloc(sizeof(begins) + 3 * strlen(path) + 2);
    if (label == NULL)
        return -ENOMEM;
    strcpy(label, begins);
    escape(path, strlen(path), label + strlen(begins));
    strcat(label, "\"");
    prometheus->label = label;
    return 0;
}

/* The number of a counter in the text of a file; 0: it has none. */
static double find_counter(const struct prometheus *prometheus, const char *text, enum counter counter)
{
    char name[SAMPLE_MAX], rest[SAMPLE_MAX];
    const char *const labels = counters[counter].labels;
    const size_t label_bytes = strlen(prometheus->label);
    snprintf(name, sizeof(name), "\npipetrain_%s{", counters[counter].name);
    snprintf(rest, sizeof(rest), "%s%s} ", *labels != '\0' ? "," : "", labels);
    for (const char *at = text; (at = strstr(at, name)) != NULL;) {
        at += strlen(name);
        if (strncmp(at, prometheus->label, label_bytes) != 0 ||
            strncmp(at + label_bytes, rest, strlen(rest)) != 0)
            continue;
        const char *const number = at + label_bytes + strlen(rest);
        const double value = decimal_end(number) != NULL ? decimal_read(number) : 0;
        return isfinite(value) && value > 0 ? value : 0;
    }
    return 0;
}

/* A resumed run continues the counters of its file; images also count those of the checkpoint. */
static void read_earlier(struct prometheus *prometheus)
{
    const struct account *const account = prometheus->run->account;
    char *text = NULL;
    size_t bytes;
    if (prometheus->run->plan->schedule.first == 0)
        return;
    if (file_load(prometheus->path, EARLIER_MAX, &text, &bytes) == 0)
        for (enum counter counter = 0; counter < COUNTER_COUNT; counter++)
            prometheus->earlier[counter] = find_counter(prometheus, text, counter);
    free(text);
    const double resumed = (double)(account->state.training.images - account->process.images);
    prometheus->earlier[COUNTER_IMAGES] = fmax(prometheus->earlier[COUNTER_IMAGES], resumed);
}

static void release(struct prometheus *prometheus)
{
    free(prometheus->label);
    free(prometheus->text);
    free(prometheus);
}

static struct prometheus *fail_to_open(struct prometheus *prometheus, const char *path)
{
    log_message(LOG_ERROR, "%s: metrics are not written: %s: the run continues without", path, strerror(ENOMEM));
    if (prometheus != NULL)
        release(prometheus);
    return NULL;
}

struct prometheus *prometheus_open(const struct observed_run *run)
{
    const char *const path = run->settings->report.prometheus;
    const struct schedule *const schedule = &run->plan->schedule;
    if (*path == '\0')
        return NULL;
    struct prometheus *const prometheus = calloc(1, sizeof(*prometheus));
    if (prometheus == NULL)
        return fail_to_open(NULL, path);
    prometheus->run = run;
    prometheus->path = path;
    prometheus->is_running = true;
    prometheus->step = schedule_position(schedule, schedule->first).step;
    if (make_label(prometheus) != 0)
        return fail_to_open(prometheus, path);
    prometheus->text_max = TEXT_MAX + SAMPLES_MAX * strlen(prometheus->label);
    prometheus->text = malloc(prometheus->text_max);
    return prometheus->text != NULL ? prometheus : fail_to_open(prometheus, path);
}

void prometheus_begin(struct prometheus *prometheus)
{
    if (prometheus == NULL)
        return;
    prometheus->has_begun = true;
    read_earlier(prometheus);
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
    release(prometheus);
}
