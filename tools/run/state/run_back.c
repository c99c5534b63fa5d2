/* What a run has saved: the state it may go back to, and the best one. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "stage/log.h"
#include "tools/run/state/run_state.h"

/* Steps that were done when the run last failed, and had gone back; 0: it has not. */
static uint64_t last_failure(const struct run_state *state)
{
    return state->back != NULL && state->back->folder[0] != '\0' ? state->back->failed_step : 0;
}

/* The newest state; but where the one that the run went back to has led to the same place, the one before it, as long
 * as there is one: it may be what is ruined. NULL: there is none. */
static struct checkpoint_reader *find_state(const struct run_state *state)
{
    const char *const folder = run_directory_path(state->directory);
    const bool is_same_place = last_failure(state) > 0 && state->account->step <= last_failure(state);
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    if (is_same_place && checkpoint_reader_find_before(&reader, folder, state->back->step, &problem) == 0)
        return reader;
    const uint64_t before = is_same_place ? state->back->step + 1 : UINT64_MAX;
    return checkpoint_reader_find_before(&reader, folder, before, &problem) == 0 ? reader : NULL;
}

bool run_state_go_back(const struct run_state *state, struct run_back *back_out)
{
    const uint64_t count = state->progress.rollbacks + 1;
    const bool is_ours = state->saves && (state->has_begun || run_state_past(state) != NULL);
    if (count > RUN_PROGRESS_ROLLBACKS_MAX) {
        log_message(LOG_ERROR, "after %u rollbacks the run does not go back once more: try a smaller learning rate",
                    RUN_PROGRESS_ROLLBACKS_MAX);
        return false;
    }
    struct checkpoint_reader *const reader = is_ours ? find_state(state) : NULL;
    if (reader == NULL) {
        log_message(LOG_ERROR, "no state is saved yet that the run could go back to: checkpoint.every is %s",
                    state->saves ? "too long" : "never");
        return false;
    }
    log_message(LOG_RUN, "rollback %u of %u: back to %s, with half the learning rate", (unsigned)count,
                RUN_PROGRESS_ROLLBACKS_MAX, checkpoint_reader_path(reader));
    const uint64_t step = state->account->step;
    snprintf(back_out->folder, sizeof(back_out->folder), "%s", run_directory_path(state->directory));
    back_out->step = checkpoint_reader_mark(reader)->position.step;
    back_out->failed_step = step > last_failure(state) ? step : last_failure(state);
    back_out->progress = state->progress;
    back_out->progress.rollbacks = count;
    checkpoint_reader_close(reader);
    return true;
}

/* What became of the best evaluation: 0 steps and no images where no file holds it. */
static struct run_progress read_best(const struct run_state *state)
{
    char path[PATH_MAX + sizeof(CHECKPOINT_BEST_FILE)];
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    struct run_progress progress = { .stale = 0 };
    snprintf(path, sizeof(path), "%s/" CHECKPOINT_BEST_FILE, state->folder);
    if (state->folder[0] == '\0' || checkpoint_reader_open(&reader, path, &problem) != 0)
        return progress;
    if (run_progress_read(&progress, checkpoint_reader_mark(reader)->course) != 0)
        progress = (struct run_progress){ .stale = 0 };
    checkpoint_reader_close(reader);
    return progress;
}

void run_state_match_best(struct run_state *state)
{
    struct run_progress *const progress = &state->progress;
    const struct run_progress there = progress->best_images > 0 ? read_best(state) : *progress;
    if (!state->keeps_best && there.best_images > 0)
        log_message(LOG_RUN, "%s/" CHECKPOINT_BEST_FILE " is of step %" PRIu64 " and stays as it is: "
                    "checkpoint.keep_best is no", state->folder, there.best_step);
    if (!state->keeps_best || there.best_step >= progress->best_step)
        return;
    log_message(LOG_RUN, "the state of the best evaluation so far, at step %" PRIu64 ", is not in the run's directory: "
                CHECKPOINT_BEST_FILE " will be the best %s", progress->best_step,
                there.best_images > 0 ? "of the one there and those to come" : "of those to come");
    progress->best_correct = there.best_correct;
    progress->best_images = there.best_images;
    progress->best_step = there.best_step;
}

bool run_state_has_best(const struct run_state *state)
{
    char path[PATH_MAX + sizeof(CHECKPOINT_BEST_FILE)];
    snprintf(path, sizeof(path), "%s/" CHECKPOINT_BEST_FILE, run_directory_path(state->directory));
    return access(path, F_OK) == 0;
}
