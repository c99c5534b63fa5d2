/* Command lines of trials, and a place for their trace. */
#include "tools/tune/trials.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/trial/trial_folder.h"

#define TRACE_NAME "/trace.json"

/* The request's, those given, and those of every trial; of lent texts, the array is the caller's to free. */
static const char **make_assignments(const struct tune_request *request, const char *const *own, size_t count,
                                     bool is_traced, size_t *count_out)
{
    const char **const all = calloc(request->assignment_count + count + 3, sizeof(*all));
    size_t used = 0;
    if (all == NULL)
        return NULL;
    for (size_t i = 0; i < request->assignment_count; i++)
        all[used++] = request->assignments[i];
    for (size_t i = 0; i < count; i++)
        all[used++] = own[i];
    all[used++] = "data.validation=";
    if (request->goes_back)
        all[used++] = "train.on_nan=stop";      /* a trial saves no state to go back to */
    if (is_traced)
        all[used++] = "report.trace_steps=";    /* the last ones, which are warm */
    *count_out = used;
    return all;
}

static int run(const struct tune_request *request, const char *const *own, size_t count, const char *trace,
               bool only_checks, double seconds, struct trial_result *result)
{
    struct trial_spec spec = { .config_path = request->config_path, .seconds = seconds, .trace = trace };
    const char **const all = make_assignments(request, own, count, trace != NULL, &spec.assignment_count);
    if (all == NULL) {
        *result = (struct trial_result){ .exit_code = EXIT_CODE_MEMORY };
        return -ENOMEM;
    }
    spec.assignments = all;
    const int rc = only_checks ? trial_check(&spec, result) : trial_run(&spec, result);
    free(all);
    return rc;
}

static int too_few_steps(struct trial_result *result)
{
    result->exit_code = EXIT_CODE_USAGE;
    return -ERANGE;
}

static int read_times(const char *trace, struct stage_times *times, struct trial_result *result)
{
    const int rc = stage_times_read(times, trace);
    if (rc == -ENODATA)
        return too_few_steps(result);
    if (rc != 0) {
        log_message(LOG_ERROR, "--tune: the trace of a run: %s", strerror(-rc));
        result->exit_code = rc == -ENOMEM ? EXIT_CODE_MEMORY : EXIT_CODE_INTERNAL;
    }
    return rc;
}

static int run_traced(const struct tune_request *request, const char *const *own, size_t count, double seconds,
                      struct trial_result *result, struct stage_times *times)
{
    char folder[PATH_MAX], trace[PATH_MAX + sizeof(TRACE_NAME)];
    int rc = trial_folder_make(folder, sizeof(folder));
    if (rc != 0) {
        log_message(LOG_ERROR, "--tune: no folder for a trace in $TMPDIR or /tmp: %s", strerror(-rc));
        *result = (struct trial_result){ .exit_code = EXIT_CODE_OUTPUT };
        return rc;
    }
    snprintf(trace, sizeof(trace), "%s%s", folder, TRACE_NAME);
    rc = run(request, own, count, trace, false, seconds, result);
    if (rc == 0)
        rc = read_times(trace, times, result);
    else
        trial_tell("--tune", result);
    trial_folder_remove(folder);
    return rc;
}

int trials_run(const struct tune_request *request, const char *const *own, size_t count, double seconds,
               struct trial_result *result_out, struct stage_times *times_out)
{
    if (times_out != NULL) {
        *times_out = (struct stage_times){ 0 };
        return run_traced(request, own, count, seconds, result_out, times_out);
    }
    const int rc = run(request, own, count, NULL, false, seconds, result_out);
    if (rc == 0 && !isfinite(result_out->images_per_second))
        return too_few_steps(result_out);
    if (rc != 0)
        trial_tell("--tune", result_out);
    return rc;
}

int trials_check(const struct tune_request *request, const char *const *own, size_t count,
                 struct trial_result *result_out)
{
    return run(request, own, count, NULL, true, 0, result_out);
}

bool trials_have_room(const struct tune_request *request)
{
    struct trial_result result;
    return request->ram_budget == 0 || run(request, NULL, 0, "/dev/null", true, 0, &result) == 0;
}

double trials_wait(const struct trial_result *result)
{
    return result->fractions.input_wait + result->fractions.exposed_copy;
}

double trials_step_seconds(const struct trial_result *result)
{
    return (1 - trials_wait(result)) * (double)result->batch / result->speed.mean;
}

/* On cores a slot goes back behind the forward pass of its step, on GPUs when that is queued. */
double trials_slot_free(const struct trial_result *now)
{
    const struct fractions *const share = &now->fractions;
    const double step = share->forward + share->backward + share->exposed_reduction + share->update + share->other;
    if (strcmp(now->device, "cpu") != 0)
        return 1;
    return step > 0 ? 1 - share->forward / step : 0;
}
