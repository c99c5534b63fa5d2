/* Mode independent: as many models as there are towers. */
#include "sync/modes.h"

static int independent_apply(struct sync *sync, const struct span *span)
{
    int rc = 0;
    for (uint32_t b = 0; b < sync->buckets.count && rc == 0; b++)
        rc = sync_update_bucket(sync, span, b, span->count);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

const struct sync_ops sync_independent_ops = {
    .name = "independent",
    .apply = independent_apply,
};
