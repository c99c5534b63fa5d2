/* Logging errors of the CUDA runtime. Called from any thread. */
#include "stage/cuda/cuda_call.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "stage/log.h"

/* Does the error persist? After a sticky error every call that uses the context returns it again. */
static bool is_sticky(cudaError_t status)
{
    static const cudaError_t sticky[] = {
        cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorContained,
        cudaErrorIllegalAddress, cudaErrorLaunchTimeout, cudaErrorContextIsDestroyed,
        cudaErrorAssert, cudaErrorHardwareStackError, cudaErrorIllegalInstruction,
        cudaErrorMisalignedAddress, cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,
        cudaErrorLaunchFailure, cudaErrorTensorMemoryLeak, cudaErrorExternalDevice,
    };
    for (size_t i = 0; i < sizeof(sticky) / sizeof(sticky[0]); i++) {
        if (status == sticky[i])
            return true;
    }
    return false;
}

static int errno_of(cudaError_t status)
{
    switch (status) {
    case cudaErrorMemoryAllocation:
        return -ENOMEM;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
        return -ENODEV;
    default:
        return -EIO;
    }
}

int cuda_check(cudaError_t status, const char *name, const char *call)
{
    static atomic_flag has_stuck = ATOMIC_FLAG_INIT;
    if (status == cudaSuccess)
        return 0;
    /* Reset the error that the runtime keeps for this thread. */
    cudaGetLastError();
    if (!is_sticky(status) || !atomic_flag_test_and_set(&has_stuck))
        log_message(LOG_ERROR, "%s: %.*s: %s (%s)", name, (int)strcspn(call, "("), call, cudaGetErrorString(status),
                    cudaGetErrorName(status));
    return errno_of(status);
}
