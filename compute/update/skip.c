/* Leaving out steps. */
#include "compute/update/skip.h"

#include <string.h>

#include "compute/floats.h"

int skip_begin(struct skip *skip)
{
    const size_t bytes = skip->count * sizeof(float);
    if (!skip->is_on || bytes == 0)
        return 0;
    if (!skip->ops->host_memory)
        return skip->spec->device->ops->copy(skip->spec->compute, skip->kept, *skip->statistics, bytes, COPY_ON_DEVICE);
    memcpy(skip->kept, *skip->statistics, bytes);
    return 0;
}

int skip_check(struct skip *skip, const float *gradients, size_t count)
{
    if (skip->ops->check != NULL)
        return skip->ops->check(skip->backend, gradients, count);
    if (skip->is_on)
        skip->is_broken = skip->is_broken || floats_find_nonfinite(gradients, count) != count;
    return 0;
}

int skip_end(struct skip *skip, bool *left_out)
{
    *left_out = false;
    if (!skip->is_on)
        return 0;
    if (skip->ops->check != NULL)
        return skip->count > 0
                   ? skip->ops->restore_if_nonfinite(skip->backend, *skip->statistics, skip->kept, skip->count)
                   : 0;
    if (skip->is_broken && skip->count > 0)
        memcpy(*skip->statistics, skip->kept, skip->count * sizeof(float));
    *left_out = skip->was_broken = skip->is_broken;
    skip->is_broken = false;
    return 0;
}

bool skip_was_broken(struct skip *skip)
{
    const bool was_broken = skip->was_broken;
    skip->was_broken = false;
    return was_broken;
}
