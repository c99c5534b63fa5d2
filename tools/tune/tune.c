/* The phases of tuning. */
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
#include "stage/thread.h"
#include "tools/config/number.h"
#include "tools/config/options.h"
#include "tools/limits/cgroup.h"
#include "tools/run/pace/sides.h"
#include "tools/text/wrapped.h"
#include "tools/tune/assignments.h"
#include "tools/tune/config_edit.h"
#include "tools/tune/crowding.h"
#include "tools/tune/outcome.h"
#include "tools/tune/trials.h"
#include "tools/tune/tune_report.h"

#define PHASE_SHARE 0.1         /* of the time, for each run that is no confirmation */
#define PHASE_SECONDS 8.0       /* that such a run takes at most, unless its steps need more */
#define PHASE_LEAST 0.5         /* and at least */
#define PHASES_MOST (2 + FEED_STEP_KINDS)       /* as configured, towers alone, the feed alone */
#define READERS_MOST 16u
#define STEPS_LEAST 20.0        /* of a run, behind those that warm up */
#define STEPS_WANTED 400.0      /* of all runs together */
#define TRIAL_LEAST 1.0         /* seconds of training that settings are compared by */
#define ROUNDS_WANTED 5u
#define PLANNED 0.95            /* of what is left: starts take longer now and then */
#define BETWEEN 4u              /* pieces of work beside one a thread (loader.h) */
#define TEXT_BYTES 48
#define WAITING 0.5             /* share of reading that is worth being done away with */
#define PREDICTED_STEPS 300u

struct tuning {
    const struct tune_request *request;
    struct tune_outcome outcome;
    struct trial_result now;    /* the configuration as it is */
    struct stage_times as_is, feed, needs[FEED_STEP_KINDS];
    double usual_copy;          /* seconds */
    uint64_t begun_ns;
    double start_seconds;       /* that a trial takes beside its training, on average */
    double step_seconds;        /* of the configuration as it is */
    uint32_t runs;              /* trials that are done */
    double others;              /* sum of the shares of the cores that others took in `others_known` of them */
    uint32_t others_known;
    int exit_code;
};

static double seconds_since(uint64_t begun_ns)
{
    return (double)(clock_now_ns() - begun_ns) / 1e9;
}

static int out_of_memory(struct tuning *tuning)
{
    log_message(LOG_ERROR, "--tune: %s", strerror(ENOMEM));
    tuning->exit_code = EXIT_CODE_MEMORY;
    return -ENOMEM;
}

/* One trial, with what it takes beside training counted. -ERANGE, without a word: too few steps. */
static int run_once(struct tuning *tuning, const char *const *own, size_t count, double seconds,
                    struct trial_result *result, struct stage_times *times)
{
    const uint64_t begun_ns = clock_now_ns();
    const int rc = trials_run(tuning->request, own, count, seconds, result, times);
    tuning->start_seconds += (fmax(seconds_since(begun_ns) - seconds, 0) - tuning->start_seconds) / ++tuning->runs;
    tuning->exit_code = result->exit_code;
    if (rc == 0 && isfinite(result->others + result->stolen)) {
        tuning->others += result->others + result->stolen;
        tuning->others_known++;
    }
    if (rc == -ECANCELED) {
        log_message(LOG_RUN, "interrupted: nothing was changed");
        tuning->exit_code = trial_end_code();
    }
    return rc;
}

static double seconds_a_step(const struct trial_result *result)
{
    return result->steps > 0 ? result->seconds / (double)result->steps : 0;
}

static int too_few_steps(struct tuning *tuning, const struct trial_result *result)
{
    const double step = seconds_a_step(result);
    log_message(LOG_ERROR, "--tune: a step takes %.1f s, and too few of them were done to measure: give it more time, "
                           "as --tune=%.0f", step,
                fmax(ceil(step * STEPS_WANTED / 60) * 60, 2 * tuning->request->seconds));
    tuning->exit_code = EXIT_CODE_USAGE;
    return -ERANGE;
}

static int run(struct tuning *tuning, const char *const *own, size_t count, double seconds, struct trial_result *result,
               struct stage_times *times)
{
    const int rc = run_once(tuning, own, count, seconds, result, times);
    return rc == -ERANGE ? too_few_steps(tuning, result) : rc;
}

static double seconds_left(const struct tuning *tuning)
{
    return tuning->request->seconds - seconds_since(tuning->begun_ns);
}

static double phase_least(const struct tuning *tuning)
{
    return fmax(PHASE_LEAST, STEPS_LEAST * tuning->step_seconds);
}

