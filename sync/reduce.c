/* The table of reductions, and the reduction that sums nothing. */
#include "sync/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- no reduction: one tower, or towers that sum nothing (mode independent) ---- */

static int none_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    (void)spec;
    struct reduce *const reduce = malloc(sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    reduce->ops = &reduce_none_ops;
    *reduce_out = reduce;
    return 0;
}

static void none_close(struct reduce *reduce)
{
    free(reduce);
}

static int none_join(struct reduce *reduce, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    (void)reduce, (void)tower, (void)member, (void)buckets;
    return 0;
}

static int none_start(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch)
{
    (void)reduce, (void)tower, (void)bucket, (void)batch;
    return 0;
}

static int none_wait(struct reduce *reduce, uint32_t tower, uint32_t bucket)
{
    (void)reduce, (void)tower, (void)bucket;
    return 0;
}

static void none_cancel(struct reduce *reduce)
{
    (void)reduce;
}

static int none_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    (void)towers, (void)reason;
    return 0;
}

const struct reduce_ops reduce_none_ops = {
    .name = "none",
    .supports = none_supports,
    .open = none_open,
    .close = none_close,
    .join = none_join,
    .start = none_start,
    .wait = none_wait,
    .cancel = none_cancel,
};

/* ---- the table ---- */

/* The reductions that sum, in order of preference. */
static const struct reduce_ops *const reductions[] = {
#ifdef HAVE_CUDA
    &reduce_nccl_ops,
    &reduce_peer_ops,
    &reduce_nccl_allreduce_ops,
#endif
    &reduce_host_ops,
};
/* The order of preference for sums in pairs. NCCL comes later here, because it only sends the numbers, which takes one
 * round more than reading them from peers. */
static const struct reduce_ops *const pair_reductions[] = {
#ifdef HAVE_CUDA
    &reduce_peer_ops,
    &reduce_nccl_ops,
    &reduce_nccl_allreduce_ops,
#endif
    &reduce_host_ops,
};
enum { REDUCTIONS = sizeof(reductions) / sizeof(reductions[0]) };

static bool is_named(const struct reduce_ops *ops, const char *name)
{
    return name == NULL ? !ops->is_only_named : strcmp(ops->name, name) == 0;
}

const struct reduce_ops *reduce_find(const char *name)
{
    for (int i = 0; i < REDUCTIONS; i++)
        if (is_named(reductions[i], name))
            return reductions[i];
    return is_named(&reduce_none_ops, name) ? &reduce_none_ops : NULL;
}

void reduce_prepare(const char *name, uint32_t towers)
{
    for (int i = 0; i < REDUCTIONS; i++)
        if (is_named(reductions[i], name) && reductions[i]->prepare != NULL)
            reductions[i]->prepare(towers);
}

static int choose_between_processes(const char *name, const struct reduce_ops **ops_out,
                                    struct unsupported_reason *reason)
{
    if (name != NULL && strcmp(name, reduce_host_ops.name) != 0)
        return unsupported_reason_set(reason, -EINVAL, "reduce", "%s does not sum over several processes: use auto or "
                                      "host", name);
    *ops_out = &reduce_ranks_ops;
    return 0;
}

int reduce_choose(const char *name, const struct reduce_towers *towers, const struct reduce_ops **ops_out,
                  struct unsupported_reason *reason)
{
    int rc = unsupported_reason_set(reason, -EINVAL, "reduce", "this program was built without %s: use auto or host",
                                    name != NULL ? name : "any");
    if (towers->here.count < towers->run)
        return choose_between_processes(name, ops_out, reason);
    for (int i = 0; i < REDUCTIONS && rc != 0; i++) {
        const struct reduce_ops *const ops = reduce_is_in_pairs(towers) ? pair_reductions[i] : reductions[i];
        if (!is_named(ops, name))
            continue;
        if (towers->has_owners && !ops->knows_owners) {
            rc = unsupported_reason_set(reason, -EINVAL, "reduce", "%s cannot reduce to one owner, as a parameter "
                                        "server needs: use auto, nccl, peer or host", ops->name);
            continue;
        }
        rc = ops->supports(towers, reason);
        if (rc == 0)
            *ops_out = ops;
    }
    return rc;
}

void reduce_cancel(void *reduce)
{
    struct reduce *const base = reduce;
    base->ops->cancel(base);
}
