/* What a run goes on from, and which runs do not go on. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/log.h"
#include "tools/results/named_classes.h"
#include "tools/results/run_names.h"
#include "tools/results/weights_about.h"
#include "tools/run/state/run_identity.h"
#include "tools/run/state/run_state.h"
#include "tools/run/stop_rule.h"
#include "tools/text/number.h"

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

/* What is no directory is told when the run enters it; of those that were not named some may be other people's. */
static bool has_none(const struct settings *settings, int rc)
{
    return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP || rc == -ENAMETOOLONG ||
           (rc == -EACCES && !run_name_was_given(settings));
}

/* The newest state in the directory that was named, or in the last of runs/NAME, runs/NAME-2, ... that has one.
 * -ENOENT: there is none. A directory that cannot be looked into may have some, which a new run would replace. */
static int find_own(struct run_state *state, const struct settings *settings, struct checkpoint_problem *problem)
{
    const int count = run_name_was_given(settings) ? 1 : run_name_count(settings);
    int rc = -ENOENT;
    for (int number = count; number > 0 && has_none(settings, rc); number--)
        if (run_name_numbered(state->folder, sizeof(state->folder), settings->run.dir, number) == 0)
            rc = checkpoint_reader_find(&state->reader, state->folder, problem);
    if (!has_none(settings, rc))
        return rc;
    state->folder[0] = '\0';
    return -ENOENT;
}

static int fail_to_look(const char *folder, int rc)
{
    log_message(LOG_ERROR, "run directory %s: whether it holds saved states cannot be seen: %s", folder, strerror(-rc));
    return rc;
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
    if (rc != 0 && rc != -ENOENT && rc != -EBADMSG)
        return fail_to_look(state->folder, rc);
    if (is_auto)
        return rc == 0 || rc == -ENOENT ? rc : fail_to_open(state->folder, rc, &problem);
    if (rc == 0 &&
        !run_identity_differs(state->identity, checkpoint_reader_settings(state->reader), words, sizeof(words)))
        return 0;
    forget(state);
    rc = is_folder(resume) ? checkpoint_reader_find(&state->reader, resume, &problem)
                           : checkpoint_reader_open(&state->reader, resume, &problem);
    return rc == 0 ? 0 : fail_to_open(resume, rc, &problem);
}

/* There is nothing to go on from in the run's directory; what else is there is not lost. */
static int begin_anew(const struct settings *settings)
{
    char problem[2 * PATH_MAX + 256];
    if (!run_name_is_taken(settings, problem, sizeof(problem)))
        return 0;
    log_message(LOG_ERROR, "%s", problem);
    return EXIT_CODE_USAGE;
}

