/* Determines where a run starts: the checkpoint from which it is resumed, if any, or its initial weights. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/label.h"
#include "stage/log.h"
#include "tools/lib/results/earlier_run.h"
#include "tools/lib/results/named_classes.h"
#include "tools/lib/results/run_names.h"
#include "tools/lib/results/weights_agree.h"
#include "tools/lib/run/best_file.h"
#include "tools/lib/run/environment.h"
#include "tools/lib/run/ranks/rank_copy.h"
#include "tools/lib/run/run_data.h"
#include "tools/lib/run/run_state.h"
#include "tools/lib/run/stop_rule.h"
#include "tools/lib/text/number.h"

/* ---- other settings ---- */

/* A resumed run uses the weights of its checkpoint; its new checkpoints contain the hash of its initial weights as
 * before. */
static void keep_weights(struct run_state *state)
{
    const char *const theirs = state->reader->settings;
    if (run_identity_has_other_weights(&state->identity, theirs))
        log_message(LOG_PROBLEM, "%s is of a run that began with other weights than model.weights names now: it goes "
                    "on with its own (run.resume=never begins with those)", state->reader->path);
    run_identity_keep_weights(&state->identity, theirs);
}

/* Is the value of the key the same in both? A missing one counts as the same. */
static bool is_same_value(const char *ours, const char *theirs, const char *key)
{
    const char *const a = run_identity_value(ours, key), *const b = run_identity_value(theirs, key);
    return a == NULL || b == NULL || strncmp(a, b, strcspn(a, "\n") + 1) == 0;
}

/* Say whether another number of towers, of all ranks, makes other weights. */
static void report_towers(const struct run_state *state)
{
    const char *const ours = state->identity.text;
    const char *const slices = run_identity_value(ours, "train.slices");
    if (is_same_value(ours, state->reader->settings, "devices.towers"))
        return;
    if (slices != NULL && strtoll(slices, NULL, 10) > 0)
        log_message(LOG_RUN, "devices.towers: with train.slices the weights do not depend on the number of towers");
    else
        log_message(LOG_RUN, "devices.towers: with another number of towers, those of all ranks together, the weights will "
                    "differ from those of a run that was not interrupted (only with train.slices they do not)");
}

/* Say what other parts change. */
static void report_parts(const struct run_state *state)
{
    if (!is_same_value(state->identity.text, state->reader->settings, "model.parts"))
        log_message(LOG_RUN, "model.parts: in other parts the dense layers are rounded otherwise, and dropout between them "
                    "draws other numbers");
}

/* Report changed settings, of those that may change in a run. Earlier versions did not store the settings of
 * data.shuffle = block. */
static void report_changes(const struct run_state *state)
{
    const char *const path = state->reader->path;
    const char *const theirs = state->reader->settings;
    struct run_differences differences;
    if (run_identity_has_changes(&state->identity, theirs, &differences))
        log_message(LOG_RUN, "%s was saved with other settings, which may change: %s", path, differences.words);
    report_towers(state);
    report_parts(state);
    if (run_identity_value(state->identity.text, "input.read_block") != NULL &&
        run_identity_value(theirs, "input.read_block") == NULL)
        log_message(LOG_RUN, "%s is of a version that did not store the blocks of data.shuffle = block: the order of "
                    "records only continues with the same input.read_block and window as before", path);
}

/* ---- checkpoints ---- */

static void close_reader(struct run_state *state)
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

/* Does the error mean that the directory has no checkpoints? Other problems of the directory are reported when it is
 * opened for the run. A directory that the user did not choose may belong to somebody else. */
static bool means_none(const struct settings *settings, int rc)
{
    return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP || rc == -ENAMETOOLONG ||
           (rc == -EACCES && !run_name_was_given(settings));
}

static int find_in(struct run_state *state, const struct settings *settings, int number,
                   struct checkpoint_problem *problem)
{
    const int rc = run_name_numbered(state->folder, sizeof(state->folder), settings->run.dir, number);
    return rc == 0 ? checkpoint_reader_find(&state->reader, state->folder, UINT64_MAX, problem) : -ENOENT;
}

/* Open the newest checkpoint in run.dir if the user set it; otherwise in the last of runs/NAME, runs/NAME-2, ... that
 * has a checkpoint of this run, or else in the last one that has any. -ENOENT: there is none. Other errors are fatal: a
 * new run might replace checkpoints that cannot be read. */
