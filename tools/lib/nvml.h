/* The state of GPUs as reported by NVML, NVIDIA's management library, which is part of the driver and is loaded at
 * run time. One thread at a time. */
#ifndef PIPETRAIN_NVML_H
#define PIPETRAIN_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/nvml_api.h"

struct nvml;

/* The state of a GPU. A number is 0 if NVML does not report it. */
struct gpu_state {
    uint64_t memory_bytes, used_bytes;          /* used_bytes: by all processes */
    uint32_t clock_mhz, clock_most_mhz;         /* clock of the multiprocessors: current, and maximum */
    uint64_t reasons;           /* bits of NVML_REASON_...: why the clock is reduced */
    uint32_t degrees;           /* temperature in degrees Celsius */
    uint32_t generation, generation_most, lanes, lanes_most;    /* PCI Express link: current and maximum */
};

/* Bits of nvmlClocksThrottleReasons. */
#define NVML_REASON_SETTING 0x2ull
#define NVML_REASON_POWER_CAP 0x4ull
#define NVML_REASON_HARDWARE 0x8ull
#define NVML_REASON_WARM 0x20ull
#define NVML_REASON_HOT 0x40ull
#define NVML_REASON_POWER_BRAKE 0x80ull

/* Load NVML. Returns 0; or -ENOENT (not installed), -ENODEV (no working driver), -ENOTSUP (functions are missing) or
 * -ENOMEM, with the reason in `why`. */
int nvml_open(struct nvml **nvml_out, char *why, size_t why_size);
/* Accepts NULL. */
void nvml_close(struct nvml *nvml);
/* The version of the driver, such as "580.65.06"; "?" if it is unknown. */
const char *nvml_driver(const struct nvml *nvml);
uint32_t nvml_count(const struct nvml *nvml);
/* Find the GPU at a PCI address ("0000:1b:00.0"). 0, or -ENODEV if there is none. */
int nvml_find(const struct nvml *nvml, const char *bus, nvml_device *device_out);
/* Reads the state of the GPU at a PCI address; false if there is none. */
bool nvml_read(const struct nvml *nvml, const char *bus, struct gpu_state *state_out);
/* The energy that the GPU has used since the driver was loaded, in microjoules. 0, or -ENOTSUP (before Volta). */
int nvml_energy(const struct nvml *nvml, nvml_device device, uint64_t *microjoules_out);

#endif
