/* Run trials. A process of the driver runs one at a time. */
#include "tests/torture/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/shard_list.h"
#include "stage/random.h"
#include "tests/torture/disk.h"
#include "tests/torture/tree.h"

#define PHASE_WAIT_US 60000000u

int trials_add(struct trials *trials, const struct trial *trial, const char *detail, ...)
{
    char text[64];
    va_list arguments;
    if (!stand_allows(trials->stand, trial->scenario))
        return 0;
    struct trial *const list = realloc(trials->list, (trials->count + 1) * sizeof(*list));
    if (list == NULL)
        return -ENOMEM;
    va_start(arguments, detail);
    vsnprintf(text, sizeof(text), detail, arguments);
    va_end(arguments);
    trials->list = list;
    list[trials->count] = *trial;
    snprintf(list[trials->count].name, sizeof(list->name), "%s: %s: %s%s%s", trial->scenario->name, trial->group,
             trial->what, *text != '\0' ? ": " : "", text);
    trials->count++;
    return 0;
}

uint64_t trials_share(const struct trials *trials, uint64_t count)
{
    return trials->share == 0 || trials->share > count ? count : trials->share;
}

uint64_t trials_random(const struct trials *trials, const char *of, uint64_t index, uint64_t bound)
{
    uint64_t sum = trials->seed;
    for (; *of != '\0'; of++)
        sum = sum * 1099511628211u + (uint8_t)*of;
    return bound == 0 ? 0 : random_u64(random_key(sum, RANDOM_SHUFFLE, 0), index) % bound;
}

/* Create and map the file of a board beside the folder, with the order in it. */
static struct board *board_open(const char *folder, const struct order *order, char *path_out, size_t path_size)
{
    if ((size_t)snprintf(path_out, path_size, "%s.board", folder) >= path_size)
        return NULL;
    const int fd = open(path_out, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || ftruncate(fd, sizeof(struct board)) != 0)
        return NULL;
    void *const memory = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return NULL;
    struct board *const board = memory;
    board->order = *order;
    return board;
}

static void board_close(struct board *board, const char *path)
{
    munmap(board, sizeof(*board));
    (void)unlink(path);
}

/* Send signals, or close the terminal, at the time of the trial. False if its phase did not come. */
static bool disturb(const struct trials *trials, const struct trial *trial, struct child *child)
{
    if (trial->phase != NULL && !child_await_phase(child, trial->phase, (uint64_t)PHASE_WAIT_US * trials->patience))
        return false;
    if (trial->delay_us > 0)
        (void)child_wait(child, trial->delay_us);
    if (trial->hangs_up)
        child_hang_up(child);
    for (size_t i = 0; i < 2 && trial->signals[i] != 0; i++) {
        if (i > 0)
            (void)child_wait(child, trial->gap_us);
        child_signal(child, trial->signals[i]);
    }
    return true;
}

/* How a process ended. */
struct course {
    struct child_end end;
    bool was_disturbed, has_fired;      /* its signals were sent; its call failed as ordered */
};

static int run_child(const struct trials *trials, const struct trial *trial, const char *folder,
                     struct course *course_out)
{
    char path[PATH_MAX];
    struct child child;
    struct group group;
    if (trial->power != NULL) {
        *course_out = (struct course){ .end = { .signal = SIGKILL }, .was_disturbed = true, .has_fired = true };
        return 0;
    }
    struct board *const board = trial->has_faults ? board_open(folder, &trial->order, path, sizeof(path)) : NULL;
    if (trial->has_faults && board == NULL)
        return -EIO;
    if (trial->group_bytes > 0 && group_open(&group, trial->group_bytes) != 0)
        return -EPERM;
    const struct child_spec spec = {
        .folder = folder,
        .argv = stand_command(trials->stand, trial->scenario),
        .faults = board != NULL ? trials->stand->faults : NULL,
        .board = path,
        .out = trial->out,
        .err = trial->err,
        .limit = trial->has_limit ? &trial->limit : NULL,
        .group = trial->group_bytes > 0 ? &group : NULL,
        .ignored_signal = trial->ignored_signal,
        .wants_phases = trial->phase != NULL,
    };
    const int rc = child_start(&child, &spec);
    if (rc == 0) {
        course_out->was_disturbed = disturb(trials, trial, &child);
        course_out->end = child_end(&child, trials->deadline_us * trials->patience);
        course_out->has_fired = board == NULL || atomic_load(&board->fired) > 0;
    }
    if (board != NULL)
        board_close(board, path);
    if (trial->group_bytes > 0)
        group_close(&group);
    return rc;
}

