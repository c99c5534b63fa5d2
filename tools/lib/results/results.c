/* The run directory and the weights together. */
#include "tools/lib/results/results.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/log.h"

#define SMALL_BYTES ((uint64_t)256 << 10)       /* run.conf, summary.json and some metrics */
#define PROBLEM_BYTES 8192u

static uint64_t bytes_of(struct weights_spec saved, uint64_t state_bytes)
{
    const uint64_t files = saved.net == NULL ? 0 : saved.best_settings != NULL ? 2 : 1;
    return SMALL_BYTES + (files > 0 ? files * weights_file_bytes(saved.net) : 0) + state_bytes;
}

static int code_of(int rc, const char *problem)
{
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "%s", problem);
    return rc == -ENOMEM ? EXIT_CODE_MEMORY : rc == -ENOTUNIQ ? EXIT_CODE_USAGE : EXIT_CODE_OUTPUT;
}

/* What the run is trained on instead of the data set; NULL: the data set. */
static const char *learned_of(const struct settings *settings)
{
    return settings->input.source == INPUT_SYNTHETIC ? "made-up images and labels (input.source = synthetic)"
           : settings->overfit > 0                   ? "a few samples by heart (--overfit)"
                                                     : NULL;
}

static int open_results(struct results *results, const struct settings *settings, struct weights_spec saved,
                    const struct run_past *past, uint64_t state_bytes, char *problem)
{
    int rc = run_directory_open(&results->directory, settings, past, problem, PROBLEM_BYTES);
    if (rc == 0)
        rc = run_directory_room(results->directory, bytes_of(saved, state_bytes), problem, PROBLEM_BYTES);
    if (rc == 0)
        rc = output_locks_open(&results->outputs, settings, run_directory_path(results->directory), false, problem,
                               PROBLEM_BYTES);
    if (rc != 0 || saved.net == NULL)
        return rc;
    struct pixels_text pixels;
    pixels_describe(settings, saved.net, &pixels);
    saved.learned = learned_of(settings);
    rc = weights_open(&results->weights, saved, &pixels);
    if (rc != 0)
        snprintf(problem, PROBLEM_BYTES, "memory for saving the weights: %s", strerror(-rc));
    return rc;
}

int results_open(struct results *results, const struct settings *settings, struct weights_spec saved,
                 const struct run_past *past, uint64_t state_bytes, struct stop *stop)
{
    *results = (struct results){ .stop = stop };
    char problem[PROBLEM_BYTES];
    return code_of(open_results(results, settings, saved, past, state_bytes, problem), problem);
}

int results_lock(struct results *results, const struct settings *settings)
{
    char problem[PROBLEM_BYTES];
    return code_of(output_locks_open(&results->outputs, settings, NULL, false, problem, sizeof(problem)), problem);
}

int results_check(const struct settings *settings, struct weights_spec saved, const struct run_past *past,
                  uint64_t state_bytes)
{
    char problem[PROBLEM_BYTES];
    const uint64_t bytes = bytes_of(saved, state_bytes);
    struct output_locks outputs;
    int rc = run_directory_check(settings, past, bytes, problem, sizeof(problem));
    if (rc == 0)
        rc = output_locks_open(&outputs, settings, settings->run.dir, true, problem, sizeof(problem));
    return code_of(rc, problem);
}

int results_begin(struct results *results)
{
    if (results->directory == NULL || results->have_begun)
        return 0;
    const int rc = run_directory_begin(results->directory);
    results->have_begun = rc == 0;
    if (rc != 0)
        stop_fail(results->stop, EXIT_CODE_OUTPUT, "run directory %s: earlier results cannot be replaced: %s",
                  run_directory_path(results->directory), strerror(-rc));
    return rc;
}

void results_look(struct results *results)
{
    if (run_directory_look(results->directory) == -ENOENT && !stop_failed(results->stop))
        stop_fail(results->stop, EXIT_CODE_OUTPUT, "the run ends, because its directory was removed");
}

/* Fail the run if weights cannot be saved. They may be NaN although the loss is finite, because a ReLU hides them. */
static int fail_to_save(const struct results *results, int rc, const char *broken, uint64_t steps,
                        double learning_rate)
{
    if (rc == -EDOM)
        stop_fail(results->stop, EXIT_CODE_NONFINITE,
                  "%s holds a number that " FINITE_WORDS " after step %" PRIu64 ": try a smaller learning rate than %g",
                  broken, steps, learning_rate);
    else if (rc == -EREMOTEIO)
        stop_fail(results->stop, EXIT_CODE_DEVICE,
                  "the weights could not be read back from the device after step %" PRIu64, steps);
    else if (rc != -ECANCELED)  /* another process has failed, which ends the run */
        log_message(LOG_ERROR, "%s/" WEIGHTS_FILE ": %s", run_directory_path(results->directory), strerror(-rc));
    return (int)exit_code_of(rc, EXIT_CODE_OUTPUT);
}

bool results_can_save(const struct results *results)
{
    return results->weights != NULL && results->have_begun;
}

int results_save(struct results *results, struct tower *const *towers, uint64_t steps, double learning_rate)
{
    if (!results_can_save(results))
        return 0;
    const char *broken = NULL;
    const int rc = weights_save(results->weights, results->directory, WEIGHTS_FILE, towers, steps, &broken);
    return rc == 0 ? 0 : fail_to_save(results, rc, broken, steps, learning_rate);
}

void results_close(struct results *results)
{
    weights_close(results->weights);
    output_locks_close(&results->outputs);
    run_directory_close(results->directory);
    *results = (struct results){ .directory = NULL };
}
