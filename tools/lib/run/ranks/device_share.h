/* Determines which ranks of a host use the same GPUs, so that each plans with a share of their memory. A launcher may
 * make a different GPU visible to each rank, or one GPU to several ranks. Used by main only. */
#ifndef PIPETRAIN_DEVICE_SHARE_H
#define PIPETRAIN_DEVICE_SHARE_H

#include "sync/ranks/ranks.h"
#include "tools/lib/run/ranks/core_share.h"
#include "tools/lib/run/run_devices.h"

/* The addresses of the GPUs of a rank; "" for a device without one, or for a part of a GPU that has its own memory
 * (MIG). */
struct device_user {
    char host[HOST_NAME_BYTES];
    uint32_t count;
    char bus[DEVICES_MAX][BUS_BYTES];
};

/* The largest number of ranks, including that of user `index`, on any of this user's GPUs; at least 1. */
uint32_t device_share_of(const struct device_user *users, uint32_t count, uint32_t index);
/* Raise `sharing` of the plan to device_share_of. Called by all ranks; waits for them. 0, or an exit code after a
 * message or when a rank has failed. Does nothing if `ranks` is NULL. */
int device_share_agree(struct ranks *ranks, struct run_devices *plan);

#endif
