/* What NVIDIA's management library says of the GPUs there are, whether this process may use them or not. Main only. */
#ifndef PIPETRAIN_NVML_H
#define PIPETRAIN_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvml;

/* 0 is "not told" everywhere. */
struct gpu_state {
    char name[96], bus[16];
    uint64_t memory_bytes, used_bytes;          /* used: by all processes */
    uint32_t clock_mhz, clock_most_mhz;         /* of the multiprocessors, now and at most */
    uint64_t reasons;           /* why the clock is not higher: NVML_REASON_... */
    uint32_t degrees;           /* Celsius */
    uint32_t generation, generation_most, lanes, lanes_most;    /* of PCI Express, now and at most */
    uint32_t nvlinks;           /* that are up */
    bool is_persistent, has_persistence;        /* the driver keeps the device ready; whether that was told */
};

/* Load it. 0, or -ENOENT (there is none), -ENODEV (there is no driver that works) or -ENOTSUP (functions are missing),
 * with the reason in `why`. */
int nvml_open(struct nvml **nvml_out, char *why, size_t why_size);
/* Accepts NULL. */
void nvml_close(struct nvml *nvml);
/* "580.65.06", or "?". */
const char *nvml_driver(const struct nvml *nvml);
uint32_t nvml_count(const struct nvml *nvml);
/* GPU `index`, or the one at a place of the bus ("0000:1b:00.0"). False when there is none; what cannot be asked of it
 * stays 0. */
bool nvml_look(const struct nvml *nvml, uint32_t index, struct gpu_state *state_out);
bool nvml_look_at(const struct nvml *nvml, const char *bus, struct gpu_state *state_out);

#endif
