/* What all reductions share, and the one place that knows which there are. */
#include "sync/reduce.h"

#include <string.h>

static const struct reduce_ops *const reductions[] = {
    &reduce_host_ops,
    &reduce_none_ops,
#ifdef HAVE_CUDA
    &reduce_peer_ops,
    &reduce_nccl_ops,
#endif
};

const struct reduce_ops *reduce_find(const char *name)
{
    for (size_t i = 0; i < sizeof(reductions) / sizeof(reductions[0]); i++)
        if (strcmp(reductions[i]->name, name) == 0)
            return reductions[i];
    return NULL;
}

void reduce_cancel(void *reduce)
{
    struct reduce *const base = reduce;
    base->ops->cancel(base);
}
