/* Saving and going on. */
#include "tools/run/state/run_state.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compute/snapshot.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "tools/config/number.h"
#include "tools/results/run_names.h"
#include "tools/run/goal/ending.h"
#include "tools/run/state/account_text.h"
#include "tools/run/state/run_identity.h"
#include "tools/text/wrapped.h"

#define CARRIED_BYTES_GUESS 64u         /* of a tower, before it is planned */

_Static_assert(ACCOUNT_TEXT_BYTES <= CHECKPOINT_SUMS_BYTES, "a mark has room for the sums of the account");
_Static_assert(COURSE_TEXT_BYTES <= CHECKPOINT_COURSE_BYTES, "and for the course of the run");

/* ---- going on ---- */

static void forget(struct run_state *state)
{
    checkpoint_reader_close(state->reader);
    state->reader = NULL;
    state->folder[0] = '\0';
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The newest state in the directory that was named, or in the last of runs/NAME, runs/NAME-2, ... that has one.
 * -ENOENT: there is none; what cannot be entered is told when the run does. */
static int find_own(struct run_state *state, const struct settings *settings, struct checkpoint_problem *problem)
{
    const int count = run_name_was_given(settings) ? 1 : run_name_count(settings);
    int rc = -ENOENT;
    for (int number = count; number > 0 && rc != 0 && rc != -EBADMSG && rc != -ENOMEM; number--)
        if (run_name_numbered(state->folder, sizeof(state->folder), settings->run.dir, number) == 0)
            rc = checkpoint_reader_find(&state->reader, state->folder, problem);
    if (rc == 0 || rc == -EBADMSG || rc == -ENOMEM)
        return rc;
    state->folder[0] = '\0';
    return -ENOENT;
}

static int fail_to_open(const char *path, int rc, const struct checkpoint_problem *problem)
{
    if (rc == -EBADMSG && is_folder(path))
        log_message(LOG_ERROR, "%s: none of the saved states there is whole: begin anew with --set run.resume=never",
                    path);
    else if (rc == -ENOENT)
        log_message(LOG_ERROR, "run.resume: %s holds no saved state (checkpoint-*.safetensors)", path);
    else
        log_message(LOG_ERROR, "run.resume: %s: %s (auto, never, a saved state or a folder of some)", path,
                    problem->text[0] != '\0' ? problem->text : strerror(-rc));
    return rc;
}

/* What the run saved itself goes before the state that it was to begin with. -ENOENT: nothing was asked for, and there
 * is nothing. */
static int open_reader(struct run_state *state, const struct settings *settings)
{
    const char *const resume = settings->run.resume;
    char words[512];
    struct checkpoint_problem problem = { "" };
    const bool is_auto = strcmp(resume, "auto") == 0;
    int rc = find_own(state, settings, &problem);
    if (is_auto || rc == -ENOMEM)
        return rc == 0 || rc == -ENOENT ? rc : fail_to_open(state->folder, rc, &problem);
    if (rc == 0 &&
        !run_identity_differs(state->identity, checkpoint_reader_settings(state->reader), words, sizeof(words)))
        return 0;
    forget(state);
    rc = is_folder(resume) ? checkpoint_reader_find(&state->reader, resume, &problem)
                           : checkpoint_reader_open(&state->reader, resume, &problem);
    return rc == 0 ? 0 : fail_to_open(resume, rc, &problem);
}

/* What computes nothing would replace the results of a run that does. */
static int keep_off(struct run_state *state, const struct settings *settings)
{
    struct checkpoint_problem problem;
    const bool is_there = run_name_was_given(settings) && find_own(state, settings, &problem) != -ENOENT;
    if (is_there)
        log_message(LOG_ERROR, "%s holds a run that computes: give this one another with --set run.dir=OTHER",
                    settings->run.dir);
    forget(state);
    return is_there ? EXIT_CODE_USAGE : 0;
}

/* A run of other settings: with a name of its own beside that one, where nobody named the directory. */
static int refuse_other(struct run_state *state, const struct settings *settings, const char *words)
{
    const bool is_asked = strcmp(settings->run.resume, "auto") != 0;
    if (!is_asked && !run_name_was_given(settings)) {
        log_message(LOG_RUN, "%s is a run of other settings (%s): this one is a new one", state->folder, words);
        forget(state);
        return 0;
    }
    log_message(LOG_ERROR, "%s is of a run of other settings: %s", checkpoint_reader_path(state->reader), words);
    if (!is_asked)
        log_message(LOG_ERROR, "put them back to go on with it, or begin anew: elsewhere with --set run.dir=OTHER, "
                               "or in its place with --set run.resume=never");
    return EXIT_CODE_USAGE;
}

/* Of a run that is over nothing is left to do, where its directory was named; else this one is new. */
static void end_or_begin(struct run_state *state, const struct settings *settings, enum ending ending)
{
    static const char *const more[ENDING_COUNT] = { [ENDING_NONE] = "more train.epochs or train.steps go on",
                                                    [ENDING_STOP_AT] = "a larger train.stop_at goes on",
                                                    [ENDING_PATIENCE] = "more train.patience goes on" };
    const char *const path = checkpoint_reader_path(state->reader);
    state->is_over = state->folder[0] == '\0' || run_name_was_given(settings);
    if (state->is_over)
        log_message(LOG_RUN, "%s is of a run that is over: nothing is left to do (%s, --set run.resume=never begins "
                             "anew)", path, more[ending]);
    else
        log_message(LOG_RUN, "%s is of a run that is over: this one is a new one (%s)", path, more[ending]);
    state->course = (struct course){ .stale = 0 };
    forget(state);
}

static int read_course(struct run_state *state)
{
    const int rc = course_read(&state->course, checkpoint_reader_mark(state->reader)->course);
    if (rc != 0)
        log_message(LOG_ERROR, "%s: how the run went up to there cannot be read",
                    checkpoint_reader_path(state->reader));
    return rc == 0 ? 0 : EXIT_CODE_DATA;
}

/* The batch at which it goes on. */
static int seek(struct run_state *state, const struct settings *settings, struct run_plan *plan)
{
    uint64_t number;
    if (schedule_seek(&plan->schedule, checkpoint_reader_mark(state->reader)->position, &number) != 0) {
        log_message(LOG_ERROR, "%s: its place is behind the end of this run: more train.epochs or train.steps go on "
                    "from it, --set run.resume=never or another run.name begins anew",
                    checkpoint_reader_path(state->reader));
        return EXIT_CODE_USAGE;
    }
    const int code = read_course(state);
    if (code != 0)
        return code;
    const enum ending ending = ending_of_course(&settings->train, &state->course);
    if (number == schedule_batch_count(&plan->schedule) || ending != ENDING_NONE) {
        end_or_begin(state, settings, number == schedule_batch_count(&plan->schedule) ? ENDING_NONE : ending);
        return 0;
    }
    run_state_match_best(state);
    plan->schedule.first = number;
    state->past = (struct run_past){ .path = state->folder };
    const struct checkpoint_mark *const mark = checkpoint_reader_mark(state->reader);
    memcpy(state->past.lines_bytes, mark->lines_bytes, sizeof(mark->lines_bytes));
    return 0;
}

static int check_towers(const struct run_state *state, const struct settings *settings, const struct run_plan *plan)
{
    const uint32_t theirs = checkpoint_reader_towers(state->reader);
    if (theirs == plan->schedule.towers || sync_table[settings->sync.mode]->is_one_model)
        return 0;
    log_message(LOG_ERROR, "%s is of %u towers, each a model of its own: --set devices.towers=%u goes on",
                checkpoint_reader_path(state->reader), theirs, theirs);
    return EXIT_CODE_USAGE;
}

/* What the run itself saved, and a lower rate for what comes behind it. */
static int find_back(struct run_state *state, const struct settings *settings, struct run_plan *plan)
{
    struct checkpoint_problem problem = { "" };
    snprintf(state->folder, sizeof(state->folder), "%s", state->back->folder);
    const int rc = checkpoint_reader_find_before(&state->reader, state->folder, state->back->step + 1, &problem);
    if (rc != 0)
        return exit_code_of(fail_to_open(state->folder, rc, &problem), EXIT_CODE_DATA);
    const int code = seek(state, settings, plan);
    const struct course *const then = &state->back->course;
    state->course.rollbacks = then->rollbacks;
    if (then->best_step > state->course.best_step) {    /* its file is there, and stays the best */
        state->course.best_correct = then->best_correct;
        state->course.best_images = then->best_images;
        state->course.best_step = then->best_step;
    }
    return code;
}

int run_state_find(struct run_state *state, const struct settings *settings, struct run_plan *plan,
                   const struct dataset *const *datasets)
{
    char words[512];
    const struct checkpoint_settings *const checkpoint = &settings->checkpoint;
    const bool saves = checkpoint->steps > 0 || checkpoint->seconds > 0 || checkpoint->each_epoch;
    state->keeps_best = checkpoint->keep_best && plan->devices.backend->computes;
    state->saves = (saves && plan->devices.backend->computes) || state->keeps_best;
    if (run_identity_open(&state->identity, settings, plan, datasets) != 0) {
        log_message(LOG_ERROR, "the run's settings: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    if (state->back != NULL && state->back->folder[0] != '\0')
        return find_back(state, settings, plan);
    if (strcmp(settings->run.resume, "never") == 0)
        return 0;
    if (!plan->devices.backend->computes)
        return keep_off(state, settings);
    const int rc = open_reader(state, settings);
    if (rc != 0)
        return rc == -ENOENT && strcmp(settings->run.resume, "auto") == 0 ? 0 : exit_code_of(rc, EXIT_CODE_DATA);
    if (run_identity_differs(state->identity, checkpoint_reader_settings(state->reader), words, sizeof(words)))
        return refuse_other(state, settings, words);
    const int code = check_towers(state, settings, plan);
    if (code != 0)
        return code;
    state->saves = true;        /* at its end at least */
    return seek(state, settings, plan);
}

const struct run_past *run_state_past(const struct run_state *state)
{
    return state->reader != NULL && state->folder[0] != '\0' ? &state->past : NULL;
}

int run_state_restore(struct run_state *state, const struct run_plan *plan, struct pipeline *pipeline,
                      struct account *account)
{
    struct checkpoint_problem problem = { "" };
    struct account_state sums;
    if (state->reader == NULL)
        return 0;
    int rc = account_text_read(&sums, checkpoint_reader_mark(state->reader)->sums);
    if (rc != 0)
        snprintf(problem.text, sizeof(problem.text), "the sums of the run up to there cannot be read");
    else
        account_resume(account, &sums);
    const struct tower_range here = plan->devices.towers;
    for (uint32_t d = 0; d < here.count && rc == 0; d++)
        rc = checkpoint_reader_write(state->reader, pipeline_tower(pipeline, d), here.first + d, plan->schedule.towers,
                                     &problem);
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "%s: %s", checkpoint_reader_path(state->reader),
                problem.text[0] != '\0' ? problem.text : exit_cause(rc));
    return exit_code_of(rc, EXIT_CODE_DATA);
}

void run_state_print(const struct run_state *state, const struct run_plan *plan)
{
    if (state->reader != NULL)
        wrapped_print(stdout, "resume    at step %s of %s, from %s",
                      number_grouped(checkpoint_reader_mark(state->reader)->position.step).text,
                      number_grouped(schedule_step_count(&plan->schedule)).text, checkpoint_reader_path(state->reader));
}

/* ---- saving ---- */

static struct checkpoint_shape shape_of(const struct settings *settings, const struct run_plan *plan,
                                        const struct net *net, size_t carried_bytes)
{
    return (struct checkpoint_shape){
        .net = net,
        .towers = plan->schedule.towers,
        .states = optimizer_state_count(plan->optimizer.kind),
        .carried_bytes = carried_bytes,
        .averages = settings->train.ema > 0,
        .weights_differ = settings->sync.mode != SYNC_REPLICATED,
    };
}

struct snapshot_rule run_state_rule(const struct run_state *state, const struct settings *settings)
{
    if (!state->saves)
        return (struct snapshot_rule){ .count = 0 };
    return (struct snapshot_rule){ .count = 1, .every = settings->checkpoint.steps,
                                   .each_epoch = settings->checkpoint.each_epoch,
                                   .each_evaluation = state->keeps_best, .last = true };
}

size_t run_state_bytes(const struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                       const struct net *net)
{
    const struct checkpoint_shape shape = shape_of(settings, plan, net, CARRIED_BYTES_GUESS);
    return state->saves ? checkpoint_writer_bytes(&shape, state->identity) : 0;
}

/* One more than are kept, while one is written; those of a run that goes on are there. The same of the best one. */
uint64_t run_state_room(const struct run_state *state, const struct settings *settings, size_t state_bytes)
{
    const uint64_t keep = run_state_past(state) != NULL ? 0 : (uint64_t)settings->checkpoint.keep;
    return (keep + 1 + 2 * state->keeps_best) * state_bytes / 2;
}

static void give_back(void *arg, uint32_t tower, struct snapshot *snapshot)
{
    pipeline_return(arg, tower, snapshot);
}

int run_state_open(struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                   struct pipeline *pipeline, struct account *account, const struct results *results)
{
    struct run_directory *const directory = results->directory;
    state->directory = directory;
    if (!state->saves)
        return 0;
    struct tower *const tower = pipeline_tower(pipeline, 0);
    const struct net *const net = tower_spec(tower)->net;
    const struct checkpoint_shape shape = shape_of(settings, plan, net, snapshot_carried_bytes(tower));
    state->plan = plan;
    state->period_ns = settings->checkpoint.seconds * UINT64_C(1000000000);
    state->saved_ns = clock_now_ns();
    state->pipeline = pipeline;
    state->account = account;
    state->snapshots = calloc(shape.towers, sizeof(*state->snapshots));
    int rc = state->snapshots == NULL ? -ENOMEM : checkpoint_writer_open(&state->writer, &shape, state->identity,
                                                                              weights_about(results->weights));
    if (rc != 0)
        return rc;
    const struct checkpoint_saver_spec spec = { .writer = state->writer, .directory = directory,
                                                .towers = shape.towers, .keep = (uint32_t)settings->checkpoint.keep,
                                                .give_back = give_back, .arg = pipeline };
    return checkpoint_saver_start(&state->saver, &spec);
}

/* Of the place behind the batch before `next`. */
static void make_mark(const struct run_state *state, uint64_t next, unsigned files, struct checkpoint_mark *mark)
{
    struct account_state sums;
    *mark = (struct checkpoint_mark){ .position = schedule_position(&state->plan->schedule, next), .files = files };
    for (enum run_lines which = 0; which < RUN_LINES_COUNT; which++)
        mark->lines_bytes[which] = run_directory_lines_bytes(state->directory, which);
    account_save(state->account, &sums);
    account_text_write(&sums, mark->sums);
    course_write(&state->course, mark->course);
}

/* States of an earlier run, in whose place this one is, go with its other results. */
static void clear_others(struct run_state *state)
{
    if (!state->has_begun && state->directory != NULL && run_state_past(state) == NULL) {
        run_directory_keep(state->directory, checkpoint_file_step, 0, 0);
        run_directory_keep(state->directory, checkpoint_best_number, 0, 0);
    }
    state->has_begun = true;
}

static void ask_by_the_clock(struct run_state *state)
{
    if (state->period_ns == 0 || state->is_asked || clock_now_ns() - state->saved_ns < state->period_ns)
        return;
    state->is_asked = true;
    pipeline_request_snapshot(state->pipeline);
}

/* What becomes of the towers' snapshots behind the batch. The state behind the run's last one is written when all
 * results are. */
static unsigned files_of(const struct run_state *state, const struct span *span)
{
    const bool is_last = span->number + 1 == schedule_batch_count(&state->plan->schedule);
    const bool is_evaluated = span->pass == PASS_EVALUATE && span->last_of_pass;
    const bool is_due = state->period_ns > 0 ? pipeline_is_requested(state->pipeline, span->number)
                                             : span->pass == PASS_TRAIN;
    const unsigned newest = is_due && !is_last ? CHECKPOINT_NEWEST : 0;
    return state->keeps_best && is_evaluated && course_is_best(&state->course) ? newest | CHECKPOINT_BEST : newest;
}

void run_state_follow(struct run_state *state, struct step_report *const *reports)
{
    const struct span *const span = &reports[0]->span;
    struct checkpoint_mark mark;
    clear_others(state);
    if (reports[0]->snapshot == NULL)
        ask_by_the_clock(state);
    const unsigned files = reports[0]->snapshot != NULL ? files_of(state, span) : 0;
    if (files == 0)
        return;
    if ((files & CHECKPOINT_NEWEST) != 0) {
        state->is_asked = false;
        state->saved_ns = clock_now_ns();
    }
    for (uint32_t d = 0; d < state->plan->devices.towers.count; d++) {
        state->snapshots[d] = reports[d]->snapshot;
        reports[d]->snapshot = NULL;
    }
    make_mark(state, span->number + 1, files, &mark);
    checkpoint_saver_put(state->saver, state->snapshots, &mark);
}

static void take_last(struct run_state *state, uint64_t next)
{
    const uint32_t towers = state->plan->devices.towers.count;
    struct checkpoint_mark mark;
    uint32_t there = 0;
    for (uint32_t d = 0; d < towers; d++) {
        state->snapshots[d] = pipeline_last(state->pipeline, d);
        there += state->snapshots[d] != NULL;
    }
    assert(there == 0 || there == towers);
    make_mark(state, next, CHECKPOINT_NEWEST, &mark);
    state->has_last = there > 0 && checkpoint_writer_take(state->writer, state->snapshots, &mark) == 0;
    for (uint32_t d = 0; d < there; d++)
        pipeline_return(state->pipeline, d, state->snapshots[d]);
}

void run_state_finish(struct run_state *state, bool takes_last, uint64_t next)
{
    if (state->saver == NULL)
        return;
    checkpoint_saver_end(state->saver);
    state->saver = NULL;
    if (takes_last)
        take_last(state, next);
}

int run_state_write_last(struct run_state *state, const struct settings *settings)
{
    const char *broken = NULL;
    if (!state->has_last)
        return 0;
    state->has_last = false;
    const uint32_t keep = (uint32_t)settings->checkpoint.keep;
    const int rc = checkpoint_writer_write(state->writer, state->directory, keep, &broken);
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "%s: the state behind the last step could not be saved: %s: what was saved before stays",
                run_directory_path(state->directory), rc == -EDOM ? broken : strerror(-rc));
    return EXIT_CODE_OUTPUT;
}

void run_state_release(struct run_state *state)
{
    assert(state->saver == NULL);
    checkpoint_writer_close(state->writer);
    checkpoint_reader_close(state->reader);
    free(state->snapshots);
    free(state->identity);
    *state = (struct run_state){ .saves = false };
}
