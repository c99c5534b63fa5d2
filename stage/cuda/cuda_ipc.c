/* Memory of other processes, and values for streams. Called by the reduction between processes, from towers' threads
 * and main. */
#include "stage/cuda/cuda_ipc.h"

#include <cudaTypedefs.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"

#define DRIVER_VERSION 11070    /* whose functions are asked for */

/* The functions of the driver; found once. */
static struct {
    PFN_cuStreamWriteValue32_v11070 write_value;
    PFN_cuStreamWaitValue32_v11070 wait_value;
    PFN_cuMemGetAddressRange_v3020 get_range;
} driver;

static pthread_once_t is_prepared = PTHREAD_ONCE_INIT;
static char prepare_why[CUDA_IPC_WHY];

static void write_why(char *why, cudaError_t status, const char *call)
{
    cudaGetLastError();         /* reset the error that the runtime keeps for this thread */
    snprintf(why, CUDA_IPC_WHY, "%s: %s (%s)", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

static int quiet_check(cudaError_t status, const char *call, char *why)
{
    if (status == cudaSuccess)
        return 0;
    write_why(why, status, call);
    return status == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

static void *find_function(const char *name)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult result;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &function, DRIVER_VERSION, cudaEnableDefault, &result);
    if (status != cudaSuccess)
        write_why(prepare_why, status, "cudaGetDriverEntryPointByVersion");
    else if (result != cudaDriverEntryPointSuccess || function == NULL)
        snprintf(prepare_why, sizeof(prepare_why), "the driver has no %s", name);
    return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? function : NULL;
}

static void find_functions(void)
{
    driver.write_value = (PFN_cuStreamWriteValue32_v11070)find_function("cuStreamWriteValue32");
    driver.wait_value = (PFN_cuStreamWaitValue32_v11070)find_function("cuStreamWaitValue32");
    driver.get_range = (PFN_cuMemGetAddressRange_v3020)find_function("cuMemGetAddressRange");
}

int cuda_ipc_prepare(struct device *device, char why[CUDA_IPC_WHY])
{
    int has_same_address = 0;
    pthread_once(&is_prepared, find_functions);
    if (driver.write_value == NULL || driver.wait_value == NULL || driver.get_range == NULL) {
        snprintf(why, CUDA_IPC_WHY, "%s", prepare_why);
        return -ENOTSUP;
    }
    const cudaError_t status = cudaDeviceGetAttribute(&has_same_address, cudaDevAttrCanUseHostPointerForRegisteredMem,
                                                      cuda_ordinal(device));
    if (status != cudaSuccess)
        return quiet_check(status, "cudaDeviceGetAttribute", why);
    if (has_same_address)
        return 0;
    snprintf(why, CUDA_IPC_WHY, "%s has other addresses for memory of the host", cuda_name(device));
    return -ENOTSUP;
}

/* ---- memory ---- */

int cuda_ipc_export(struct device *device, void *memory, struct cuda_export *export_out, char why[CUDA_IPC_WHY])
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    const int rc = cuda_enter(device);
    if (rc != 0) {
        snprintf(why, CUDA_IPC_WHY, "%s cannot be used", cuda_name(device));
        return rc;
    }
    /* The numbers of the driver's errors are those of the runtime. */
    const cudaError_t found = (cudaError_t)driver.get_range(&base, &bytes, (CUdeviceptr)(uintptr_t)memory);
    if (found != cudaSuccess)
        return quiet_check(found, "cuMemGetAddressRange", why);
    export_out->offset = (uint64_t)((uintptr_t)memory - (uintptr_t)base);
    return quiet_check(HEARTBEAT_CALL("cudaIpcGetMemHandle",
                                      cudaIpcGetMemHandle(&export_out->handle, (void *)(uintptr_t)base)),
                       "cudaIpcGetMemHandle", why);
}

int cuda_ipc_open(struct device *device, const struct cuda_export *export, void **base_out, void **memory_out,
                  char why[CUDA_IPC_WHY])
{
    void *base = NULL;
    int rc = cuda_enter(device);
    if (rc != 0) {
        snprintf(why, CUDA_IPC_WHY, "%s cannot be used", cuda_name(device));
        return rc;
    }
    rc = quiet_check(HEARTBEAT_CALL("cudaIpcOpenMemHandle",
                                    cudaIpcOpenMemHandle(&base, export->handle, cudaIpcMemLazyEnablePeerAccess)),
                     "cudaIpcOpenMemHandle", why);
    if (rc != 0)
        return rc;
    *base_out = base;
    *memory_out = (char *)base + export->offset;
    return 0;
}

void cuda_ipc_close(struct device *device, void *base)
{
    if (cuda_enter(device) == 0)
        CUDA_CALL(cuda_name(device), cudaIpcCloseMemHandle(base));
}

/* ---- values ---- */

int cuda_stream_write_value(struct stream *stream, uint32_t *address, uint32_t value)
{
    const int rc = cuda_stream_enter(stream);
    if (rc != 0)
        return rc;
    const cudaError_t status =
        (cudaError_t)HEARTBEAT_CALL("cuStreamWriteValue32",
                                    driver.write_value(cuda_stream_of(stream), (CUdeviceptr)(uintptr_t)address, value,
                                                       CU_STREAM_WRITE_VALUE_DEFAULT));
    return cuda_check(status, cuda_name(stream->device), "cuStreamWriteValue32");
}

int cuda_stream_wait_value(struct stream *stream, uint32_t *address, uint32_t value)
{
    const int rc = cuda_stream_enter(stream);
    if (rc != 0)
        return rc;
    const cudaError_t status =
        (cudaError_t)HEARTBEAT_CALL("cuStreamWaitValue32",
                                    driver.wait_value(cuda_stream_of(stream), (CUdeviceptr)(uintptr_t)address, value,
                                                      CU_STREAM_WAIT_VALUE_GEQ));
    return cuda_check(status, cuda_name(stream->device), "cuStreamWaitValue32");
}

bool cuda_stream_is_idle(struct stream *stream)
{
    if (cuda_enter(stream->device) != 0)
        return true;
    const cudaError_t status = HEARTBEAT_CALL("cudaStreamQuery", cudaStreamQuery(cuda_stream_of(stream)));
    if (status != cudaSuccess)
        cudaGetLastError();             /* reset the error that the runtime keeps for this thread */
    return status != cudaErrorNotReady;
}
