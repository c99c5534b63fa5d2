/* A GPU through the CUDA runtime. Used by the tower's thread, its feeder and the threads that open and close the
 * device; every operation first makes the device current for its thread.
 *
 * Nothing here blocks inside the driver, since such a wait cannot be cancelled. Waits poll instead: continuously at
 * first, then with short sleeps, until the device is cancelled. Work queued on a stream cannot be cancelled: a stream
 * that does not finish after a cancel is abandoned. */
#include "stage/cuda/device_cuda.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stage/clock.h"
#include "stage/cpus.h"
#include "stage/cuda/cuda_call.h"
#include "stage/heartbeat.h"
#include "stage/log.h"

#define SPIN_NS 20000u                  /* how long a wait polls continuously before it sleeps */
#define NAP_NS 20000
#define DRAIN_NS 1000000000u            /* time for a stream to finish after a cancel */

struct cuda_device {
    struct device base;
    char name[16];
    int ordinal;
    int node;                           /* nearest NUMA node, -1: unknown */
    int low, high;                      /* lowest and highest stream priority */
    cudaStream_t setup;                 /* stream that zeroes new memory */
    atomic_bool cancelled;
    atomic_bool is_stuck;               /* the work of a stream was abandoned */
    atomic_uint opened;                 /* number of open streams and events */
};

static inline struct cuda_device *cuda_device_of(struct device *device)
{
    return (struct cuda_device *)device;
}

int cuda_ordinal(struct device *device)
{
    return cuda_device_of(device)->ordinal;
}

const char *cuda_name(struct device *device)
{
    return cuda_device_of(device)->name;
}

/* Only this function changes the current device on the program's threads, so it can be cached. */
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

/* ---- finding devices ---- */

static int version_of(cudaError_t (*ask)(int *version_out))
{
    int version = 0;
    return ask(&version) == cudaSuccess ? version : 0;
}

/* Write a version, 1000 * major + 10 * minor, as "12.4"; 0 is an unknown version. */
static void put_version(int version, char *text, size_t text_size)
{
    if (version > 0)
        snprintf(text, text_size, "%d.%d", version / 1000, version % 1000 / 10);
    else
        snprintf(text, text_size, "?");
}

static void put_runtime(char *text, size_t text_size)
{
    put_version(version_of(cudaRuntimeGetVersion), text, text_size);
}

static void put_driver(char *text, size_t text_size)
{
    put_version(version_of(cudaDriverGetVersion), text, text_size);
}

static const struct library cuda_libraries[] = { { "CUDA", put_runtime, "libcudart.so" },
                                                 { "CUDA driver", put_driver, "libcuda.so" },
                                                 { NULL, NULL, NULL } };

static void explain_driver(char *why, size_t why_size)
{
    const int driver = version_of(cudaDriverGetVersion), runtime = version_of(cudaRuntimeGetVersion);
    if (driver == 0)
        snprintf(why, why_size, "no CUDA driver is installed");
    else
        snprintf(why, why_size, "the driver is for CUDA up to %d.%d, this program needs CUDA %d.%d",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

static void explain_absence(char *why, size_t why_size)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char escaped[128];
    if (visible == NULL) {
        snprintf(why, why_size, "the CUDA driver finds no device");
        return;
    }
    log_escape(visible, strlen(visible), escaped, sizeof(escaped));
    snprintf(why, why_size, "the CUDA driver finds no device with CUDA_VISIBLE_DEVICES=\"%s\"", escaped);
}

static void explain(cudaError_t status, char *why, size_t why_size)
{
    if (status == cudaErrorInsufficientDriver)
        explain_driver(why, why_size);
    else if (status == cudaSuccess || status == cudaErrorNoDevice)
        explain_absence(why, why_size);
    else
        snprintf(why, why_size, "%s (%s)", cudaGetErrorString(status), cudaGetErrorName(status));
}

/* Does the program have kernels for all devices, as machine code or PTX? */
static bool are_new_enough(int count, char *why, size_t why_size)
{
    for (int i = 0; i < count; i++) {
        int major = 0, minor = 0;
        if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) != cudaSuccess ||
            cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i) != cudaSuccess ||
            10 * major + minor >= CUDA_ARCH_LEAST)
            continue;
        snprintf(why, why_size, "device %d has compute capability %d.%d and this program is built for %d.%d and newer "
                 "(configure's CUDA_ARCHS; CUDA_VISIBLE_DEVICES hides devices)",
                 i, major, minor, CUDA_ARCH_LEAST / 10, CUDA_ARCH_LEAST % 10);
        return false;
    }
    return true;
}

