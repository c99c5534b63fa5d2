/* What NVML, NVIDIA's management library, reports about GPUs. It comes with the driver and is loaded at run time.
 * Main thread only. */
#ifndef PIPETRAIN_NVML_H
#define PIPETRAIN_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvml;

/* 0: not reported. */
struct gpu_state {
    uint64_t memory_bytes, used_bytes;          /* used: by all processes */
    uint32_t clock_mhz, clock_most_mhz;         /* of the multiprocessors, now and at most */
    uint64_t reasons;           /* why the clock is reduced: NVML_REASON_... */
    uint32_t degrees;           /* Celsius */
    uint32_t generation, generation_most, lanes, lanes_most;    /* of PCI Express, now and at most */
};

/* nvmlClocksThrottleReason... */
#define NVML_REASON_SETTING 0x2ull
#define NVML_REASON_POWER_CAP 0x4ull
#define NVML_REASON_HARDWARE 0x8ull
#define NVML_REASON_WARM 0x20ull
#define NVML_REASON_HOT 0x40ull
#define NVML_REASON_POWER_BRAKE 0x80ull

/* Load it. Returns 0; or -ENOENT (not installed), -ENODEV (no working driver), -ENOTSUP (functions are missing) or
 * -ENOMEM, with the reason in `why`. */
int nvml_open(struct nvml **nvml_out, char *why, size_t why_size);
/* Accepts NULL. */
void nvml_close(struct nvml *nvml);
/* "580.65.06", or "?". */
const char *nvml_driver(const struct nvml *nvml);
uint32_t nvml_count(const struct nvml *nvml);
/* The GPU at a PCI address ("0000:1b:00.0"); false if there is none. */
bool nvml_read(const struct nvml *nvml, const char *bus, struct gpu_state *state_out);

#endif