/* What computes nothing would replace the results of a run that does. */
static int keep_off(struct run_state *state, const struct settings *settings)
{
    struct checkpoint_problem problem;
    const int rc = run_name_was_given(settings) ? find_own(state, settings, &problem) : -ENOENT;
    const bool is_there = rc == 0 || rc == -EBADMSG;
    if (is_there)
        log_message(LOG_ERROR, "%s holds a run that computes: give this one another with --set run.dir=OTHER",
                    settings->run.dir);
    forget(state);
    return is_there ? EXIT_CODE_USAGE : begin_anew(settings);
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

/* A label means what it meant when the state was saved. 0 or an exit code. Names that are given by hand may have been
 * changed since. */
static int check_classes(const struct run_state *state, const struct settings *settings, const struct dataset *dataset)
{
    char data[300], network[300];
    const char *const path = checkpoint_reader_path(state->reader);
    if (dataset == NULL || *settings->data.class_names != '\0')
        return 0;
    const int rc = dataset_names_differ(dataset, checkpoint_reader_text(state->reader, WEIGHTS_CLASS_NAMES), data,
                                        network, sizeof(data));
    if (rc == 0)
        return 0;
    if (rc < 0) {
        log_message(LOG_ERROR, "%s: the names of its classes: %s", path, strerror(-rc));
        return exit_code_of(rc, EXIT_CODE_DATA);
    }
    log_message(LOG_ERROR, "%s was trained on other classes: %s; those of %s are %s: put the data back, name the "
                "classes with data.class_names = FILE if they are the same, or begin anew with --set run.resume=never",
                path, network, dataset->options.pattern, data);
    return EXIT_CODE_DATA;
}

/* Of a run that is over nothing is left to do, where its directory was named; else this one is new. */
static void end_or_begin(struct run_state *state, const struct settings *settings, enum stop_reason reason)
{
    static const char *const more[STOP_REASON_COUNT] = { [STOP_REASON_NONE] = "more train.epochs or train.steps go on",
                                                    [STOP_REASON_STOP_AT] = "a larger train.stop_at goes on",
                                                    [STOP_REASON_PATIENCE] = "more train.patience goes on" };
    const char *const path = checkpoint_reader_path(state->reader);
    state->is_over = state->folder[0] == '\0' || run_name_was_given(settings);
    if (state->is_over)
        log_message(LOG_RUN, "%s is of a run that is over: nothing is left to do (%s, --set run.resume=never begins "
                             "anew)", path, more[reason]);
    else
        log_message(LOG_RUN, "%s is of a run that is over: this one is a new one (%s)", path, more[reason]);
    state->progress = (struct run_progress){ .stale = 0 };
    forget(state);
}

static int read_course(struct run_state *state)
{
    const int rc = run_progress_read(&state->progress, checkpoint_reader_mark(state->reader)->course);
    if (rc != 0)
        log_message(LOG_ERROR, "%s: its " CHECKPOINT_KEY_COURSE " '%s' holds a number that no run has (the last is "
                    "that of its rollbacks, at most %u): go on from an earlier state, or begin anew with --set "
                    "run.resume=never",
                    checkpoint_reader_path(state->reader), checkpoint_reader_mark(state->reader)->course,
                    RUN_PROGRESS_ROLLBACKS_MAX);
    return rc == 0 ? 0 : EXIT_CODE_DATA;
}

/* A schedule that ends with the run is another one where the run has become longer or shorter: say what that makes of
 * the rate of the next step. */
static void tell_rate(const struct run_state *state, const struct learning_rate *rate, uint64_t step)
{
    struct learning_rate before = *rate;
    before.last = (double)state->progress.rate_last;
    const double was = learning_rate_at(&before, step), is = learning_rate_at(rate, step);
    if (state->progress.rate_last > 0 && fabs(is - was) > 1e-3 * fmax(fabs(is), fabs(was)))
        log_message(LOG_RUN, "the learning rate jumps from %.3g to %.3g at step %s: its schedule ended at step %s when "
                    "the state was saved, and ends at step %s now", was, is, number_grouped(step).text,
                    number_grouped(state->progress.rate_last).text, number_grouped((uint64_t)llround(rate->last)).text);
}

/* The batch at which it goes on. */
static int seek(struct run_state *state, const struct settings *settings, struct run_plan *plan)
{
    uint64_t number;
    const struct position position = checkpoint_reader_mark(state->reader)->position;
    const bool is_found = schedule_seek(&plan->schedule, position, &number) == 0;
    if (!is_found && position.step <= schedule_step_count(&plan->schedule)) {
        log_message(LOG_ERROR, "%s: its " CHECKPOINT_KEY_POSITION " (epoch %" PRIu32 ", %" PRIu64 " steps done, %"
                    PRIu64 " batches evaluated) is no place in this run, whose epochs have %" PRIu64 " steps",
                    checkpoint_reader_path(state->reader), position.epoch, position.step, position.evaluated,
                    schedule_steps_per_epoch(&plan->schedule));
        return EXIT_CODE_DATA;
    }
    if (!is_found) {
        log_message(LOG_ERROR, "%s is behind step %s, and this run ends at step %s: more train.steps or train.epochs "
                    "go on from it; to begin anew, --set %s takes another directory, --set run.resume=never %s",
                    checkpoint_reader_path(state->reader), number_grouped(position.step).text,
                    number_grouped(schedule_step_count(&plan->schedule)).text,
                    run_name_was_given(settings) ? "run.dir=OTHER" : "run.name=OTHER",
                    run_name_was_given(settings) ? "this one" : "the next free one");
        return EXIT_CODE_USAGE;
    }
    const int code = read_course(state);
    if (code != 0)
        return code;
    const enum stop_reason reason = stop_reason_of_progress(&settings->train, &state->progress);
    if (number == schedule_batch_count(&plan->schedule) || reason != STOP_REASON_NONE) {
        end_or_begin(state, settings, number == schedule_batch_count(&plan->schedule) ? STOP_REASON_NONE : reason);
        return 0;
    }
    tell_rate(state, &plan->learning_rate, position.step);
    run_state_match_best(state);
    plan->schedule.first = number;
    state->past = (struct run_past){ .path = state->folder };
    const struct checkpoint_mark *const mark = checkpoint_reader_mark(state->reader);
    memcpy(state->past.lines_bytes, mark->lines_bytes, sizeof(mark->lines_bytes));
    return 0;
}

static int check_towers(const struct run_state *state, const struct run_plan *plan)
{
    const uint32_t theirs = checkpoint_reader_towers(state->reader);
    if (theirs == plan->schedule.towers || plan->devices.mode->is_one_model)
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
    const struct run_progress *const then = &state->back->progress;
    state->progress.rollbacks = then->rollbacks;
    if (then->best_step > state->progress.best_step) {    /* its file is there, and stays the best */
        state->progress.best_correct = then->best_correct;
        state->progress.best_images = then->best_images;
        state->progress.best_step = then->best_step;
    }
    return code;
}

/* 0, or an exit code where results would take the place of a configuration of the user's. */
static int keep_configuration(const struct settings *settings)
{
    bool is_of_others;
    const int rc = run_name_is_of_others(settings, &is_of_others);
    if (rc != 0) {
        log_message(LOG_ERROR, "%s/run.conf: cannot be read: %s", settings->run.dir, exit_cause(rc));
        return exit_code_of(rc, EXIT_CODE_DATA);
    }
    if (!is_of_others)
        return 0;
    log_message(LOG_ERROR, "%s/run.conf is a configuration that no run wrote, and results would take its place: set "
                "run.dir to another directory", settings->run.dir);
    return EXIT_CODE_USAGE;
}

int run_state_find(struct run_state *state, const struct settings *settings, struct run_plan *plan,
                   const struct dataset *const *datasets)
{
    char words[512];
    const struct checkpoint_settings *const checkpoint = &settings->checkpoint;
    const bool saves = checkpoint->steps > 0 || checkpoint->seconds > 0 || checkpoint->each_epoch ||
                       checkpoint->keep_best;
    const bool computes = plan->devices.backend->computes;
    state->keeps_best = checkpoint->keep_best && computes;
    state->saves = (saves || checkpoint->on_stop) && computes;
    state->only_on_stop = state->saves && !saves;
    if (run_identity_open(&state->identity, settings, plan, datasets) != 0) {
        log_message(LOG_ERROR, "the run's settings: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    const int kept = keep_configuration(settings);
    if (kept != 0)
        return kept;
    if (state->back != NULL && state->back->folder[0] != '\0')
        return find_back(state, settings, plan);
    if (strcmp(settings->run.resume, "never") == 0)
        return 0;
    if (!computes)
        return keep_off(state, settings);
    const int rc = open_reader(state, settings);
    if (rc == -ENOENT && strcmp(settings->run.resume, "auto") == 0)
        return begin_anew(settings);
    if (rc != 0)
        return exit_code_of(rc, EXIT_CODE_DATA);
    if (run_identity_differs(state->identity, checkpoint_reader_settings(state->reader), words, sizeof(words)))
        return refuse_other(state, settings, words);
    int code = check_classes(state, settings, datasets[PHASE_TRAIN]);
    if (code == 0)
        code = check_towers(state, plan);
    if (code == 0 && state->folder[0] == '\0')
        code = begin_anew(settings);
    if (code != 0)
        return code;
    state->saves = true;        /* at its end at least */
    state->only_on_stop = false;
    return seek(state, settings, plan);
}
