/* No reduction: one tower, or towers that never meet (mode independent). */
#include "sync/reduce.h"

#include <errno.h>
#include <stdlib.h>

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

/* Who asks has nothing to sum. */
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
