/* Which ranks of a host use the same GPUs, so that each plans with a share of their memory. A launcher may make
 * another GPU visible to each rank, or the same to several. Used by main only. */
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

/* The number of ranks, including `index`, on the GPU of user `index` that most of them share; at least 1. */
uint32_t device_share_of(const struct device_user *users, uint32_t count, uint32_t index);
/* Called by all ranks; waits for them. Raises `sharing` of the plan to that number. 0, or an exit code after a
 * message, or when a rank has failed. Does nothing where `ranks` is NULL. */
int device_share_agree(struct ranks *ranks, struct run_devices *plan);

#endif
