/* All calls of the CUDA runtime go through here: the place that detects an error logs what failed, where and why. */
#ifndef PIPETRAIN_CUDA_CALL_H
#define PIPETRAIN_CUDA_CALL_H

#include <cuda_runtime_api.h>

#include "stage/heartbeat.h"

/* Returns 0, or logs "NAME: FUNCTION: TEXT (cudaErrorName)", where `call` begins with the function, and returns
 * -ENOMEM (device or pinned memory), -ENODEV (no driver or device, or driver too old), else -EIO; never -ECANCELED.
 * An error that persists in the context is logged once per process. */
int cuda_check(cudaError_t status, const char *name, const char *call);

/* CUDA_CALL("cuda0", cudaFree(memory)): checked, and marked in the thread's heartbeat. */
#define CUDA_CALL(name, call) cuda_check(HEARTBEAT_CALL(#call, call), (name), #call)

#endif
