/* Sums of gradients over pieces. Called by the tower; runs at the speed of the memory. */
#include "compute/update/piece_sums.h"

static int mix(struct tower *tower, float *floats, const float *more, size_t count)
{
    return tower_spec(tower)->backend->axpby(tower_backend(tower), floats, more, count, 1, 0);
}

/* The first piece's gradients are the sums so far. */
int piece_sums_take(struct piece_sums *sums, struct tower *tower)
{
    const struct tower_spec *const spec = tower_spec(tower);
    const size_t count = tower_arena(tower)->updated;
    const bool is_first = !sums->has_any;
    sums->has_any = true;
    if (is_first)
        return spec->device->ops->copy(spec->compute, sums->floats, tower_gradients(tower), count * sizeof(float),
                                       COPY_ON_DEVICE);
    return mix(tower, sums->floats, tower_gradients(tower), count);
}

void piece_sums_add(struct piece_sums *sums, struct tower *tower, size_t floats)
{
    const size_t from = sums->added;
    if (!sums->has_any || floats <= from)
        return;
    const int rc = mix(tower, tower_gradients(tower) + from, sums->floats + from, floats - from);
    if (sums->result == 0)
        sums->result = rc;
    sums->added = floats;
}

int piece_sums_end(struct piece_sums *sums)
{
    const int rc = sums->result;
    *sums = (struct piece_sums){ .floats = sums->floats };
    return rc;
}