static int find_own(struct run_state *state, const struct settings *settings, struct checkpoint_problem *problem)
{
    const bool is_given = run_name_was_given(settings);
    struct run_differences differences;
    int other = 0;
    for (int number = is_given ? 1 : run_name_count(settings); number > 0; number--) {
        const int rc = find_in(state, settings, number, problem);
        if (means_none(settings, rc) || (rc != 0 && other > 0))
            continue;
        if (rc != 0 || is_given ||
            !run_identity_differs(&state->identity, state->reader->settings, &differences))
            return rc;
        other = other > 0 ? other : number;
        close_reader(state);
    }
    state->folder[0] = '\0';
    return other > 0 ? find_in(state, settings, other, problem) : -ENOENT;
}

static int fail_to_look(const char *folder, int rc)
{
    log_message(LOG_ERROR, "run directory %s: cannot look for checkpoints: %s", folder, strerror(-rc));
    return rc;
}

static int fail_to_open(const char *path, int rc, const struct checkpoint_problem *problem)
{
    if (rc == -EBADMSG && is_folder(path))
        log_message(LOG_ERROR, "%s: all checkpoints there are damaged: start anew with --set run.resume=never",
                    path);
    else if (rc == -ENOENT)
        log_message(LOG_ERROR, "run.resume: %s has no checkpoint (checkpoint-*.safetensors)", path);
    else
        log_message(LOG_ERROR, "run.resume: %s: %s (possible: auto, never, a checkpoint, a folder of checkpoints)",
                    path, problem->text[0] != '\0' ? problem->text : strerror(-rc));
    return rc;
}

/* Open the checkpoint. The run's own checkpoints take precedence over the one that it started from (run.resume).
 * -ENOENT: run.resume is auto, and there is no checkpoint. */
static int open_reader(struct run_state *state, const struct settings *settings)
{
    const char *const resume = settings->run.resume;
    struct run_differences differences;
    struct checkpoint_problem problem = { "" };
    const bool is_auto = strcmp(resume, "auto") == 0;
    int rc = find_own(state, settings, &problem);
    if (rc != 0 && rc != -ENOENT && rc != -EBADMSG)
        return fail_to_look(state->folder, rc);
    if (is_auto)
        return rc == 0 || rc == -ENOENT ? rc : fail_to_open(state->folder, rc, &problem);
    if (rc == 0 && !run_identity_differs(&state->identity, state->reader->settings, &differences))
        return 0;
    close_reader(state);
    rc = is_folder(resume) ? checkpoint_reader_find(&state->reader, resume, UINT64_MAX, &problem)
                           : checkpoint_reader_open(&state->reader, resume, &problem);
    return rc == 0 ? 0 : fail_to_open(resume, rc, &problem);
}

/* Does this file of run.dir exist? */
static bool has_file(const struct settings *settings, const char *name)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", settings->run.dir, name);
    return access(path, F_OK) == 0;
}

/* Was this run killed in its directory before its first checkpoint, so that only its best weights are there? They get
 * another name then, and are not lost. */
static bool was_killed(const struct run_state *state, const struct settings *settings)
{
    char path[PATH_MAX + sizeof("/" CHECKPOINT_BEST_FILE)], problem[256];
    struct run_differences differences;
    struct tensor_file file;
    snprintf(path, sizeof(path), "%s/" CHECKPOINT_BEST_FILE, settings->run.dir);
    if (has_file(settings, "summary.json") || has_file(settings, WEIGHTS_FILE) ||
        tensor_file_open(&file, path, problem, sizeof(problem)) != 0)
        return false;
    const char *const theirs = safetensors_index_text(&file.index, CHECKPOINT_KEY_SETTINGS);
    const bool is_ours = theirs != NULL && !run_identity_differs(&state->identity, theirs, &differences);
    tensor_file_close(&file);
    return is_ours;
}

/* Did this run fail in its directory before its first checkpoint? It left a summary, and perhaps its best weights, which
 * get another name. */
static bool did_fail(const struct run_state *state, const struct settings *settings)
{
    struct run_differences differences;
    struct earlier_run run;
    if (has_file(settings, WEIGHTS_FILE) || earlier_run_read(&run, settings->run.dir) != 0)
        return false;
    const bool is_ours = strcmp(run.ended, "failed") == 0 &&
                         !run_identity_differs(&state->identity, run.identity, &differences);
    earlier_run_release(&run);
    return is_ours;
}

/* Start a new run, because there is no checkpoint. Fails if the directory has other results, which would be lost; not
 * if they are those of a run that is writing there, which is reported when the directory is opened. */
