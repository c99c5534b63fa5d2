/* The backends by name: the one place that knows which are built in. */
#include "compute/backend.h"

#include <string.h>

static const struct backend_ops *const backends[] = {
#ifdef HAVE_CUDA
    &backend_cuda_ops,
#endif
#ifdef HAVE_ONEDNN
    &backend_onednn_ops,
#endif
    &backend_reference_ops,
};

const struct backend_ops *backend_find(const char *name)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}
