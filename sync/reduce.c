/* The table of reductions, and the reduction that sums nothing. */
#include "sync/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sync/ranks/rank_gather.h"

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

/* Those between processes, in order of preference: memory of other processes, NCCL's connections, memory of the host.
 * */
static const struct reduce_ops *const rank_reductions[] = {
#ifdef HAVE_CUDA
    &reduce_ipc_ops,
    &reduce_nccl_ops,
    &reduce_nccl_allreduce_ops,
#endif
    &reduce_ranks_ops,
};
enum { RANK_REDUCTIONS = sizeof(rank_reductions) / sizeof(rank_reductions[0]) };

static int supports_between_processes(const struct reduce_ops *ops, const struct reduce_towers *towers,
                                      struct unsupported_reason *reason)
{
    if (towers->has_owners && !ops->knows_owners)
        return unsupported_reason_set(reason, -EINVAL, "reduce", "%s cannot reduce to one owner, as parameter_server "
                                      "and model.parts need: use auto or host", ops->name);
    return ops->supports(towers, reason);
}

static int choose_between_processes(const char *name, const struct reduce_towers *towers,
                                    const struct reduce_ops **ops_out, struct unsupported_reason *reason)
{
    int rc = unsupported_reason_set(reason, -EINVAL, "reduce", "%s does not sum over several processes: use auto, "
                                    "nccl, ipc or host", name != NULL ? name : "this program");
    for (int i = 0; i < RANK_REDUCTIONS && rc != 0; i++) {
        if (!is_named(rank_reductions[i], name))
            continue;
        rc = supports_between_processes(rank_reductions[i], towers, reason);
        if (rc == 0)
            *ops_out = rank_reductions[i];
    }
    return rc;
}

/* A bit for each row of rank_reductions that this process supports. */
static uint32_t supported_rows(const char *name, const struct reduce_towers *towers)
{
    struct unsupported_reason reason;
    uint32_t rows = 0;
    for (int i = 0; i < RANK_REDUCTIONS; i++)
        if (is_named(rank_reductions[i], name) &&
            supports_between_processes(rank_reductions[i], towers, &reason) == 0)
            rows |= 1u << i;
    return rows;
}

/* The rows that all processes support. */
static int common_rows(struct ranks *ranks, uint32_t own, uint32_t *common_out)
{
    uint32_t *const all = calloc(ranks_size(ranks), sizeof(*all));
    const int rc = all == NULL ? -ENOMEM : rank_gather(ranks, &own, sizeof(own), all);
    *common_out = own;
    for (uint32_t rank = 0; rank < ranks_size(ranks) && rc == 0; rank++)
        *common_out &= all[rank];
    free(all);
    return rc;
}

int reduce_agree(const char *name, const struct reduce_towers *towers, struct ranks *ranks,
                 const struct reduce_ops **ops_out, struct unsupported_reason *reason)
{
    struct unsupported_reason another;  /* the reason that counts is that of the best reduction */
    uint32_t rows = 0;
    int rc = common_rows(ranks, supported_rows(name, towers), &rows);
    if (rc != 0)
        return rc;
    rc = -ENODEV;
    reason->why[0] = '\0';
    for (int i = 0; i < RANK_REDUCTIONS && rc != 0 && rc != -ECANCELED; i++) {
        if ((rows & 1u << i) == 0)
            continue;
        rc = rank_reductions[i]->agree == NULL
                 ? 0 : rank_reductions[i]->agree(towers, ranks, *reason->why == '\0' ? reason : &another);
        if (rc == 0)
            *ops_out = rank_reductions[i];
    }
    return rc == -ENODEV && *reason->why == '\0'
               ? unsupported_reason_set(reason, rc, "reduce", "not all processes can use %s", name) : rc;
}

int reduce_check_rounding(const struct reduce_towers *towers, const char *name, struct unsupported_reason *reason)
{
    if (!reduce_rounds_sums(towers))
        return 0;
    return unsupported_reason_set(reason, -EINVAL, "reduce", "%s does not round every sum to bf16, as train.slices with "
                                  "sync.wire = bf16 does: use auto or host", name);
}

int reduce_try(const char *name, const struct reduce_towers *towers, const struct reduce_group *group,
               struct unsupported_reason *reason)
{
    for (int i = 0; i < RANK_REDUCTIONS; i++) {
        const struct reduce_ops *const ops = rank_reductions[i];
        if (strcmp(ops->name, name) != 0 || ops->try_between == NULL)
            continue;
        const int rc = supports_between_processes(ops, towers, reason);
        return rc == 0 ? ops->try_between(towers, group, reason) : rc;
    }
    return unsupported_reason_set(reason, -EINVAL, "reduce", "%s cannot be tried by this program", name);
}

int reduce_choose(const char *name, const struct reduce_towers *towers, const struct reduce_ops **ops_out,
                  struct unsupported_reason *reason)
{
    int rc = unsupported_reason_set(reason, -EINVAL, "reduce", "this program was built without %s: use auto or host",
                                    name != NULL ? name : "any");
    if (towers->here.count < towers->run)
        return choose_between_processes(name, towers, ops_out, reason);
    for (int i = 0; i < REDUCTIONS && rc != 0; i++) {
        const struct reduce_ops *const ops = reduce_is_in_pairs(towers) ? pair_reductions[i] : reductions[i];
        if (!is_named(ops, name))
            continue;
        if (towers->has_owners && !ops->knows_owners) {
            rc = unsupported_reason_set(reason, -EINVAL, "reduce", "%s cannot reduce to one owner, as parameter_server "
                                        "and model.parts need: use auto, nccl, peer or host", ops->name);
            continue;
        }
        rc = ops->supports(towers, reason);
        if (rc == 0)
            *ops_out = ops;
    }
    return rc;
}

bool reduce_pins_always(const struct reduce *reduce, uint32_t tower)
{
    (void)reduce, (void)tower;
    return true;
}

void reduce_cancel(void *reduce)
{
    struct reduce *const base = reduce;
    base->ops->cancel(base);
}
