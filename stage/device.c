/* The table of device kinds: the one place that lists them all. */
#include "stage/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef HAVE_CUDA
#define CUDA_OPS NULL
#else
#define CUDA_OPS &device_cuda_ops
#endif

const struct device_kind device_kinds[] = {
    { "cuda", CUDA_OPS },
    { "cpu", &device_host_ops },
    { "null", &device_null_ops },
    { NULL, NULL },
};

const struct device_ops *device_find(const char *kind)
{
    for (const struct device_kind *row = device_kinds; row->name != NULL; row++)
        if (strcmp(kind, row->name) == 0)
            return row->ops;
    return NULL;
}

uint32_t device_kind_count(const struct device_kind *kind, char *why, size_t why_size)
{
    if (kind->ops != NULL)
        return kind->ops->count(why, why_size);
    snprintf(why, why_size, "this program was built without %s", kind->name);
    return 0;
}

void device_cancel(void *device)
{
    struct device *const cancelled = device;
    cancelled->ops->cancel(cancelled);
}

int unsupported_reason_set(struct unsupported_reason *reason, int rc, const char *what, const char *format, ...)
{
    va_list arguments;
    reason->what = what;
    va_start(arguments, format);
    vsnprintf(reason->why, sizeof(reason->why), format, arguments);
    va_end(arguments);
    return rc;
}
