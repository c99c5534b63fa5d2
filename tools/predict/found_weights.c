/* Chooses among the files of a run directory. */
#include "tools/predict/found_weights.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/program_folder.h"
#include "stage/text/shell_word.h"
#include "tools/lib/results/checkpoint_reader.h"
#include "tools/lib/results/earlier_run.h"
#include "tools/lib/results/run_names.h"
#include "tools/lib/results/tensor_file.h"
#include "tools/lib/results/weights.h"
#include "tools/lib/run/best_file.h"

/* Write the path of a file in a run directory. 0 or -ENAMETOOLONG. */
static int name_file(const char *folder, const char *file, char path_out[PATH_MAX])
{
    const int length = snprintf(path_out, PATH_MAX, "%s/%s", folder, file);
    return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* ---- the best ones ---- */

/* Was an earlier evaluation of the run better, whose weights are in another directory or were not kept? */
static bool is_of_later_part(const struct best_file *best, const struct earlier_run *run)
{
    return run->best_step > 0 && run->best_step < best->step && run->steps >= best->step;
}

/* `run`: what is known of the run; all 0 if nothing is. */
static void describe(const struct best_file *best, const struct earlier_run *run, char which_out[FOUND_WHICH_BYTES])
{
    const enum best_by by = (enum best_by)best->progress.best_by;
    char of[32] = "", better[80] = "";
    if (is_of_later_part(best, run))
        snprintf(better, sizeof(better), ", but step %" PRIu64 " was better, whose weights are not here",
                 run->best_step);
    else if (run->epochs >= best->epoch)
        snprintf(of, sizeof(of), " of %" PRIu64, run->epochs);
    snprintf(which_out, FOUND_WHICH_BYTES, "epoch %" PRIu32 ", the best%s%s by %s (%s)%s", best->epoch,
             *better != '\0' ? " kept" : "", of, best_by_words(by),
             best_by_text(by, run_progress_best_value(&best->progress)).text, better);
}

/* Is the file of an evaluation before the best one, because the run did not keep later ones? */
static bool is_outdated(const struct best_file *best, const struct earlier_run *run, const char *path, bool reports)
{
    if (run->best_step <= best->step)
        return false;
    if (reports)
        log_message(LOG_RUN, "%s is of step %" PRIu64 ", but the best evaluation was at step %" PRIu64 ", whose weights "
                    "were not kept (checkpoint.keep_best): using the last weights", path, best->step, run->best_step);
    return true;
}

/* A run that was killed has no summary. 0, or -ENOENT. */
static int find_best(const char *folder, bool reports, struct found_weights *found)
{
    struct best_file best;
    struct earlier_run run = { .best_step = 0 };
    int rc = name_file(folder, CHECKPOINT_BEST_FILE, found->path);
    if (rc == 0)
        rc = best_file_read(&best, found->path, false);
    if (rc != 0 && rc != -ENOENT && reports)
        log_message(LOG_RUN, "%s: cannot be read: using the last weights", found->path);
    if (rc != 0)
        return -ENOENT;
    if (earlier_run_read(&run, folder) != 0)
        run = (struct earlier_run){ .best_step = 0 };
    const bool is_best = !is_outdated(&best, &run, found->path, reports);
    describe(&best, &run, found->which);
    earlier_run_release(&run);
    found->is_best = is_best;
    return is_best ? 0 : -ENOENT;
}

/* ---- a run directory ---- */

static int find_last(const char *folder, bool reports, struct found_weights *found)
{
    struct checkpoint_reader *state = NULL;
    struct checkpoint_problem problem;
    int rc = name_file(folder, WEIGHTS_FILE, found->path);
    if (rc != 0 || access(found->path, F_OK) == 0)
        return rc;
    rc = checkpoint_reader_find(&state, folder, UINT64_MAX, &problem);
    if (rc != 0)
        return rc == -ENOMEM ? rc : -ENOENT;
    snprintf(found->path, sizeof(found->path), "%s", state->path);
    if (reports)
        log_message(LOG_RUN, "%s has no " WEIGHTS_FILE ": using its newest checkpoint, %s", folder, found->path);
    checkpoint_reader_close(state);
    return 0;
}

int found_weights_in(const char *folder, bool last, bool reports, struct found_weights *found_out)
{
    *found_out = (struct found_weights){ .is_best = false };
    if (!last && find_best(folder, reports, found_out) == 0)
        return 0;
    *found_out = (struct found_weights){ .is_best = false };
    return find_last(folder, reports, found_out);
}

/* ---- the run of a configuration ---- */

/* Are the weights of a run on synthetic input or with --overfit? This is logged. Unreadable weights are reported
 * later. */
static bool learned_something_else(const char *path)
{
    char problem[256], shown[256], quoted[PATH_MAX];
    struct tensor_file file;
    if (tensor_file_open(&file, path, problem, sizeof(problem)) != 0)
        return false;
    const char *const learned = safetensors_index_text(&file.index, WEIGHTS_LEARNED);
    if (learned != NULL) {
        log_plain(learned, shown, sizeof(shown));
        log_message(LOG_RUN, "%s learned %s: skipped (use it with --weights=%s)", path, shown,
                    shell_word(path, quoted, sizeof(quoted)));
    }
    tensor_file_close(&file);
    return learned != NULL;
}

/* Find the weights of the last run that has weights trained on the data. Later runs, which are skipped, are logged.
 * Returns the codes of found_weights_in. */
static int find_latest_run(const struct settings *settings, bool last, struct found_weights *found)
{
    char folder[PATH_MAX];
    const int count = run_name_was_given(settings) ? 1 : run_name_count(settings);
    int rc = -ENOENT, number = count;
    for (; number > 0 && rc == -ENOENT; number--) {
        rc = run_name_numbered(folder, sizeof(folder), settings->run.dir, number);
        if (rc == 0)
            rc = found_weights_in(folder, last, true, found);
        if (rc == -ENOENT && count > 1 && access(folder, F_OK) == 0)
            log_message(LOG_RUN, "%s has no weights", folder);
        else if (rc == 0 && learned_something_else(found->path))
            rc = -ENOENT;
    }
    if (rc == 0 && number + 1 < count)
        log_message(LOG_RUN, "using the weights of an earlier run: %s", found->path);
    return rc;
}

int found_weights_of_run(const struct settings *settings, bool last, struct found_weights *found_out)
{
    char quoted[PATH_MAX];
    const int rc = find_latest_run(settings, last, found_out);
    if (rc == -ENOENT) {
        log_message(LOG_ERROR, "no run has weights in %s: train the network with %spipetrain -c %s, or name other "
                    "weights with --weights FILE", settings->run.dir, program_folder(),
                    *settings->config_path != '\0' ? shell_word(settings->config_path, quoted, sizeof(quoted))
                                                   : "FILE");
        return EXIT_CODE_DATA;
    }
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "the weights: %s", strerror(-rc));
    return exit_code_of(rc, EXIT_CODE_DATA);
}

void found_weights_describe(const char *path, struct found_weights *found_out)
{
    static const struct earlier_run unknown = { .best_step = 0 };
    struct best_file best;
    *found_out = (struct found_weights){ .is_best = false };
    snprintf(found_out->path, sizeof(found_out->path), "%s", path);
    const char *const slash = strrchr(path, '/');
    if (strcmp(slash != NULL ? slash + 1 : path, CHECKPOINT_BEST_FILE) == 0 && best_file_read(&best, path, false) == 0)
        describe(&best, &unknown, found_out->which);
}

void found_weights_report(const struct found_weights *found)
{
    if (found->is_best)
        log_message(LOG_RUN, "using %s: %s; --last uses the last weights", found->path, found->which);
}
