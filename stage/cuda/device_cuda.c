/* A GPU through the CUDA runtime: the device itself, its memory, and the table. Used by the
 * tower's thread, its feeder and the threads that open and close; every row makes the device
 * current for its thread first. */
#include "stage/cuda/device_cuda.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/cuda/cuda_call.h"
#include "stage/cuda/cuda_count.h"
#include "stage/cuda/cuda_queue.h"
#include "stage/cuda/near_cpus.h"

int cuda_ordinal(struct device *device)
{
    return cuda_device_of(device)->ordinal;
}

const char *cuda_name(struct device *device)
{
    return cuda_device_of(device)->name;
}

/* Nobody else changes the current device on the program's threads, so it is known without
 * asking. */
int cuda_enter(struct device *device)
{
    static _Thread_local int current = -1;
    const int ordinal = cuda_ordinal(device);
    if (current == ordinal)
        return 0;
    const int rc = CUDA_CALL(cuda_name(device), cudaSetDevice(ordinal));
    if (!rc)
        current = ordinal;
    return rc;
}

/* Device. */

static int device_prepare(struct cuda_device *device)
{
    int rc = cuda_enter(&device->base);
    if (!rc)
        rc = CUDA_CALL(device->name, cudaDeviceGetStreamPriorityRange(&device->low, &device->high));
    if (!rc)
        rc = CUDA_CALL(device->name, cudaStreamCreateWithPriority(&device->setup, cudaStreamNonBlocking,
                                                                  device->low));
    if (!rc && cudaDeviceGetAttribute(&device->node, cudaDevAttrHostNumaId, device->ordinal) != cudaSuccess) {
        cudaGetLastError();             /* a driver that does not say */
        device->node = -1;
    }
    return rc;
}

static int cuda_open(struct device **device_out, const struct device_spec *spec)
{
    struct cuda_device *device = calloc(1, sizeof(*device));
    if (device == NULL)
        return -ENOMEM;
    device->base.ops = &device_cuda_ops;
    device->ordinal = (int)spec->index;
    snprintf(device->name, sizeof(device->name), "cuda%d", device->ordinal);
    const int rc = device_prepare(device);
    if (rc) {
        free(device);
        return rc;
    }
    *device_out = &device->base;
    return 0;
}

static void cuda_close(struct device *base)
{
    struct cuda_device *device = cuda_device_of(base);
    if (device == NULL)
        return;
    assert(atomic_load(&device->opened) == 0);
    if (cuda_enter(base) == 0)
        CUDA_CALL(device->name, cudaStreamDestroy(device->setup));
    free(device);
}

static int cuda_describe(uint32_t index, struct device_description *description_out)
{
    struct cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, (int)index) != cudaSuccess) {
        cudaGetLastError();             /* the runtime keeps errors for the thread's next question */
        return -ENODEV;
    }
    snprintf(description_out->name, sizeof(description_out->name), "%.127s", properties.name);
    snprintf(description_out->more, sizeof(description_out->more), "compute capability %d.%d", properties.major,
             properties.minor);
    description_out->memory_bytes = properties.totalGlobalMem;
    snprintf(description_out->bus, sizeof(description_out->bus), "%04x:%02x:%02x.0",
             (unsigned)properties.pciDomainID & 0xffff, (unsigned)properties.pciBusID & 0xff,
             (unsigned)properties.pciDeviceID & 0xff);
    return 0;
}

static int cuda_connect(struct device *device, struct device *other)
{
    const int rc = cuda_enter(device);
    if (rc != 0 || cuda_ordinal(device) == cuda_ordinal(other))
        return rc;
    const cudaError_t status =
        HEARTBEAT_CALL("cudaDeviceEnablePeerAccess", cudaDeviceEnablePeerAccess(cuda_ordinal(other), 0));
    if (status != cudaErrorPeerAccessAlreadyEnabled)
        return cuda_check(status, cuda_name(device), "cudaDeviceEnablePeerAccess");
    cudaGetLastError();                 /* kept as the thread's last error otherwise */
    return 0;
}

static int cuda_memory(struct device *device, size_t *free_out, size_t *total_out)
{
    size_t free_bytes, total_bytes;
    int rc = cuda_enter(device);
    if (!rc)
        rc = CUDA_CALL(cuda_name(device), cudaMemGetInfo(&free_bytes, &total_bytes));
    if (rc)
        return rc;
    *free_out = free_bytes;
    *total_out = total_bytes;
    return 0;
}

