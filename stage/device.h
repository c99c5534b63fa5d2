/* Devices through one table of operations: memory, pinned memory, streams, events, copies. The rest of the program does
 * not depend on the kind of device.
 *
 * A stream executes its queue in order. Copy and communication streams run in parallel to the thread that queues. The
 * compute stream belongs to the tower's thread: on the host device it is inline (the thread itself executes each
 * operation, and stream_wait blocks it), on CUDA it is a stream like the others. An event is a point in a stream. A
 * wait for an event is for its latest record at the time of the call; an event that was never recorded counts as
 * passed. Timed events also measure the device time between two events; events that only synchronise are cheaper. */
#ifndef PIPETRAIN_DEVICE_H
#define PIPETRAIN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/library.h"

enum stream_role { STREAM_COMPUTE, STREAM_COPY, STREAM_COMMUNICATION };
enum event_kind { EVENT_ORDER, EVENT_TIMED };
enum copy_direction { COPY_TO_DEVICE, COPY_FROM_DEVICE, COPY_ON_DEVICE };

struct device_spec {
    uint32_t index;             /* among the devices of its kind, below count() */
    const char *name;           /* for messages and thread names, e.g. "cpu0" */
};

struct device;
struct stream;
struct event;

/* Why an implementation (a device, a backend, a reduction) does not support a configuration, as a message for the
 * user. */
struct unsupported_reason {
    const char *what;           /* the setting that is not supported, as "precision"; or "" */
    char why[256];
};

/* Set the reason and return rc: -EINVAL (settings contradict each other) or -ENODEV (the hardware does not support
 * them). */
int unsupported_reason_set(struct unsupported_reason *reason, int rc, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A device's properties, for messages and the summary of a run. */
struct device_description {
    char name[128];             /* "NVIDIA H200", or the name of the processor */
    char more[64];              /* "compute capability 9.0", "2 CPUs" */
    uint64_t memory_bytes;      /* total memory */
    char bus[16];               /* PCI address in the kernel's format, "0000:1b:00.0"; "" if it has none */
};

struct device_ops {
    const char *kind;           /* "cpu", "null", "cuda" */
    const struct library *libraries;    /* libraries that the device uses; NULL: none */
    bool host_memory;           /* device memory is host memory, which host code can access */
    uint32_t steps_ahead;       /* useful number of steps to queue after the current one; 0 if the compute stream is
                                 * inline */
    /* The number of devices of this kind; if 0, `why` is the reason (otherwise ""). Prints nothing. Main calls it
     * before all other functions and before it starts threads. A device may be opened more than once, so that several
     * towers can share it. */
    uint32_t (*count)(char *why, size_t why_size);
    /* Can device `index` access the memory of device `other`? */
    bool (*reaches)(uint32_t index, uint32_t other);
    /* Can `count` devices be used together in this environment? 0, or -ENODEV with the reason. */
    int (*supports)(uint32_t count, struct unsupported_reason *reason);
    /* Give copies and kernels of `device` access to the memory of `other`; reaches() is true for the two. 0, or a
     * negative errno after a message. */
    int (*connect)(struct device *device, struct device *other);
    int (*open)(struct device **device_out, const struct device_spec *spec);
    void (*close)(struct device *device);
    /* Describe device `index`, which does not have to be open. 0 or a negative errno. Prints nothing. */
    int (*describe)(uint32_t index, struct device_description *description_out);
    /* Query the bytes that can still be allocated, and the total. */
    int (*memory)(struct device *device, size_t *free_out, size_t *total_out);
    /* Bind the calling thread to the CPUs nearest to the device, within the thread's affinity. Does nothing for devices
     * without nearest CPUs. */
    void (*bind)(struct device *device);
    /* Allocate zeroed, 64-byte aligned memory: device memory, or pinned host memory for copies. */
    int (*alloc)(struct device *device, size_t bytes, void **memory_out);
    void (*free)(struct device *device, void *memory);
    int (*alloc_pinned)(struct device *device, size_t bytes, void **memory_out);
    void (*free_pinned)(struct device *device, void *memory);
    /* Pin host memory that is not from alloc_pinned, whole pages of it, so that copies of all devices of the process
     * run while the host goes on. Once for each range, until unpin. 0 or a negative errno after a message. */
    int (*pin)(struct device *device, void *memory, size_t bytes);
    void (*unpin)(struct device *device, void *memory);
    int (*stream_open)(struct device *device, enum stream_role role, const char *name, struct stream **stream_out);
    void (*stream_close)(struct stream *stream);        /* drains the stream first */
    /* Wait until no queued work accesses memory any more. After a cancel, wait at most a second for work that cannot be
     * cancelled. */
    void (*stream_drain)(struct stream *stream);
    int (*event_open)(struct device *device, enum event_kind kind, struct event **event_out);
    void (*event_close)(struct event *event);
    int (*record)(struct stream *stream, struct event *event);
    int (*stream_wait)(struct stream *stream, struct event *event);
    int (*copy)(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction);
    /* Queue call(arg): host code that the stream executes in order (reductions on the host). It must not use the
     * device. */
    int (*call)(struct stream *stream, void (*call)(void *arg), void *arg);
    /* Block the calling thread until the event's latest record has passed. 0, -ECANCELED if the device was cancelled,
     * or -EIO if it failed. */
    int (*event_wait)(struct event *event);
    bool (*event_passed)(struct event *event);
    /* Device time from the latest record of one timed event to that of another one of the same device; 0 if they passed
     * in the opposite order. -EAGAIN if one of them has not passed yet. */
    int (*event_elapsed)(struct event *from, struct event *to, uint64_t *elapsed_ns_out);
    /* End every wait on this device and refuse new work. Queued work is dropped where possible. A GPU continues to
     * execute it: closing a stream then waits for at most a second; after that the stream is abandoned, and memory is
     * no longer freed. Any thread, never blocks. device_cancel is the closer for stop_on_failure. */
    void (*cancel)(struct device *device);
};

/* The objects of every implementation begin with these structs. */
struct device { const struct device_ops *ops; };
struct stream { struct device *device; };
struct event { struct device *device; };

extern const struct device_ops device_host_ops;
/* As the host device, but copies do nothing: for measuring the loader alone. */
extern const struct device_ops device_null_ops;
/* GPUs through the CUDA runtime. Only in builds with CUDA. */
extern const struct device_ops device_cuda_ops;

/* The kinds of devices, the preferred one first; the last row has no name. */
struct device_kind {
    const char *name;
    const struct device_ops *ops;       /* NULL: not built in */
};
extern const struct device_kind device_kinds[];
/* The operations of the kind named `kind`, or NULL. */
const struct device_ops *device_find(const char *kind);
/* ops->count; 0 with a reason if the kind is not built in. */
uint32_t device_kind_count(const struct device_kind *kind, char *why, size_t why_size);

void device_cancel(void *device);   /* device->ops->cancel, as a closer for stop_on_failure */

static inline int stream_record(struct stream *stream, struct event *event)
{
    return stream->device->ops->record(stream, event);
}
static inline int stream_wait(struct stream *stream, struct event *event)
{
    return stream->device->ops->stream_wait(stream, event);
}
static inline void event_close(struct event *event)     /* accepts NULL */
{
    if (event != NULL)
        event->device->ops->event_close(event);
}
static inline int event_wait(struct event *event)
{
    return event->device->ops->event_wait(event);
}

#endif
