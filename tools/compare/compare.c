/* The rounds of a comparison. */
#include "tools/compare/compare.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/compare/compare_report.h"
#include "tools/config/number.h"
#include "tools/trial/trial.h"

#define NAME_BYTES 512

struct rounds {
    const struct compare_request *request;
    struct comparison comparison;
    const char **assignments;           /* --set, what a measurement adds, then the variant's */
    size_t shared;                      /* those in front of the variant's */
    char *own[AXES_MAX];                /* the variant's; owned */
    char threads[64];                   /* of a tower, in all variants */
};

static int out_of_memory(void)
{
    log_message(LOG_ERROR, "--compare: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

static void drop_variant(struct rounds *rounds)
{
    for (size_t i = 0; i < AXES_MAX; i++) {
        free(rounds->own[i]);
        rounds->own[i] = NULL;
    }
}

/* What a trial of the variant is told. 0 or -ENOMEM; lasts until the next variant. */
static int choose(struct rounds *rounds, uint32_t variant, struct trial_spec *spec_out)
{
    const struct compare_request *const request = rounds->request;
    drop_variant(rounds);
    for (size_t i = 0; i < request->axes.count; i++) {
        if (asprintf(&rounds->own[i], "%s=%s", request->axes.axes[i].key,
                     axes_value(&request->axes, variant, i)) < 0) {
            rounds->own[i] = NULL;
            return -ENOMEM;
        }
        rounds->assignments[rounds->shared + i] = rounds->own[i];
    }
    size_t count = rounds->shared + request->axes.count;
    if (request->axes.has_one_tower && variant == 0)
        rounds->assignments[count++] = "devices.towers=1";
    *spec_out = (struct trial_spec){ .config_path = request->config_path,
                                     .assignments = rounds->assignments,
                                     .assignment_count = count,
                                     .seconds = request->seconds,
                                     .steps = request->steps };
    return 0;
}

static int canceled(void)
{
    log_message(LOG_RUN, "interrupted: nothing is left of the comparison");
    return trial_end_code();
}

/* All variants, before the first one trains; what several have in common is told once. */
static int check_all(struct rounds *rounds)
{
    char name[NAME_BYTES];
    struct trial_spec spec;
    struct trial_result results[2];     /* this one, and the latest one that was refused */
    int code = 0;
    results[1].problem[0] = '\0';
    for (uint32_t v = 0; v < rounds->comparison.variants; v++) {
        if (choose(rounds, v, &spec) != 0)
            return out_of_memory();
        const int rc = trial_check(&spec, &results[0]);
        if (rc == -ECANCELED)
            return canceled();
        if (rc == 0)
            continue;
        axes_name(&rounds->request->axes, v, name, sizeof(name));
        if (strcmp(results[0].problem, results[1].problem) != 0)
            trial_tell(name, &results[0]);
        results[1] = results[0];
        code = code == 0 ? results[0].exit_code : code;
    }
    return code;
}

static void tell_progress(const struct rounds *rounds, uint32_t round, const char *name,
                          const struct trial_result *result)
{
    char speed[80] = "no step after warm-up: it takes longer runs";
    if (isfinite(result->images_per_second))
        snprintf(speed, sizeof(speed), "%s images/s, %" PRIu64 " steps", number_rate(result->images_per_second).text,
                 result->steps);
    log_message(LOG_RUN, "round %u of %u, %s: %s", round + 1, rounds->comparison.rounds, name, speed);
}

static int run_one(struct rounds *rounds, uint32_t variant, uint32_t round)
{
    struct comparison *const comparison = &rounds->comparison;
    struct trial_result *const result = &comparison->results[(size_t)variant * comparison->rounds + round];
    struct trial_spec spec;
    char name[NAME_BYTES];
    if (choose(rounds, variant, &spec) != 0)
        return out_of_memory();
    const int rc = trial_run(&spec, result);
    if (rc == -ECANCELED)
        return canceled();
    axes_name(&rounds->request->axes, variant, name, sizeof(name));
    if (rc != 0)
        trial_tell(name, result);
    else
        tell_progress(rounds, round, name, result);
    return rc == 0 ? 0 : result->exit_code;
}

static int run_all(struct rounds *rounds)
{
    int code = 0;
    for (uint32_t r = 0; r < rounds->comparison.rounds && code == 0; r++)
        for (uint32_t v = 0; v < rounds->comparison.variants && code == 0; v++)
            code = run_one(rounds, v, r);
    return code;
}

static int print(const struct rounds *rounds)
{
    if (rounds->request->format == COMPARE_TABLE)
        compare_report_table(&rounds->comparison, stdout);
    else if (rounds->request->format == COMPARE_CSV)
        compare_report_csv(&rounds->comparison, stdout);
    else if (compare_report_json(&rounds->comparison, stdout) != 0)
        return out_of_memory();
    return EXIT_CODE_OK;
}

/* A trial by time is about speed, and is not to spend it on evaluation. */
static void share(struct rounds *rounds)
{
    const struct compare_request *const request = rounds->request;
    for (size_t i = 0; i < request->assignment_count; i++)
        rounds->assignments[rounds->shared++] = request->assignments[i];
    if (request->steps == 0)
        rounds->assignments[rounds->shared++] = "data.validation=";
    if (request->goes_back)
        rounds->assignments[rounds->shared++] = "train.on_nan=stop";    /* a trial saves no state to go back to */
    if (request->threads_per_tower == 0)
        return;
    snprintf(rounds->threads, sizeof(rounds->threads), "devices.threads_per_tower=%u", request->threads_per_tower);
    rounds->assignments[rounds->shared++] = rounds->threads;
}

int compare(const struct compare_request *request)
{
    struct rounds rounds = { .request = request };
    rounds.comparison = (struct comparison){ .axes = &request->axes,
                                             .config_path = request->config_path,
                                             .seconds = request->seconds,
                                             .steps = request->steps,
                                             .variants = (uint32_t)axes_variants(&request->axes),
                                             .rounds = request->rounds };
    rounds.comparison.results = calloc((size_t)rounds.comparison.variants * request->rounds,
                                       sizeof(*rounds.comparison.results));
    rounds.assignments = calloc(request->assignment_count + 4 + AXES_MAX, sizeof(*rounds.assignments));
    int code = 0;
    if (rounds.comparison.results == NULL || rounds.assignments == NULL) {
        code = out_of_memory();
    } else {
        share(&rounds);
        code = check_all(&rounds);
    }
    if (code == 0)
        code = run_all(&rounds);
    if (code == 0)
        code = print(&rounds);
    drop_variant(&rounds);
    free(rounds.assignments);
    free(rounds.comparison.results);
    return code;
}