static int start_anew(const struct run_state *state, const struct settings *settings)
{
    char problem[2 * PATH_MAX + 256], unused[2 * PATH_MAX + 256];
    if (!run_name_is_taken(settings, problem, sizeof(problem)) ||
        run_directory_check(settings, NULL, 0, unused, sizeof(unused)) == -EWOULDBLOCK)
        return 0;
    if (was_killed(state, settings)) {
        log_message(LOG_RUN, "%s has only the best weights of this run, which was killed before a checkpoint: it starts "
                    "anew, and they become best.previous.safetensors", settings->run.dir);
        return 0;
    }
    if (did_fail(state, settings)) {
        log_message(LOG_RUN, "%s is of this run, which failed before a checkpoint: it starts anew%s", settings->run.dir,
                    has_file(settings, CHECKPOINT_BEST_FILE)
                        ? ", and its best weights become best.previous.safetensors" : "");
        return 0;
    }
    log_message(LOG_ERROR, "%s", problem);
    return EXIT_CODE_USAGE;
}

/* Fail if a run that computes nothing would replace the results of one that does. */
static int check_null_run(struct run_state *state, const struct settings *settings)
{
    struct checkpoint_problem problem;
    const int rc = run_name_was_given(settings) ? find_own(state, settings, &problem) : -ENOENT;
    const bool has_checkpoints = rc == 0 || rc == -EBADMSG;
    if (has_checkpoints)
        log_message(LOG_ERROR, "%s holds a run that computes: choose another directory with --set run.dir=OTHER",
                    settings->run.dir);
    close_reader(state);
    return has_checkpoints ? EXIT_CODE_USAGE : start_anew(state, settings);
}

/* Report that only the checkpoint, not the data, has class names: the saved weights get those of the data. */
static void report_lost_names(const struct dataset *dataset, const char *path, const char *names)
{
    const uint32_t lost = dataset_names_lost(dataset, names);
    if (lost > 0)
        log_message(LOG_RUN, "%s names %" PRIu32 " class%s that %s does not: weights will be saved without %s, unless "
                    "you restore the list of names, or name it with data.class_names = FILE", path, lost,
                    lost == 1 ? "" : "es", dataset->options.pattern, lost == 1 ? "its name" : "their names");
}

/* Check that labels stand for the same classes as when the checkpoint was saved. Not checked if the user names the
 * classes (data.class_names) and may have changed the names, unless labels are stored as names. 0 or an exit code. */
static int check_classes(const struct run_state *state, const struct settings *settings, const struct dataset *dataset)
{
    char data[300], network[300];
    const char *const path = state->reader->path;
    const char *const names = safetensors_index_text(&state->reader->file.index, WEIGHTS_CLASS_NAMES);
    const bool are_named = dataset != NULL && label_is_name(&dataset->format.label);
    if (dataset == NULL || (*settings->data.class_names != '\0' && !are_named))
        return 0;
    const int rc = dataset_names_differ(dataset, names, data, network, sizeof(data));
    if (rc == 0) {
        report_lost_names(dataset, path, names);
        return 0;
    }
    if (rc < 0) {
        log_message(LOG_ERROR, "%s: class names: %s", path, strerror(-rc));
        return exit_code_of(rc, EXIT_CODE_DATA);
    }
    log_message(LOG_ERROR, "%s was trained on other classes: %s; those of %s are %s: restore the %s, or start anew "
                "with --set run.resume=never", path, network, dataset->options.pattern, data, are_named
                ? "list of names" : "data, or name the classes with data.class_names = FILE if they are the same");
    return EXIT_CODE_DATA;
}

/* Report that the run has already ended. This is printed even with --quiet, because nothing else is. */
static void end_here(struct run_state *state, enum stop_reason reason)
{
    static const char *const more[STOP_REASON_COUNT] = {
        [STOP_REASON_NONE] = "to continue, set more train.epochs or train.steps",
        [STOP_REASON_STOP_AT] = "to continue, set a larger train.stop_at",
        [STOP_REASON_PATIENCE] = "to continue, set more train.patience",
    };
    log_message(LOG_PROBLEM, "%s is from a run that has ended: nothing is left to do (%s; to train again, set "
                             "run.resume=never)", state->reader->path, more[reason]);
    state->is_over = true;
    state->progress = (struct run_progress){ .best_by = state->progress.best_by };
    close_reader(state);
}

/* Report that `what`, a checkpoint or the directory of a run without one, has more steps than this run, and how to
 * resolve this. */
