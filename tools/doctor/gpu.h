/* Findings about one GPU and about copies between GPUs. Main thread only. */
#ifndef PIPETRAIN_GPU_H
#define PIPETRAIN_GPU_H

#include "stage/device.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/sharing.h"
#include "tools/lib/nvml.h"

#define GPUS_MEASURED_MAX 16u           /* more GPUs have too many pairs to measure */

struct gpu {
    uint32_t index;
    struct device_description description;
    /* read before this process used the GPU, and after the copies; zeros without NVML */
    struct gpu_state before, after;
    double copy_bytes_per_second;       /* speed of copies from pinned host memory; 0: not measured */
};

/* Measured speeds of copies. 0: not measured. */
struct gpu_copies {
    uint32_t count;
    double to[GPUS_MEASURED_MAX];       /* to each GPU from pinned host memory, in bytes per second */
    double between[GPUS_MEASURED_MAX][GPUS_MEASURED_MAX];       /* [from][to], in bytes per second */
    /* [to][from]: `to` has peer access to `from`, so copies do not go through the host */
    bool reaches[GPUS_MEASURED_MAX][GPUS_MEASURED_MAX];
};

/* Adds the findings about a GPU. Their texts begin with the GPU's number. */
void gpu_add(struct findings *findings, const struct machine *machine, const struct gpu *gpu);
/* Adds a finding for each GPU, with the speeds of copies to every other one; none if there is only one GPU. */
void gpu_add_peers(struct findings *findings, const struct gpu_copies *copies);
/* Adds a finding on GPUDirect RDMA, with which NCCL sends from GPU to GPU between hosts. */
void gpu_add_direct(struct findings *findings, const struct machine *machine);
/* Adds a finding on memory of GPUs that processes share. */
void gpu_add_sharing(struct findings *findings, const struct sharing *sharing);

#endif
