/* From a file to the towers of a run. */
#include "tools/run/state/run_weights.h"

#include <errno.h>

#include "stage/log.h"

int run_weights_open(struct initial_weights **weights_out, const struct settings *settings, const struct net *net)
{
    const struct model_settings *const model = &settings->model;
    struct problems problems;
    if (*model->weights == '\0')
        return 0;
    problems_init(&problems);
    const int rc = initial_weights_open(weights_out, model->weights, net, model->skip, &problems);
    const int code = rc == -EINVAL ? EXIT_CODE_USAGE : (int)exit_code_of(rc, EXIT_CODE_DATA);
    problems_print(&problems);
    const int wrong = problems_code(&problems, code);
    problems_release(&problems);
    return rc == 0 ? 0 : wrong;
}

static int code_of(int rc)
{
    return rc == -EREMOTEIO ? EXIT_CODE_DEVICE : rc != 0 ? (int)exit_code_of(rc, EXIT_CODE_DATA) : 0;
}

int run_weights_check(const struct initial_weights *weights)
{
    return code_of(initial_weights_check(weights));
}

int run_weights_write(const struct initial_weights *weights, struct pipeline *pipeline, const struct run_plan *plan)
{
    int rc = 0;
    for (uint32_t d = 0; d < plan->devices.towers.count && rc == 0; d++)
        rc = initial_weights_write(weights, pipeline_tower(pipeline, d));
    return code_of(rc);
}
