/* The host as a real asynchronous device. A copy or communication stream is a worker
 * thread with a first-in-first-out of commands; the compute stream is inline: the
 * tower's thread runs each command itself. An event counts its records: a wait keeps
 * the number of the latest record and lasts until that one has passed.
 *
 * Every stream and every event has its own lock. Cancelling is the one place that holds
 * several, always device, then stream, then event: what it wakes must not be closed
 * meanwhile by a thread that already noticed the end. */
#include "stage/device_host.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/thread.h"

#define STREAM_COMMANDS 256
#define HOST_ALIGN 64u
#define HUGE_PAGE ((size_t)2 << 20)

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

static struct host_device *host_device_of(struct device *device)
{
    return (struct host_device *)device;
}

static bool is_cancelled(struct device *device)
{
    return atomic_load(&host_device_of(device)->cancelled);
}

/* Device. */

/* Any number of devices: each is a share of the host. */
uint32_t host_count(char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", "");
    return UINT32_MAX;
}

bool host_reaches(uint32_t index, uint32_t other)
{
    (void)index;
    (void)other;
    return true;
}

int host_supports(uint32_t count, struct refusal *refusal)
{
    (void)count, (void)refusal;
    return 0;
}

int host_open(struct device **device_out, const struct device_spec *spec, const struct device_ops *ops)
{
    struct host_device *device = calloc(1, sizeof(*device));
    if (device == NULL)
        return -ENOMEM;
    device->base.ops = ops;
    snprintf(device->name, sizeof(device->name), "%s", spec->name);
    atomic_init(&device->cancelled, false);
    pthread_mutex_init(&device->lock, NULL);
    LIST_INIT(&device->streams);
    LIST_INIT(&device->events);
    *device_out = &device->base;
    return 0;
}

void host_close(struct device *base)
{
    struct host_device *device = host_device_of(base);
    if (device == NULL)
        return;
    assert(LIST_EMPTY(&device->streams) && LIST_EMPTY(&device->events));
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* As the kernel tells it, or where it does not, the kind of machine. */
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

int host_describe(uint32_t index, struct device_description *description_out)
{
    (void)index;
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    find_processor(description_out->name, sizeof(description_out->name));
    snprintf(description_out->more, sizeof(description_out->more), "%ld CPU%s", cpus, cpus == 1 ? "" : "s");
    description_out->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

/* What the kernel believes can be had without swapping, or where it does not say, what is free. */
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

int host_memory(struct device *device, size_t *free_out, size_t *total_out)
{
    (void)device;
    *free_out = available_bytes();
    *total_out = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return 0;
}

/* All CPUs are next to the host's memory. */
void host_bind(struct device *device)
{
    (void)device;
}

int host_alloc(struct device *device, size_t bytes, void **memory_out)
{
    (void)device;
    const bool is_big = bytes >= HUGE_PAGE;
    void *memory = NULL;
    const int error = posix_memalign(&memory, is_big ? HUGE_PAGE : HOST_ALIGN, bytes ? bytes : 1);
    if (error)
        return -error;
    if (is_big)
        madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);  /* a hint: may be refused */
    memset(memory, 0, bytes);
    *memory_out = memory;
    return 0;
}

void host_free(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

/* Events. */

int host_event_open(struct device *base, enum event_kind kind, struct event **event_out)
{
    struct host_device *device = host_device_of(base);
    struct host_event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        return -ENOMEM;
    event->base.device = base;
    event->kind = kind;
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->has_passed, NULL);
    pthread_mutex_lock(&device->lock);
    LIST_INSERT_HEAD(&device->events, event, link);
    pthread_mutex_unlock(&device->lock);
    *event_out = &event->base;
    return 0;
}

void host_event_close(struct event *base)
{
    struct host_event *event = (struct host_event *)base;
    if (event == NULL)
        return;
    struct host_device *device = host_device_of(base->device);
    pthread_mutex_lock(&device->lock);
    LIST_REMOVE(event, link);
    pthread_mutex_unlock(&device->lock);
    pthread_cond_destroy(&event->has_passed);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static void event_pass(struct host_event *event, uint64_t number)
{
    pthread_mutex_lock(&event->lock);
    if (event->passed < number)
        event->passed = number;
    event->time_ns = clock_now_ns();
    pthread_cond_broadcast(&event->has_passed);
    pthread_mutex_unlock(&event->lock);
}

static uint64_t event_recorded(struct host_event *event)
{
    pthread_mutex_lock(&event->lock);
    const uint64_t recorded = event->recorded;
    pthread_mutex_unlock(&event->lock);
    return recorded;
}

/* Wait, on behalf of `waiter`, until record `number` has passed. */
static int event_await(struct host_event *event, uint64_t number, struct device *waiter)
{
    pthread_mutex_lock(&event->lock);
    while (event->passed < number && !is_cancelled(event->base.device) && !is_cancelled(waiter))
        pthread_cond_wait(&event->has_passed, &event->lock);
    pthread_mutex_unlock(&event->lock);
    return is_cancelled(event->base.device) || is_cancelled(waiter) ? -ECANCELED : 0;
}

int host_event_wait(struct event *base)
{
    struct host_event *event = (struct host_event *)base;
    return event_await(event, event_recorded(event), base->device);
}

bool host_event_passed(struct event *base)
{
    struct host_event *event = (struct host_event *)base;
    pthread_mutex_lock(&event->lock);
    const bool passed = event->passed == event->recorded;
    pthread_mutex_unlock(&event->lock);
    return passed;
}

/* When the latest record passed. False while it has not. */
static bool event_time(struct event *base, uint64_t *time_ns_out)
{
    struct host_event *event = (struct host_event *)base;
    assert(event->kind == EVENT_TIMED);
    pthread_mutex_lock(&event->lock);
    const bool has_time = event->recorded > 0 && event->passed == event->recorded;
    if (has_time)
        *time_ns_out = event->time_ns;
    pthread_mutex_unlock(&event->lock);
    return has_time;
}

int host_event_elapsed(struct event *from, struct event *to, uint64_t *elapsed_ns_out)
{
    assert(from->device == to->device);
    uint64_t from_ns, to_ns;
    if (!event_time(from, &from_ns) || !event_time(to, &to_ns))
        return -EAGAIN;
    *elapsed_ns_out = to_ns > from_ns ? to_ns - from_ns : 0;
    return 0;
}

/* Streams. */

/* The next command, waiting for it. False when there will be none: the stream is closed
 * and drained, or the device was cancelled. */
static bool command_take(struct host_stream *stream, struct command *command_out)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->depth == 0 && !stream->closing && !is_cancelled(stream->base.device))
        pthread_cond_wait(&stream->has_command, &stream->lock);
    const bool has_command = stream->depth > 0 && !is_cancelled(stream->base.device);
    if (has_command) {
        *command_out = stream->commands[stream->first];
        stream->first = (stream->first + 1) % STREAM_COMMANDS;
        stream->depth--;
        pthread_cond_signal(&stream->has_room);
    }
    pthread_mutex_unlock(&stream->lock);
    return has_command;
}

