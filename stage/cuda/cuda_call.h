/* The one way of calling the CUDA runtime: the first place that sees an error says what
 * failed, where and why, and gets a negative errno. */
#ifndef PIPETRAIN_CUDA_CALL_H
#define PIPETRAIN_CUDA_CALL_H

#include <cuda_runtime_api.h>

#include "stage/heartbeat.h"

/* 0, or: logs "NAME: FUNCTION: TEXT (cudaErrorName)", the function being what `call` begins with, and
 * returns -ENOMEM (device or pinned memory short), -ENODEV (no driver, no such device, driver too
 * old), -ECANCELED never, else -EIO. An error that sticks to the context is logged once per process. */
int cuda_check(cudaError_t status, const char *name, const char *call);

/* CUDA_CALL("cuda0", cudaFree(memory)), marked in the thread's heartbeat */
#define CUDA_CALL(name, call) cuda_check(HEARTBEAT_CALL(#call, call), (name), #call)

#endif