static uint32_t cuda_count(char *why, size_t why_size)
{
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0 && !are_new_enough(count, why, why_size))
        return 0;
    if (status == cudaSuccess && count > 0) {
        snprintf(why, why_size, "%s", "");
        return (uint32_t)count;
    }
    explain(status, why, why_size);
    cudaGetLastError();                 /* reset the error that the runtime keeps for this thread */
    return 0;
}

/* Count the files called nvidia0, nvidia1, and so on. */
static uint32_t device_files(const char *folder)
{
    uint32_t count = 0;
    DIR *const files = opendir(folder);
    if (files == NULL)
        return 0;
    for (const struct dirent *file; (file = readdir(files)) != NULL;)
        if (strncmp(file->d_name, "nvidia", 6) == 0 && isdigit((unsigned char)file->d_name[6]))
            count++;
    closedir(files);
    return count;
}

uint32_t cuda_count_at_most(const char *folder)
{
    const uint32_t files = device_files(folder);
    const char *const visible = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t names = 1;
    for (const char *at = visible; at != NULL && (at = strchr(at, ',')) != NULL; at++)
        names++;
    const uint32_t most = files > 0 ? files : UINT32_MAX;
    return visible != NULL && names < most ? names : most;
}

static bool cuda_reaches(uint32_t index, uint32_t other)
{
    int can_access = 0;
    char name[16];
    if (index == other)
        return true;
    snprintf(name, sizeof(name), "cuda%u", index);
    const int rc = CUDA_CALL(name, cudaDeviceCanAccessPeer(&can_access, (int)index, (int)other));
    return !rc && can_access;
}

/* ---- streams and events ---- */

struct cuda_stream {
    struct stream base;
    char name[16];
    bool is_abandoned;                  /* its work did not finish after a cancel; logged once */
    cudaStream_t stream;
};

struct cuda_event {
    struct event base;
    enum event_kind kind;
    atomic_bool recorded;
    cudaEvent_t event;
};

static bool is_cancelled(struct device *device)
{
    return atomic_load(&cuda_device_of(device)->cancelled);
}

