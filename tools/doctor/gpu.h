/* Findings about one GPU and about copies between GPUs. Main thread only. */
#ifndef PIPETRAIN_GPU_H
#define PIPETRAIN_GPU_H

#include "stage/device.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/nvml.h"

#define GPUS_MEASURED_MAX 16u           /* more have too many pairs */

struct gpu {
    uint32_t index;
    struct device_description description;
    struct gpu_state before, after;     /* before this process used it, and after copies; zeros without NVML */
    double copy_bytes_per_second;       /* from pinned host memory; 0: not measured */
};

/* Measured copies. 0: not measured. */
struct gpu_copies {
    uint32_t count;
    double to[GPUS_MEASURED_MAX];       /* bytes per second from pinned host memory */
    double between[GPUS_MEASURED_MAX][GPUS_MEASURED_MAX];       /* [from][to] */
    bool reaches[GPUS_MEASURED_MAX][GPUS_MEASURED_MAX];         /* [to][from]: with peer access, not through the host */
};

/* What was found begins with the GPU's number. */
void gpu_add(struct findings *findings, const struct machine *machine, const struct gpu *gpu);
/* One finding for each GPU, with the speeds to every other one; none if there is only one GPU. */
void gpu_add_peers(struct findings *findings, const struct gpu_copies *copies);

#endif
