/* How full queues were. */
#include "tools/run/pace/fill.h"

#include <assert.h>

void fill_add(struct fill *fill, uint32_t batches)
{
    assert(batches <= OPTIONS_DEPTH_MAX);
    fill->takes++;
    fill->found[batches]++;
}

/* The smallest number of batches that more than `takes` of the takes found, or fewer. */
static uint32_t quantile(const struct fill *fill, uint64_t takes)
{
    uint64_t seen = 0;
    for (uint32_t batches = 0; batches <= OPTIONS_DEPTH_MAX; batches++) {
        seen += fill->found[batches];
        if (seen > takes)
            return batches;
    }
    return 0;
}

struct fill_use fill_use(const struct fill *fill)
{
    if (fill->takes == 0)
        return (struct fill_use){ 0 };
    uint64_t sum = 0;
    for (uint32_t batches = 0; batches <= OPTIONS_DEPTH_MAX; batches++)
        sum += batches * fill->found[batches];
    return (struct fill_use){
        .least = quantile(fill, 0),
        .median = quantile(fill, (fill->takes - 1) / 2),
        .mean = (double)sum / (double)fill->takes,
        .empty = (double)fill->found[0] / (double)fill->takes,
    };
}