/* One of the runs that settings are compared by, with its start. */
static double trial_least(const struct tuning *tuning)
{
    return tuning->start_seconds + fmax(TRIAL_LEAST, 2 * STEPS_LEAST * tuning->step_seconds);
}

/* Time for a round of two settings is left over, if there is any. */
static double phase_seconds(const struct tuning *tuning)
{
    const double most = fmin(tuning->request->seconds * PHASE_SHARE, fmax(PHASE_SECONDS, phase_least(tuning)));
    const uint32_t runs = PHASES_MOST - (tuning->runs < PHASES_MOST ? tuning->runs : PHASES_MOST - 1);
    const double round = 2 * trial_least(tuning) / PLANNED;
    const double each = (seconds_left(tuning) - round) / runs - tuning->start_seconds;
    return tuning->runs == 0 ? most : fmin(fmax(each, phase_least(tuning)), most);
}

static int refuse(struct tuning *tuning, const char *why)
{
    log_message(LOG_ERROR, "--tune: %s", why);
    tuning->exit_code = EXIT_CODE_USAGE;
    return -EINVAL;
}

static int run_as_is(struct tuning *tuning, struct stage_times *times)
{
    const int rc = run_once(tuning, NULL, 0, phase_seconds(tuning), &tuning->now, times);
    return rc == 0 && !isfinite(tuning->now.images_per_second) ? -ERANGE : rc;
}

/* Once more, and longer, where the time allows for steps as slow as they turned out to be. Where a trace has no room in
 * the budget, copies are not measured. */
static int measure_now(struct tuning *tuning)
{
    struct stage_times *const times = trials_have_room(tuning->request) ? &tuning->as_is : NULL;
    int rc = run_as_is(tuning, times);
    tuning->step_seconds = rc == -ERANGE ? seconds_a_step(&tuning->now) : 0;
    if (rc == -ERANGE && phase_least(tuning) <= tuning->request->seconds * PHASE_SHARE) {
        stage_times_release(&tuning->as_is);
        rc = run_as_is(tuning, times);
    }
    if (rc == -ERANGE)
        return too_few_steps(tuning, &tuning->now);
    if (rc != 0)
        return rc;
    log_message(LOG_RUN, "as configured: %s images/s, towers wait %.1f %% for input",
                number_rate(tuning->now.images_per_second).text, 100 * trials_wait(&tuning->now));
    return 0;
}

/* A feed and towers are wanted. */
static int check_kind(struct tuning *tuning)
{
    if (tuning->now.is_synthetic)
        return refuse(tuning, "the input is synthetic (input.source), so nothing is read or decoded");
    if (strcmp(tuning->now.device, "null") == 0)
        return refuse(tuning, "nothing computes (devices.kind = null), so there is nothing to keep up with");
    return 0;
}

/* Of a tower, whose steps are measured: several numbers where towers compute on cores. Returns how many. */
static uint32_t threads_measured(const struct tuning *tuning, uint32_t threads_out[FEED_STEP_KINDS])
{
    const uint32_t most = tuning->outcome.space.threads_most;
    const uint32_t wanted[FEED_STEP_KINDS] = { 1, most > 2 ? (most + 1) / 2 : most, most };
    uint32_t count = 0;
    threads_out[0] = (uint32_t)tuning->now.threads_per_tower;
    if (!tuning->outcome.model.steps_on_cores)
        return 1;
    for (uint32_t i = 0; i < FEED_STEP_KINDS; i++)
        if (count == 0 || wanted[i] > threads_out[count - 1])
            threads_out[count++] = wanted[i];
    return count;
}

static double whole_tens(double seconds)
{
    return ceil(seconds / 10) * 10;
}

/* The runs that measure, each as short as it may be, and a round of two settings behind them. */
static int check_time(struct tuning *tuning)
{
    uint32_t threads[FEED_STEP_KINDS];
    const uint32_t runs = 1 + threads_measured(tuning, threads);        /* the feed alone, and towers alone */
    tuning->step_seconds = (double)tuning->now.batch / tuning->now.images_per_second;
    const double each = tuning->start_seconds + phase_least(tuning);
    const double measured = seconds_since(tuning->begun_ns) + runs * each;
    const double enough = whole_tens(fmax(1.2 * (measured + 4 * trial_least(tuning)), tuning->request->seconds + 1));
    if (tuning->request->seconds >= measured + 2 * trial_least(tuning) / PLANNED)
        return 0;
    if (tuning->request->seconds >= measured) {
        log_message(LOG_RUN, "--tune=%.0f is too short to run what will be proposed, which is predicted only: "
                             "--tune=%.0f would do", tuning->request->seconds, enough);
        tuning->outcome.enough_seconds = enough;
        return 0;
    }
    log_message(LOG_ERROR, "--tune: a run takes %.1f s to start and %.1f s to measure, too long for so many in "
                           "%.0f s: give it more time, as --tune=%.0f", tuning->start_seconds, phase_least(tuning),
                tuning->request->seconds, enough);
    tuning->exit_code = EXIT_CODE_USAGE;
    return -ETIME;
}

