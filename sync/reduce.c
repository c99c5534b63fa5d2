/* What all reductions share, and the one place that knows which there are. */
#include "sync/reduce.h"

#include <errno.h>
#include <string.h>

/* Those that sum something, the best first. */
static const struct reduce_ops *const reductions[] = {
#ifdef HAVE_CUDA
    &reduce_nccl_ops,
    &reduce_peer_ops,
#endif
    &reduce_host_ops,
};
enum { REDUCTIONS = sizeof(reductions) / sizeof(reductions[0]) };

static bool is_meant(const struct reduce_ops *ops, const char *name)
{
    return name == NULL || strcmp(ops->name, name) == 0;
}

const struct reduce_ops *reduce_find(const char *name)
{
    for (int i = 0; i < REDUCTIONS; i++)
        if (is_meant(reductions[i], name))
            return reductions[i];
    return is_meant(&reduce_none_ops, name) ? &reduce_none_ops : NULL;
}

void reduce_prepare(const char *name, uint32_t towers)
{
    for (int i = 0; i < REDUCTIONS; i++)
        if (is_meant(reductions[i], name) && reductions[i]->prepare != NULL)
            reductions[i]->prepare(towers);
}

int reduce_choose(const char *name, const struct reduce_towers *towers, const struct reduce_ops **ops_out,
                  struct unsupported_reason *reason)
{
    int rc = unsupported_reason_set(reason, -EINVAL, "reduce", "this program was built without %s: use auto or host",
                                    name != NULL ? name : "any");
    if (towers->here.count < towers->run)
        return unsupported_reason_set(reason, -EINVAL, "reduce", "%u of the %u towers are in other processes",
                                      towers->run - towers->here.count, towers->run);
    for (int i = 0; i < REDUCTIONS && rc != 0; i++) {
        if (!is_meant(reductions[i], name))
            continue;
        if (towers->has_owners && !reductions[i]->knows_owners) {
            rc = unsupported_reason_set(reason, -EINVAL, "reduce",
                                        "%s sums for all towers alike, and with a parameter server "
                                        "every bucket has an owner: use auto, peer or host",
                                        reductions[i]->name);
            continue;
        }
        rc = reductions[i]->supports(towers, reason);
        if (rc == 0)
            *ops_out = reductions[i];
    }
    return rc;
}

void reduce_cancel(void *reduce)
{
    struct reduce *const base = reduce;
    base->ops->cancel(base);
}
