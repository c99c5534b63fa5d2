/* How full the queues in front of the towers were: what those who took from them found when they came. A queue that
 * is found empty made its taker wait; one that is always found full is deeper than it has to be. */
#ifndef PIPETRAIN_FILL_H
#define PIPETRAIN_FILL_H

#include <stdint.h>

#include "tools/config/options.h"

/* How often a queue was found with 0, 1, ... batches. */
struct fill { uint64_t takes, found[OPTIONS_DEPTH_MAX + 1]; };

/* Both queues, over all towers: the rings on the hosts, found by the feeders, and the slots on the devices, found by
 * the towers. */
struct queue_fills { struct fill ring, slots; };

/* Of a fill without takes all are 0. */
struct fill_use {
    uint32_t least, median;     /* batches; the lower one of two medians */
    double mean;
    double empty;               /* share of takes that found none */
};

/* One take, which found so many batches; never more than the deepest queue holds. */
void fill_add(struct fill *fill, uint32_t batches);
struct fill_use fill_use(const struct fill *fill);

#endif
