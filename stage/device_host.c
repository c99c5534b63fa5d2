/* Devices in host memory: "cpu" and "null". They differ only in that copies on the null device do nothing, so a run on
 * it measures the loader and the feeding of towers. Streams and events are in host_stream.c. */
#include "stage/host_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#define HOST_ALIGN 64u
#define HUGE_PAGE ((size_t)2 << 20)

/* Any number of devices can be opened: each is a share of the host. */
static uint32_t host_count(char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", "");
    return UINT32_MAX;
}

static bool host_reaches(uint32_t index, uint32_t other)
{
    (void)index;
    (void)other;
    return true;
}

static int host_supports(uint32_t count, struct unsupported_reason *reason)
{
    (void)count, (void)reason;
    return 0;
}

static int host_connect(struct device *device, struct device *other)
{
    (void)device, (void)other;
    return 0;
}

static int host_pin(struct device *device, void *memory, size_t bytes)
{
    (void)device, (void)memory, (void)bytes;
    return 0;
}

static void host_unpin(struct device *device, void *memory)
{
    (void)device, (void)memory;
}

static int host_open(struct device **device_out, const struct device_ops *ops)
{
    struct host_device *device = calloc(1, sizeof(*device));
    if (device == NULL)
        return -ENOMEM;
    device->base.ops = ops;
    atomic_init(&device->cancelled, false);
    pthread_mutex_init(&device->lock, NULL);
    LIST_INIT(&device->streams);
    LIST_INIT(&device->events);
    *device_out = &device->base;
    return 0;
}

static void host_close(struct device *base)
{
    struct host_device *device = host_device_of(base);
    if (device == NULL)
        return;
    assert(LIST_EMPTY(&device->streams) && LIST_EMPTY(&device->events));
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* Find the processor's name as the kernel reports it, or else the machine type. */
static void find_processor(char *name, size_t name_size)
{
    struct utsname machine;
    snprintf(name, name_size, "%s", uname(&machine) == 0 ? machine.machine : "processor");
    FILE *const file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    char line[256], model[128];
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "model name : %127[^\n]", model) != 1)
            continue;
        snprintf(name, name_size, "%s", model);
        break;
    }
    fclose(file);
}

static int host_describe(uint32_t index, struct device_description *description_out)
{
    (void)index;
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    find_processor(description_out->name, sizeof(description_out->name));
    snprintf(description_out->more, sizeof(description_out->more), "%ld CPU%s", cpus, cpus == 1 ? "" : "s");
    description_out->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    description_out->bus[0] = '\0';
    return 0;
}

/* The kernel's estimate of memory available without swapping, or else the free memory. */
static size_t available_bytes(void)
{
    size_t bytes = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    FILE *const file = fopen("/proc/meminfo", "re");
    if (file == NULL)
        return bytes;
    char line[128];
    unsigned long long kib;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            bytes = (size_t)kib * 1024;
    }
    fclose(file);
    return bytes;
}

static int host_memory(struct device *device, size_t *free_out, size_t *total_out)
{
    (void)device;
    *free_out = available_bytes();
    *total_out = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return 0;
}

/* All CPUs are equally near to host memory. */
static void host_bind(struct device *device)
{
    (void)device;
}

static int host_alloc(struct device *device, size_t bytes, void **memory_out)
{
    (void)device;
    const bool is_big = bytes >= HUGE_PAGE;
    void *memory = NULL;
    const int error = posix_memalign(&memory, is_big ? HUGE_PAGE : HOST_ALIGN, bytes ? bytes : 1);
    if (error)
        return -error;
    if (is_big)
        madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);  /* only a hint: the kernel may refuse it */
    memset(memory, 0, bytes);
    *memory_out = memory;
    return 0;
}

static void host_free(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static int cpu_open(struct device **device_out, const struct device_spec *spec)
{
    (void)spec;
    return host_open(device_out, &device_host_ops);
}

static int null_open(struct device **device_out, const struct device_spec *spec)
{
    (void)spec;
    return host_open(device_out, &device_null_ops);
}

/* Queue a copy of 0 bytes, so that order and events are as with a real copy. */
static int null_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction)
{
    (void)bytes;
    return host_copy(stream, to, from, 0, direction);
}

/* The operations that both devices share. */
#define HOST_OPS \
    .host_memory = true, \
    .count = host_count, \
    .reaches = host_reaches, \
    .supports = host_supports, \
    .connect = host_connect, \
    .close = host_close, \
    .describe = host_describe, \
    .memory = host_memory, \
    .bind = host_bind, \
    .alloc = host_alloc, \
    .free = host_free, \
    .alloc_pinned = host_alloc, \
    .free_pinned = host_free, \
    .pin = host_pin, \
    .unpin = host_unpin, \
    .stream_open = host_stream_open, \
    .stream_close = host_stream_close, \
    .stream_drain = host_stream_drain, \
    .event_open = host_event_open, \
    .event_close = host_event_close, \
    .record = host_record, \
    .stream_wait = host_stream_wait, \
    .call = host_call, \
    .event_wait = host_event_wait, \
    .event_passed = host_event_passed, \
    .event_elapsed = host_event_elapsed, \
    .cancel = host_cancel

const struct device_ops device_host_ops = { .kind = "cpu", .open = cpu_open, .copy = host_copy, HOST_OPS };
const struct device_ops device_null_ops = { .kind = "null", .open = null_open, .copy = null_copy, HOST_OPS };