static void worker_loop(void *arg)
{
    struct host_stream *stream = arg;
    struct command command;
    while (command_take(stream, &command)) {
        /* A stream that cannot keep its order must not go on, nor may others wait for it. */
        if (command.run(stream, &command) < 0)
            host_cancel(stream->base.device);
    }
}

/* Run the command in its turn: now on an inline stream, else behind what is queued,
 * waiting for room. */
static int command_put(struct stream *base, const struct command *command)
{
    struct host_stream *stream = (struct host_stream *)base;
    if (stream->worker == NULL)
        return is_cancelled(base->device) ? -ECANCELED : command->run(stream, command);
    pthread_mutex_lock(&stream->lock);
    while (stream->depth == STREAM_COMMANDS && !is_cancelled(base->device))
        pthread_cond_wait(&stream->has_room, &stream->lock);
    const bool cancelled = is_cancelled(base->device);
    if (!cancelled)
        stream->commands[(stream->first + stream->depth++) % STREAM_COMMANDS] = *command;
    pthread_mutex_unlock(&stream->lock);
    if (cancelled)
        return -ECANCELED;
    pthread_cond_signal(&stream->has_command);
    return 0;
}

static void stream_list(struct host_stream *stream)
{
    struct host_device *device = host_device_of(stream->base.device);
    pthread_mutex_lock(&device->lock);
    LIST_INSERT_HEAD(&device->streams, stream, link);
    pthread_mutex_unlock(&device->lock);
}

int host_stream_open(struct device *device, enum stream_role role, const char *name, struct stream **stream_out)
{
    struct host_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return -ENOMEM;
    stream->base.device = device;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->has_command, NULL);
    pthread_cond_init(&stream->has_room, NULL);
    stream_list(stream);
    if (role != STREAM_COMPUTE) {
        const int rc = thread_start(&stream->worker, name, worker_loop, stream);
        if (rc) {
            host_stream_close(&stream->base);
            return rc;
        }
    }
    *stream_out = &stream->base;
    return 0;
}