/* Steps with input that is there. */
static int measure_needs(struct tuning *tuning)
{
    struct feed_model *const model = &tuning->outcome.model;
    uint32_t threads[FEED_STEP_KINDS];
    const uint32_t count = threads_measured(tuning, threads);
    for (uint32_t i = 0; i < count; i++) {
        char text[TEXT_BYTES];
        struct trial_result result;
        snprintf(text, sizeof(text), "devices.threads_per_tower=%" PRIu32, threads[i]);
        const char *const own[] = { "input.source=synthetic", text };
        const int rc = run(tuning, own, model->steps_on_cores ? 2 : 1, phase_seconds(tuning), &result,
                           &tuning->needs[i]);
        if (rc != 0)
            return rc;
        model->step[i] = tuning->needs[i].steps;
        model->step_threads[i] = threads[i];
        model->step_kinds++;
        log_message(LOG_RUN, "towers alone, %" PRIu32 " thread%s each: %s images/s", threads[i],
                    threads[i] == 1 ? "" : "s", number_rate(result.images_per_second).text);
    }
    return 0;
}

/* Copies as they were beside everything else, since without towers nothing is copied. On cores a copy that was held up
 * shared them, which the model counts by itself: there all take as long as the median. */
static void take_copies(struct tuning *tuning)
{
    struct feed_model *const model = &tuning->outcome.model;
    model->copy = tuning->as_is.copy;
    if (!model->copies_on_cores || model->copy.count == 0)
        return;
    tuning->usual_copy = feed_median(&model->copy);
    model->copy = (struct feed_times){ &tuning->usual_copy, 1 };
}

/* Reading and decoding with nobody else at the cores: one decoder. */
static int measure_feed(struct tuning *tuning)
{
    static const char *const own[] = { "devices.kind=null", "devices.list=", "input.decode_threads=1" };
    struct feed_model *const model = &tuning->outcome.model;
    struct trial_result result;
    const int rc = run(tuning, own, 3, phase_seconds(tuning), &result, &tuning->feed);
    if (rc != 0)
        return rc;
    model->read = tuning->feed.read;
    model->decode = tuning->feed.decode;
    model->pieces = tuning->feed.pieces;
    model->read_cores = fmin(fmax(result.reading_computed, 0), 1);
    model->decode_cores = fmin(fmax(result.decoding_computed, 0), 1);
    if (model->pieces == 0)
        return refuse(tuning, "no batch was read whole in its time: give it more time");
    log_message(LOG_RUN, "the feed alone, one decoder: %s images/s", number_rate(result.images_per_second).text);
    return 0;
}

static uint32_t between(double value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : (uint32_t)value;
}

/* What the program takes where the configuration says nothing. */
static uint32_t usual_value(const char *key)
{
    return (uint32_t)decimal_read(option_find(SECTION_INPUT, key)->initial);
}

