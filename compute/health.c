/* Health checks of a tower. Called by the trainer. */
#include "compute/health.h"

#include <math.h>
#include <stdlib.h>

#include "compute/floats.h"

static int find(struct tower *tower, const float *floats, size_t count, uint64_t *first_out)
{
    const struct backend_ops *const backend = tower_spec(tower)->backend;
    *first_out = UINT64_MAX;
    if (backend->find_nonfinite == NULL || count == 0)
        return 0;
    return backend->find_nonfinite(tower_backend(tower), floats, count, first_out);
}

/* Copies the sum of squares of the gradients, which the update has computed. */
static int copy_squares(struct tower *tower, struct health *health_out)
{
    const struct tower_spec *const spec = tower_spec(tower);
    const struct param_groups *const groups = tower_param_groups(tower);
    health_out->gradient_squares = NAN;
    health_out->gradient_scale = groups->scale;
    if (!groups->clips || groups->scale == 0)
        return 0;
    return spec->device->ops->copy(spec->compute, &health_out->gradient_squares, groups->all_sums,
                                   sizeof(*groups->all_sums), COPY_FROM_DEVICE);
}

int health_queue(struct tower *tower, struct health *health_out)
{
    int rc = find(tower, tower_weights(tower), tower_arena(tower)->count, &health_out->weights);
    if (rc == 0)
        rc = find(tower, tower_statistics(tower), tower_statistics_count(tower), &health_out->statistics);
    return rc == 0 ? copy_squares(tower, health_out) : rc;
}

double health_gradient_norm(const struct health *health, float loss_scale)
{
    return sqrt(health->gradient_squares) * (double)health->gradient_scale / (double)loss_scale;
}

const char *health_nonfinite(const struct tower *tower, const struct health *health)
{
    const struct net *const net = tower_net(tower);
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const uint64_t first = net->parameters[i].is_trained ? health->weights : health->statistics;
        const struct arena_range *const range = &tower_arena_of(tower, i)->ranges[i];
        if (first >= range->offset && first - range->offset < range->count)
            return net->parameters[i].name;
    }
    return NULL;
}

const char *health_search(struct tower *tower)
{
    const struct net *const net = tower_net(tower);
    float *const numbers = malloc(net_most_numbers(net) * sizeof(*numbers));
    const char *name = NULL;
    for (uint32_t i = 0; i < net->parameter_count && numbers != NULL && name == NULL; i++)
        if (tower_read_piece(tower, i, numbers) == 0 &&
            floats_find_nonfinite(numbers, net->parameters[i].count) < net->parameters[i].count)
            name = net->parameters[i].name;
    free(numbers);
    return name;
}

const char *health_of_step(struct tower *tower, const struct health *health, double loss_sum)
{
    const char *const broken = health != NULL ? health_nonfinite(tower, health) : NULL;
    const bool is_lost = !isfinite(loss_sum) && !tower_spec(tower)->backend_spec.skips_nonfinite;
    const char *const first = broken != NULL || is_lost ? health_search(tower) : NULL;
    return first != NULL ? first : broken;
}
