/* Writes event files for TensorBoard: rows, texts, hyperparameters, histograms. */
#include "tools/lib/run/observe/tensorboard.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/netfile/net_file.h"
#include "formats/tfevent.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/text_stream.h"
#include "tools/lib/config/intervals.h"
#include "tools/lib/config/options.h"
#include "tools/lib/results/run_directory.h"
#include "tools/lib/run/observe/event_file.h"
#include "tools/lib/run/observe/histogram.h"

/* more than the scalars of a row, the hyperparameters or two histograms need; the size of texts is added to it */
#define RECORD_BYTES 8192u
#define TAG_BYTES 160u

/* The runs that TensorBoard displays, and their subfolders in the folder of the run. */
enum board_run { BOARD_ALL, BOARD_TRAIN, BOARD_VALIDATION, BOARD_RUN_COUNT };

static const char *const run_folders[BOARD_RUN_COUNT] = {
    [BOARD_ALL] = "",
    [BOARD_TRAIN] = "/train",
    [BOARD_VALIDATION] = "/validation",
};

struct tensorboard {
    struct observed_run run;
    char *plan, *settings, *model;      /* texts */
    char folder[PATH_MAX];
    bool is_own;                /* the folder is in the run's directory */
    bool is_off;                /* after an error nothing more is written */
    int fds[BOARD_RUN_COUNT];   /* -1: none */
    struct tfevent event;
    float *numbers;             /* buffer for one parameter; NULL: no histograms */
    struct histogram histogram;
    double gradient_squares;    /* the sum of squares over the mean gradients of the report */
    uint32_t gradient_samples;  /* the number of samples that the gradients are means over; 0: none yet */
    bool is_mixed;              /* gradients are means over different numbers of samples */
};

/* ---- hyperparameters: settings under their names in a configuration file ---- */

static void put_hyperparameter(struct tfevent *event, const struct option_row *option, const struct settings *settings)
{
    const void *const value = option_value(option, settings);
    struct option_text text;
    char name[64];
    snprintf(name, sizeof(name), "%s.%s", section_name(option->section), option->key);
    switch (option->type) {
    case OPTION_INTEGER:
    case OPTION_DURATION:
    case OPTION_SIZE:
        tfevent_number(event, name, (double)*(const int64_t *)value);
        break;
    case OPTION_NUMBER:
        tfevent_number(event, name, *(const double *)value);
        break;
    case OPTION_YES_NO:
        tfevent_flag(event, name, *(const bool *)value);
        break;
    default:
        tfevent_words(event, name, option_format(option, settings, &text));
    }
}

/* `group`: the name by which TensorBoard groups sessions. */
static void put_hyperparameters(struct tfevent *event, const struct settings *settings, const char *group, double time)
{
    tfevent_open_session(event);
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (option_is_hyperparameter(option))
            put_hyperparameter(event, option, settings);
    tfevent_close_session(event, group, time);
}

/* ---- texts ---- */

static void write_plan(const struct observed_run *run, FILE *out)
{
    run_plan_print(run->plan, run->settings, run->net, run->datasets, out);
}

static void write_settings(const struct observed_run *run, FILE *out)
{
    (void)settings_write(run->settings, out);   /* text_stream_end returns errors of the stream */
}

static void write_model(const struct observed_run *run, FILE *out)
{
    (void)net_file_write(run->net, out);        /* as in write_settings */
}

/* Make a text, as a block of code in Markdown, so that it is displayed unchanged. */
static int make_text(char **text_out, const struct observed_run *run,
                     void (*write)(const struct observed_run *run, FILE *out))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    fputs("```\n", out);
    write(run, out);
    fputs("```\n", out);
    const int rc = text_stream_end(out, &text);
    *text_out = text;
    return rc;
}

static int make_texts(struct tensorboard *board)
{
    int rc = make_text(&board->plan, &board->run, write_plan);
    if (rc == 0)
        rc = make_text(&board->settings, &board->run, write_settings);
    return rc == 0 ? make_text(&board->model, &board->run, write_model) : rc;
}

/* ---- histograms of weights and gradients: of tower 0, or with model.parts of all towers of this process ---- */

