/* Restoring and saving. */
#include "tools/run/state/run_state.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/snapshot.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "tools/limits.h"
#include "tools/run/state/account_text.h"
#include "tools/run/stop_rule.h"
#include "tools/signals.h"
#include "tools/text/number.h"
#include "tools/text/wrapped.h"

#define CARRIED_BYTES_GUESS 64u         /* of a tower, before it is planned */

_Static_assert(ACCOUNT_TEXT_BYTES <= CHECKPOINT_SUMS_BYTES, "a mark has room for the sums of the account");
_Static_assert(RUN_PROGRESS_TEXT_BYTES <= CHECKPOINT_COURSE_BYTES, "and for the course of the run");

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
        snprintf(problem.text, sizeof(problem.text), "its " CHECKPOINT_KEY_SUMS " are not the sums of a run: "
                 "they are no such numbers, or say more correct answers than images");
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

void run_state_print(const struct run_state *state, const struct run_plan *plan, FILE *out)
{
    if (state->reader != NULL)
        wrapped_print(out, "resume    at step %s of %s, from %s",
                      number_grouped(checkpoint_reader_mark(state->reader)->position.step).text,
                      number_grouped(schedule_step_count(&plan->schedule)).text, checkpoint_reader_path(state->reader));
    if (state->saves)
        wrapped_print(out, "stop      %sSIGTERM, SIGUSR1: a state is saved; the same command goes on",
                      signals_are_handled(SIGINT) ? "Ctrl-C, " : "");
}

/* ---- saving ---- */

/* Is the state behind the last step the only one there may be? Then nothing is saved beside the training. */
static bool saves_only_last(const struct run_state *state, const struct settings *settings)
{
    const struct checkpoint_settings *const checkpoint = &settings->checkpoint;
    return checkpoint->steps == 0 && checkpoint->seconds == 0 && !checkpoint->each_epoch && !state->keeps_best;
}

/* And in the host's memory? Then it needs no copy. */
static bool stays(const struct run_state *state, const struct settings *settings, const struct run_plan *plan)
{
    return saves_only_last(state, settings) && plan->devices.ops->host_memory && plan->devices.mode->ends_whole &&
           settings->train.ema <= 0;
}

static struct checkpoint_shape shape_of(const struct run_state *state, const struct settings *settings,
                                        const struct run_plan *plan, const struct net *net, size_t carried_bytes)
{
    return (struct checkpoint_shape){
        .net = net,
        .towers = plan->schedule.towers,
        .states = optimizer_state_count(plan->optimizer.kind) + (plan->devices.mode->defers ? 1 : 0),
        .carried_bytes = carried_bytes,
        .averages = settings->train.ema > 0,
        .weights_differ = plan->devices.mode->differs,
        .stays = stays(state, settings, plan),
    };
}

struct snapshot_rule run_state_rule(const struct run_state *state, const struct settings *settings,
                                    const struct run_plan *plan)
{
    if (!state->saves)
        return (struct snapshot_rule){ .count = 0 };
    return (struct snapshot_rule){ .kind = stays(state, settings, plan) ? SNAPSHOT_LAST : SNAPSHOT_STATE,
                                   .count = 1, .every = settings->checkpoint.steps,
                                   .each_epoch = settings->checkpoint.each_epoch,
                                   .each_evaluation = state->keeps_best, .last = true };
}

size_t run_state_file_bytes(const struct run_state *state, const struct settings *settings,
                            const struct run_plan *plan, const struct net *net)
{
    const struct checkpoint_shape shape = shape_of(state, settings, plan, net, CARRIED_BYTES_GUESS);
    return state->saves ? checkpoint_file_bytes(&shape, state->identity) : 0;
}

void run_state_plan(const struct run_state *state, const struct settings *settings, struct run_plan *plan,
                    const struct net *net)
{
    if (!state->saves)
        return;
    const struct checkpoint_shape shape = shape_of(state, settings, plan, net, CARRIED_BYTES_GUESS);
    memory_share_add(&plan->memory.host, MEMORY_RESULTS, checkpoint_writer_bytes(&shape, state->identity));
    plan->memory.aside += saves_only_last(state, settings) ? 0 : limits_thread_bytes();
}

