/* Averages of weights. Called by the modes of synchronisation; runs at the speed of the memory. */
#include "compute/update/average.h"

#include <assert.h>

static bool is_kept(const struct tower *tower)
{
    return tower_spec(tower)->average_decay > 0;
}

size_t average_bytes(const struct tower *tower)
{
    return is_kept(tower) ? (tower_arena(tower)->updated + tower_statistics_count(tower)) * sizeof(float) : 0;
}

static int take(struct device *device, size_t count, float **floats_out)
{
    void *memory = NULL;
    const int rc = count > 0 ? device->ops->alloc(device, count * sizeof(float), &memory) : 0;
    if (rc == 0)
        *floats_out = memory;
    return rc;
}

int average_open(struct average *average, struct tower *tower)
{
    struct device *const device = tower_spec(tower)->device;
    if (!is_kept(tower))
        return 0;
    const int rc = take(device, tower_arena(tower)->updated, &average->weights);
    return rc == 0 ? take(device, tower_statistics_count(tower), &average->statistics) : rc;
}

static int copy(struct tower *tower, float *to, const float *from, size_t count)
{
    const struct tower_spec *const spec = tower_spec(tower);
    return spec->device->ops->copy(spec->compute, to, from, count * sizeof(float), COPY_ON_DEVICE);
}

static int move(struct tower *tower, float *average, const float *floats, size_t count, uint64_t step)
{
    const struct tower_spec *const spec = tower_spec(tower);
    if (count == 0)
        return 0;
    if (step == 0)
        return copy(tower, average, floats, count);
    const float share = (float)(1 - spec->average_decay);
    return spec->backend->ema_update != NULL
               ? spec->backend->ema_update(tower_backend(tower), average, floats, count, share)
               : spec->backend->axpby(tower_backend(tower), average, floats, count, share, 1);
}

int average_step(struct average *average, struct tower *tower, uint64_t step)
{
    if (!is_kept(tower) || (average->is_left_out && step > 0))
        return 0;
    assert(!average->is_shown);
    const int rc = move(tower, average->weights, tower_weights(tower), tower_arena(tower)->updated, step);
    return rc == 0 ? move(tower, average->statistics, tower_statistics(tower), tower_statistics_count(tower), step)
                   : rc;
}

/* Statistics may be more than there are gradients. */
static int swap(struct tower *tower, float *a, float *b, size_t count)
{
    float *const between = tower_gradients(tower);
    const size_t most = tower_arena(tower)->count;
    int rc = 0;
    for (size_t at = 0; at < count && rc == 0; at += most) {
        const size_t some = count - at < most ? count - at : most;
        rc = copy(tower, between, a + at, some);
        if (rc == 0)
            rc = copy(tower, a + at, b + at, some);
        if (rc == 0)
            rc = copy(tower, b + at, between, some);
    }
    return rc;
}

int average_show(struct average *average, struct tower *tower, bool is_shown)
{
    if (!is_kept(tower) || average->is_shown == is_shown)
        return 0;
    average->is_shown = is_shown;
    int rc = swap(tower, tower_weights(tower), average->weights, tower_arena(tower)->updated);
    if (rc == 0)
        rc = swap(tower, tower_statistics(tower), average->statistics, tower_statistics_count(tower));
    return rc == 0 ? tower_weights_changed(tower, 0, tower_arena(tower)->updated) : rc;
}
