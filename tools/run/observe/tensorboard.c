/* Event files of a run, and what stands in them. */
#include "tools/run/observe/tensorboard.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/events/tfevent.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "tools/run/observe/event_file.h"

#define RECORD_BYTES 2048u      /* more than the scalars of a row take */
#define FOLDER "tensorboard"    /* in the run's directory */

/* What TensorBoard calls runs: their folders in ours. */
enum board_run { BOARD_TRAIN, BOARD_VALIDATION, BOARD_RUN_COUNT };

static const char *const run_folders[BOARD_RUN_COUNT] = {
    [BOARD_TRAIN] = "train",
    [BOARD_VALIDATION] = "validation",
};

struct tensorboard {
    const struct run_plan *plan;
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

static void release(struct tensorboard *board)
{
    for (int run = 0; run < BOARD_RUN_COUNT; run++)
        if (board->fds[run] >= 0)
            close(board->fds[run]);
    tfevent_release(&board->event);
    free(board);
}

static struct tensorboard *refuse(struct tensorboard *board)
{
    log_message(LOG_ERROR, "report.tensorboard: no memory for events: the run goes on without");
    if (board != NULL)
        release(board);
    return NULL;
}

struct tensorboard *tensorboard_open(const struct settings *settings, const struct run_plan *plan,
                                     const char *directory)
{
    if (!is_wanted(settings))
        return NULL;
    struct tensorboard *const board = calloc(1, sizeof(*board));
    if (board == NULL)
        return refuse(NULL);
    *board = (struct tensorboard){ .plan = plan, .is_own = is_yes(settings), .fds = { -1, -1 } };
    tfevent_init(&board->event);
    const int length = board->is_own ? snprintf(board->folder, sizeof(board->folder), "%s/" FOLDER, directory)
                                     : snprintf(board->folder, sizeof(board->folder), "%s",
                                                settings->report.tensorboard);
    if (length >= (int)sizeof(board->folder) || tfevent_reserve(&board->event, RECORD_BYTES) != 0)
        return refuse(board);
    return board;
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
    snprintf(folder, sizeof(folder), "%s/%s", board->folder, run_folders[run]);
    if (board->is_own && board->plan->schedule.first == 0)
        event_file_clear(folder);
    const int fd = event_file_make(folder, (uint64_t)wall_time());
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

void tensorboard_begin(struct tensorboard *board)
{
    if (board == NULL)
        return;
    const struct schedule *const schedule = &board->plan->schedule;
    begin_file(board, BOARD_TRAIN, first_step(schedule, BOARD_TRAIN));
    if (schedule->records[PASS_EVALUATE] > 0 && !board->is_off)
        begin_file(board, BOARD_VALIDATION, first_step(schedule, BOARD_VALIDATION));
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

static void put_training(struct tensorboard *board, const struct observation *observation)
{
    const struct tally *const tally = observation->tally;
    const struct fractions share = tally_fractions(tally);
    const double steps = (double)tally->steps, tower_steps = steps * board->plan->devices.towers.count;
    put_scalar(board, "lr", observation->learning_rate);
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

void tensorboard_close(struct tensorboard *board)
{
    if (board != NULL)
        release(board);
}
