/* Which ranks of a host use the same GPUs, so that each counts on a share of their memory. A launcher may show each
 * rank another GPU as its only one, or the same to several of them. Used by main only. */
#ifndef PIPETRAIN_DEVICE_SHARE_H
#define PIPETRAIN_DEVICE_SHARE_H

#include "sync/ranks/ranks.h"
#include "tools/lib/run/ranks/core_share.h"
#include "tools/lib/run/run_devices.h"

#define BUS_BYTES 16u

/* The GPUs of a rank by their addresses; "": a device that has none, or a part of a GPU with memory of its own
 * (MIG). */
struct device_user {
    char host[HOST_NAME_BYTES];
    uint32_t count;
    char bus[DEVICES_MAX][BUS_BYTES];
};

/* How many of these ranks, with itself, use the most shared GPU of user `index`; 1 where none is shared. */
uint32_t device_share_of(const struct device_user *users, uint32_t count, uint32_t index);
/* All ranks together: set `sharing` of the plan, which may be known to be more. Waits for all ranks. 0, or an exit
 * code after a message, or when a rank has failed. Does nothing where `ranks` is NULL. */
int device_share_agree(struct ranks *ranks, struct run_devices *plan);

#endif