cudaStream_t cuda_stream_of(struct stream *stream)
{
    return ((struct cuda_stream *)stream)->stream;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Called between two polls of a wait that began at begun_ns. */
static void poll_pause(uint64_t begun_ns)
{
    if (clock_now_ns() - begun_ns < SPIN_NS)
        pause_briefly();
    else
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

/* cudaErrorNotReady is not an error, but the runtime keeps it as the thread's last one, so reset it. */
static cudaError_t clear_not_ready(cudaError_t status)
{
    if (status == cudaErrorNotReady)
        cudaGetLastError();
    return status;
}

static int cuda_stream_open(struct device *base, enum stream_role role, const char *name, struct stream **stream_out)
{
    struct cuda_device *device = cuda_device_of(base);
    struct cuda_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return -ENOMEM;
    stream->base.device = base;
    snprintf(stream->name, sizeof(stream->name), "%s", name);
    /* Communication has the higher priority, as other devices wait for it. */
    const int priority = role == STREAM_COMMUNICATION ? device->high : device->low;
    int rc = cuda_enter(base);
    if (!rc)
        rc = CUDA_CALL(device->name, cudaStreamCreateWithPriority(&stream->stream, cudaStreamNonBlocking,
                                                                  priority));
    if (rc) {
        free(stream);
        return rc;
    }
    atomic_fetch_add(&device->opened, 1);
    *stream_out = &stream->base;
    return 0;
}

static cudaError_t query_stream(const struct cuda_stream *stream)
{
    return clear_not_ready(HEARTBEAT_CALL("cudaStreamQuery", cudaStreamQuery(stream->stream)));
}

/* Wait until the queued work has finished or failed. After a cancel, wait at most DRAIN_NS, and only for the first
 * stream of a device: whatever blocks that stream blocks the others too. False if the work did not finish. */
static bool work_ends(struct cuda_stream *stream)
{
    const uint64_t begun_ns = clock_now_ns();
    const uint64_t patience_ns = atomic_load(&cuda_device_of(stream->base.device)->is_stuck) ? 0 : DRAIN_NS;
    uint64_t cancelled_ns = 0;
    cudaError_t status;
    heartbeat_begin_wait("waiting for the end of its stream");
    while ((status = query_stream(stream)) == cudaErrorNotReady) {
        if (cancelled_ns == 0 && is_cancelled(stream->base.device))
            cancelled_ns = clock_now_ns();
        if (cancelled_ns != 0 && clock_now_ns() - cancelled_ns > patience_ns)
            break;
        poll_pause(begun_ns);
    }
    heartbeat_end_wait();
    if (status == cudaErrorNotReady)
        return false;
    cuda_check(status, cuda_name(stream->base.device), "cudaStreamQuery");
    return true;
}

static bool drain_stream(struct cuda_stream *stream)
{
    if (stream->is_abandoned || work_ends(stream))
        return !stream->is_abandoned;
    stream->is_abandoned = true;
    atomic_store(&heartbeat_abandoned_work, true);
    atomic_store(&cuda_device_of(stream->base.device)->is_stuck, true);
    log_message(LOG_ERROR, "%s: the work on stream %s does not end: it is left behind", cuda_name(stream->base.device),
                stream->name);
    return false;
}

static void cuda_stream_drain(struct stream *base)
{
    if (cuda_enter(base->device) == 0)
        drain_stream((struct cuda_stream *)base);
}

static void cuda_stream_close(struct stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    if (stream == NULL)
        return;
    struct cuda_device *device = cuda_device_of(base->device);
    if (cuda_enter(base->device) == 0 && drain_stream(stream))
        CUDA_CALL(device->name, cudaStreamDestroy(stream->stream));
    atomic_fetch_sub(&device->opened, 1);
    free(stream);
}

int cuda_stream_enter(struct stream *stream)
{
    return is_cancelled(stream->device) ? -ECANCELED : cuda_enter(stream->device);
}

static int cuda_stream_copy(struct stream *stream, void *to, const void *from, size_t bytes,
                            enum copy_direction direction)
{
    static const enum cudaMemcpyKind kinds[] = {
        [COPY_TO_DEVICE] = cudaMemcpyHostToDevice,
        [COPY_FROM_DEVICE] = cudaMemcpyDeviceToHost,
        [COPY_ON_DEVICE] = cudaMemcpyDeviceToDevice,
    };
    const int rc = cuda_stream_enter(stream);
    if (rc || bytes == 0)
        return rc;
    return CUDA_CALL(cuda_name(stream->device),
                     cudaMemcpyAsync(to, from, bytes, kinds[direction], cuda_stream_of(stream)));
}

static int cuda_stream_call(struct stream *stream, void (*call)(void *arg), void *arg)
{
    const int rc = cuda_stream_enter(stream);
    return rc ? rc : CUDA_CALL(cuda_name(stream->device),
                               cudaLaunchHostFunc(cuda_stream_of(stream), call, arg));
}

static int cuda_event_open(struct device *device, enum event_kind kind, struct event **event_out)
{
    struct cuda_event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        return -ENOMEM;
    event->base.device = device;
    event->kind = kind;
    const unsigned flags = kind == EVENT_ORDER ? cudaEventDisableTiming : cudaEventDefault;
    int rc = cuda_enter(device);
    if (!rc)
        rc = CUDA_CALL(cuda_name(device), cudaEventCreateWithFlags(&event->event, flags));
    if (rc) {
        free(event);
        return rc;
    }
    atomic_fetch_add(&cuda_device_of(device)->opened, 1);
    *event_out = &event->base;
    return 0;
}

static void cuda_event_close(struct event *base)
{
    struct cuda_event *event = (struct cuda_event *)base;
    if (event == NULL)
        return;
    if (cuda_enter(base->device) == 0)
        CUDA_CALL(cuda_name(base->device), cudaEventDestroy(event->event));
    atomic_fetch_sub(&cuda_device_of(base->device)->opened, 1);
    free(event);
}

static int cuda_stream_record(struct stream *stream, struct event *base)
{
    struct cuda_event *event = (struct cuda_event *)base;
    int rc = cuda_stream_enter(stream);
    if (!rc)
        rc = CUDA_CALL(cuda_name(stream->device), cudaEventRecord(event->event, cuda_stream_of(stream)));
    if (!rc)
        atomic_store(&event->recorded, true);
    return rc;
}

static int cuda_stream_wait(struct stream *stream, struct event *base)
{
    const struct cuda_event *event = (struct cuda_event *)base;
    const int rc = cuda_stream_enter(stream);
    return rc ? rc : CUDA_CALL(cuda_name(stream->device),
                               cudaStreamWaitEvent(cuda_stream_of(stream), event->event, cudaEventWaitDefault));
}

static cudaError_t query_event(const struct event *base)
{
    const struct cuda_event *event = (const struct cuda_event *)base;
    return clear_not_ready(HEARTBEAT_CALL("cudaEventQuery", cudaEventQuery(event->event)));
}

/* Poll until the event has passed or the device is cancelled. What passes after a cancel does not count, because waits
 * of streams for other processes are ended then (sync/cuda/reduce_ipc.c). */
static cudaError_t await_event(const struct event *base)
{
    const uint64_t begun_ns = clock_now_ns();
    cudaError_t status = cudaErrorNotReady;
    heartbeat_begin_wait("waiting for an event");
    while (!is_cancelled(base->device) && (status = query_event(base)) == cudaErrorNotReady)
        poll_pause(begun_ns);
    heartbeat_end_wait();
    return status == cudaSuccess && is_cancelled(base->device) ? cudaErrorNotReady : status;
}

static int cuda_event_wait(struct event *base)
{
    const int rc = cuda_enter(base->device);
    if (rc)
        return rc;
    const cudaError_t status = await_event(base);
    return status == cudaErrorNotReady ? -ECANCELED : cuda_check(status, cuda_name(base->device), "cudaEventQuery");
}

/* After an error an event counts as passed, as there is nothing to wait for; the next call reports the error. */
static bool cuda_event_passed(struct event *base)
{
    return cuda_enter(base->device) != 0 || query_event(base) != cudaErrorNotReady;
}

static int cuda_event_elapsed(struct event *from_base, struct event *to_base, uint64_t *elapsed_ns_out)
{
    struct cuda_event *from = (struct cuda_event *)from_base, *to = (struct cuda_event *)to_base;
    assert(from_base->device == to_base->device && from->kind == EVENT_TIMED && to->kind == EVENT_TIMED);
    if (!atomic_load(&from->recorded) || !atomic_load(&to->recorded))
        return -EAGAIN;
    float elapsed_ms;
    int rc = cuda_enter(from_base->device);
    if (rc)
        return rc;
    const cudaError_t status = clear_not_ready(HEARTBEAT_CALL("cudaEventElapsedTime",
                                                     cudaEventElapsedTime(&elapsed_ms, from->event, to->event)));
    if (status == cudaErrorNotReady)
        return -EAGAIN;
    rc = cuda_check(status, cuda_name(from_base->device), "cudaEventElapsedTime");
    if (!rc)
        *elapsed_ns_out = elapsed_ms > 0 ? (uint64_t)((double)elapsed_ms * 1e6) : 0;
    return rc;
}

/* ---- the device ---- */

static int device_prepare(struct cuda_device *device)
{
    int rc = cuda_enter(&device->base);
    if (!rc)
        rc = CUDA_CALL(device->name, cudaDeviceGetStreamPriorityRange(&device->low, &device->high));
    if (!rc)
        rc = CUDA_CALL(device->name, cudaStreamCreateWithPriority(&device->setup, cudaStreamNonBlocking,
                                                                  device->low));
    if (!rc && cudaDeviceGetAttribute(&device->node, cudaDevAttrHostNumaId, device->ordinal) != cudaSuccess) {
        cudaGetLastError();             /* the driver does not support this attribute */
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
        cudaGetLastError();             /* reset the error that the runtime keeps for this thread */
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
    cudaGetLastError();                 /* reset the error that the runtime keeps for this thread */
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
    cpus_bind_to_node(cuda_device_of(device)->node, &before);
}

/* ---- memory ---- */

/* Check the status of allocating `bytes` bytes. */
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

/* Abandoned work may still access any memory of the process, so after it no memory is freed. */
static bool may_free(struct device *device, void *memory)
{
    return memory != NULL && cuda_enter(device) == 0 && !atomic_load(&heartbeat_abandoned_work);
}

static void cuda_free(struct device *device, void *memory)
{
    if (may_free(device, memory))
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
    if (may_free(device, memory))
        CUDA_CALL(cuda_name(device), cudaFreeHost(memory));
}

/* Linux places a page on the NUMA node of the CPU that first touches it. */
static int cuda_alloc_pinned(struct device *device, size_t bytes, void **memory_out)
{
    void *memory = NULL;
    cpu_set_t before;
    const size_t taken = bytes ? bytes : 1;
    int rc = cuda_enter(device);
    if (rc)
        return rc;
    const bool is_bound = cpus_bind_to_node(cuda_device_of(device)->node, &before);
    rc = check_allocation(HEARTBEAT_CALL("cudaHostAlloc", cudaHostAlloc(&memory, taken, cudaHostAllocPortable)), device,
                          "cudaHostAlloc", taken);
    if (!rc) {
        memset(memory, 0, taken);
        *memory_out = memory;
    }
    if (is_bound)
        cpus_restore(&before);
    return rc;
}

static int cuda_pin(struct device *device, void *memory, size_t bytes)
{
    const int rc = cuda_enter(device);
    return rc ? rc : check_allocation(HEARTBEAT_CALL("cudaHostRegister", cudaHostRegister(memory, bytes,
                                                     cudaHostRegisterPortable | cudaHostRegisterMapped)),
                                      device, "cudaHostRegister", bytes);
}

static void cuda_unpin(struct device *device, void *memory)
{
    if (may_free(device, memory))
        CUDA_CALL(cuda_name(device), cudaHostUnregister(memory));
}

static void cuda_cancel(struct device *device)
{
    atomic_store(&cuda_device_of(device)->cancelled, true);
}

/* With CUDA_LAUNCH_BLOCKING every launch blocks until the kernel has ended, so streams that wait for each other may
 * deadlock. */
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
    .pin = cuda_pin,
    .unpin = cuda_unpin,
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
