/* Devices behind one table of operations: memory, pinned memory, streams, events, copies. The rest of the program does
 * not know which device it drives.
 *
 * A stream runs what is queued on it in order. A copy or communication stream runs in parallel to the thread that
 * queues. The compute stream belongs to the tower's thread: on the host device it is inline (the thread itself runs
 * each operation, and stream_wait blocks it), on CUDA it is a stream like the others. An event is a point in a
 * stream; waiting on an event means its latest record at the time of the call, and an event never recorded counts as
 * passed. Timed events also measure the device time between two of them; events for order alone are cheaper. */
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

/* Why an implementation (a device, a backend, a reduction) does not support a configuration, in words for the user. */
struct unsupported_reason {
    const char *what;           /* the setting in question, "precision"; or "" */
    char why[256];
};

/* Fill in the reason and return rc: -EINVAL (settings contradict each other) or -ENODEV (the hardware cannot do it). */
int unsupported_reason_set(struct unsupported_reason *reason, int rc, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* For people and for the summary of a run. */
struct device_description {
    char name[128];             /* "NVIDIA H200", or the processor's */
    char more[64];              /* "compute capability 9.0", "2 CPUs" */
    uint64_t memory_bytes;      /* in total */
    char bus[16];               /* PCI address as the kernel writes it, "0000:1b:00.0"; "" without one */
};

struct device_ops {
    const char *kind;           /* "cpu", "null", "cuda" */
    const struct library *libraries;    /* used, NULL: none */
    bool host_memory;           /* device memory is host memory: host code may use it */
    uint32_t steps_ahead;       /* steps worth queueing beyond the one that is computed; 0 if the compute
                                 * stream is inline */
    /* How many devices of this kind there are; 0 with the reason in `why` ("" otherwise). Prints nothing. The first
     * call of all, from main before it starts threads. A device may be opened more than once: several towers may
     * share it. */
    uint32_t (*count)(char *why, size_t why_size);
    /* Whether device `index` can use the memory of device `other`. */
    bool (*reaches)(uint32_t index, uint32_t other);
    /* Whether `count` devices can be used together in this environment. 0, or -ENODEV with the reason. */
    int (*supports)(uint32_t count, struct unsupported_reason *reason);
    /* Let copies and kernels of `device` use memory of `other`, which it reaches. 0, or a negative errno after a
     * message. */
    int (*connect)(struct device *device, struct device *other);
    int (*open)(struct device **device_out, const struct device_spec *spec);
    void (*close)(struct device *device);
    /* Describe device `index`, which need not be open. 0 or a negative errno. Prints nothing. */
    int (*describe)(uint32_t index, struct device_description *description_out);
    /* Bytes that can still be allocated, and bytes in total. */
    int (*memory)(struct device *device, size_t *free_out, size_t *total_out);
    /* Bind the calling thread to the CPUs next to the device, within its affinity. Does nothing where that has no
     * meaning. */
    void (*bind)(struct device *device);
    /* Zeroed, 64-byte aligned memory: of the device, or of the host for copies. */
    int (*alloc)(struct device *device, size_t bytes, void **memory_out);
    void (*free)(struct device *device, void *memory);
    int (*alloc_pinned)(struct device *device, size_t bytes, void **memory_out);
    void (*free_pinned)(struct device *device, void *memory);
    int (*stream_open)(struct device *device, enum stream_role role, const char *name, struct stream **stream_out);
    void (*stream_close)(struct stream *stream);        /* drains first */
    /* Wait until no queued work uses memory any more. Also after a cancel: waits up to a second for work that cannot be
     * taken back. */
    void (*stream_drain)(struct stream *stream);
    int (*event_open)(struct device *device, enum event_kind kind, struct event **event_out);
    void (*event_close)(struct event *event);
    int (*record)(struct stream *stream, struct event *event);
    int (*stream_wait)(struct stream *stream, struct event *event);
    int (*copy)(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction);
    /* Queue call(arg), host code that the stream runs in order (reductions on the host). It must not use the device. */
    int (*call)(struct stream *stream, void (*call)(void *arg), void *arg);
    /* The calling thread waits for the event's latest record. 0, -ECANCELED when the device
     * was cancelled, or -EIO when it failed. */
    int (*event_wait)(struct event *event);
    bool (*event_passed)(struct event *event);
    /* Device time from the latest record of one timed event to that of another of the same device, 0 when they
     * passed in the other order. -EAGAIN while one has not passed. */
    int (*event_elapsed)(struct event *from, struct event *to, uint64_t *elapsed_ns_out);
    /* End every wait on this device and refuse more work. Queued work is dropped where possible; on a GPU it
     * continues, and closing a stream waits for it for a second: after that the stream is abandoned, and memory is
     * no longer freed. Any thread, never blocks. Fits stop_on_failure through device_cancel. */
    void (*cancel)(struct device *device);
};

/* Every implementation's objects begin with these. */
struct device { const struct device_ops *ops; };
struct stream { struct device *device; };
struct event { struct device *device; };

extern const struct device_ops device_host_ops;
/* As the host device, but copies move nothing: measures the loader alone. */
extern const struct device_ops device_null_ops;
/* GPUs, through the CUDA runtime. Only in programs built with CUDA. */
extern const struct device_ops device_cuda_ops;

/* The kinds of devices, the most desirable first; the last row has no name. */
struct device_kind {
    const char *name;
    const struct device_ops *ops;       /* NULL: not built in */
};
extern const struct device_kind device_kinds[];
/* The table named `kind`, or NULL. */
const struct device_ops *device_find(const char *kind);
/* ops->count; 0 with a reason if the kind is not built in. */
uint32_t device_kind_count(const struct device_kind *kind, char *why, size_t why_size);

void device_cancel(void *device);   /* device->ops->cancel, as a closer */

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
