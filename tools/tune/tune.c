/* --tune: a run as configured, a search that follows the verdicts of short trials, rounds of the fastest settings,
 * and two runs that measure the towers alone and the input pipeline alone. */
#include "tools/tune/tune.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/decimal.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/options.h"
#include "tools/lib/limits.h"
#include "tools/lib/run/verdict.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"
#include "tools/lib/trial/trial_command.h"
#include "tools/tune/tune_report.h"

#define DEFAULT_SECONDS 60
#define FIRST_SECONDS 3.0       /* the first run trains at most so long, */
#define FIRST_SHARE 0.1         /* and at most for this share of all time */
/* the second run, if the first had too few steps, takes at most this share of all time */
#define RETRY_SHARE 0.2
#define STEPS_LEAST 30.0        /* steps of a trial, 10 of which warm up */
#define STEPS_WANTED 400.0      /* steps of all trials together */
#define TRIAL_SECONDS 1.0       /* a trial of the search trains at least so long, */
#define TRIAL_SHARE (1.0 / 60)  /* and for at least this share of all time */
#define SEARCH_SHARE 0.45       /* share of the time left after the first run */
#define PLANNED 0.95            /* share of the time left: some trials start slowly */
#define TRIALS_FOR_REASON 8     /* trials that have to fit into the time before two are spent on finding the reason */
#define FINALISTS_FIRST 5u      /* settings in the first round, */
#define FINALISTS_LAST 3u       /* and in the later rounds; both include the configuration as it is */
#define LAST_ROUNDS 3u
#define LONGER 4                /* trials of the last rounds are at most so many times as long as those of the search */
#define ASSIGNMENT_BYTES 64

struct tune {
    struct trial_arguments words;           /* the first member: see trial_command.h */
    double total_seconds;
    bool writes;                        /* --tune-write */
    bool is_cached;                     /* input.source = cached in the configuration */
    struct trial_spec spec;             /* used for every trial */
    struct tune_result result;
    struct trial_result now;            /* the result of the run as configured */
    uint64_t begun_ns;
    uint32_t trials;                    /* done so far */
    double start_seconds;               /* mean time that a trial takes in addition to its training */
    double step_seconds;                /* time of a step as configured */
    /* sum of the shares of the cores' time that other programs used in `other_load_count` trials */
    double other_load;
    uint32_t other_load_count;
    int exit_code;
};

#define FIELD(name) .offset = offsetof(struct tune, name)

static const struct program_option options[] = {
    { .letter = 'c', .name = "config", .value = "FILE", .store = STORE_TEXT, FIELD(words.config.path),
      .help = "the configuration; no pipe, because every run reads it" },
    { .name = "tune", .value = "SECONDS", .may_lack_value = true, .store = STORE_SECONDS, .least_seconds = 10,
      FIELD(total_seconds), .help = "time for all runs together (default 60, at least 10)" },
    { .name = "tune-write", .store = STORE_FLAG, FIELD(writes),
      .help = "change FILE as recommended; a copy of the old one stays as FILE.bak" },
    { .name = "set", .value = "SECTION.KEY=VALUE", .store = STORE_LIST, FIELD(words.config.assignments),
      .help = "override a key in all runs; may be repeated" },
    { .name = "compare", .value = "KEY=VALUE,VALUE...", TRIAL_EXCLUDED("--tune") },
    TRIAL_OPTION_ROWS("--tune"),
};

static const struct program_command command_line = { .usage = "pipetrain --tune", .options = options };

/* ---- the command line ---- */

static void print_usage(FILE *out)
{
    fputs("usage: pipetrain -c FILE --tune[=SECONDS] [OPTION]...\n"
          "Find how many threads and how much depth the input pipeline of a configuration\n"
          "needs on this machine.\n\n", out);
    program_option_help(options, out);
    fputs("\n"
          "Short runs change one key at a time of input.read_threads, .decode_threads,\n"
          ".prefetch_depth, .staging_depth, .source and, on CPUs,\n"
          "devices.threads_per_tower: first the one that promises the largest gain, by what\n"
          "limited the last run. The best settings then run in turns with the configuration\n"
          "as it is. Nothing of these runs is kept. Exit status as for pipetrain.\n\n"
          "  pipetrain -c run.conf --tune\n"
          "  pipetrain -c run.conf --tune=120 --tune-write\n", out);
}