static void cuda_bind(struct device *device)
{
    cpu_set_t before;
    near_cpus_bind(cuda_device_of(device)->node, &before);
}

/* Memory. */

/* Check the status of getting `bytes` bytes. */
static int check_allocation(cudaError_t status, struct device *device, const char *function, size_t bytes)
{
    char call[64];
    snprintf(call, sizeof(call), "%s of %zu bytes", function, bytes);
    return cuda_check(status, cuda_name(device), call);
}

static int zero(struct cuda_device *device, void *memory, size_t bytes)
{
    const int rc = CUDA_CALL(device->name, cudaMemsetAsync(memory, 0, bytes, device->setup));
    return rc ? rc : CUDA_CALL(device->name, cudaStreamSynchronize(device->setup));
}

static void cuda_free(struct device *device, void *memory)
{
    if (memory != NULL && cuda_enter(device) == 0 && !cuda_has_stuck_work())
        CUDA_CALL(cuda_name(device), cudaFree(memory));
}

static int cuda_alloc(struct device *device, size_t bytes, void **memory_out)
{
    void *memory = NULL;
    const size_t taken = bytes ? bytes : 1;
    int rc = cuda_enter(device);
    if (!rc)
        rc = check_allocation(HEARTBEAT_CALL("cudaMalloc", cudaMalloc(&memory, taken)), device, "cudaMalloc", taken);
    if (!rc)
        rc = zero(cuda_device_of(device), memory, taken);
    if (rc) {
        cuda_free(device, memory);
        return rc;
    }
    *memory_out = memory;
    return 0;
}

static void cuda_free_pinned(struct device *device, void *memory)
{
    if (memory != NULL && cuda_enter(device) == 0 && !cuda_has_stuck_work())
        CUDA_CALL(cuda_name(device), cudaFreeHost(memory));
}

/* The pages come from the memory next to the CPU that touches them first. */
static int cuda_alloc_pinned(struct device *device, size_t bytes, void **memory_out)
{
    void *memory = NULL;
    cpu_set_t before;
    const size_t taken = bytes ? bytes : 1;
    int rc = cuda_enter(device);
    if (rc)
        return rc;
    const bool is_bound = near_cpus_bind(cuda_device_of(device)->node, &before);
    rc = check_allocation(HEARTBEAT_CALL("cudaHostAlloc", cudaHostAlloc(&memory, taken, cudaHostAllocPortable)), device,
                          "cudaHostAlloc", taken);
    if (!rc) {
        memset(memory, 0, taken);
        *memory_out = memory;
    }
    if (is_bound)
        near_cpus_restore(&before);
    return rc;
}

static void cuda_cancel(struct device *device)
{
    atomic_store(&cuda_device_of(device)->cancelled, true);
}

/* With it every launch waits for its end, and streams that wait for each other may hang. */
static int cuda_supports(uint32_t count, struct unsupported_reason *reason)
{
    const char *const blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (count < 2 || blocking == NULL || strcmp(blocking, "0") == 0 || *blocking == '\0')
        return 0;
    return unsupported_reason_set(
        reason, -ENODEV, "CUDA_LAUNCH_BLOCKING",
        "is set, and with %u devices in one process that can hang: unset it, or use one device", count);
}

const struct device_ops device_cuda_ops = {
    .kind = "cuda",
    .libraries = cuda_libraries,
    .host_memory = false,
    .steps_ahead = 2,
    .count = cuda_count,
    .reaches = cuda_reaches,
    .supports = cuda_supports,
    .connect = cuda_connect,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .memory = cuda_memory,
    .bind = cuda_bind,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_pinned = cuda_alloc_pinned,
    .free_pinned = cuda_free_pinned,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_drain = cuda_stream_drain,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .record = cuda_stream_record,
    .stream_wait = cuda_stream_wait,
    .copy = cuda_stream_copy,
    .call = cuda_stream_call,
    .event_wait = cuda_event_wait,
    .event_passed = cuda_event_passed,
    .event_elapsed = cuda_event_elapsed,
    .cancel = cuda_cancel,
};
