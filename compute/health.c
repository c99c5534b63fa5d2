/* Looking for weights that are not finite. Called by the trainer. */
#include "compute/health.h"

static int find(struct tower *tower, const float *floats, size_t count, uint64_t *first_out)
{
    const struct backend_ops *const backend = tower_spec(tower)->backend;
    *first_out = UINT64_MAX;
    if (backend->find_broken == NULL || count == 0)
        return 0;
    return backend->find_broken(tower_backend(tower), floats, count, first_out);
}

int health_queue(struct tower *tower, struct health *health_out)
{
    const int rc = find(tower, tower_weights(tower), tower_arena(tower)->count, &health_out->weights);
    return rc != 0 ? rc
                   : find(tower, tower_statistics(tower), tower_statistics_count(tower), &health_out->statistics);
}

const char *health_broken(const struct tower *tower, const struct health *health)
{
    const struct net *const net = tower_spec(tower)->net;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const uint64_t first = net->parameters[i].is_trained ? health->weights : health->statistics;
        const struct arena_range *const range = &tower_arena_of(tower, i)->ranges[i];
        if (first >= range->offset && first - range->offset < range->count)
            return net->parameters[i].name;
    }
    return NULL;
}
