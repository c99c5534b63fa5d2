/* Trials: a folder, a command line, a process, a summary. */
#include "tools/trial/trial.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/trial/trial_folder.h"
#include "tools/trial/trial_process.h"
#include "tools/trial/trial_summary.h"

#define START_SECONDS 600.0             /* that a start may take where nobody says */
#define PATH_ROOM 256                   /* of a file in the folder, behind its path */

/* What a trial sets itself; the first three as it is asked for. */
enum { OWN_DIR, OWN_STEPS, OWN_TRACE, OWN_COUNT = 15 };
static const struct { const char *key, *value; } own_keys[OWN_COUNT] = {
    [OWN_DIR] = { "run.dir", NULL },
    [OWN_STEPS] = { "train.steps", NULL },
    [OWN_TRACE] = { "report.trace", "" },
    { "train.epochs", "1000000" },      /* the largest number there may be: the steps decide */
    { "train.max_time", "" },
    { "train.stop_at", "0" },
    { "train.patience", "0" },
    { "run.resume", "never" },
    { "checkpoint.every", "never" },
    { "checkpoint.keep_best", "no" },
    { "checkpoint.on_stop", "no" },
    { "report.progress", "none" },
    { "report.tensorboard", "no" },     /* who watches the runs of this configuration sees no trial among them */
    { "report.histograms", "none" },
    { "report.prometheus", "" },
};

struct trial {
    const struct trial_spec *spec;
    bool only_checks;
    char folder[PATH_MAX];
    char *own[OWN_COUNT];               /* owned */
    size_t own_count;
    char **argv;                        /* lent strings in an array that is owned */
};

static int fail(struct trial_result *result, int rc, enum exit_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int fail(struct trial_result *result, int rc, enum exit_code code, const char *format, ...)
{
    va_list arguments;
    *result = (struct trial_result){ .exit_code = code };
    va_start(arguments, format);
    vsnprintf(result->problem, sizeof(result->problem), format, arguments);
    va_end(arguments);
    return rc;
}

bool trial_can_read_again(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool trial_sets(const char *key)
{
    for (size_t i = 0; i < OWN_COUNT; i++)
        if (strcmp(own_keys[i].key, key) == 0)
            return true;
    return false;
}

/* One more assignment of the trial's own. 0 or -ENOMEM. */
static int add(struct trial *trial, const char *key, const char *value)
{
    char *text;
    if (asprintf(&text, "%s=%s", key, value) < 0)
        return -ENOMEM;
    trial->own[trial->own_count++] = text;
    return 0;
}

static int add_own(struct trial *trial)
{
    char dir[PATH_MAX + PATH_ROOM], steps[24];
    const uint64_t wanted = trial->spec->steps;
    snprintf(dir, sizeof(dir), "%s/run", trial->folder);
    snprintf(steps, sizeof(steps), "%" PRIu64, wanted == 0 || wanted > TRIAL_STEPS_MAX ? TRIAL_STEPS_MAX : wanted);
    const char *const told[OWN_COUNT] = { [OWN_DIR] = dir, [OWN_STEPS] = steps, [OWN_TRACE] = trial->spec->trace };
    int rc = 0;
    for (size_t i = 0; i < OWN_COUNT && rc == 0; i++)
        rc = add(trial, own_keys[i].key, told[i] != NULL ? told[i] : own_keys[i].value);
    return rc;
}

/* The command line: program -c FILE [--check] --set ... */
static int make_words(struct trial *trial)
{
    const struct trial_spec *const spec = trial->spec;
    const int rc = add_own(trial);
    trial->argv = calloc(2 * (spec->assignment_count + trial->own_count) + 5, sizeof(*trial->argv));
    if (rc != 0 || trial->argv == NULL)
        return -ENOMEM;
    size_t count = 0;
    trial->argv[count++] = program_invocation_name;
    trial->argv[count++] = (char *)"-c";
    trial->argv[count++] = (char *)spec->config_path;
    if (trial->only_checks)
        trial->argv[count++] = (char *)"--check";
    for (size_t i = 0; i < spec->assignment_count + trial->own_count; i++) {
        const bool is_own = i >= spec->assignment_count;
        trial->argv[count++] = (char *)"--set";
        trial->argv[count++] = is_own ? trial->own[i - spec->assignment_count] : (char *)spec->assignments[i];
    }
    return 0;
}

static void append(char *text, const char *words)
{
    strncat(text, words, TRIAL_PROBLEM_BYTES - 1 - strlen(text));
}

/* What the child said of its failure: its error messages; without one, as of a library, the last lines. */
static void take_words(const char *path, char text[TRIAL_PROBLEM_BYTES])
{
    static const char begins[] = "pipetrain: ";
    const size_t begin = sizeof(begins) - 1;
    char *line = NULL;
    size_t room = 0, errors = 0;
    FILE *const file = fopen(path, "re");
    while (file != NULL && getline(&line, &room, file) > 0) {
        const bool is_error = strncmp(line, begins, begin) == 0;
        const bool is_full = strlen(text) + strlen(line) >= TRIAL_PROBLEM_BYTES;
        if (is_error ? errors++ == 0 : errors == 0 && is_full)
            *text = '\0';
        if (is_error || errors == 0)
            append(text, is_error ? line + begin : line);
    }
    const size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n')
        text[length - 1] = '\0';
    free(line);
    if (file != NULL)
        fclose(file);
}

static int child_failed(const char *err_path, int status, struct trial_result *result)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_CODE_INTERNAL;
    *result = (struct trial_result){ .exit_code = code };
    take_words(err_path, result->problem);
    if (WIFSIGNALED(status))
        return fail(result, -ECHILD, EXIT_CODE_INTERNAL, "it was killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    if (*result->problem == '\0')
        return fail(result, -ECHILD, code, "it ended with exit code %d", code);
    return -ECHILD;
}

static int read_outcome(const struct trial *trial, const struct trial_outcome *outcome, const char *err_path,
                        struct trial_result *result)
{
    char path[PATH_MAX + PATH_ROOM];
    const int status = outcome->status;
    if (outcome->is_canceled)
        return fail(result, -ECANCELED, trial_process_end_code(), "interrupted");
    if (outcome->is_over_limit)
        return fail(result, -ETIMEDOUT, EXIT_CODE_STALL, "it did not end in time and was killed");
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != EXIT_CODE_OK && WEXITSTATUS(status) != EXIT_CODE_STOPPED))
        return child_failed(err_path, status, result);
    if (trial->only_checks)
        return 0;
    snprintf(path, sizeof(path), "%s/run/summary.json", trial->folder);
    const int rc = trial_summary_read(path, result);
    return rc == 0 ? 0 : fail(result, rc, EXIT_CODE_OUTPUT, rc == -ENODATA ? "it ended before its first step was done"
                                                                            : "its summary.json cannot be read");
}