static int prepare(struct trial_arguments *arguments, struct settings *settings, struct problems *problems)
{
    struct tune *const tune = (struct tune *)arguments;
    tune->is_cached = settings->input.source == INPUT_CACHED;
    if (settings->input.source == INPUT_SYNTHETIC)
        problems_add(problems, "--tune", "input.source = synthetic: nothing is read or decoded, so there is no input "
                                         "pipeline to tune");
    else if (settings->devices.kind == DEVICE_CHOICE_NULL)
        problems_add(problems, "--tune", "devices.kind = null: nothing is computed, so any input is fast enough");
    return 0;
}

/* ---- time ---- */

static double seconds_since(uint64_t begun_ns)
{
    return (double)(clock_now_ns() - begun_ns) / 1e9;
}

static double seconds_left(const struct tune *tune)
{
    return PLANNED * (tune->total_seconds - seconds_since(tune->begun_ns));
}

static double round_up(double seconds, double multiple)
{
    return ceil(seconds / multiple) * multiple;
}

/* Seconds that a trial of the search takes, with its start. */
static double trial_cost(const struct tune *tune)
{
    return tune->start_seconds + tune->result.trial_seconds;
}

/* ---- rounds ---- */

/* The values of a candidate that differ from the configuration: "read_threads 4, prefetch_depth 16". */
struct setting_text { char text[256]; };
static struct setting_text setting_words(const struct tune *tune, uint32_t i)
{
    struct config_change changes[TUNE_CHANGES_MAX];
    struct setting_text words = { "as configured" };
    const struct tune_candidate *const candidates = tune->result.candidates;
    const uint32_t count = tune_changes(&candidates[i].setting, &candidates[0].setting, true, changes);
    for (uint32_t c = 0, used = 0; c < count && used < sizeof(words.text); c++)
        used += (uint32_t)snprintf(words.text + used, sizeof(words.text) - used, "%s%s %s", c > 0 ? ", " : "",
                                   changes[c].key, changes[c].value);
    return words;
}

/* The assignments for a trial of a candidate, with room for two more. */
struct assignments {
    struct setting_text name;
    char texts[TUNE_CHANGES_MAX][ASSIGNMENT_BYTES];
    const char *own[TUNE_CHANGES_MAX + 2];
};

/* Candidate 0 is the configuration as it is. */
static struct variant variant_of(const struct tune *tune, uint32_t i, struct assignments *assignments)
{
    struct config_change changes[TUNE_CHANGES_MAX];
    const struct tune_setting *const setting = &tune->result.candidates[i].setting;
    const uint32_t count = i > 0 ? tune_changes(setting, NULL, tune->result.space.has_cpu_towers, changes) : 0;
    assignments->name = setting_words(tune, i);
    for (uint32_t c = 0; c < count; c++) {
        snprintf(assignments->texts[c], ASSIGNMENT_BYTES, "%s.%s=%s", changes[c].section, changes[c].key,
                 changes[c].value);
        assignments->own[c] = assignments->texts[c];
    }
    return (struct variant){ .name = assignments->name.text, .own = assignments->own, .own_count = count };
}

static void note_costs(struct tune *tune, const struct trial_result *results, uint32_t count, double start_seconds)
{
    for (uint32_t i = 0; i < count; i++) {
        tune->start_seconds += (fmax(start_seconds, 0) - tune->start_seconds) / ++tune->trials;
        const struct cores_use *const cores = &results[i].values.run.cores;
        if (results[i].exit_code != 0 || !isfinite(cores->others + cores->stolen))
            continue;
        tune->other_load += cores->others + cores->stolen;
        tune->other_load_count++;
    }
}

/* Run a round of trials that train `seconds` each. Returns the same as trial_round. */
static int run_round(struct tune *tune, const char *label, const struct variant *variants, uint32_t count,
                     double seconds, struct trial_result *results, uint32_t *last_out)
{
    const uint64_t begun_ns = clock_now_ns();
    tune->spec.seconds = seconds;
    const int rc = trial_round(&tune->spec, label, variants, count, results, last_out);
    const uint32_t ran = *last_out + 1;
    note_costs(tune, results, ran, seconds_since(begun_ns) / ran - seconds);
    tune->exit_code = results[*last_out].exit_code;
    if (rc == -ECANCELED)
        log_message(LOG_RUN, "interrupted: nothing was changed");
    return rc;
}

