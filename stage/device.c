/* The table of device tables: the one place that knows which kinds there are. */
#include "stage/device.h"

#include <string.h>

static const struct {
    const char *name;
    const struct device_ops *ops;
} device_kinds[] = {
    { "host", &device_host_ops },
    { "cpu", &device_host_ops },
    { "null", &device_null_ops },
#ifdef HAVE_CUDA
    { "cuda", &device_cuda_ops },
#endif
};

const struct device_ops *device_find(const char *kind)
{
    for (size_t i = 0; i < sizeof(device_kinds) / sizeof(device_kinds[0]); i++) {
        if (strcmp(kind, device_kinds[i].name) == 0)
            return device_kinds[i].ops;
    }
    return NULL;
}

void device_cancel(void *device)
{
    struct device *const cancelled = device;
    cancelled->ops->cancel(cancelled);
}