static int refuse_shorter(const struct settings *settings, const char *what, uint64_t done, uint64_t asked)
{
    const bool is_given = run_name_was_given(settings);
    log_message(LOG_ERROR, "%s is after step %s, but this run ends at step %s: %sto start anew, --set %s uses another "
                "directory, --set run.resume=never %s", what, number_grouped(done).text, number_grouped(asked).text,
                is_folder(what) ? "" : "to resume it set more train.steps or train.epochs; ",
                is_given ? "run.dir=OTHER" : "run.name=OTHER", is_given ? "this one" : "the next free one");
    return EXIT_CODE_USAGE;
}

static int read_progress(struct run_state *state)
{
    const int rc = run_progress_read(&state->progress, state->reader->metadata.progress);
    if (rc != 0)
        log_message(LOG_ERROR, "%s: its " CHECKPOINT_KEY_PROGRESS " '%s' has an impossible number (the last one is the "
                    "number of rollbacks, at most %u): resume from an earlier checkpoint, or start anew with --set "
                    "run.resume=never",
                    state->reader->path, state->reader->metadata.progress,
                    RUN_PROGRESS_ROLLBACKS_MAX);
    return rc == 0 ? 0 : EXIT_CODE_DATA;
}

/* Report a jump of the learning rate: a schedule that ends with the run changes when the run is made longer or
 * shorter. */
static void report_rate(const struct run_state *state, const struct learning_rate *rate, uint64_t step)
{
    struct learning_rate before = *rate;
    before.last = (double)state->progress.rate_last;
    const double was = learning_rate_at(&before, step), is = learning_rate_at(rate, step);
    if (state->progress.rate_last > 0 && fabs(is - was) > 1e-3 * fmax(fabs(is), fabs(was)))
        log_message(LOG_RUN, "the learning rate jumps from %.3g to %.3g at step %s: its schedule ended at step %s when "
                    "the checkpoint was saved, and ends at step %s now", was, is, number_grouped(step).text,
                    number_grouped(state->progress.rate_last).text, number_grouped((uint64_t)llround(rate->last)).text);
}

/* The progress at the best evaluation, from best.safetensors, a checkpoint or weights; without one if there is no such
 * file, or if it is the best by another measure. */
static struct run_progress read_best(const struct run_state *state)
{
    const struct run_progress none = { .best_by = state->progress.best_by };
    char path[PATH_MAX + sizeof("/" CHECKPOINT_BEST_FILE)];
    struct best_file best;
    snprintf(path, sizeof(path), "%s/" CHECKPOINT_BEST_FILE, state->folder);
    if (state->folder[0] == '\0' || best_file_read(&best, path, true) != 0)
        return none;
    return best.progress.best_by == state->progress.best_by ? best.progress : none;
}

/* If the run keeps the best weights or checkpoint, but the file in its directory is older than the best evaluation or
 * missing: compare evaluations with that file from now on. For weights this changes nothing else. Report this, or a
 * best file that is not updated any more. A file of the other kind stays until an evaluation is better. */
static void match_best(struct run_state *state)
{
    struct run_progress *const progress = &state->progress;
    const struct run_progress saved = progress->best_images > 0 ? read_best(state) : *progress;
    const bool keeps = state->keeps_best || state->keeps_weights;
    state->kept = *progress;
    if (!keeps && saved.best_images > 0)
        log_message(LOG_RUN, "%s/" CHECKPOINT_BEST_FILE ", of step %" PRIu64 ", is not updated any more: "
                    "checkpoint.keep_best is no", state->folder, saved.best_step);
    if (!keeps || saved.best_step >= progress->best_step)
        return;
    log_message(LOG_RUN, "the %s of the best evaluation so far, at step %" PRIu64 ", %s not in the run's directory: "
                CHECKPOINT_BEST_FILE " will be the best of %s", state->keeps_best ? "checkpoint" : "weights",
                progress->best_step, state->keeps_best ? "is" : "are",
                saved.best_images > 0 ? "the one there and later ones" : "later ones");
    run_progress_copy_best(state->keeps_best ? progress : &state->kept, &saved);
}

/* An evaluation that was interrupted is repeated as a whole: checkpoints do not contain its counts of classes. */
static struct position whole_evaluation(const struct schedule *schedule, struct position position)
{
    if (position.evaluated < schedule_batches_per_evaluation(schedule))
        position.evaluated = 0;
    return position;
}

