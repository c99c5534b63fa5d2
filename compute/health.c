/* Looking for weights that are not finite. Called by the trainer. */
#include "compute/health.h"

#include <math.h>
#include <stdlib.h>

#include "compute/finite.h"

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

static size_t most_numbers(const struct net *net)
{
    size_t most = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        most = net->parameters[i].count > most ? net->parameters[i].count : most;
    return most;
}

const char *health_search(struct tower *tower)
{
    const struct net *const net = tower_spec(tower)->net;
    float *const numbers = malloc(most_numbers(net) * sizeof(*numbers));
    const char *name = NULL;
    for (uint32_t i = 0; i < net->parameter_count && numbers != NULL && name == NULL; i++)
        if (tower_read(tower, i, numbers) == 0 &&
            finite_count(numbers, net->parameters[i].count) < net->parameters[i].count)
            name = net->parameters[i].name;
    free(numbers);
    return name;
}

const char *health_of_step(struct tower *tower, const struct health *health, double loss_sum)
{
    const char *const broken = health != NULL ? health_broken(tower, health) : NULL;
    const bool is_lost = !isfinite(loss_sum) && !tower_spec(tower)->backend_spec.skips_broken;
    const char *const first = broken != NULL || is_lost ? health_search(tower) : NULL;
    return first != NULL ? first : broken;
}