/* Write a histogram of board->numbers. */
static void put_histogram(struct tensorboard *board, const char *what, uint32_t parameter, double factor)
{
    const struct parameter *const shown = &board->run.net->parameters[parameter];
    struct histogram *const histogram = &board->histogram;
    char tag[TAG_BYTES];
    snprintf(tag, sizeof(tag), "%s/%s", what, shown->name);
    histogram_count(histogram, board->numbers, shown->count, factor);
    tfevent_histogram(&board->event, tag, &(struct tfevent_histogram){
                                              .least = histogram->least, .most = histogram->most,
                                              .count = (double)histogram->count, .sum = histogram->sum,
                                              .squares = histogram->squares, .limits = histogram->limits,
                                              .counts = histogram->counts, .buckets = histogram->buckets });
}

/* Read those numbers of a parameter that a tower has, with snapshot_value or snapshot_gradient. Adds their count. */
static int read_pieces(struct tensorboard *board, const struct step_report *report, uint32_t parameter,
                       int (*read)(const struct snapshot *snapshot, uint32_t parameter, float *plain_out),
                       uint64_t *count)
{
    const struct tower *const tower = report->sync->spec.tower;
    uint32_t i = NET_NO_PARAMETER;
    int rc = 0;
    while (rc == 0 && (i = tower_piece(tower, parameter, i)) != NET_NO_PARAMETER) {
        rc = read(report->shown, i, board->numbers + tower_piece_first(tower, i));
        *count += tower_net(tower)->parameters[i].count;
    }
    return rc;
}

/* Read a parameter from the reports of all towers of this process. 0; -ENODATA if other processes have parts of it; or
 * another negative errno. */
static int read_parameter(struct tensorboard *board, struct step_report *const *reports, uint32_t parameter,
                          int (*read)(const struct snapshot *snapshot, uint32_t parameter, float *plain_out))
{
    const uint64_t all = board->run.net->parameters[parameter].count;
    uint64_t count = 0;
    int rc = 0;
    for (uint32_t d = 0; d < board->run.plan->devices.towers.count && count < all && rc == 0; d++)
        rc = read_pieces(board, reports[d], parameter, read, &count);
    return rc == 0 && count < all ? -ENODATA : rc;
}

/* Write the gradient of a parameter, which is a sum over samples, as a mean. A tower without samples has no
 * gradient. */
static int put_gradient(struct tensorboard *board, struct step_report *const *reports, uint32_t parameter)
{
    const struct step_report *const report = reports[0];
    const struct tower *const tower = report->sync->spec.tower;
    const size_t offset = tower_arena(tower)->ranges[tower_piece(tower, parameter, NET_NO_PARAMETER)].offset;
    const uint32_t samples = sync_gradient_samples(report->sync, &report->local, offset);
    const int rc = read_parameter(board, reports, parameter, snapshot_gradient);
    board->is_mixed = board->is_mixed || samples == 0 ||
                      (board->gradient_samples > 0 && samples != board->gradient_samples);
    if (rc != 0 || samples == 0)
        return rc;
    put_histogram(board, "gradients", parameter, 1 / ((double)samples * (double)report->result.loss_scale));
    board->gradient_samples = samples;
    board->gradient_squares += board->histogram.squares;
    return 0;
}

/* Write histograms of a trained parameter: its weights and, unless it is frozen, its gradient. A few kB. Returns 0, or
 * -ENODATA or another negative errno of read_parameter. */
static int put_parameter(struct tensorboard *board, struct step_report *const *reports, uint32_t parameter)
{
    const int rc = read_parameter(board, reports, parameter, snapshot_value);
    if (rc != 0)
        return rc;
    put_histogram(board, "weights", parameter, 1);
    return parameter_is_updated(&board->run.net->parameters[parameter]) ? put_gradient(board, reports, parameter) : 0;
}

/* ---- opening ---- */

static bool is_yes(const struct settings *settings)
{
    return strcmp(settings->report.tensorboard, "yes") == 0;
}

static bool is_wanted(const struct settings *settings)
{
    return *settings->report.tensorboard != '\0' && strcmp(settings->report.tensorboard, "no") != 0;
}

static struct histogram_steps histogram_steps(const struct settings *settings)
{
    struct histogram_steps steps;
    (void)histogram_steps_read(settings->report.histograms, &steps);    /* checked with the settings */
    return steps;
}

struct snapshot_rule tensorboard_rule(const struct settings *settings)
{
    const struct histogram_steps steps = histogram_steps(settings);
    const bool shows = is_wanted(settings) && (steps.each_epoch || steps.every > 0);
    return (struct snapshot_rule){ .count = shows, .every = steps.every, .each_epoch = steps.each_epoch,
                                   .kind = SNAPSHOT_SHOWN };
}

size_t tensorboard_bytes(const struct settings *settings, const struct net *net)
{
    return tensorboard_rule(settings).count > 0 ? net_most_numbers(net) * sizeof(float) : 0;
}