static void set_space(struct tuning *tuning)
{
    const struct trial_result *const now = &tuning->now;
    struct feed_model *const model = &tuning->outcome.model;
    struct search_space *const space = &tuning->outcome.space;
    const double quota = cgroup_cpu("").cpus;
    *model = (struct feed_model){ .between = BETWEEN, .loader_weight = THREAD_LOW_SHARE, .crowding = 1 };
    model->cores = fmin((double)now->cores, quota);
    model->slot_free = trials_slot_free(now);
    model->steps_on_cores = model->copies_on_cores = strcmp(now->device, "cpu") == 0;
    model->towers = between((double)now->towers, 1, FEED_TOWERS_MAX);
    model->batch = (uint32_t)now->batch;
    space->now = (struct feed_setting){ between((double)now->read_threads, 1, FEED_THREADS_MAX),
                                        between((double)now->decode_threads, 1, FEED_THREADS_MAX),
                                        between((double)now->threads_per_tower, 1, UINT32_MAX),
                                        between((double)now->prefetch_depth, 1, FEED_DEPTH_MAX),
                                        between((double)now->staging_depth, 1, FEED_DEPTH_MAX) };
    space->usual = space->now;
    space->usual.ring = usual_value("prefetch_depth");
    space->usual.slots = usual_value("staging_depth");
    space->readers_most = READERS_MOST;
    space->decoders_most = between(model->cores, 1, FEED_THREADS_MAX);
    space->threads_most = model->steps_on_cores ? between(model->cores / model->towers, 1, UINT32_MAX)
                                                : space->now.threads;
    space->ring_batch_bytes = now->ring_bytes / space->now.ring;
    space->slot_bytes = now->slots_bytes / space->now.slots;
    tuning->outcome.stored_side = sides_shorter(now->stored_height, now->stored_width);
    tuning->outcome.taken_side = sides_shorter(now->taken_height, now->taken_width);
    const size_t budget = tuning->request->ram_budget;
    space->spare_bytes = budget == 0 ? SIZE_MAX : budget > now->planned_bytes ? budget - now->planned_bytes : 0;
}

/* What is changed is told; the rest stays the configuration's, as all of the first. A GPU's towers keep theirs. */
static void assign(struct assignments *assignments, const struct tuning *tuning, uint32_t i)
{
    *assignments = (struct assignments){ .count = 0 };
    if (i > 0)
        assignments_make(assignments, &tuning->outcome.candidates[i], tuning->outcome.model.steps_on_cores);
}

/* Which settings run, how often and how long, in what is left of the time; perhaps none. */
static void plan_rounds(struct tuning *tuning)
{
    struct tune_outcome *const outcome = &tuning->outcome;
    const double left = PLANNED * seconds_left(tuning);
    const double least = trial_least(tuning);
    while (outcome->count > 2 && left < ROUNDS_WANTED * least * outcome->count)
        outcome->count--;
    outcome->rounds = between(left / (least * outcome->count), 0, ROUNDS_WANTED);
    outcome->trial_seconds = left / (fmax(outcome->rounds, 1) * outcome->count) - tuning->start_seconds;
    outcome->enough_seconds = fmax(outcome->enough_seconds,
                                   whole_tens(seconds_since(tuning->begun_ns) + 2 * least * outcome->count));
}

/* The configuration as it is, with its shards in memory, where readers are busy waiting for files. The last one: the
 * first that there is no time for. */
static int take_cached(struct tuning *tuning)
{
    struct tune_outcome *const outcome = &tuning->outcome;
    const struct found *const now = &outcome->search.now;
    double seconds;
    if (tuning->request->is_cached || outcome->model.read_cores > WAITING || now->prediction.readers_busy < WAITING)
        return 0;
    struct candidate *const candidate = &outcome->candidates[outcome->count];
    const struct feed_model model = feed_cached(&outcome->model, &seconds);
    *candidate = (struct candidate){ .setting = now->setting, .is_cached = true };
    if (feed_predict(&model, &now->setting, PREDICTED_STEPS, &candidate->predicted) != 0)
        return out_of_memory(tuning);
    outcome->count++;
    return 0;
}

static void take_candidates(struct tuning *tuning)
{
    struct tune_outcome *const outcome = &tuning->outcome;
    outcome->candidates[0] = (struct candidate){ .setting = outcome->search.now.setting,
                                                 .predicted = outcome->search.now.prediction };
    outcome->count = 1;
    for (uint32_t i = 0; i < outcome->search.count; i++)
        outcome->candidates[outcome->count++] = (struct candidate){ .setting = outcome->search.found[i].setting,
                                                                    .predicted = outcome->search.found[i].prediction };
}

/* What --check refuses is not run. */
static int check_candidates(struct tuning *tuning)
{
    struct tune_outcome *const outcome = &tuning->outcome;
    for (uint32_t i = 1; i < outcome->count; i++) {
        struct assignments assignments;
        struct trial_result result;
        assign(&assignments, tuning, i);
        const int rc = trials_check(tuning->request, assignments.own, assignments.count, &result);
        if (rc == -ECANCELED) {
            tuning->exit_code = trial_end_code();
            return rc;
        }
        outcome->candidates[i].is_refused = rc != 0;
    }
    return 0;
}

