/* What a run has saved: the state it may go back to, and the best one. */
#include <unistd.h>

#include "stage/log.h"
#include "tools/run/state/run_state.h"

bool run_state_go_back(const struct run_state *state, struct run_back *back_out)
{
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    const uint64_t count = state->course.rollbacks + 1;
    const bool is_ours = state->saves && (state->has_begun || run_state_past(state) != NULL);
    if (count > ROLLBACKS_MAX) {
        log_message(LOG_ERROR, "after %u rollbacks the run does not go back once more: try a smaller learning rate",
                    ROLLBACKS_MAX);
        return false;
    }
    if (!is_ours || checkpoint_reader_find(&reader, run_directory_path(state->directory), &problem) != 0) {
        log_message(LOG_ERROR, "no state is saved yet that the run could go back to: checkpoint.every is %s",
                    state->saves ? "too long" : "never");
        return false;
    }
    log_message(LOG_RUN, "rollback %u of %u: back to %s, with half the learning rate", (unsigned)count, ROLLBACKS_MAX,
                checkpoint_reader_path(reader));
    checkpoint_reader_close(reader);
    snprintf(back_out->folder, sizeof(back_out->folder), "%s", run_directory_path(state->directory));
    back_out->course = state->course;
    back_out->course.rollbacks = count;
    return true;
}

bool run_state_has_best(const struct run_state *state)
{
    char path[PATH_MAX + sizeof(CHECKPOINT_BEST_FILE)];
    snprintf(path, sizeof(path), "%s/" CHECKPOINT_BEST_FILE, run_directory_path(state->directory));
    return access(path, F_OK) == 0;
}
