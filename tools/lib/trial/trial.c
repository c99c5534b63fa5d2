/* A trial: temporary folder, command line, child process (trial_process.h), summary.json. */
#include "tools/lib/trial/trial.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/lib/config/options.h"
#include "tools/lib/trial/trial_process.h"

#define START_SECONDS 600.0             /* the time limit for the start, unless limit_seconds is set */
#define PATH_ROOM 256                   /* bytes for a file name after the folder's path */
#define DESCRIPTORS_MAX 8               /* the most descriptors that nftw uses */

struct trial {
    const struct trial_spec *spec;
    bool only_checks;
    char folder[PATH_MAX];
    char *words[OPTIONS_MAX];           /* "KEY=VALUE" of all options that trials set; owned */
    size_t word_count;
    char **argv;                        /* array owned, strings lent */
};

static int trial_failed(struct trial_result *result, int rc, enum exit_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int trial_failed(struct trial_result *result, int rc, enum exit_code code, const char *format, ...)
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

/* ---- the folder ---- */

static int make_folder(char *path_out, size_t path_size)
{
    const char *const parent = getenv("TMPDIR");
    const int bytes = snprintf(path_out, path_size, "%s/pipetrain-trial.XXXXXX",
                               parent != NULL && *parent != '\0' ? parent : "/tmp");
    if (bytes < 0 || (size_t)bytes >= path_size)
        return -ENAMETOOLONG;
    return mkdtemp(path_out) != NULL ? 0 : -errno;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

/* Remove the folder without following links. */
static void remove_folder(const char *path)
{
    if (nftw(path, remove_entry, DESCRIPTORS_MAX, FTW_DEPTH | FTW_PHYS) != 0)
        log_message(LOG_RUN, "%s could not be removed: %s", path, strerror(errno));
}

/* ---- the command line ---- */

/* The value of an option that all trials set: folder and length are those of this trial. */
static const char *value_of(const struct option_row *row, const char *dir, const char *steps)
{
    const struct { enum section section; const char *key, *value; } own[] = { { SECTION_RUN, "dir", dir },
                                                                             { SECTION_TRAIN, "steps", steps } };
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        if (row == option_find(own[i].section, own[i].key))
            return own[i].value;
    return row->in_trials;
}

static int make_words(struct trial *trial)
{
    char dir[PATH_MAX + PATH_ROOM], steps[24];
    const uint64_t wanted = trial->spec->steps;
    snprintf(dir, sizeof(dir), "%s/run", trial->folder);
    snprintf(steps, sizeof(steps), "%" PRIu64, wanted == 0 || wanted > TRIAL_STEPS_MAX ? TRIAL_STEPS_MAX : wanted);
    for (const struct option_row *row = option_table; row->key != NULL; row++) {
        char **const word = &trial->words[trial->word_count];
        if (row->in_trials == NULL)
            continue;
        if (asprintf(word, "%s.%s=%s", section_name(row->section), row->key, value_of(row, dir, steps)) < 0) {
            *word = NULL;
            return -ENOMEM;
        }
        trial->word_count++;
    }
    return 0;
}

static size_t add_sets(char **argv, size_t count, const char *const *assignments, size_t assignment_count)
{
    for (size_t i = 0; i < assignment_count; i++) {
        argv[count++] = (char *)"--set";
        argv[count++] = (char *)assignments[i];
    }
    return count;
}

/* Make the command line: program -c FILE [--check] --set ... */
static int make_argv(struct trial *trial)
{
    static const char *const no_evaluation = "data.validation=", *const no_rollback = "train.on_nan=stop";
    const struct trial_spec *const spec = trial->spec;
    const size_t assignments = spec->config.assignments.count + spec->own_count + OPTIONS_MAX + 2;
    char **const argv = calloc(2 * assignments + 5, sizeof(*argv));
    size_t count = 0;
    trial->argv = argv;
    if (argv == NULL || make_words(trial) != 0)
        return -ENOMEM;
    argv[count++] = program_invocation_name;
    argv[count++] = (char *)"-c";
    argv[count++] = (char *)spec->config.path;
    if (trial->only_checks)
        argv[count++] = (char *)"--check";
    count = add_sets(argv, count, spec->config.assignments.words, spec->config.assignments.count);
    count = add_sets(argv, count, &no_evaluation, spec->skips_evaluation);
    count = add_sets(argv, count, &no_rollback, spec->has_rollback);
    count = add_sets(argv, count, spec->own, spec->own_count);
    add_sets(argv, count, (const char *const *)trial->words, trial->word_count);
    return 0;
}

/* ---- summary.json ---- */

#define PATH_BYTES 64

/* Values of summary.json that are no metrics. */
#define FIELD(name) offsetof(struct trial_result, name)
static const struct { const char *path; size_t offset; } count_fields[] = {
    { "towers", FIELD(towers) },
    { "batch", FIELD(batch) },
    { "plan.cores", FIELD(cores) },
    { "plan.threads_per_tower", FIELD(threads_per_tower) },
    { "plan.read_threads", FIELD(read_threads) },
    { "plan.decode_threads", FIELD(decode_threads) },
    { "plan.prefetch_depth", FIELD(prefetch_depth) },
    { "plan.staging_depth", FIELD(staging_depth) },
    { "data.train.first_image.height", FIELD(stored_height) },
    { "data.train.first_image.width", FIELD(stored_width) },
    { "data.train.first_image.taken_height", FIELD(taken_height) },
    { "data.train.first_image.taken_width", FIELD(taken_width) },
    { "input.height", FIELD(input_height) },
    { "input.width", FIELD(input_width) },
};

static const json_t *find_value(const json_t *value, const char *path)
{
    char keys[PATH_BYTES], *rest = keys;
    snprintf(keys, sizeof(keys), "%s", path);
    for (const char *key = strsep(&rest, "."); key != NULL; key = strsep(&rest, "."))
        value = json_object_get(value, key);
    return value;
}

/* A number of the summary; NAN for null, which stands for a number that is not finite. */
static double find_number(const json_t *summary, const char *path)
{
    const json_t *const value = find_value(summary, path);
    return json_is_boolean(value) ? json_is_true(value) : json_is_number(value) ? json_number_value(value) : NAN;
}

static void read_string(const json_t *object, const char *key, char *out, size_t out_size)
{
    const char *const text = json_string_value(json_object_get(object, key));
    snprintf(out, out_size, "%s", text != NULL ? text : "");
}

static void read_fields(const json_t *summary, struct trial_result *result)
{
    for (const struct metric *metric = metric_table; metric->help != NULL; metric++)
        if (metric->path != NULL && (metric->places & IN_SUMMARY) != 0)
            metric_set(metric, &result->values, find_number(summary, metric->path));
    for (size_t i = 0; i < sizeof(count_fields) / sizeof(*count_fields); i++)
        *(uint64_t *)((char *)result + count_fields[i].offset) =
            (uint64_t)json_integer_value(find_value(summary, count_fields[i].path));
    result->limit_gain = find_number(summary, "limit.gain");
    result->is_synthetic = json_is_true(json_object_get(summary, "synthetic"));
    read_string(summary, "ended", result->ended, sizeof(result->ended));
    read_string(summary, "device", result->device, sizeof(result->device));
    read_string(summary, "verdict", result->verdict, sizeof(result->verdict));
    read_string(json_object_get(summary, "limit"), "stage", result->limit, sizeof(result->limit));
}

static int read_summary(const struct trial *trial, struct trial_result *result)
{
    char path[PATH_MAX + PATH_ROOM];
    snprintf(path, sizeof(path), "%s/run/summary.json", trial->folder);
    if (access(path, F_OK) != 0)
        return trial_failed(result, -ENODATA, EXIT_CODE_OUTPUT, "it ended before its first step was done");
    json_t *const summary = json_load_file(path, 0, NULL);
    const bool is_valid = summary != NULL && json_typeof(summary) == JSON_OBJECT;
    if (is_valid)
        read_fields(summary, result);
    json_decref(summary);
    if (is_valid && trial->spec->counts_warmup && !isfinite(result->values.images_per_second))
        result->values.images_per_second = result->values.run.mean_images_per_second;
    return is_valid ? 0 : trial_failed(result, -EBADMSG, EXIT_CODE_OUTPUT, "its summary.json cannot be read");
}

/* ---- the child's messages ---- */

static void append(char *text, const char *words)
{
    strncat(text, words, TRIAL_PROBLEM_BYTES - 1 - strlen(text));
}

/* Read the child's error messages; if there are none, for example after an abort in a library, the last lines of its
 * stderr. */
static void read_messages(const char *path, char text[TRIAL_PROBLEM_BYTES])
{
    static const char prefix[] = "pipetrain: ";
    const size_t prefix_bytes = sizeof(prefix) - 1;
    char *line = NULL;
    size_t room = 0, errors = 0;
    FILE *const file = fopen(path, "re");
    while (file != NULL && getline(&line, &room, file) > 0) {
        const bool is_error = strncmp(line, prefix, prefix_bytes) == 0;
        const bool is_full = strlen(text) + strlen(line) >= TRIAL_PROBLEM_BYTES;
        if (is_error ? errors++ == 0 : errors == 0 && is_full)
            *text = '\0';
        if (is_error || errors == 0)
            append(text, is_error ? line + prefix_bytes : line);
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
    if (WIFSIGNALED(status))
        return trial_failed(result, -ECHILD, code, "it was killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    *result = (struct trial_result){ .exit_code = code };
    read_messages(err_path, result->problem);
    if (*result->problem == '\0')
        return trial_failed(result, -ECHILD, code, "it ended with exit code %d", code);
    return -ECHILD;
}

/* ---- all of it ---- */

static int read_result(const struct trial *trial, const struct trial_exit *child, const char *err_path,
                       struct trial_result *result)
{
    const int status = child->status;
    if (child->is_canceled)
        return trial_failed(result, -ECANCELED, trial_process_end_code(), "interrupted");
    if (child->is_over_limit)
        return trial_failed(result, -ETIMEDOUT, EXIT_CODE_STALL, "it did not end in time and was killed");
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != EXIT_CODE_OK && WEXITSTATUS(status) != EXIT_CODE_STOPPED))
        return child_failed(err_path, status, result);
    return trial->only_checks ? 0 : read_summary(trial, result);
}

static uint64_t nanoseconds(double seconds)
{
    return seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_C(1000000000000000000);
}

static int run_child(const struct trial *trial, struct trial_result *result)
{
    const struct trial_spec *const spec = trial->spec;
    char out_path[PATH_MAX + PATH_ROOM], err_path[PATH_MAX + PATH_ROOM];
    const double default_limit = spec->seconds > 0 ? spec->seconds + START_SECONDS : 0;
    struct trial_exit child;
    snprintf(out_path, sizeof(out_path), "%s/out", trial->folder);
    snprintf(err_path, sizeof(err_path), "%s/err", trial->folder);
    const struct trial_process process = {
        .argv = trial->argv,
        .out_path = out_path,
        .err_path = err_path,
        .train_ns = nanoseconds(spec->seconds),
        .limit_ns = nanoseconds(spec->limit_seconds > 0 ? spec->limit_seconds : default_limit),
    };
    const int rc = trial_process_run(&process, &child);
    return rc == 0 ? read_result(trial, &child, err_path, result)
                   : trial_failed(result, rc, EXIT_CODE_MEMORY, "it could not be started: %s", strerror(-rc));
}

static int run_trial(const struct trial_spec *spec, bool only_checks, struct trial_result *result)
{
    struct trial trial = { .spec = spec, .only_checks = only_checks };
    *result = (struct trial_result){ 0 };
    const int code = trial_process_end_code();
    if (code != 0)
        return trial_failed(result, -ECANCELED, code, "interrupted");
    int rc = make_folder(trial.folder, sizeof(trial.folder));
    if (rc != 0)
        return trial_failed(result, rc, EXIT_CODE_OUTPUT, "no folder for a trial in $TMPDIR or /tmp: %s",
                            strerror(-rc));
    rc = make_argv(&trial);
    rc = rc == 0 ? run_child(&trial, result)
                 : trial_failed(result, rc, EXIT_CODE_MEMORY, "its command line: %s", strerror(-rc));
    remove_folder(trial.folder);
    for (size_t i = 0; i < trial.word_count; i++)
        free(trial.words[i]);
    free(trial.argv);
    return rc;
}

int trial_run(const struct trial_spec *spec, struct trial_result *result_out)
{
    return run_trial(spec, false, result_out);
}

int trial_check(const struct trial_spec *spec, struct trial_result *result_out)
{
    return run_trial(spec, true, result_out);
}

void trial_print_problem(const char *name, const struct trial_result *result)
{
    const char *line = result->problem;
    while (*line != '\0') {
        const int bytes = (int)strcspn(line, "\n");
        log_message(LOG_ERROR, "%s: %.*s", name, bytes, line);
        line += bytes;
        line += *line == '\n';
    }
}