static int run_candidate(struct tuning *tuning, uint32_t i)
{
    struct candidate *const candidate = &tuning->outcome.candidates[i];
    struct assignments assignments;
    struct trial_result result;
    assign(&assignments, tuning, i);
    const int rc = run(tuning, assignments.own, assignments.count, tuning->outcome.trial_seconds, &result, NULL);
    if (rc != 0)
        return rc;
    candidate->speeds[candidate->rounds] = result.images_per_second;
    candidate->waits[candidate->rounds++] = trials_wait(&result);
    candidate->planned_bytes = result.planned_bytes;
    return 0;
}

/* With what is left of the time when some were refused. */
static int run_rounds(struct tuning *tuning)
{
    struct tune_outcome *const outcome = &tuning->outcome;
    int rc = 0;
    plan_rounds(tuning);
    if (outcome->rounds == 0)
        log_message(LOG_RUN, "%" PRIu32 " settings predicted, none run: too little time is left",
                    outcome->search.predicted);
    else
        log_message(LOG_RUN, "%" PRIu32 " settings predicted; %" PRIu32 " of them run %" PRIu32 " time%s, %.1f s each",
                    outcome->search.predicted, outcome->count, outcome->rounds, outcome->rounds == 1 ? "" : "s",
                    outcome->trial_seconds);
    for (uint32_t round = 0; round < outcome->rounds && rc == 0; round++)
        for (uint32_t i = 0; i < outcome->count && rc == 0; i++)
            if (!outcome->candidates[i].is_refused)
                rc = run_candidate(tuning, i);
    return rc;
}

static int confirm(struct tuning *tuning)
{
    plan_rounds(tuning);
    const int rc = tuning->outcome.rounds > 0 ? check_candidates(tuning) : 0;
    return rc == 0 ? run_rounds(tuning) : rc;
}

/* Times that were measured, no model yet. */
static int measure(struct tuning *tuning)
{
    int rc = measure_now(tuning);
    if (rc == 0)
        rc = check_kind(tuning);
    if (rc != 0)
        return rc;
    set_space(tuning);
    rc = check_time(tuning);
    if (rc != 0)
        return rc;
    take_copies(tuning);
    rc = measure_needs(tuning);
    return rc != 0 ? rc : measure_feed(tuning);
}

static int search(struct tuning *tuning)
{
    struct tune_outcome *const outcome = &tuning->outcome;
    if (crowding_fit(&outcome->model, &outcome->space.now, trials_step_seconds(&tuning->now)) != 0 ||
        search_feed(&outcome->model, &outcome->space, &outcome->search) != 0)
        return out_of_memory(tuning);
    take_candidates(tuning);
    return take_cached(tuning);
}

/* The lines that were printed go into the file. */
static void write_lines(struct tuning *tuning)
{
    struct tune_line lines[TUNE_LINES_MAX];
    struct config_change changes[TUNE_LINES_MAX];
    char backup[CONFIG_BACKUP_SIZE];
    const uint32_t count = tune_lines(&tuning->outcome, lines);
    for (uint32_t i = 0; i < count; i++)
        changes[i] = (struct config_change){ lines[i].section, lines[i].key, lines[i].value, lines[i].word };
    if (count == 0)
        return;
    const int rc = config_edit_file(tuning->request->config_path, changes, count, backup);
    if (rc == 0) {
        wrapped_print(stdout, "written   %s; as it was: %s", tuning->request->config_path, backup);
        return;
    }
    log_message(LOG_ERROR, "%s: not written: %s", tuning->request->config_path, strerror(-rc));
    tuning->exit_code = EXIT_CODE_OUTPUT;
}

static int conclude(struct tuning *tuning)
{
    struct tune_outcome *const outcome = &tuning->outcome;
    outcome->seconds = seconds_since(tuning->begun_ns);
    outcome->others = tuning->others_known > 0 ? tuning->others / tuning->others_known : 0;
    if (outcome_judge(outcome) != 0 || tune_report(outcome, stdout) != 0)
        return out_of_memory(tuning);
    if (tuning->request->writes)
        write_lines(tuning);
    return 0;
}

int tune(const struct tune_request *request)
{
    struct tuning tuning = { .request = request, .begun_ns = clock_now_ns() };
    int rc = measure(&tuning);
    if (rc == 0)
        rc = search(&tuning);
    if (rc == 0)
        rc = confirm(&tuning);
    if (rc == 0)
        (void)conclude(&tuning);
    stage_times_release(&tuning.as_is);
    stage_times_release(&tuning.feed);
    for (uint32_t i = 0; i < FEED_STEP_KINDS; i++)
        stage_times_release(&tuning.needs[i]);
    return tuning.exit_code;
}
