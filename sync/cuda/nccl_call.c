/* What becomes of a status of NCCL. Called from the towers' threads. */
#include "sync/cuda/nccl_call.h"

#include <errno.h>

#include "stage/log.h"

static int errno_of(ncclResult_t status)
{
    switch (status) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
        return -EINVAL;
    case ncclRemoteError:
        return -EREMOTEIO;
    default:
        return -EIO;
    }
}

int nccl_check(ncclResult_t status, const char *name, const char *call)
{
    if (status == ncclSuccess || status == ncclInProgress)
        return 0;
    const char *const words = ncclGetLastError(NULL);
    log_message(LOG_ERROR, "%s: %s: %s (%s)", name, call, ncclGetErrorString(status),
                words != NULL && words[0] != '\0' ? words : "no more is known");
    return errno_of(status);
}
