/* Streams and events of devices in host memory. Private to host_stream.c and device_host.c; all other code uses struct
 * device_ops.
 *
 * Every stream and every event has its own lock. Only cancelling holds several locks, always in the order device,
 * stream, event: a thread that has already noticed the end must not close an object that is still to be woken. */
#ifndef PIPETRAIN_HOST_STREAM_H
#define PIPETRAIN_HOST_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "stage/device.h"

#define STREAM_COMMANDS 256

struct host_event {
    struct event base;
    enum event_kind kind;
    LIST_ENTRY(host_event) link;        /* protected by the device's lock */
    pthread_mutex_t lock;               /* protects the following fields */
    pthread_cond_t has_passed;
    uint64_t recorded, passed;          /* number of records queued, and passed, so far */
    uint64_t time_ns;                   /* when the latest record passed */
};

struct host_stream;

/* An entry of a stream's queue: a function and its arguments. */
struct command {
    int (*run)(struct host_stream *stream, const struct command *command);
    struct host_event *event;           /* argument of record and wait */
    uint64_t number;                    /* number of the record */
    void *to;                           /* arguments of copy: to, from, bytes */
    const void *from;
    size_t bytes;
    void (*call)(void *arg);            /* arguments of call: call, arg */
    void *arg;
};

struct host_stream {
    struct stream base;
    LIST_ENTRY(host_stream) link;       /* protected by the device's lock */
    struct thread *thread;              /* NULL: inline */
    pthread_mutex_t lock;               /* protects the following fields */
    pthread_cond_t has_command, has_room;
    struct host_event *awaited;         /* the event for which the stream waits now */
    bool closing;
    uint32_t first, depth;              /* the queue: commands[(first + i) % STREAM_COMMANDS], i < depth */
    struct command commands[STREAM_COMMANDS];
};

struct host_device {
    struct device base;
    atomic_bool cancelled;              /* read under any lock; set before cancelling acquires the locks to wake
                                         * waiters */
    pthread_mutex_t lock;               /* protects the lists */
    LIST_HEAD(, host_stream) streams;
    LIST_HEAD(, host_event) events;
};

static inline struct host_device *host_device_of(struct device *device)
{
    return (struct host_device *)device;
}

static inline bool host_is_cancelled(struct device *device)
{
    return atomic_load(&host_device_of(device)->cancelled);
}

/* Functions of struct device_ops. */
int host_stream_open(struct device *device, enum stream_role role, const char *name, struct stream **stream_out);
void host_stream_close(struct stream *stream);
void host_stream_drain(struct stream *stream);
int host_event_open(struct device *device, enum event_kind kind, struct event **event_out);
void host_event_close(struct event *event);
int host_record(struct stream *stream, struct event *event);
int host_stream_wait(struct stream *stream, struct event *event);
int host_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction);
int host_call(struct stream *stream, void (*call)(void *arg), void *arg);
int host_event_wait(struct event *event);
bool host_event_passed(struct event *event);
int host_event_elapsed(struct event *from, struct event *to, uint64_t *elapsed_ns_out);
void host_cancel(struct device *device);

#endif