static int run_one(struct tune *tune, const struct variant *variant, double seconds, struct trial_result *result)
{
    uint32_t last;
    return run_round(tune, "", variant, 1, seconds, result, &last);
}

/* Print why the trial failed, except after an interruption. Returns rc. */
static int check_trial(const struct trial_result *result, int rc)
{
    if (rc != 0 && rc != -ECANCELED)
        trial_print_problem("--tune", result);
    return rc;
}

/* ---- the phases ---- */

static uint32_t clamp(double value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : (uint32_t)value;
}

static uint32_t default_value(const char *key)
{
    return (uint32_t)decimal_read(option_find(SECTION_INPUT, key)->initial);
}

static struct tune_candidate candidate_of(const struct tune_setting *setting, const struct trial_result *tried)
{
    return (struct tune_candidate){ .setting = *setting,
                                    .tried_speed = tried->values.images_per_second,
                                    .tried_wait = trial_input_wait(tried),
                                    .planned_bytes = tried->values.run.planned_bytes };
}

static void start_result(struct tune *tune)
{
    const struct trial_result *const now = &tune->now;
    struct tune_result *const result = &tune->result;
    const struct tune_setting setting = {
        .tower_threads = clamp((double)now->threads_per_tower, 1, UINT32_MAX),
        .readers = clamp((double)now->read_threads, 1, UINT32_MAX),
        .decoders = clamp((double)now->decode_threads, 1, UINT32_MAX),
        .prefetch_depth = clamp((double)now->prefetch_depth, 1, UINT32_MAX),
        .staging_depth = clamp((double)now->staging_depth, 1, UINT32_MAX),
        .is_cached = tune->is_cached,
    };
    result->space = (struct tune_space){ .cores = fmin((double)now->cores, cgroup_cpu("").cpus),
                                         .has_cpu_towers = strcmp(now->device, "cpu") == 0,
                                         .towers = clamp((double)now->towers, 1, UINT32_MAX),
                                         .default_prefetch_depth = default_value("prefetch_depth"),
                                         .default_staging_depth = default_value("staging_depth") };
    result->stored_side = sides_shorter(now->stored_height, now->stored_width);
    result->taken_side = sides_longer(sides_shorter(now->taken_height, now->taken_width),
                                      sides_shorter(now->input_height, now->input_width));
    result->trial_seconds = fmax(fmax(TRIAL_SECONDS, TRIAL_SHARE * tune->total_seconds),
                                 STEPS_LEAST * tune->step_seconds);
    result->towers_alone = result->input_alone = NAN;
    memcpy(result->verdict, now->verdict, sizeof(result->verdict));
    result->candidates[result->count++] = candidate_of(&setting, now);
}

/* Run as configured. -ERANGE: after warm-up, there were too few steps to measure the speed. */
static int run_now(struct tune *tune, double seconds)
{
    const struct variant as_configured = { .name = "as configured" };
    const int rc = run_one(tune, &as_configured, seconds, &tune->now);
    return rc == 0 && !isfinite(tune->now.values.images_per_second) ? -ERANGE : rc;
}

/* If the first run had too few steps, a longer second one is tried. */
static int measure_now(struct tune *tune)
{
    const double first = fmin(FIRST_SECONDS, FIRST_SHARE * tune->total_seconds);
    int rc = run_now(tune, first);
    const struct metric_values *const now = &tune->now.values;
    const double step = now->run.steps > 0 ? now->seconds / (double)now->run.steps : INFINITY;
    if (rc == -ERANGE && STEPS_LEAST * step <= RETRY_SHARE * tune->total_seconds)
        rc = run_now(tune, STEPS_LEAST * step);
    if (rc == -ERANGE) {
        log_message(LOG_ERROR, "--tune: a step takes %.1f s, so a run has too few of them to measure: give it more "
                               "time, --tune=%.0f", step,
                    fmax(round_up(step * STEPS_WANTED, 60), 2 * tune->total_seconds));
        tune->exit_code = EXIT_CODE_USAGE;
    }
    if (rc != 0)
        return check_trial(&tune->now, rc);
    tune->step_seconds = (double)tune->now.batch / tune->now.values.images_per_second;
    start_result(tune);
    tune->spec.counts_warmup = true;    /* enough for comparing with a faster setting */
    return 0;
}

