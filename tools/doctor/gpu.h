/* Findings of one GPU: what it is, what may slow it down, and how fast copies to it are. Main only. */
#ifndef PIPETRAIN_GPU_H
#define PIPETRAIN_GPU_H

#include "stage/device.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/nvml.h"

struct gpu {
    uint32_t index;
    struct device_description description;
    struct gpu_state before, after;     /* of NVML, before anything of this process was on it, and after copies; zeros
                                         * where it is not there */
    double copy_bytes_per_second;       /* from pinned memory of the host to it; 0: not measured */
};

/* Every finding begins with the GPU's number. */
void gpu_add(struct findings *findings, const struct machine *machine, const struct gpu *gpu);

#endif
