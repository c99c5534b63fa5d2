/* Reads summary.json with jansson. Used by main only, before a run starts. */
#include "tools/lib/results/earlier_run.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/file/file.h"

#define SUMMARY_BYTES_MAX ((size_t)64 << 20)

/* The number, rounded up; 0: it is not one. */
static uint64_t count_of(const json_t *number)
{
    const double value = json_is_number(number) ? json_number_value(number) : 0;
    return value > 0 && value < (double)UINT64_MAX ? (uint64_t)ceil(value) : 0;
}

static int copy_members(struct earlier_run *run_out, const json_t *summary)
{
    const json_t *const identity = json_object_get(summary, "identity");
    const json_t *const ended = json_object_get(summary, "ended"), *const steps = json_object_get(summary, "steps");
    struct earlier_run run = { .identity = NULL };
    if (!json_is_string(identity) || !json_is_string(ended) || !json_is_integer(steps) || json_integer_value(steps) < 0)
        return -ENOENT;
    run.identity = strdup(json_string_value(identity));
    run.steps = (uint64_t)json_integer_value(steps);
    run.epochs = count_of(json_object_get(summary, "epochs"));
    run.best_step = count_of(json_object_get(json_object_get(summary, "best"), "step"));
    snprintf(run.ended, sizeof(run.ended), "%s", json_string_value(ended));
    if (run.identity == NULL)
        return -ENOMEM;
    *run_out = run;
    return 0;
}

/* A file that cannot be read or is not a summary is ignored, so that the run can start. */
int earlier_run_read(struct earlier_run *run_out, const char *directory)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    const int length = snprintf(path, sizeof(path), "%s/summary.json", directory);
    if (length < 0 || (size_t)length >= sizeof(path))
        return -ENOENT;
    int rc = file_load(path, SUMMARY_BYTES_MAX, &text, &bytes);
    if (rc != 0)
        return rc == -ENOMEM ? rc : -ENOENT;
    json_t *const summary = json_loadb(text, bytes, 0, NULL);
    rc = copy_members(run_out, summary);
    json_decref(summary);
    free(text);
    return rc;
}

void earlier_run_release(struct earlier_run *run)
{
    free(run->identity);
    run->identity = NULL;
}
