/* What the two files of the host device share: the device (device_host.c), and its streams and
 * events (host_stream.c). Private to them.
 *
 * Every stream and every event has its own lock. Cancelling is the one place that holds
 * several, always device, then stream, then event: what it wakes must not be closed
 * meanwhile by a thread that already noticed the end. */
#ifndef PIPETRAIN_HOST_STREAM_H
#define PIPETRAIN_HOST_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "stage/device_host.h"

#define STREAM_COMMANDS 256

struct host_event {
    struct event base;
    enum event_kind kind;
    LIST_ENTRY(host_event) link;        /* under the device's lock */
    pthread_mutex_t lock;               /* of what follows */
    pthread_cond_t has_passed;
    uint64_t recorded, passed;          /* records queued and passed so far */
    uint64_t time_ns;                   /* when the last one passed */
};

struct host_stream;

/* A row of a stream's queue: what to run, with the arguments it uses. */
struct command {
    int (*run)(struct host_stream *stream, const struct command *command);
    struct host_event *event;           /* record, wait */
    uint64_t number;                    /* of the record meant */
    void *to;                           /* copy */
    const void *from;
    size_t bytes;
    void (*call)(void *arg);            /* call */
    void *arg;
};

struct host_stream {
    struct stream base;
    LIST_ENTRY(host_stream) link;       /* under the device's lock */
    struct thread *worker;              /* NULL: inline */
    pthread_mutex_t lock;               /* of what follows */
    pthread_cond_t has_command, has_room;
    struct host_event *awaited;         /* what the stream waits for now */
    bool closing;
    uint32_t first, depth;              /* commands[(first + i) % STREAM_COMMANDS], i < depth */
    struct command commands[STREAM_COMMANDS];
};

struct host_device {
    struct device base;
    char name[32];
    atomic_bool cancelled;              /* read under any lock, set before those are taken to wake */
    pthread_mutex_t lock;               /* of the lists */
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

#endif
