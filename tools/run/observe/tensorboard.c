/* Event files of a run, and what stands in them. */
#include "tools/run/observe/tensorboard.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/events/tfevent.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "tools/config/observe/histogram_steps.h"
#include "tools/results/run_place.h"
#include "tools/run/observe/event_file.h"
#include "tools/run/observe/hyperparameters.h"
#include "tools/run/observe/run_texts.h"
#include "tools/run/observe/shown_tensors.h"

#define RECORD_BYTES 8192u      /* more than the scalars of a row, the hyperparameters or two histograms take, and texts
                                 * besides */

/* What TensorBoard calls runs: their folders in ours. */
enum board_run { BOARD_ALL, BOARD_TRAIN, BOARD_VALIDATION, BOARD_RUN_COUNT };

static const char *const run_folders[BOARD_RUN_COUNT] = {
    [BOARD_ALL] = "",
    [BOARD_TRAIN] = "/train",
    [BOARD_VALIDATION] = "/validation",
};

struct tensorboard {
    struct observed_run run;
    struct run_texts texts;
    struct shown_tensors tensors;
    char folder[PATH_MAX];
    bool is_own;                /* the folder is in the run's directory */
    bool is_off;                /* something could not be written */
    int fds[BOARD_RUN_COUNT];   /* -1: none */
    struct tfevent event;
};

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
    (void)histogram_steps_read(settings->report.histograms, &steps);    /* as it was read before */
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
    return tensorboard_rule(settings).count > 0 ? shown_tensors_bytes(net) : 0;
}

static void release(struct tensorboard *board)
{
    for (int run = 0; run < BOARD_RUN_COUNT; run++)
        if (board->fds[run] >= 0)
            close(board->fds[run]);
    tfevent_release(&board->event);
    run_texts_release(&board->texts);
    shown_tensors_release(&board->tensors);
    free(board);
}

static struct tensorboard *refuse(struct tensorboard *board, int rc)
{
    log_message(LOG_ERROR, "report.tensorboard: %s: the run goes on without", strerror(-rc));
    if (board != NULL)
        release(board);
    return NULL;
}

/* 0 or a negative errno. */
static int prepare(struct tensorboard *board, const struct observed_run *run)
{
    const char *const asked = run->settings->report.tensorboard;
    board->is_own = is_yes(run->settings);
    const int length = board->is_own
                           ? snprintf(board->folder, sizeof(board->folder), "%s/" RUN_EVENTS_FOLDER, run->directory)
                           : snprintf(board->folder, sizeof(board->folder), "%s", asked);
    if (length >= (int)sizeof(board->folder))
        return -ENAMETOOLONG;
    int rc = run_texts_make(&board->texts, run);
    if (rc == 0 && tensorboard_rule(run->settings).count > 0)
        rc = shown_tensors_open(&board->tensors, run->net);
    if (rc != 0)
        return rc;
    const struct run_texts *const texts = &board->texts;
    return tfevent_reserve(&board->event, RECORD_BYTES + strlen(texts->plan) + strlen(texts->settings) +
                                          strlen(texts->model));
}

struct tensorboard *tensorboard_open(const struct observed_run *run)
{
    const struct histogram_steps steps = histogram_steps(run->settings);
    if (!is_wanted(run->settings) && (steps.each_epoch || steps.every > 0))
        log_message(LOG_RUN, "report.histograms = %s is of events for TensorBoard, and there are none: set "
                    "report.tensorboard", run->settings->report.histograms);
    if (!is_wanted(run->settings))
        return NULL;
    struct tensorboard *const board = calloc(1, sizeof(*board));
    if (board == NULL)
        return refuse(NULL, -ENOMEM);
    *board = (struct tensorboard){ .run = *run, .fds = { -1, -1, -1 } };
    tfevent_init(&board->event);
    const int rc = prepare(board, run);
    return rc == 0 ? board : refuse(board, rc);
}

/* Returns rc. From an error on nothing is written any more. */
static int check(struct tensorboard *board, int rc)
{
    if (rc != 0 && !board->is_off)
        log_message(LOG_ERROR, "%s: events for TensorBoard are not written: %s: the run goes on without",
                    board->folder, strerror(-rc));
    board->is_off = board->is_off || rc != 0;
    return rc;
}

static double wall_time(void)
{
    return (double)clock_read_ns(CLOCK_REALTIME) / 1e9;
}

static void put(struct tensorboard *board, enum board_run run)
{
    if (!board->is_off)
        (void)check(board, event_file_put(board->fds[run], &board->event));
}

/* A file in the run's folder; readers drop what earlier ones say of step `first` and those behind it. */
static void begin_file(struct tensorboard *board, enum board_run run, uint64_t first)
{
    char folder[PATH_MAX + 16];
    snprintf(folder, sizeof(folder), "%s%s", board->folder, run_folders[run]);
    const bool may_be_link = !board->is_own && run == BOARD_ALL;
    if (board->is_own && board->run.plan->schedule.first == 0)
        event_file_clear(folder);
    const int fd = event_file_make(folder, may_be_link, (uint64_t)wall_time());
    if (check(board, fd < 0 ? fd : 0) != 0)
        return;
    board->fds[run] = fd;
    tfevent_begin(&board->event, wall_time(), 0);
    tfevent_version(&board->event);
    put(board, run);
    tfevent_begin(&board->event, wall_time(), first);
    tfevent_start(&board->event);
    put(board, run);
}

/* The first step that a row of this process can have: a row is of the steps that are done then. */
static uint64_t first_step(const struct schedule *schedule, enum board_run run)
{
    const uint64_t steps = schedule_position(schedule, schedule->first).step;
    struct span span = { .pass = PASS_TRAIN };
    if (schedule->first == 0)
        return 0;
    (void)schedule_find(schedule, schedule->first, 0, &span);
    return run == BOARD_VALIDATION && span.pass == PASS_EVALUATE ? steps : steps + 1;
}

