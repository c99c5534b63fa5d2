/* The energy that CPU packages and GPUs of this machine use, whatever uses it. CPU packages: the counters of RAPL
 * (Intel, AMD since Zen), which Linux shows below /sys/class/powercap; most systems let only root read them. GPUs:
 * NVML, since Volta.
 *
 * Counters of packages begin again at 0 after their range, 65 kJ on some: the watchdog of the run reads them every few
 * seconds (energy_poll). If they are not read for so long that a package of 1 kW might have passed its range, as in a
 * long pause, the sum is too small, which is_partial says. GPU counters have no such limit; only main reads them,
 * because a call of NVML may hang when a GPU does. */
#ifndef PIPETRAIN_ENERGY_H
#define PIPETRAIN_ENERGY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/nvml.h"
#include "tools/lib/run/run_devices.h"

#define ENERGY_PACKAGES_MAX 64u
#define ENERGY_WHY_BYTES 224u

/* A counter in microjoules. */
struct energy_counter {
    uint64_t range;             /* the largest value, after which it is 0 again; UINT64_MAX: it never is */
    uint64_t latest, sum;       /* latest: as it was read; sum: since it was first read */
    uint64_t read_ns;           /* when, on clock_now_ns's clock */
};

struct energy_package {
    int fd;                     /* of its file energy_uj; -1: it cannot be read */
    struct energy_counter counter;
};

struct energy_gpu {
    nvml_device device;
    bool is_read;
    struct energy_counter counter;
};

struct energy {
    pthread_mutex_t lock;       /* guards packages and package_is_partial */
    struct energy_package packages[ENERGY_PACKAGES_MAX];
    bool package_is_partial;
    uint32_t package_count, packages_read;      /* found; of these can be read. Constant after energy_open, */
    char why_no_package[ENERGY_WHY_BYTES];      /* as is why not all can be read; "": all can */
    /* Used by main only. */
    struct nvml *nvml;          /* NULL: not loaded */
    struct energy_gpu gpus[DEVICES_MAX];
    uint32_t gpu_count;         /* that were added */
    bool gpu_is_partial;
    char why_no_gpu[ENERGY_WHY_BYTES];          /* why not all that were added can be read; "": all can */
};

/* Add what a counter has counted since it was read before; `value` is its value at `now_ns`. False if that may be too
 * little, because it may have passed its range more than once, or was reset. */
bool energy_count(struct energy_counter *counter, uint64_t value, uint64_t now_ns);

/* Find the packages, and begin to count. `root`: the folder that contains /sys, "" except in tests. Main only, as all
 * functions but energy_poll. */
void energy_open(struct energy *energy, const char *root);
void energy_close(struct energy *energy);
/* Add GPUs by their PCI addresses ("0000:1b:00.0"; "" has no counter of its own), and begin to count. Once. */
void energy_add_gpus(struct energy *energy, char (*buses)[BUS_BYTES], uint32_t count);
/* Stop counting the packages (`has_packages` false) or GPUs that another process counts. `gpus`: of each that was
 * added. */
void energy_keep(struct energy *energy, bool has_packages, const bool *gpus);

/* Read all counters. */
void energy_read(struct energy *energy);
/* Read the packages if that is due. Any thread; never waits for a device. */
void energy_poll(void *energy);
/* All energy so far, in microjoules, as of the latest reading. */
uint64_t energy_sum(struct energy *energy);
/* Is the sum too small, because a counter could not be read any more, or not often enough? */
bool energy_is_partial(struct energy *energy);

#endif
