/* When a mean is taken and of what. Pure functions, called from towers' threads. */
#include "sync/mean.h"

bool mean_is_behind(const struct span *span, uint64_t every)
{
    return span->pass == PASS_EVALUATE || (every > 0 && (span->step + 1) % every == 0);
}

struct mean_share mean_share(const struct schedule *schedule, uint32_t tower, uint64_t last, uint64_t every)
{
    struct mean_share share = { 0 };
    struct span span;
    for (uint64_t number = last; schedule_find(schedule, number, tower, &span) == 0; number--) {
        if (span.pass == PASS_EVALUATE || (number < last && mean_is_behind(&span, every)))
            break;
        share.own += span.count;
        share.all += span.global_count;
        if (number == 0)
            break;
    }
    return share;
}
