/* Devices behind one table of operations: memory, pinned memory, streams, events,
 * copies. The rest of the program does not know which device it drives.
 *
 * A stream runs what is queued on it in order. A copy or communication stream runs
 * beside the thread that queues. The compute stream belongs to the tower's thread:
 * on the host device it is inline (the thread itself runs each operation, and
 * stream_wait blocks it), on CUDA it is a stream like the others. An event is a
 * point in a stream; waiting on an event means its latest record at the time of the
 * call, and an event never recorded counts as passed. Every passed record has a time. */
#ifndef PIPETRAIN_DEVICE_H
#define PIPETRAIN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stream_role { STREAM_COMPUTE, STREAM_COPY, STREAM_COMMUNICATION };
enum copy_direction { COPY_TO_DEVICE, COPY_FROM_DEVICE, COPY_ON_DEVICE };

struct device_spec {
    uint32_t index;             /* of the device among those of its kind */
    const char *name;           /* for messages and thread names, e.g. "cpu0" */
};

struct device;
struct stream;
struct event;

struct device_ops {
    const char *kind;           /* "host", "null", "cuda" */
    int (*open)(struct device **device_out, const struct device_spec *spec);
    void (*close)(struct device *device);
    /* One line for people: what the device is and its memory. */
    void (*describe)(struct device *device, char *text, size_t text_size);
    /* Zeroed, 64-byte aligned memory of the device / of the host for copies. */
    int (*alloc)(struct device *device, size_t bytes, void **memory_out);
    void (*free)(struct device *device, void *memory);
    int (*alloc_pinned)(struct device *device, size_t bytes, void **memory_out);
    void (*free_pinned)(struct device *device, void *memory);
    int (*stream_open)(struct device *device, enum stream_role role, const char *name, struct stream **stream_out);
    void (*stream_close)(struct stream *stream);        /* drains first */
    int (*event_open)(struct device *device, struct event **event_out);
    void (*event_close)(struct event *event);
    int (*record)(struct stream *stream, struct event *event);
    int (*stream_wait)(struct stream *stream, struct event *event);
    int (*copy)(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction);
    /* Queue call(arg), run by the stream in order (host code: reductions on the host). */
    int (*call)(struct stream *stream, void (*call)(void *arg), void *arg);
    /* The calling thread waits for the event's latest record. 0, or -ECANCELED
     * when the device was cancelled. */
    int (*event_wait)(struct event *event);
    bool (*event_passed)(struct event *event);
    /* When the latest record passed, on the device's own clock in ns (host: clock_now_ns).
     * -EAGAIN while it has not. */
    int (*event_time)(struct event *event, uint64_t *time_ns_out);
    /* Every wait on this device ends now, queued work is dropped. Fits stop_on_failure
     * through device_cancel. */
    void (*cancel)(struct device *device);
};

/* Every implementation's objects begin with these. */
struct device { const struct device_ops *ops; };
struct stream { struct device *device; };
struct event { struct device *device; };

extern const struct device_ops device_host_ops;
/* As host, but copies move nothing: what the loader alone can do. */
extern const struct device_ops device_null_ops;

/* The table named `kind` ("cpu" is "host"), or NULL. */
const struct device_ops *device_find(const char *kind);

void device_cancel(void *device);   /* device->ops->cancel, as a closer */

static inline int stream_record(struct stream *stream, struct event *event)
{
    return stream->device->ops->record(stream, event);
}
static inline int stream_wait(struct stream *stream, struct event *event)
{
    return stream->device->ops->stream_wait(stream, event);
}

#endif