static bool is_known(const struct tune_result *result, const struct tune_setting *setting)
{
    for (uint32_t i = 0; i < result->count; i++)
        if (tune_same_setting(&result->candidates[i].setting, setting))
            return true;
    return false;
}

/* The setting with the largest expected gain over `from` that was not tried yet; NULL if there is none. */
static const struct tune_setting *next_setting(const struct tune_result *result, uint32_t from,
                                               const struct trial_result *measured,
                                               struct tune_proposal proposals[TUNE_PROPOSALS_MAX])
{
    const uint32_t count = tune_propose(&result->space, &result->candidates[from].setting, measured, proposals);
    for (uint32_t i = 0; i < count; i++)
        if (!is_known(result, &proposals[i].setting))
            return &proposals[i].setting;
    return NULL;
}

/* Did the program reject the setting? It needs more memory than is available; other settings may need less. */
static bool is_refused(int rc, const struct trial_result *result)
{
    return rc == -ECHILD && (result->exit_code == EXIT_CODE_USAGE || result->exit_code == EXIT_CODE_MEMORY);
}

static int try_setting(struct tune *tune, const struct tune_setting *setting, struct trial_result *tried)
{
    struct tune_result *const result = &tune->result;
    const uint32_t i = result->count++;
    struct tune_candidate *const candidate = &result->candidates[i];
    struct assignments assignments;
    *candidate = (struct tune_candidate){ .setting = *setting };
    const struct variant variant = variant_of(tune, i, &assignments);
    const int rc = run_one(tune, &variant, result->trial_seconds, tried);
    if (is_refused(rc, tried)) {
        log_message(LOG_RUN, "%s: refused: %s", variant.name, tried->problem);
        candidate->is_refused = true;
        tune->exit_code = EXIT_CODE_OK;
        return 0;
    }
    if (rc != 0)
        return check_trial(tried, rc);
    *candidate = candidate_of(setting, tried);
    return 0;
}

/* Try settings, each derived from the fastest one so far, until no gain is expected or the time is over. */
static int search(struct tune *tune, double end_seconds)
{
    struct tune_result *const result = &tune->result;
    struct tune_proposal proposals[TUNE_PROPOSALS_MAX];
    struct trial_result measured = tune->now;
    uint32_t from = 0;
    int rc = 0;
    while (rc == 0 && result->count < TUNE_CANDIDATES_MAX &&
           (result->count < 2 || seconds_left(tune) - trial_cost(tune) > end_seconds)) {
        const struct tune_setting *const setting = next_setting(result, from, &measured, proposals);
        struct trial_result tried = { .exit_code = 0 };
        if (setting == NULL)
            return 0;
        rc = try_setting(tune, setting, &tried);
        if (rc == 0 && tried.values.images_per_second > (1 + TUNE_MEASURABLE) * result->candidates[from].tried_speed) {
            from = result->count - 1;
            measured = tried;
        }
    }
    return rc;
}

static int run_finalists(struct tune *tune, const uint32_t *finalists, uint32_t count, double seconds)
{
    struct tune_result *const result = &tune->result;
    struct assignments assignments[FINALISTS_FIRST];
    struct variant variants[FINALISTS_FIRST];
    struct trial_result measured[FINALISTS_FIRST];
    char label[24];
    uint32_t last;
    for (uint32_t i = 0; i < count; i++)
        variants[i] = variant_of(tune, finalists[i], &assignments[i]);
    snprintf(label, sizeof(label), "round %u", result->rounds + 1);
    const int rc = run_round(tune, label, variants, count, seconds, measured, &last);
    if (rc != 0)
        return check_trial(&measured[last], rc);
    for (uint32_t i = 0; i < count; i++) {
        struct tune_candidate *const candidate = &result->candidates[finalists[i]];
        candidate->speeds[candidate->rounds] = measured[i].values.images_per_second;
        candidate->waits[candidate->rounds++] = trial_input_wait(&measured[i]);
    }
    if (result->rounds++ == 0)
        result->compared = count - 1;
    result->round_seconds = seconds;
    return 0;
}

