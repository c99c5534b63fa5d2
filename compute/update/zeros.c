/* Called by towers without samples. */
#include "compute/update/zeros.h"

int zeros_spread(struct stream *compute, const float *zeros, float *floats, size_t count)
{
    const struct device_ops *const ops = compute->device->ops;
    int rc = 0;
    for (size_t at = 0; at < count && rc == 0; at += ZERO_FLOATS) {
        const size_t some = count - at < ZERO_FLOATS ? count - at : ZERO_FLOATS;
        rc = ops->copy(compute, floats + at, zeros, some * sizeof(float), COPY_ON_DEVICE);
    }
    return rc;
}