/* After a kill, or where it left a replacement to be completed: the same command must work, and remove what the first
 * one left. */
static void run_again(const struct trials *trials, const struct trial *killed, const char *folder,
                      char verdict_out[VERDICT_BYTES])
{
    const struct trial again = { .scenario = killed->scenario, .promise = { .codes = CODE(OK), .is_second = true } };
    struct course course;
    if (run_child(trials, &again, folder, &course) != 0) {
        snprintf(verdict_out, VERDICT_BYTES, "the second run could not be started");
        return;
    }
    char verdict[VERDICT_BYTES];
    judge_trial(trials->stand, again.scenario, &again.promise, folder, &course.end, verdict);
    if (verdict[0] != '\0')
        snprintf(verdict_out, VERDICT_BYTES, "run again: %.200s", verdict);
}

/* Not if the dynamic loader could not load the program. */
static bool has_begun(const char *folder, const struct child_end *end)
{
    struct content said = content_read(folder, "err");
    const bool is_loaders = end->code == 127 && said.bytes != NULL &&
                            strstr(said.bytes, "error while loading shared libraries") != NULL;
    content_release(&said);
    return !is_loaders;
}

/* Has a data set been left whose replacement was interrupted? */
static bool has_begun_set(const struct trial *trial, const char *folder)
{
    char results[PATH_MAX];
    if (trial->scenario->results == NULL)
        return false;
    const int length = snprintf(results, sizeof(results), "%s/%s", folder, trial->scenario->results);
    return length < (int)sizeof(results) && begun_set_is_in(results);
}

static void run_in(const struct trials *trials, const struct trial *trial, const char *folder,
                   struct outcome *outcome)
{
    struct course course;
    const int rc = run_child(trials, trial, folder, &course);
    if (rc != 0) {
        outcome->was_run = true;
        snprintf(outcome->verdict, VERDICT_BYTES, "could not be started: %s", strerror(-rc));
        return;
    }
    outcome->was_run = course.has_fired && (!trial->has_limit || has_begun(folder, &course.end));
    if (!outcome->was_run)
        return;
    outcome->has_died = course.end.signal != 0;
    judge_trial(trials->stand, trial->scenario, &trial->promise, folder, &course.end, outcome->verdict);
    if (outcome->verdict[0] == '\0' && !course.was_disturbed)
        snprintf(outcome->verdict, VERDICT_BYTES, "never said that it enters the phase '%s'", trial->phase);
    if (outcome->verdict[0] == '\0' && !trial->scenario->is_endless &&
        (course.end.signal == SIGKILL || has_begun_set(trial, folder)))
        run_again(trials, trial, folder, outcome->verdict);
}

/* Mount the file system for the results and copy earlier ones into it. place_out: its folder; empty if the trial has no
 * such file system. */
static int mount_disk(const struct trial *trial, const char *begin, const char *folder, char *place_out,
                      size_t place_size)
{
    char earlier[PATH_MAX + 16];
    place_out[0] = '\0';
    if (trial->disk_bytes == 0)
        return 0;
    snprintf(place_out, place_size, "%s/%s", folder, trial->scenario->results);
    snprintf(earlier, sizeof(earlier), "%s/%s", begin, trial->scenario->results);
    (void)mkdir(place_out, 0777);
    int rc = disk_mount(place_out, trial->disk_bytes);
    if (rc == 0 && access(earlier, F_OK) == 0)
        rc = tree_copy_into(earlier, place_out);
    return rc == 0 && trial->is_read_only ? disk_make_read_only(place_out) : rc;
}