void host_stream_close(struct stream *base)
{
    struct host_stream *stream = (struct host_stream *)base;
    if (stream == NULL)
        return;
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_broadcast(&stream->has_command);
    pthread_mutex_unlock(&stream->lock);
    thread_join(stream->worker);

    struct host_device *device = host_device_of(base->device);
    pthread_mutex_lock(&device->lock);
    LIST_REMOVE(stream, link);
    pthread_mutex_unlock(&device->lock);
    pthread_cond_destroy(&stream->has_room);
    pthread_cond_destroy(&stream->has_command);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* What a stream can be told to do. */

static int run_record(struct host_stream *stream, const struct command *command)
{
    (void)stream;
    event_pass(command->event, command->number);
    return 0;
}

static void stream_set_awaited(struct host_stream *stream, struct host_event *event)
{
    pthread_mutex_lock(&stream->lock);
    stream->awaited = event;
    pthread_mutex_unlock(&stream->lock);
}

static int run_wait(struct host_stream *stream, const struct command *command)
{
    /* The event may be another device's, which does not know of this stream. */
    stream_set_awaited(stream, command->event);
    const int rc = event_await(command->event, command->number, stream->base.device);
    stream_set_awaited(stream, NULL);
    return rc;
}

static int run_copy(struct host_stream *stream, const struct command *command)
{
    (void)stream;
    if (command->bytes > 0)
        memcpy(command->to, command->from, command->bytes);
    return 0;
}

static int run_call(struct host_stream *stream, const struct command *command)
{
    (void)stream;
    command->call(command->arg);
    return 0;
}

int host_record(struct stream *stream, struct event *base)
{
    struct host_event *event = (struct host_event *)base;
    pthread_mutex_lock(&event->lock);
    const uint64_t number = ++event->recorded;
    pthread_mutex_unlock(&event->lock);
    return command_put(stream, &(struct command){ .run = run_record, .event = event, .number = number });
}

int host_stream_wait(struct stream *stream, struct event *base)
{
    struct host_event *event = (struct host_event *)base;
    const uint64_t number = event_recorded(event);
    return command_put(stream, &(struct command){ .run = run_wait, .event = event, .number = number });
}

int host_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction)
{
    (void)direction;
    return command_put(stream, &(struct command){ .run = run_copy, .to = to, .from = from, .bytes = bytes });
}

int host_call(struct stream *stream, void (*call)(void *arg), void *arg)
{
    return command_put(stream, &(struct command){ .run = run_call, .call = call, .arg = arg });
}

/* Cancelling. */

static void event_wake(struct host_event *event)
{
    pthread_mutex_lock(&event->lock);
    pthread_cond_broadcast(&event->has_passed);
    pthread_mutex_unlock(&event->lock);
}

static void stream_wake(struct host_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    pthread_cond_broadcast(&stream->has_command);
    pthread_cond_broadcast(&stream->has_room);
    if (stream->awaited != NULL)
        event_wake(stream->awaited);
    pthread_mutex_unlock(&stream->lock);
}

/* A command that runs ends by itself, and is waited for in host_stream_close. */
void host_stream_drain(struct stream *stream)
{
    struct event *event;
    if (((struct host_stream *)stream)->worker == NULL || host_event_open(stream->device, EVENT_ORDER, &event) != 0)
        return;
    if (host_record(stream, event) == 0)
        host_event_wait(event);
    host_event_close(event);
}

void host_cancel(struct device *base)
{
    struct host_device *device = host_device_of(base);
    atomic_store(&device->cancelled, true);
    pthread_mutex_lock(&device->lock);
    struct host_stream *stream;
    LIST_FOREACH(stream, &device->streams, link)
        stream_wake(stream);
    struct host_event *event;
    LIST_FOREACH(event, &device->events, link)
        event_wake(event);
    pthread_mutex_unlock(&device->lock);
}

static int host_ops_open(struct device **device_out, const struct device_spec *spec)
{
    return host_open(device_out, spec, &device_host_ops);
}

const struct device_ops device_host_ops = {
    .kind = "cpu",
    .host_memory = true,
    .steps_ahead = 0,
    .count = host_count,
    .reaches = host_reaches,
    .supports = host_supports,
    .open = host_ops_open,
    .close = host_close,
    .describe = host_describe,
    .memory = host_memory,
    .bind = host_bind,
    .alloc = host_alloc,
    .free = host_free,
    .alloc_pinned = host_alloc,
    .free_pinned = host_free,
    .stream_open = host_stream_open,
    .stream_close = host_stream_close,
    .stream_drain = host_stream_drain,
    .event_open = host_event_open,
    .event_close = host_event_close,
    .record = host_record,
    .stream_wait = host_stream_wait,
    .copy = host_copy,
    .call = host_call,
    .event_wait = host_event_wait,
    .event_passed = host_event_passed,
    .event_elapsed = host_event_elapsed,
    .cancel = host_cancel,
};