/* The slower settings are dropped after the first round, and later rounds run longer. */
static int compare(struct tune *tune, double end_seconds)
{
    struct tune_result *const result = &tune->result;
    const double cost = trial_cost(tune);
    uint32_t finalists[FINALISTS_FIRST];
    uint32_t count = tune_finalists(result, FINALISTS_FIRST, finalists);
    if (count < 2)
        return 0;
    if (count > FINALISTS_LAST && seconds_left(tune) - end_seconds > (count + 2 * 2) * cost) {
        const int rc = run_finalists(tune, finalists, count, result->trial_seconds);
        if (rc != 0)
            return rc;
    }
    const bool has_time = seconds_left(tune) - end_seconds > LAST_ROUNDS * FINALISTS_LAST * cost;
    count = tune_finalists(result, has_time ? FINALISTS_LAST : 2, finalists);
    const double left = seconds_left(tune) - end_seconds;
    const uint32_t rounds = clamp(left / (count * cost), 1, LAST_ROUNDS);
    const double least = fmax(STEPS_LEAST * tune->step_seconds, TRIAL_SECONDS / 2);
    const double seconds = fmin(left / (rounds * count) - tune->start_seconds, LONGER * result->trial_seconds);
    int rc = 0;
    for (uint32_t r = 0; r < rounds && rc == 0; r++)
        rc = run_finalists(tune, finalists, count, fmax(seconds, least));
    return rc;
}

/* Measure the best setting with input that is already in memory (towers alone), and with devices that do not compute
 * (input alone). */
static int measure_alone(struct tune *tune)
{
    struct tune_result *const result = &tune->result;
    struct assignments assignments;
    struct trial_result measured;
    struct variant best = variant_of(tune, result->best, &assignments);
    const size_t own_count = best.own_count;
    best.name = "towers alone";
    assignments.own[best.own_count++] = "input.source=synthetic";
    int rc = run_one(tune, &best, result->trial_seconds, &measured);
    if (rc != 0)
        return check_trial(&measured, rc);
    result->towers_alone = measured.values.images_per_second;
    if (result->candidates[result->best].setting.is_cached)
        return 0;               /* a short run would measure the first pass over the files */
    best.name = "input alone";
    best.own_count = own_count;
    assignments.own[best.own_count++] = "devices.kind=null";
    assignments.own[best.own_count++] = "devices.list=";
    rc = run_one(tune, &best, result->trial_seconds, &measured);
    if (rc != 0)
        return check_trial(&measured, rc);
    result->input_alone = measured.values.images_per_second;
    result->decoding_is_slower = measured.values.feed.busy.decoders >= measured.values.feed.busy.readers;
    return 0;
}

static int search_and_compare(struct tune *tune)
{
    struct tune_result *const result = &tune->result;
    const double left = seconds_left(tune), cost = trial_cost(tune);
    const double for_reason = left >= TRIALS_FOR_REASON * cost ? 2 * cost : 0;
    if (left < 5 * cost) {      /* time for trying another setting, and for two rounds of two settings */
        result->enough_seconds = round_up(tune->total_seconds - left + 1.2 * TRIALS_FOR_REASON * cost, 10);
        log_message(LOG_RUN, "--tune=%.0f is too short to try another setting: --tune=%.0f would do",
                    tune->total_seconds, result->enough_seconds);
        return 0;
    }
    const double for_rounds = fmax((1 - SEARCH_SHARE) * (left - for_reason), 4 * cost);
    int rc = search(tune, for_reason + for_rounds);
    if (rc == 0)
        rc = compare(tune, for_reason);
    if (rc != 0)
        return rc;
    tune_choose(result);
    return for_reason > 0 ? measure_alone(tune) : 0;
}