void trial_run(const struct trials *trials, uint32_t number, struct outcome *outcome_out)
{
    const struct trial *const trial = &trials->list[number];
    char begin[PATH_MAX], folder[PATH_MAX], broken[PATH_MAX], place[PATH_MAX + 16] = "", text[16];
    snprintf(text, sizeof(text), "%u", number);
    stand_folder(trials->stand, "begin", trial->scenario->name, begin, sizeof(begin));
    stand_folder(trials->stand, "try", text, folder, sizeof(folder));
    stand_folder(trials->stand, "broken", text, broken, sizeof(broken));
    *outcome_out = (struct outcome){ .was_run = true };
    const int rc = trial->power != NULL ? power_log_write(trial->power, &trial->cut, folder)
                                        : tree_copy(begin, folder);
    if (rc != 0 || mount_disk(trial, begin, folder, place, sizeof(place)) != 0)
        snprintf(outcome_out->verdict, VERDICT_BYTES, "its folder cannot be made");
    else
        run_in(trials, trial, folder, outcome_out);
    if (place[0] != '\0')
        disk_unmount(place);
    if (outcome_out->verdict[0] == '\0' || rename(folder, broken) != 0)
        tree_remove(folder);
}

/* Run a scenario while nothing fails, with `faults` loaded into it. 0, or a negative errno, also where it fails. */
static int run_undisturbed(const struct trials *trials, const struct scenario *scenario, const char *folder,
                           const char *faults, const char *board)
{
    const struct child_spec spec = { .folder = folder, .argv = stand_command(trials->stand, scenario),
                                    .faults = faults, .board = board };
    struct child child;
    const int rc = child_start(&child, &spec);
    if (rc != 0)
        return rc;
    const struct child_end end = child_end(&child, trials->deadline_us * trials->patience);
    if (!end.is_late && end.signal == 0 && end.code == 0)
        return 0;
    struct content said = content_read(folder, "err");
    fprintf(stderr, "torture: %s with %s loaded fails though no call was to: exit %d, signal %d%s: %s\n",
            scenario->name, faults, end.code, end.signal, end.is_late ? ", late" : "",
            said.bytes != NULL ? said.bytes : "");
    content_release(&said);
    return -EPROTO;
}

int trial_count_calls(const struct trials *trials, const struct scenario *scenario, struct board *counted_out)
{
    char begin[PATH_MAX], folder[PATH_MAX], path[PATH_MAX];
    stand_folder(trials->stand, "begin", scenario->name, begin, sizeof(begin));
    stand_folder(trials->stand, "try", "count", folder, sizeof(folder));
    struct board *const board = board_open(folder, &(struct order){ .number = 0 }, path, sizeof(path));
    if (board == NULL || tree_copy(begin, folder) != 0)
        return -EIO;
    const int rc = run_undisturbed(trials, scenario, folder, trials->stand->faults, path);
    memcpy(counted_out, board, sizeof(*counted_out));
    board_close(board, path);
    tree_remove(folder);
    return rc;
}

int trial_record(const struct trials *trials, const struct scenario *scenario, const char *folder,
                 struct power_log **log_out)
{
    char begin[PATH_MAX], recorder[PATH_MAX + 32], path[PATH_MAX + 8];
    stand_folder(trials->stand, "begin", scenario->name, begin, sizeof(begin));
    snprintf(recorder, sizeof(recorder), "%s/tests/torture/recorder.so", trials->stand->build);
    snprintf(path, sizeof(path), "%s.log", folder);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || close(fd) != 0 || tree_copy(begin, folder) != 0)
        return -EIO;
    struct power_log *const log = power_log_open(folder);
    int rc = log == NULL ? -ENOMEM : run_undisturbed(trials, scenario, folder, recorder, path);
    if (rc == 0)
        rc = power_log_read(log, path);
    (void)unlink(path);
    if (rc == 0)
        *log_out = log;
    else
        power_log_close(log);
    return rc;
}
