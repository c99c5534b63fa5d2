/* What the CUDA backend and reductions need of the CUDA device beyond its table. Private to
 * the files named *cuda*, *nccl* and *peer*. */
#ifndef PIPETRAIN_DEVICE_CUDA_H
#define PIPETRAIN_DEVICE_CUDA_H

#include <cuda_runtime_api.h>

#include "stage/device.h"

/* The calling thread's current device becomes this one. Every row of the table does this by
 * itself; for direct calls of CUDA, cuDNN, cuBLASLt and NCCL. 0 or a negative errno. */
int cuda_enter(struct device *device);
/* CUDA's number of the device. */
int cuda_ordinal(struct device *device);
/* For messages: "cuda0". */
const char *cuda_name(struct device *device);
cudaStream_t cuda_stream_of(struct stream *stream);

#endif
