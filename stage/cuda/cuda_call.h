/* All calls of the CUDA runtime are checked here. The place that detects an error logs which call failed, on which
 * device and why. */
#ifndef PIPETRAIN_CUDA_CALL_H
#define PIPETRAIN_CUDA_CALL_H

#include <cuda_runtime_api.h>

#include "stage/heartbeat.h"

/* Returns 0 on success. Otherwise logs "NAME: FUNCTION: TEXT (cudaErrorName)", with the function at the start of
 * `call`, and returns -ENOMEM (device or pinned memory), -ENODEV (no driver or device, or the driver is too old) or
 * -EIO; never -ECANCELED. An error that persists in the context is logged once per process. */
int cuda_check(cudaError_t status, const char *name, const char *call);

/* CUDA_CALL("cuda0", cudaFree(memory)): the call, checked by cuda_check and marked in the thread's heartbeat. */
#define CUDA_CALL(name, call) cuda_check(HEARTBEAT_CALL(#call, call), (name), #call)

#endif