/* One more than are kept, while one is written; those of a run that goes on are there. The same of the best one. */
uint64_t run_state_room(const struct run_state *state, const struct settings *settings, size_t state_bytes)
{
    const bool is_alone = run_state_past(state) != NULL || state->only_on_stop;
    const uint64_t keep = is_alone ? 0 : (uint64_t)settings->checkpoint.keep;
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
    const struct checkpoint_shape shape = shape_of(state, settings, plan, net, snapshot_carried_bytes(tower));
    state->plan = plan;
    state->period_ns = settings->checkpoint.seconds * UINT64_C(1000000000);
    state->saved_ns = clock_now_ns();
    state->pipeline = pipeline;
    state->account = account;
    state->snapshots = calloc(shape.towers, sizeof(*state->snapshots));
    int rc = state->snapshots == NULL ? -ENOMEM : checkpoint_writer_open(&state->writer, &shape, state->identity,
                                                                              weights_about(results->weights));
    if (rc != 0 || saves_only_last(state, settings))
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
    sums = state->account->state;
    account_text_write(&sums, mark->sums);
    run_progress_write(&state->progress, mark->course);
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
static unsigned files_of(const struct run_state *state, const struct batch_slice *slice)
{
    const bool is_last = slice->number + 1 == schedule_batch_count(&state->plan->schedule);
    const bool is_evaluated = slice->phase == PHASE_EVALUATE && slice->last_of_phase;
    const bool is_due = state->period_ns > 0 ? pipeline_is_requested(state->pipeline, slice->number)
                                             : slice->phase == PHASE_TRAIN;
    const unsigned newest = is_due && !is_last ? CHECKPOINT_NEWEST : 0;
    return state->keeps_best && is_evaluated && run_progress_is_best(&state->progress) ? newest | CHECKPOINT_BEST : newest;
}

void run_state_follow(struct run_state *state, struct step_report *const *reports)
{
    const struct batch_slice *const slice = &reports[0]->slice;
    struct checkpoint_mark mark;
    clear_others(state);
    checkpoint_saver_count(state->saver, &state->counts);
    if (reports[0]->snapshot == NULL)
        ask_by_the_clock(state);
    const unsigned files = reports[0]->snapshot != NULL ? files_of(state, slice) : 0;
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
    make_mark(state, slice->number + 1, files, &mark);
    checkpoint_saver_put(state->saver, state->snapshots, &mark);
}

/* On the disk, for run_state_write_last to give it its name, or not: then it tells why. */
static void prepare_last(struct run_state *state, const struct checkpoint_mark *mark)
{
    const uint64_t begun_ns = clock_now_ns();
    state->last_rc = checkpoint_writer_take(state->writer, state->snapshots, mark);
    if (state->last_rc == 0)
        state->last_rc = checkpoint_writer_prepare(state->writer, state->directory, &state->broken);
    state->last_ns = clock_now_ns() - begun_ns;
    state->has_last = true;
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
    if (there > 0)
        prepare_last(state, &mark);
    for (uint32_t d = 0; d < there; d++)
        pipeline_return(state->pipeline, d, state->snapshots[d]);
}

/* Nothing of the run is to be done behind the batch before `next`. */
static bool is_complete(const struct run_state *state, const struct settings *settings, uint64_t next)
{
    return next == schedule_batch_count(&state->plan->schedule) ||
           stop_reason_of_progress(&settings->train, &state->progress) != STOP_REASON_NONE;
}

/* Who asked for the end finds a state, wherever the run was, so that the same command never begins anew. */
void run_state_finish(struct run_state *state, const struct settings *settings, const struct run_last *last)
{
    if (state->pipeline == NULL)
        return;
    checkpoint_saver_end(state->saver, &state->counts);
    state->saver = NULL;
    state->needs_none = state->only_on_stop && !last->was_asked_for && is_complete(state, settings, last->next);
    if (last->can_be_taken && !state->needs_none)
        take_last(state, last->next);
    state->pipeline = NULL;
}

int run_state_write_last(struct run_state *state, const struct settings *settings)
{
    if (!state->has_last)
        return 0;
    state->has_last = false;
    const uint32_t keep = (uint32_t)settings->checkpoint.keep;
    const int rc = state->last_rc == 0 ? checkpoint_writer_appear(state->writer, state->directory, keep)
                                       : state->last_rc;
    checkpoint_counts_add(&state->counts, rc, state->last_ns);
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "%s: the state behind the last step could not be saved: %s: what was saved before stays",
                run_directory_path(state->directory), rc == -EDOM ? state->broken : strerror(-rc));
    return EXIT_CODE_OUTPUT;
}

void run_state_release(struct run_state *state)
{
    assert(state->pipeline == NULL);
    if (state->has_last && state->last_rc == 0)
        checkpoint_writer_drop(state->writer, state->directory);
    checkpoint_writer_close(state->writer);
    checkpoint_reader_close(state->reader);
    free(state->snapshots);
    free(state->identity);
    *state = (struct run_state){ .saves = false };
}