static void write_changes(struct tune *tune)
{
    struct config_change changes[TUNE_CHANGES_MAX];
    char backup[CONFIG_BACKUP_SIZE];
    const struct tune_result *const result = &tune->result;
    const struct tune_candidate *const candidates = result->candidates;
    const char *const path = tune->words.config.path;
    const uint32_t count = tune_changes(&candidates[result->best].setting, &candidates[0].setting,
                                        result->space.has_cpu_towers, changes);
    if (count == 0)
        return;
    const int rc = config_edit_file(path, changes, count, backup);
    if (rc == 0) {
        wrapped_print(stdout, "written   %s; the old file: %s", path, backup);
        return;
    }
    log_message(LOG_ERROR, "%s: not written: %s", path, strerror(-rc));
    tune->exit_code = EXIT_CODE_OUTPUT;
}

/* Does this key influence the measured speed? The others are set by every trial itself, or only name and report a
 * run. */
static bool is_measured(const struct option_row *option)
{
    return option->section != SECTION_REPORT && option->section != SECTION_CHECKPOINT && option->in_trials == NULL &&
           option != option_find(SECTION_RUN, "name");
}

/* List the assignments of the command line that differ from the file, as text: "" if there are none. */
static void find_foreign(const struct settings *file, const struct settings *all, char *words, size_t words_size)
{
    *words = '\0';
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        struct option_text of_file, of_all;
        const size_t used = strlen(words);
        const char *const value = option_format(option, all, &of_all);
        if (is_measured(option) && strcmp(option_format(option, file, &of_file), value) != 0)
            snprintf(words + used, words_size - used, "%s%s.%s = %s", used > 0 ? ", " : "",
                     section_name(option->section), option->key, value);
    }
}

/* Refuse --tune-write if --set changed other keys: values measured with those may be wrong for the file. 0 or an
 * exit code. */
static int check_writing(const struct config_arguments *config)
{
    const struct config_arguments only_file = { .path = config->path };
    struct settings file, all;
    struct problems problems;
    char words[1024] = "";
    problems_init(&problems);
    int rc = settings_init(&file);
    rc = settings_init(&all) != 0 ? -ENOMEM : rc;
    if (rc == 0)
        rc = config_collect(&file, &only_file, &problems);
    if (rc == 0)
        rc = config_collect(&all, config, &problems);
    if (rc == 0)
        find_foreign(&file, &all, words, sizeof(words));
    problems_print(&problems);
    problems_release(&problems);
    settings_release(&file);
    settings_release(&all);
    if (rc != 0)
        return (int)exit_code_of(rc, EXIT_CODE_USAGE);
    if (words[0] == '\0')
        return EXIT_CODE_OK;
    log_message(LOG_ERROR, "--tune-write: values measured with --set %s may be wrong for %s, which has other settings: "
                "change them there first, or leave out --tune-write to print the result only", words, config->path);
    return EXIT_CODE_USAGE;
}

static int run_tune(struct trial_arguments *arguments, const struct trial_spec *spec)
{
    struct tune *const tune = (struct tune *)arguments;
    if (tune->writes && config_edit_is_read_only(arguments->config.path)) {
        log_message(LOG_ERROR, "%s is read-only, so --tune-write cannot change it: make it writable (chmod u+w), or "
                    "leave out --tune-write to print the settings only", arguments->config.path);
        return EXIT_CODE_OUTPUT;
    }
    const int code = tune->writes ? check_writing(&arguments->config) : EXIT_CODE_OK;
    if (code != EXIT_CODE_OK)
        return code;
    tune->spec = *spec;
    tune->spec.skips_evaluation = true;
    tune->begun_ns = clock_now_ns();
    int rc = measure_now(tune);
    if (rc == 0)
        rc = search_and_compare(tune);
    if (rc != 0)
        return tune->exit_code;
    tune->result.seconds = seconds_since(tune->begun_ns);
    tune->result.other_load = tune->other_load_count > 0 ? tune->other_load / tune->other_load_count : 0;
    tune_report(&tune->result, stdout);
    if (tune->writes)
        write_changes(tune);
    return tune->exit_code;
}

static const struct trial_command command = {
    .name = "--tune", .example = "pipetrain -c run.conf --tune", .line = &command_line,
    .print_usage = print_usage, .prepare = prepare, .run = run_tune,
};

int tune_command(int argc, char **argv, uint64_t process_start_ns)
{
    struct tune tune = { .total_seconds = DEFAULT_SECONDS };
    (void)process_start_ns;
    return trial_command_run(&command, &tune.words, argc, argv);
}
