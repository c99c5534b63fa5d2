/* Keeps the latest numbers, and writes them in Prometheus' text format 0.0.4 at every row. Every sample has the label
 * `run`, the path of the run's directory: a collector merges the files of a folder, and reports an error if samples of
 * two runs have the same labels. */
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
#include "stage/file/folders.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"
#include "stage/text/decimal.h"
#include "stage/text/utf8.h"
#include "tools/lib/version.h"

#define TEXT_MAX (512u * METRICS_MAX)   /* bytes without the labels `run` */
#define SAMPLES_MAX (2u * METRICS_MAX)  /* of a text */
#define LABEL_MAX 512u          /* the most bytes of the value of another label */
#define SAMPLE_MAX 160u         /* bytes of a counter's name and labels without `run` */
#define EARLIER_MAX ((size_t)4 << 20)   /* the most bytes of an earlier file that are read */

struct prometheus {
    const struct observed_run *run;     /* borrowed */
    const char *path;
    bool is_off;                        /* nothing is written any more after an error */
    bool has_begun, is_running;
    bool has_row[PHASE_COUNT];
    struct metric_values rows[PHASE_COUNT];     /* the latest ones */
    struct metric_values now;           /* the latest row of any phase, but with current values of the process */
    /* By metric_index: the counters in the file of the resumed run. Counting continues from them, because a reader
     * takes a lower number for a restart from 0. */
    double earlier[METRICS_MAX];
    char *label;                        /* run="...", with the path */
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

/* Write a sample; NaN and infinities as in Go, the language of Prometheus. `split` NULL: without this label. */
static void put_number(struct prometheus *prometheus, const struct metric *metric, const char *split, double value)
{
    put(prometheus, "pipetrain_%s{%s", metric->prometheus, prometheus->label);
    if (split != NULL)
        put(prometheus, ",split=\"%s\"", split);
    if (metric->labels != NULL)
        put(prometheus, ",%s", metric->labels);
    if (isnan(value))
        put(prometheus, "} NaN\n");
    else if (isinf(value))
        put(prometheus, "} %cInf\n", value > 0 ? '+' : '-');
    else
        put(prometheus, "} %.17g\n", value);
}

/* Write the first `bytes_max` bytes of a label's value, escaped. Every byte becomes at most three, because a byte that
 * is not UTF-8 is replaced: a collector would refuse the whole file. */
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

static void put_run(struct prometheus *prometheus)
{
    const struct observed_run *const run = prometheus->run;
    put_head(prometheus, "info", "gauge", "The run: its value is 1.");
    put(prometheus, "pipetrain_info{%s,name=\"%s\",version=\"%s\",model=\"%s\"", prometheus->label,
        label(run->settings->run.name).text, label(PIPETRAIN_VERSION).text, label(run->net->model).text);
    if (run->cost->price.amount > 0)
        put(prometheus, ",currency=\"%s\"", label(run->cost->price.currency).text);
    put(prometheus, "} 1\n");
}

static bool is_counter(const struct metric *metric)
{
    static const char ends[] = "_total";
    const size_t bytes = strlen(metric->prometheus);
    return bytes >= sizeof(ends) && strcmp(metric->prometheus + bytes - (sizeof(ends) - 1), ends) == 0;
}

static bool has_name(const struct metric *metric, const char *name)
{
    return metric->prometheus != NULL && strcmp(metric->prometheus, name) == 0;
}

/* Is it a metric of validation, or of training and validation, which have the label "split"? */
static bool is_split(const struct metric *metric)
{
    return (metric->places & IN_VALIDATION) != 0;
}

/* Is there a row of the phase that has the metric? */
static bool has_value(const struct prometheus *prometheus, const struct metric *metric, enum phase phase)
{
    const unsigned place = phase == PHASE_TRAIN ? IN_TRAIN : IN_VALIDATION;
    return (metric->places & place) != 0 && prometheus->has_row[phase];
}

static bool is_written(const struct prometheus *prometheus, const struct metric *metric)
{
    const bool has_any = has_value(prometheus, metric, PHASE_TRAIN) || has_value(prometheus, metric, PHASE_EVALUATE);
    return metric_is_given(metric, &prometheus->now) && (metric->places == 0 || has_any);
}

/* The value of a metric of the process; of a counter, including earlier processes of the run. */
static double process_value(const struct prometheus *prometheus, const struct metric *metric)
{
    const double value = metric_get(metric, &prometheus->now), earlier = prometheus->earlier[metric_index(metric)];
    return metric->counts_again ? fmax(value, earlier) : value + earlier;
}

static void put_metric(struct prometheus *prometheus, const struct metric *metric)
{
    if (metric->places == 0)
        put_number(prometheus, metric, NULL, process_value(prometheus, metric));
    else if (!is_split(metric))
        put_number(prometheus, metric, NULL, metric_get(metric, &prometheus->rows[PHASE_TRAIN]));
    else
        for (enum phase phase = 0; phase < PHASE_COUNT; phase++)
            if (has_value(prometheus, metric, phase))
                put_number(prometheus, metric, splits[phase], metric_get(metric, &prometheus->rows[phase]));
}

/* Write HELP and TYPE of a name, then all metrics with this name; nothing if none of them is written. */
static void put_family(struct prometheus *prometheus, const struct metric *first)
{
    bool has_head = false;
    for (const struct metric *metric = first; metric->help != NULL; metric++) {
        if (!has_name(metric, first->prometheus) || !is_written(prometheus, metric))
            continue;
        if (!has_head)
            put_head(prometheus, first->prometheus, is_counter(first) ? "counter" : "gauge",
                     first->family != NULL ? first->family : first->help);
        has_head = true;
        put_metric(prometheus, metric);
    }
}

static bool is_first_of_name(const struct metric *metric)
{
    for (const struct metric *earlier = metric_table; earlier < metric; earlier++)
        if (has_name(earlier, metric->prometheus))
            return false;
    return true;
}

/* Set the values that may have changed since the latest row. */
static void measure_now(struct prometheus *prometheus)
{
    const struct checkpoint_counts *const saves = prometheus->run->saves;
    struct process_values *const process = &prometheus->now.process;
    process->is_running = prometheus->is_running;
    process->updated = (double)clock_read_ns(CLOCK_REALTIME) / 1e9;
    process->planned_steps = schedule_step_count(&prometheus->run->plan->schedule);
    process->images = prometheus->run->account->process.images;
    cost_measure(prometheus->run->cost, prometheus->run->account->state.training.images, prometheus->run->progress,
                 &prometheus->now);
    process->cost_seconds = prometheus->now.run.cost.seconds;
    process->cost_money = prometheus->now.run.cost.money;
    process->cost_joules = prometheus->now.run.cost.joules;
    metrics_set_last_rank(&prometheus->now, prometheus->run->account);
    process->checkpoint_failures = saves->failures;
    process->checkpoint_seconds = (double)saves->latest_ns / 1e9;
    if (saves->saved > 0)
        prometheus->now.has |= NEEDS_CHECKPOINT;
}

static void make_text(struct prometheus *prometheus)
{
    prometheus->bytes = 0;
    prometheus->text[0] = '\0';
    measure_now(prometheus);
    put_run(prometheus);
    for (const struct metric *metric = metric_table; metric->help != NULL; metric++)
        if (metric->prometheus != NULL && is_first_of_name(metric))
            put_family(prometheus, metric);
}

/* ---- the file ---- */

/* The file is not synced, because it is soon replaced again. */
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

/* Replace the file atomically. Allocates nothing. On error the old file stays. */
static int replace_file(const char *path, const char *text, size_t bytes)
{
    char folder[PATH_MAX];
    const char *file;
    if (folder_of_file(path, folder, sizeof(folder), &file) != 0 || strlen(file) > WHOLE_FILE_NAME_MAX)
        return -ENAMETOOLONG;
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

/* Make the label `run` from the absolute path of the directory, which differs between all runs of a machine, and is the
 * same in every process of a run. */
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

/* The value of a counter in the text of a file; 0: it is not there. */
static double find_counter(const struct prometheus *prometheus, const char *text, const struct metric *counter)
{
    char name[SAMPLE_MAX], rest[SAMPLE_MAX];
    const size_t label_bytes = strlen(prometheus->label);
    snprintf(name, sizeof(name), "\npipetrain_%s{", counter->prometheus);
    snprintf(rest, sizeof(rest), "%s%s} ", counter->labels != NULL ? "," : "",
             counter->labels != NULL ? counter->labels : "");
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

/* Read the counters of the resumed run's file; images also include those that the checkpoint counts. */
static void read_earlier(struct prometheus *prometheus)
{
    const struct account *const account = prometheus->run->account;
    const double resumed = (double)(account->state.training.images - account->process.images);
    char *text = NULL;
    size_t bytes;
    if (prometheus->run->plan->schedule.first == 0)
        return;
    const bool has_file = file_load(prometheus->path, EARLIER_MAX, &text, &bytes) == 0;
    for (const struct metric *metric = metric_table; metric->help != NULL; metric++) {
        if (metric->prometheus == NULL || !is_counter(metric))
            continue;
        const double found = has_file ? find_counter(prometheus, text, metric) : 0;
        prometheus->earlier[metric_index(metric)] = has_name(metric, "images_total") ? fmax(found, resumed) : found;
    }
    free(text);
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
    prometheus->now = (struct metric_values){ .has = metric_needs_met(run->settings),
                                              .process.step = schedule_position(schedule, schedule->first).step };
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

void prometheus_put(struct prometheus *prometheus, enum phase phase, const struct metric_values *values)
{
    if (prometheus == NULL || prometheus->is_off)
        return;
    prometheus->has_row[phase] = true;
    prometheus->rows[phase] = prometheus->now = *values;
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