/* Find the batch from which the run is resumed. */
static int seek(struct run_state *state, const struct settings *settings, struct run_plan *plan)
{
    uint64_t number;
    const struct position position = state->reader->metadata.position;
    const bool is_found = schedule_seek(&plan->schedule, position, &number) == 0;
    if (!is_found && position.step <= schedule_step_count(&plan->schedule)) {
        log_message(LOG_ERROR, "%s: its " CHECKPOINT_KEY_POSITION " (epoch %" PRIu32 ", %" PRIu64 " steps done, %"
                    PRIu64 " batches evaluated) does not exist in this run, whose epochs have %" PRIu64 " steps",
                    state->reader->path, position.epoch, position.step, position.evaluated,
                    schedule_steps_per_epoch(&plan->schedule));
        return EXIT_CODE_DATA;
    }
    if (!is_found)
        return refuse_shorter(settings, state->reader->path, position.step,
                              schedule_step_count(&plan->schedule));
    const int code = read_progress(state);
    if (code != 0)
        return code;
    if (run_progress_set_best_by(&state->progress, settings->train.best_by))
        log_message(LOG_RUN, "evaluations are compared by their %s from now on (train.best_by): earlier ones are not the best "
                    "any more", best_by_words(settings->train.best_by));
    const enum stop_reason reason = stop_reason_of_progress(&settings->train, &state->progress);
    if (number == schedule_batch_count(&plan->schedule) || reason != STOP_REASON_NONE) {
        end_here(state, number == schedule_batch_count(&plan->schedule) ? STOP_REASON_NONE : reason);
        return 0;
    }
    report_changes(state);
    report_rate(state, &plan->learning_rate, position.step);
    match_best(state);
    const struct position start = whole_evaluation(&plan->schedule, position);
    (void)schedule_seek(&plan->schedule, start, &plan->schedule.first);
    plan->schedule.repeats_evaluation = start.evaluated != position.evaluated;
    state->past = (struct run_past){ .path = state->folder };
    memcpy(state->past.lines_bytes, state->reader->metadata.lines_bytes, sizeof(state->past.lines_bytes));
    return 0;
}

static int check_towers(const struct run_state *state, const struct run_plan *plan)
{
    const uint32_t theirs = state->reader->towers;
    if (theirs == plan->schedule.towers || plan->devices.mode->is_one_model)
        return 0;
    const uint32_t ranks = plan->schedule.towers / plan->devices.towers.count;
    if (theirs % ranks == 0)
        log_message(LOG_ERROR, "%s has %u towers, each a model of its own: resume it with --set devices.towers=%u",
                    state->reader->path, theirs, theirs / ranks);
    else
        log_message(LOG_ERROR, "%s has %u towers, each a model of its own, and this run has %u ranks: resume it with "
                    "as many towers in all", state->reader->path, theirs, ranks);
    return EXIT_CODE_USAGE;
}

/* Open the checkpoint to roll back to. The number of rollbacks in the progress lowers the learning rate. */
static int find_rollback_target(struct run_state *state, const struct settings *settings, struct run_plan *plan)
{
    struct checkpoint_problem problem = { "" };
    snprintf(state->folder, sizeof(state->folder), "%s", state->back->folder);
    const int rc = checkpoint_reader_find(&state->reader, state->folder, state->back->step + 1, &problem);
    if (rc != 0)
        return exit_code_of(fail_to_open(state->folder, rc, &problem), EXIT_CODE_DATA);
    const int code = seek(state, settings, plan);
    const struct run_progress *const failed = &state->back->progress;
    state->progress.rollbacks = failed->rollbacks;
    /* The file of the best evaluation was written after this checkpoint: it stays, and so does its evaluation. */
    if (failed->best_step > state->progress.best_step) {
        run_progress_copy_best(&state->progress, failed);
        state->kept = read_best(state);
    }
    return code;
}

/* Fail if results would replace files of the user. 0, or an exit code. */
static int protect_files(const struct settings *settings)
{
    const char *file;
    const int rc = run_name_find_others(settings, &file);
    if (rc != 0) {
        log_message(LOG_ERROR, "%s/run.conf: cannot be read: %s", settings->run.dir, exit_cause(rc));
        return exit_code_of(rc, EXIT_CODE_DATA);
    }
    if (file == NULL)
        return 0;
    log_message(LOG_ERROR, "%s/%s was not written by a run, and results would replace it: set run.dir to another "
                "directory", settings->run.dir, file);
    return EXIT_CODE_USAGE;
}

/* ---- a run that has ended without a checkpoint ---- */

/* Has the setting the same value in the earlier run? */
static bool is_still(const struct run_state *state, const struct earlier_run *run, const char *key)
{
    const char *const ours = run_identity_value(state->identity.text, key);
    const char *const theirs = run_identity_value(run->identity, key);
    return ours != NULL && theirs != NULL && strncmp(ours, theirs, strcspn(ours, "\n") + 1) == 0;
}

