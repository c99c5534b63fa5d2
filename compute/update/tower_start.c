/* Setting what a tower begins with, one parameter at a time: in the plain form first, which in memory of the host is
 * made where the gradients will be. */
#include "compute/update/tower_start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/init.h"

static bool fits_gradients(const struct tower *tower)
{
    const struct tower_spec *const spec = tower_spec(tower);
    return spec->device->ops->host_memory && !spec->evaluates_only &&
           net_most_numbers(spec->net) <= tower_arena(tower)->count;
}

size_t tower_start_bytes(const struct tower *tower)
{
    return fits_gradients(tower) ? 0 : net_most_numbers(tower_spec(tower)->net) * sizeof(float);
}

static int set_weights(struct tower *tower, float *plain)
{
    const struct tower_spec *const spec = tower_spec(tower);
    const uint32_t threads = spec->backend->has_teams ? spec->backend_spec.threads : 1;
    int rc = 0;
    for (uint32_t i = 0; i < spec->net->parameter_count && rc == 0; i++)
        if (tower_arena_of(tower, i)->ranges[i].count > 0) {
            init_parameter(spec->net, i, spec->seed, threads, plain);
            rc = tower_write(tower, i, plain);
        }
    return rc;
}

static int set_state(struct tower *tower, uint32_t state, const float *plain)
{
    const struct tower_spec *const spec = tower_spec(tower);
    int rc = 0;
    for (uint32_t i = 0; i < spec->net->parameter_count && rc == 0; i++)
        if (parameter_is_updated(&spec->net->parameters[i]))
            rc = spec->backend->pack(tower_backend(tower), i, plain,
                                     tower_state(tower, state) + tower_arena(tower)->ranges[i].offset);
    return rc;
}

/* Where a buffer of the optimizer does not begin at 0, as its memory does. */
static int set_states(struct tower *tower, float *plain, size_t most)
{
    const enum optimizer_kind kind = tower_spec(tower)->optimizer.kind;
    int rc = 0;
    for (uint32_t state = 0; state < optimizer_state_count(kind) && rc == 0; state++) {
        const float start = optimizer_state_start(kind, state);
        for (size_t i = 0; i < most; i++)
            plain[i] = start;
        if (start != 0.0f)
            rc = set_state(tower, state, plain);
    }
    return rc;
}

static int set_all(struct tower *tower, float *plain, size_t most)
{
    const int rc = set_weights(tower, plain);
    return rc == 0 ? set_states(tower, plain, most) : rc;
}

/* Backward leaves what pads a gradient as it is: 0. */
static int start_in_gradients(struct tower *tower, size_t most)
{
    const int rc = set_all(tower, tower_gradients(tower), most);
    memset(tower_gradients(tower), 0, most * sizeof(float));
    return rc;
}

int tower_start(struct tower *tower)
{
    const size_t most = net_most_numbers(tower_spec(tower)->net);
    if (fits_gradients(tower))
        return start_in_gradients(tower, most);
    float *const plain = malloc(most * sizeof(*plain));
    if (plain == NULL)
        return -ENOMEM;
    const int rc = set_all(tower, plain, most);
    free(plain);
    return rc;
}
