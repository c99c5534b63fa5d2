/* Devices, backend, mode and reduction of a run, chosen from the settings and the devices of the machine before
 * anything is started. Used by main only. */
#ifndef PIPETRAIN_RUN_DEVICES_H
#define PIPETRAIN_RUN_DEVICES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "compute/backend.h"
#include "stage/device.h"
#include "sync/reduce.h"
#include "tools/lib/config/settings.h"

#define DEVICES_MAX 256
#define BUS_BYTES 16u             /* of a PCI address, terminated */

struct run_devices {
    const struct device_ops *ops;
    const struct backend_ops *backend;
    const struct sync_ops *mode;
    const struct reduce_ops *reduce;
    struct tower_range towers;          /* of this process */
    uint32_t group;                     /* neighbouring ranks that sum first (reduce_spec.group); 0: there are no groups */
    uint32_t count;                     /* devices in use; tower towers.first + d uses index[d % count] */
    uint32_t index[DEVICES_MAX];
    uint32_t idle;                      /* unused devices of this process, when no list was given */
    uint32_t sharing;                   /* known number of ranks on this host that use one of these devices */
    char note[256];                     /* why no better kind of device is used; "": none */
    char plan_cache[PATH_MAX];          /* folder that caches plans of products; "": none */
    bool keeps_plans;                   /* the folder exists and is writable */
};

/* Choose the devices. 0; or, with a message in `problems`, -EINVAL (the settings contradict each other) or -ENODEV (a
 * device does not exist or does not support the settings). May be the process' first call of the device's library.
 * Called before any thread is started; threads of the library block all signals, so that ours receive them. */
int run_devices_init(struct run_devices *devices, const struct settings *settings, struct problems *problems);

/* Called by main of all ranks, when run_devices_init succeeded in all: choose the reduction that works between them, and
 * for sums by the host the ranks that sum first: with sync.group = 0 those of a host, if the ranks of each host are
 * neighbours that share memory, their number is the same power of two, and so is that of their towers. 0, or a negative errno after a message; the same in all ranks. Does nothing in a process without ranks. */
int run_devices_agree(struct run_devices *devices, const struct settings *settings, struct ranks *ranks);

/* devices->index has the devices that the `ranks` processes on this host share: keep those of this process, at most one
 * for each of its towers. Each process takes the devices that follow those of the local rank below it; after the last
 * device the first one follows again. */
void run_devices_share(struct run_devices *devices, uint32_t local_rank, uint32_t ranks);

/* The device of tower towers.first + d. */
static inline uint32_t run_devices_index(const struct run_devices *devices, uint32_t d)
{
    return devices->index[d % devices->count];
}
/* Write the PCI address of device `i` of devices->index; "" if it has none, or is a part of a GPU (MIG). */
void run_devices_bus(const struct run_devices *devices, uint32_t i, char bus_out[BUS_BYTES]);
const char *precision_name(enum precision precision);       /* "fp32", ... */

#endif
