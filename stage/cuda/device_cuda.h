/* Functions of the CUDA device that the CUDA backend and reductions need besides its struct device_ops. Private to the
 * files named *cuda*, *nccl* and *peer*. */
#ifndef PIPETRAIN_DEVICE_CUDA_H
#define PIPETRAIN_DEVICE_CUDA_H

#include <cuda_runtime_api.h>

#include "stage/device.h"

/* Make this the calling thread's current device, before direct calls of CUDA, cuDNN, cuBLASLt and NCCL; the functions
 * of device_ops do this themselves. 0 or a negative errno. */
int cuda_enter(struct device *device);
/* CUDA's number of the device. */
int cuda_ordinal(struct device *device);
/* The device's name for messages: "cuda0". */
const char *cuda_name(struct device *device);
cudaStream_t cuda_stream_of(struct stream *stream);
/* Called before an operation is queued: cuda_enter, or -ECANCELED after a cancel of the device. */
int cuda_stream_enter(struct stream *stream);
/* An upper bound of the number of devices, from the device files in `folder` ("/dev") and CUDA_VISIBLE_DEVICES, without
 * calling CUDA; UINT32_MAX if neither limits the number. */
uint32_t cuda_count_at_most(const char *folder);

#endif