/* Runs of earlier versions have no train.best_by: they compared accuracies. */
static bool is_best_by_still(const struct run_state *state, const struct earlier_run *run)
{
    static const char key[] = "train.best_by", usual[] = "accuracy\n";
    const char *const ours = run_identity_value(state->identity.text, key);
    const bool is_usual = ours != NULL && strncmp(ours, usual, sizeof(usual) - 1) == 0;
    return run_identity_value(run->identity, key) != NULL ? is_still(state, run, key) : is_usual;
}

/* Would this run, of at most `steps` steps, end at the step at which the earlier run ended? */
static bool ends_there(const struct run_state *state, const struct earlier_run *run, uint64_t steps)
{
    if (strcmp(run->ended, "finished") == 0)
        return run->steps == steps;
    const bool was_over = strcmp(run->ended, stop_reason_key(STOP_REASON_STOP_AT)) == 0 ||
                          strcmp(run->ended, stop_reason_key(STOP_REASON_PATIENCE)) == 0;
    return was_over && run->steps <= steps && is_still(state, run, "train.stop_at") &&
           is_still(state, run, "train.patience") && is_best_by_still(state, run);
}

struct ended_run {
    char directory[PATH_MAX];
    uint64_t steps;
    bool is_same, is_exact, had_other_weights;
};

static void look_at(struct ended_run *ended, const struct run_state *state, const char *directory, uint64_t steps)
{
    struct run_differences differences;
    struct earlier_run run;
    if (earlier_run_read(&run, directory) != 0)
        return;
    const bool is_same = strcmp(run.ended, "failed") != 0 &&
                         !run_identity_differs(&state->identity, run.identity, &differences);
    const bool is_exact = is_same && ends_there(state, &run, steps);
    if (is_exact || (is_same && !ended->is_same)) {
        *ended = (struct ended_run){ .steps = run.steps, .is_same = true, .is_exact = is_exact,
                                      .had_other_weights = run_identity_has_other_weights(&state->identity,
                                                                                          run.identity) };
        snprintf(ended->directory, sizeof(ended->directory), "%s", directory);
    }
    earlier_run_release(&run);
}

/* Look for this run among the runs in run.dir, or in runs/NAME, runs/NAME-2, ..., that have ended without a checkpoint.
 * The newest one counts, unless another one has the requested length. 0, or an exit code after a message. */
static int find_ended(struct run_state *state, const struct settings *settings, const struct run_plan *plan)
{
    const int count = run_name_was_given(settings) ? 1 : run_name_count(settings);
    const uint64_t steps = schedule_step_count(&plan->schedule);
    struct ended_run ended = { .is_same = false };
    char directory[PATH_MAX];
    if (run_state_identity(state, settings, plan) == NULL)
        return 0;
    for (int number = count; number > 0 && !ended.is_exact; number--)
        if (run_name_numbered(directory, sizeof(directory), settings->run.dir, number) == 0)
            look_at(&ended, state, directory, steps);
    state->is_over = ended.is_exact;
    if (ended.is_exact)
        log_message(LOG_PROBLEM, "%s is a run that has ended after step %s: nothing is left to do (to train again, set "
                    "another run.dir or run.resume=never)%s", ended.directory, number_grouped(ended.steps).text,
                    ended.had_other_weights ? "; it began with other weights than model.weights names now" : "");
    else if (ended.is_same && steps < ended.steps)
        return refuse_shorter(settings, ended.directory, ended.steps, steps);
    else if (ended.is_same && !run_name_was_given(settings))
        log_message(LOG_PROBLEM, "%s has ended after step %s without a checkpoint to continue from: starting a new run "
                    "of %s steps", ended.directory, number_grouped(ended.steps).text, number_grouped(steps).text);
    return 0;
}

/* The checkpoint is from a run with other settings: fail if the user chose the directory, otherwise start a new run. */
static int reject_other(struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                        const char *words)
{
    const bool is_asked = strcmp(settings->run.resume, "auto") != 0;
    if (!is_asked && !run_name_was_given(settings)) {
        const int code = find_ended(state, settings, plan);
        if (code == 0 && !state->is_over)
            log_message(LOG_RUN, "%s is a run with other settings (%s): starting a new run", state->folder, words);
        close_reader(state);
        return code;
    }
    environment_warn_of_threads(plan);
    log_message(LOG_ERROR, "%s is from a run with other settings: %s", state->reader->path, words);
    if (!is_asked)
        log_message(LOG_ERROR, "restore the settings to resume it, or start a new run: elsewhere with --set "
                               "run.dir=OTHER, or in its place with --set run.resume=never");
    return EXIT_CODE_USAGE;
}