/* What the run is, where this process began; hyperparameters are always of step 0. */
static void put_texts(struct tensorboard *board)
{
    const double now = wall_time();
    tfevent_begin(&board->event, now, first_step(&board->run.plan->schedule, BOARD_ALL));
    tfevent_text(&board->event, "plan", board->texts.plan);
    tfevent_text(&board->event, "config", board->texts.settings);
    tfevent_text(&board->event, "model", board->texts.model);
    put(board, BOARD_ALL);
    tfevent_begin(&board->event, now, 0);
    hyperparameters_put(&board->event, board->run.settings, board->run.directory, now);
    put(board, BOARD_ALL);
}

void tensorboard_begin(struct tensorboard *board)
{
    if (board == NULL)
        return;
    const struct schedule *const schedule = &board->run.plan->schedule;
    for (enum board_run run = 0; run < BOARD_RUN_COUNT; run++)
        if (!board->is_off && (run != BOARD_VALIDATION || schedule->records[PASS_EVALUATE] > 0))
            begin_file(board, run, first_step(schedule, run));
    put_texts(board);
}

static void put_scalar(struct tensorboard *board, const char *tag, double value)
{
    tfevent_scalar(&board->event, tag, (float)value);
}

/* A number of metrics.jsonl that is null there is left out. */
static void put_known(struct tensorboard *board, const char *tag, double value)
{
    if (!isnan(value))
        put_scalar(board, tag, value);
}

/* As "queues" and "loader_busy" of metrics.jsonl. */
static void put_feed(struct tensorboard *board, const struct observation *observation)
{
    const struct queue_fills *const fills = account_interval_fills(observation->account);
    const struct fill_use ring = fill_use(&fills->ring), slots = fill_use(&fills->slots);
    put_scalar(board, "feed/slots", slots.mean);
    put_scalar(board, "feed/slots_empty", slots.empty);
    if (board->run.settings->input.source == INPUT_SYNTHETIC)
        return;
    put_scalar(board, "feed/ring", ring.mean);
    put_scalar(board, "feed/ring_empty", ring.empty);
    put_scalar(board, "feed/readers_busy", observation->busy.readers);
    put_scalar(board, "feed/decoders_busy", observation->busy.decoders);
}

static void put_training(struct tensorboard *board, const struct observation *observation)
{
    const struct tally *const tally = observation->tally;
    const struct fractions share = tally_fractions(tally);
    const double steps = (double)tally->steps, tower_steps = steps * board->run.plan->devices.towers.count;
    put_scalar(board, "lr", observation->learning_rate);
    put_known(board, "grad_norm", observation->gradient_norm);
    put_scalar(board, "epoch", observation->epoch);
    if (tally->steps > 0) {
        put_scalar(board, "perf/step_ms", (double)tally->wall_ns / 1e6 / steps);
        put_scalar(board, "perf/input_wait_ms", (double)tally->times.input_wait / 1e6 / tower_steps);
    }
    put_scalar(board, "time/input_wait", share.input_wait);
    put_scalar(board, "time/exposed_copy", share.exposed_copy);
    put_scalar(board, "time/forward", share.forward);
    put_scalar(board, "time/backward", share.backward);
    put_scalar(board, "time/exposed_reduction", share.exposed_reduction);
    put_scalar(board, "time/update", share.update);
    put_scalar(board, "time/other", share.other);
    put_feed(board, observation);
}

void tensorboard_put(struct tensorboard *board, const struct observation *observation)
{
    if (board == NULL || board->is_off)
        return;
    tfevent_begin(&board->event, wall_time(), observation->step);
    put_known(board, "loss", observation->loss);
    put_known(board, "accuracy/top1", observation->accuracy);
    put_scalar(board, "perf/images_per_sec", tally_images_per_second(observation->tally));
    if (observation->pass == PASS_TRAIN)
        put_training(board, observation);
    put(board, observation->pass == PASS_TRAIN ? BOARD_TRAIN : BOARD_VALIDATION);
}

/* Rows tell the norm where it is limited. */
static void show_norm(struct tensorboard *board, uint64_t step)
{
    const double norm = shown_tensors_norm(&board->tensors);
    if (board->run.settings->train.clip_norm > 0 || isnan(norm))
        return;
    tfevent_begin(&board->event, wall_time(), step);
    put_scalar(board, "grad_norm", norm);
    put(board, BOARD_TRAIN);
}

/* An event for each parameter: one with all of a large network would need memory. */
void tensorboard_show(struct tensorboard *board, const struct step_report *report)
{
    if (board == NULL || board->tensors.numbers == NULL)
        return;
    const struct net *const net = board->run.net;
    const uint64_t step = report->span.step + 1;
    shown_tensors_begin(&board->tensors);
    for (uint32_t i = 0; i < net->parameter_count && !board->is_off; i++) {
        if (!net->parameters[i].is_trained)
            continue;
        tfevent_begin(&board->event, wall_time(), step);
        if (check(board, shown_tensors_put(&board->tensors, report, i, &board->event)) == 0)
            put(board, BOARD_TRAIN);
    }
    show_norm(board, step);
}

void tensorboard_close(struct tensorboard *board, bool is_over)
{
    if (board == NULL)
        return;
    if (is_over && board->fds[BOARD_ALL] >= 0) {
        const double now = wall_time();
        tfevent_begin(&board->event, now, 0);
        tfevent_end_session(&board->event, now);
        put(board, BOARD_ALL);
    }
    release(board);
}