static uint64_t nanoseconds(double seconds)
{
    return seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_C(1000000000000000000);
}

static int run_words(const struct trial *trial, struct trial_result *result)
{
    const struct trial_spec *const spec = trial->spec;
    char out_path[PATH_MAX + PATH_ROOM], err_path[PATH_MAX + PATH_ROOM];
    const double usual = spec->seconds > 0 ? spec->seconds + START_SECONDS : 0;
    struct trial_outcome outcome;
    snprintf(out_path, sizeof(out_path), "%s/out", trial->folder);
    snprintf(err_path, sizeof(err_path), "%s/err", trial->folder);
    const struct trial_process process = {
        .argv = trial->argv,
        .out_path = out_path,
        .err_path = err_path,
        .train_ns = nanoseconds(spec->seconds),
        .limit_ns = nanoseconds(spec->limit_seconds > 0 ? spec->limit_seconds : usual),
    };
    const int rc = trial_process_run(&process, &outcome);
    return rc == 0 ? read_outcome(trial, &outcome, err_path, result)
                   : fail(result, rc, EXIT_CODE_MEMORY, "it could not be started: %s", strerror(-rc));
}

static int run(const struct trial_spec *spec, bool only_checks, struct trial_result *result)
{
    struct trial trial = { .spec = spec, .only_checks = only_checks };
    *result = (struct trial_result){ 0 };
    const int code = trial_process_end_code();
    if (code != 0)
        return fail(result, -ECANCELED, code, "interrupted");
    int rc = trial_folder_make(trial.folder, sizeof(trial.folder));
    if (rc != 0)
        return fail(result, rc, EXIT_CODE_OUTPUT, "no folder for a trial in $TMPDIR or /tmp: %s", strerror(-rc));
    rc = make_words(&trial);
    rc = rc == 0 ? run_words(&trial, result)
                 : fail(result, rc, EXIT_CODE_MEMORY, "its command line: %s", strerror(-rc));
    trial_folder_remove(trial.folder);
    for (size_t i = 0; i < trial.own_count; i++)
        free(trial.own[i]);
    free(trial.argv);
    return rc;
}

int trial_run(const struct trial_spec *spec, struct trial_result *result_out)
{
    return run(spec, false, result_out);
}

int trial_check(const struct trial_spec *spec, struct trial_result *result_out)
{
    return run(spec, true, result_out);
}

int trial_end_code(void)
{
    return trial_process_end_code();
}

void trial_tell(const char *name, const struct trial_result *result)
{
    const char *line = result->problem;
    while (*line != '\0') {
        const int bytes = (int)strcspn(line, "\n");
        log_message(LOG_ERROR, "%s: %.*s", name, bytes, line);
        line += bytes;
        line += *line == '\n';
    }
}