/* Start without a checkpoint, unless this run has already ended without one. */
static int start_without(struct run_state *state, const struct settings *settings, const struct run_plan *plan)
{
    const int code = find_ended(state, settings, plan);
    return code != 0 || state->is_over ? code : start_anew(state, settings);
}

static int find_start(struct run_state *state, const struct settings *settings, struct run_plan *plan,
                      const struct dataset *const *datasets)
{
    struct run_differences differences;
    const struct checkpoint_settings *const checkpoint = &settings->checkpoint;
    const bool saves = checkpoint->steps > 0 || checkpoint->seconds > 0 || checkpoint->each_epoch ||
                       checkpoint->keep_best == KEEP_BEST_CHECKPOINT;
    const bool computes = plan->devices.backend->computes;
    const bool evaluates = plan->schedule.records[PHASE_EVALUATE] > 0 && settings->input.source != INPUT_SYNTHETIC;
    state->keeps_best = checkpoint->keep_best == KEEP_BEST_CHECKPOINT && computes;
    state->keeps_weights = checkpoint->keep_best == KEEP_BEST_WEIGHTS && computes && evaluates;
    state->saves = (saves || checkpoint->on_stop) && computes;
    state->only_on_stop = state->saves && !saves;
    if (run_identity_make(&state->identity, settings, plan, datasets) != 0) {
        log_message(LOG_ERROR, "the run's settings: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    const int kept = protect_files(settings);
    if (kept != 0)
        return kept;
    if (state->back != NULL && state->back->folder[0] != '\0')
        return find_rollback_target(state, settings, plan);
    if (strcmp(settings->run.resume, "never") == 0)
        return 0;
    if (!computes)
        return check_null_run(state, settings);
    const int rc = open_reader(state, settings);
    if (rc == -ENOENT && strcmp(settings->run.resume, "auto") == 0)
        return start_without(state, settings, plan);
    if (rc != 0)
        return exit_code_of(rc, EXIT_CODE_DATA);
    if (run_identity_differs(&state->identity, state->reader->settings, &differences))
        return reject_other(state, settings, plan, differences.words);
    keep_weights(state);
    int code = check_classes(state, settings, datasets[PHASE_TRAIN]);
    if (code == 0)
        code = check_towers(state, plan);
    if (code == 0 && state->folder[0] == '\0')
        code = start_anew(state, settings);
    if (code != 0)
        return code;
    state->saves = true;        /* a resumed run saves a checkpoint at least at its end */
    state->only_on_stop = false;
    return seek(state, settings, plan);
}

/* ---- the same start in all ranks ---- */

/* The result of rank 0's search, as a message. */
struct run_start {
    int code;                   /* an exit code; 0: the other members are valid */
    bool is_over, keeps_best, keeps_weights, saves, only_on_stop;
    uint64_t first;             /* the first batch */
    bool repeats_evaluation;    /* as in struct schedule */
    struct run_progress progress;
    char path[PATH_MAX];        /* path of the checkpoint, of which a copy follows; "": the run is new */
};

/* Send the checkpoint, so that the run directory need not be on a file system that all ranks see. */
static int send_checkpoint(const struct run_state *state)
{
    const int fd = state->reader->file.fd;
    struct stat status;
    return fstat(fd, &status) == 0 ? rank_copy_send_file(state->ranks, fd, (uint64_t)status.st_size) : -errno;
}

/* The exit code for an error in the communication of ranks. A rank that has failed has already reported the cause. */
static int fail_without_ranks(int rc)
{
    if (rc == -ECANCELED)
        return EXIT_CODE_RANK;
    log_message(LOG_ERROR, "where the run starts: %s", exit_cause(rc));
    return exit_code_of(rc, EXIT_CODE_RANK);
}

static int send_start(const struct run_state *state, const struct run_plan *plan, int code)
{
    struct run_start start;
    memset(&start, 0, sizeof(start));
    start.code = code;
    start.is_over = state->is_over;
    start.keeps_best = state->keeps_best;
    start.keeps_weights = state->keeps_weights;
    start.saves = state->saves;
    start.only_on_stop = state->only_on_stop;
    start.first = plan->schedule.first;
    start.repeats_evaluation = plan->schedule.repeats_evaluation;
    start.progress = state->progress;
    const bool has_checkpoint = code == 0 && state->reader != NULL;
    if (has_checkpoint)
        snprintf(start.path, sizeof(start.path), "%s", state->reader->path);
    int rc = ranks_send_all(state->ranks, MESSAGE_COLLECTIVE, &start, sizeof(start));
    if (rc == 0 && has_checkpoint)
        rc = send_checkpoint(state);
    return code != 0 || rc == 0 ? code : fail_without_ranks(rc);
}

static int receive_start(const struct run_state *state, struct run_start *start_out)
{
    struct message *message;
    const int rc = ranks_receive(state->ranks, 0, MESSAGE_COLLECTIVE, &message);
    if (rc != 0)
        return fail_without_ranks(rc);
    assert(message->bytes == sizeof(*start_out));
    memcpy(start_out, message->data, sizeof(*start_out));
    free(message);
    return start_out->code;
}

/* Receive the checkpoint that rank 0 resumes from. All its hashes are compared again. */
static int receive_checkpoint(struct run_state *state, const struct run_start *start)
{
    struct checkpoint_problem problem = { "" };
    uint64_t bytes;
    int fd, rc = rank_copy_receive(state->ranks, &fd, &bytes);
    if (rc == -ECANCELED)
        return EXIT_CODE_RANK;
    if (rc == 0)
        rc = checkpoint_reader_take(&state->reader, fd, start->path, &problem);
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "%s, the checkpoint that the run is resumed from: its copy from rank 0: %s", start->path,
                problem.text[0] != '\0' ? problem.text : exit_cause(rc));
    return exit_code_of(rc, EXIT_CODE_DATA);
}

static int follow_start(struct run_state *state, struct run_plan *plan)
{
    struct run_start start;
    const int code = receive_start(state, &start);
    if (code != 0)
        return code;
    state->is_over = start.is_over;
    state->keeps_best = start.keeps_best;
    state->keeps_weights = start.keeps_weights;
    state->saves = start.saves;
    state->only_on_stop = start.only_on_stop;
    state->progress = start.progress;
    plan->schedule.first = start.first;
    plan->schedule.repeats_evaluation = start.repeats_evaluation;
    return start.path[0] != '\0' ? receive_checkpoint(state, &start) : 0;
}

const char *run_state_identity(const struct run_state *state, const struct settings *settings,
                               const struct run_plan *plan)
{
    const bool is_kept = plan->devices.backend->computes && settings->input.source != INPUT_SYNTHETIC &&
                         settings->overfit == 0;
    return is_kept ? state->identity.text : NULL;
}

int run_state_find(struct run_state *state, const struct settings *settings, struct run_plan *plan,
                   const struct dataset *const *datasets)
{
    if (ranks_rank(state->ranks) > 0)
        return follow_start(state, plan);
    run_progress_set_best_by(&state->progress, settings->train.best_by);
    state->kept = state->progress;
    const int code = find_start(state, settings, plan, datasets);
    return ranks_size(state->ranks) > 1 ? send_start(state, plan, code) : code;
}

/* ---- initial weights ---- */

int run_weights_open(struct initial_weights **weights_out, struct settings *settings, struct net *net)
{
    const struct model_settings *const model = &settings->model;
    struct problems problems;
    if (*model->weights == '\0')
        return 0;
    if (is_folder(model->weights)) {
        log_message(LOG_ERROR, "model.weights: %s is a directory: name the file there, such as %s/" CHECKPOINT_BEST_FILE
                    " or %s/" WEIGHTS_FILE, model->weights, model->weights, model->weights);
        return EXIT_CODE_USAGE;
    }
    problems_init(&problems);
    int rc = initial_weights_open(weights_out, model->weights, net, model->skip, run_data_classes(settings), &problems);
    if (rc == 0)
        rc = weights_agree(*weights_out, model->weights, settings, net, WEIGHTS_TRAINED_ON, &problems);
    const int code = rc == -EINVAL ? EXIT_CODE_USAGE : (int)exit_code_of(rc, EXIT_CODE_DATA);
    const int wrong = problems_end(&problems, code);
    return rc == 0 ? 0 : wrong;
}

static int code_of(int rc)
{
    return rc == -EREMOTEIO ? EXIT_CODE_DEVICE : rc != 0 ? (int)exit_code_of(rc, EXIT_CODE_DATA) : 0;
}

int run_weights_check(const struct initial_weights *weights)
{
    return code_of(initial_weights_write(weights, NULL));
}

int run_weights_write(const struct initial_weights *weights, struct pipeline *pipeline, const struct run_plan *plan)
{
    int rc = 0;
    for (uint32_t d = 0; d < plan->devices.towers.count && rc == 0; d++)
        rc = initial_weights_write(weights, pipeline_tower(pipeline, d));
    return code_of(rc);
}