static void release(struct tensorboard *board)
{
    for (int run = 0; run < BOARD_RUN_COUNT; run++)
        if (board->fds[run] >= 0)
            close(board->fds[run]);
    tfevent_release(&board->event);
    free(board->plan);
    free(board->settings);
    free(board->model);
    free(board->numbers);
    free(board);
}

static struct tensorboard *fail_to_open(struct tensorboard *board, int rc)
{
    log_message(LOG_ERROR, "report.tensorboard: %s: the run continues without", strerror(-rc));
    if (board != NULL)
        release(board);
    return NULL;
}

/* Allocate memory and make the texts. 0 or a negative errno. */
static int prepare(struct tensorboard *board, const struct observed_run *run)
{
    const char *const asked = run->settings->report.tensorboard;
    board->is_own = is_yes(run->settings);
    const int length = board->is_own
                           ? snprintf(board->folder, sizeof(board->folder), "%s/" RUN_EVENTS_FOLDER, run->directory)
                           : snprintf(board->folder, sizeof(board->folder), "%s", asked);
    if (length >= (int)sizeof(board->folder))
        return -ENAMETOOLONG;
    const size_t bytes = tensorboard_bytes(run->settings, run->net);
    if (bytes > 0)
        board->numbers = malloc(bytes);
    if (bytes > 0 && board->numbers == NULL)
        return -ENOMEM;
    const int rc = make_texts(board);
    return rc != 0 ? rc : tfevent_reserve(&board->event, RECORD_BYTES + strlen(board->plan) + strlen(board->settings) +
                                                         strlen(board->model));
}

struct tensorboard *tensorboard_open(const struct observed_run *run)
{
    const struct histogram_steps steps = histogram_steps(run->settings);
    if (!is_wanted(run->settings) && (steps.each_epoch || steps.every > 0))
        log_message(LOG_RUN, "report.histograms = %s has no effect without events for TensorBoard: set "
                    "report.tensorboard", run->settings->report.histograms);
    if (!is_wanted(run->settings))
        return NULL;
    if (tensorboard_rule(run->settings).count > 0 && run_plan_parts(run->plan, run->settings) > 0 &&
        run->plan->devices.towers.count < run->plan->schedule.towers)
        log_message(LOG_RUN, "report.histograms: without the dense layers that model.parts divides, of which other ranks "
                    "have parts");
    struct tensorboard *const board = calloc(1, sizeof(*board));
    if (board == NULL)
        return fail_to_open(NULL, -ENOMEM);
    *board = (struct tensorboard){ .run = *run, .fds = { -1, -1, -1 } };
    tfevent_init(&board->event);
    const int rc = prepare(board, run);
    return rc == 0 ? board : fail_to_open(board, rc);
}

/* Report the first error, and write nothing after it. Returns rc. */
static int note_error(struct tensorboard *board, int rc)
{
    if (rc != 0 && !board->is_off)
        log_message(LOG_ERROR, "%s: events for TensorBoard are not written: %s: the run continues without",
                    board->folder, strerror(-rc));
    board->is_off = board->is_off || rc != 0;
    return rc;
}

static double wall_time(void)
{
    return (double)clock_read_ns(CLOCK_REALTIME) / 1e9;
}

static void write_event(struct tensorboard *board, enum board_run run)
{
    if (!board->is_off)
        (void)note_error(board, event_file_put(board->fds[run], &board->event));
}

/* A file that begins at step 0 hides all steps of earlier files from readers. */
static void warn_of_earlier(const struct tensorboard *board)
{
    if (!board->is_own && board->run.plan->schedule.first == 0 && event_file_exists(board->folder))
        log_message(LOG_RUN, "report.tensorboard = %s: has the events of an earlier run, in whose place TensorBoard will "
                    "show this run: give each run its own folder", board->folder);
}

/* Begin a file for the steps from `first` on: readers drop these steps of earlier files. */
static void begin_file(struct tensorboard *board, enum board_run run, uint64_t first)
{
    char folder[PATH_MAX + 16];
    snprintf(folder, sizeof(folder), "%s%s", board->folder, run_folders[run]);
    const bool may_be_link = !board->is_own && run == BOARD_ALL;
    if (board->is_own && board->run.plan->schedule.first == 0)
        event_file_clear(folder);
    const int fd = event_file_make(folder, may_be_link, (uint64_t)wall_time());
    if (note_error(board, fd < 0 ? fd : 0) != 0)
        return;
    board->fds[run] = fd;
    tfevent_begin(&board->event, wall_time(), 0);
    tfevent_version(&board->event);
    write_event(board, run);
    tfevent_begin(&board->event, wall_time(), first);
    tfevent_start(&board->event);
    write_event(board, run);
}

