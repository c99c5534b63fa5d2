/* Mode independent: as many models as there are towers. */
#include "sync/modes/modes.h"

static int independent_apply(struct sync *sync, const struct span *span)
{
    const int rc = sync_update(sync, span, span->count);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

const struct sync_ops sync_independent_ops = {
    .name = "independent",
    .differs = true,
    .apply = independent_apply,
};
