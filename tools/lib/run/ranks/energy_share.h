/* Determines which rank of a host reads the energy of its CPU packages, and of each of its GPUs, so that each is
 * counted once: the lowest rank that can. Used by main only. */
#ifndef PIPETRAIN_ENERGY_SHARE_H
#define PIPETRAIN_ENERGY_SHARE_H

#include "sync/ranks/ranks.h"
#include "tools/lib/run/energy.h"
#include "tools/lib/run/ranks/core_share.h"
#include "tools/lib/run/ranks/device_share.h"

/* What a rank can read. */
struct energy_user {
    char host[HOST_NAME_BYTES];
    uint32_t packages, packages_read;   /* of the host; that this rank can read */
    uint32_t gpus;
    char bus[DEVICES_MAX][BUS_BYTES];   /* "" if it has no address of its own */
    bool reads[DEVICES_MAX];
    char why_no_package[ENERGY_WHY_BYTES], why_no_gpu[ENERGY_WHY_BYTES];
};

/* What is read of all machines of the run, each package and GPU counted once. */
struct energy_sources {
    uint32_t packages, gpus;            /* that are read */
    uint32_t blind_hosts, blind_gpus;   /* hosts with packages that nobody can read, or without any; GPUs */
    char why_no_package[ENERGY_WHY_BYTES], why_no_gpu[ENERGY_WHY_BYTES];        /* the first reason of each kind */
};

/* What one rank has to read. */
struct energy_share {
    bool packages, gpu[DEVICES_MAX];
    struct energy_sources all;
};

/* Add what is read of a host, whose users are given, to that of all machines. `ranks`: of the run. */
void energy_share_add(const struct energy_user *users, uint32_t count, uint32_t ranks, struct energy_sources *all);
/* Set the share of user `index` of the `count` users of a host, without `all`. */
void energy_share_of(const struct energy_user *users, uint32_t count, uint32_t index, struct energy_share *share);
/* Determine the share of this rank, whose GPUs were added to `energy`, and keep only that. Called by all ranks; waits
 * for them. 0, or an exit code after a message or when a rank has failed. `ranks` NULL: this process reads all. */
int energy_share_agree(struct ranks *ranks, struct energy *energy, const struct run_devices *devices,
                       struct energy_sources *sources_out);

#endif