/* The first step that a row of this process can have; the step of a row is the number of steps done. */
static uint64_t first_step(const struct schedule *schedule, enum board_run run)
{
    const uint64_t steps = schedule_position(schedule, schedule->first).step;
    struct local_batch local = { .phase = PHASE_TRAIN };
    if (schedule->first == 0)
        return 0;
    (void)schedule_find(schedule, schedule->first, 0, &local);
    return run == BOARD_VALIDATION && local.phase == PHASE_EVALUATE ? steps : steps + 1;
}

/* Write texts at the step with which this process begins, and hyperparameters at step 0. */
static void put_texts(struct tensorboard *board)
{
    const double now = wall_time();
    tfevent_begin(&board->event, now, first_step(&board->run.plan->schedule, BOARD_ALL));
    tfevent_text(&board->event, "plan", board->plan);
    tfevent_text(&board->event, "config", board->settings);
    tfevent_text(&board->event, "model", board->model);
    write_event(board, BOARD_ALL);
    tfevent_begin(&board->event, now, 0);
    put_hyperparameters(&board->event, board->run.settings, board->run.directory, now);
    write_event(board, BOARD_ALL);
}

void tensorboard_begin(struct tensorboard *board)
{
    if (board == NULL)
        return;
    const struct schedule *const schedule = &board->run.plan->schedule;
    warn_of_earlier(board);
    for (enum board_run run = 0; run < BOARD_RUN_COUNT; run++)
        if (!board->is_off && (run != BOARD_VALIDATION || schedule->records[PHASE_EVALUATE] > 0))
            begin_file(board, run, first_step(schedule, run));
    put_texts(board);
}

/* Numbers that are null in metrics.jsonl are left out. */
void tensorboard_put(struct tensorboard *board, enum phase phase, const struct metric_values *values)
{
    const unsigned place = phase == PHASE_TRAIN ? IN_TRAIN : IN_VALIDATION;
    if (board == NULL || board->is_off)
        return;
    tfevent_begin(&board->event, wall_time(), values->process.step);
    for (const struct metric *metric = metric_table; metric->help != NULL; metric++) {
        const double value = metric_get(metric, values);
        if (metric->tag != NULL && (metric->places & place) != 0 && metric_is_given(metric, values) && !isnan(value))
            tfevent_scalar(&board->event, metric->tag, (float)value);
    }
    write_event(board, phase == PHASE_TRAIN ? BOARD_TRAIN : BOARD_VALIDATION);
}

/* Write the norm of all gradients, if they are means over the same number of samples. With train.clip_norm the rows
 * contain the norm already. */
static void put_norm(struct tensorboard *board, uint64_t step)
{
    if (board->run.settings->train.clip_norm > 0 || board->is_mixed || board->gradient_samples == 0)
        return;
    tfevent_begin(&board->event, wall_time(), step);
    tfevent_scalar(&board->event, "grad_norm", (float)sqrt(board->gradient_squares));
    write_event(board, BOARD_TRAIN);
}

/* Writes one event per parameter: a single event would need memory for the whole network. Parameters of which other
 * processes have parts are left out, and then the norm of all gradients is unknown. */
void tensorboard_show(struct tensorboard *board, struct step_report *const *reports)
{
    if (board == NULL || board->numbers == NULL)
        return;
    const struct net *const net = board->run.net;
    const uint64_t step = reports[0]->local.step + 1;
    board->gradient_squares = 0;
    board->gradient_samples = 0;
    board->is_mixed = false;
    for (uint32_t i = 0; i < net->parameter_count && !board->is_off; i++) {
        if (!net->parameters[i].is_trained)
            continue;
        tfevent_begin(&board->event, wall_time(), step);
        const int rc = put_parameter(board, reports, i);
        if (rc == -ENODATA)
            board->is_mixed = true;
        else if (note_error(board, rc) == 0)
            write_event(board, BOARD_TRAIN);
    }
    put_norm(board, step);
}

void tensorboard_close(struct tensorboard *board, bool is_over)
{
    if (board == NULL)
        return;
    if (is_over && board->fds[BOARD_ALL] >= 0) {
        const double now = wall_time();
        tfevent_begin(&board->event, now, 0);
        tfevent_end_session(&board->event, now);
        write_event(board, BOARD_ALL);
    }
    release(board);
}
