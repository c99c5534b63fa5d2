/* Streams and events in host memory. A copy or communication stream is a thread with a queue of commands; the compute
 * stream is inline: the tower's thread executes each command itself. An event counts its records: a wait takes the
 * number of the latest record and lasts until that record has passed. */
#include "stage/host_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "stage/thread.h"

/* ---- events ---- */

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

/* Wait on behalf of the device `waiter` until record `number` has passed. */
static int event_await(struct host_event *event, uint64_t number, struct device *waiter)
{
    pthread_mutex_lock(&event->lock);
    while (event->passed < number && !host_is_cancelled(event->base.device) && !host_is_cancelled(waiter))
        pthread_cond_wait(&event->has_passed, &event->lock);
    pthread_mutex_unlock(&event->lock);
    return host_is_cancelled(event->base.device) || host_is_cancelled(waiter) ? -ECANCELED : 0;
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

/* When the latest record passed. False if it has not passed yet. */
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

/* ---- streams ---- */

/* Take the next command, waiting for it. False at the end: the stream is closed and drained, or the device was
 * cancelled. */
static bool command_take(struct host_stream *stream, struct command *command_out)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->depth == 0 && !stream->closing && !host_is_cancelled(stream->base.device))
        pthread_cond_wait(&stream->has_command, &stream->lock);
    const bool has_command = stream->depth > 0 && !host_is_cancelled(stream->base.device);
    if (has_command) {
        *command_out = stream->commands[stream->first];
        stream->first = (stream->first + 1) % STREAM_COMMANDS;
        stream->depth--;
        pthread_cond_signal(&stream->has_room);
    }
    pthread_mutex_unlock(&stream->lock);
    return has_command;
}

static void stream_loop(void *arg)
{
    struct host_stream *stream = arg;
    struct command command;
    while (command_take(stream, &command)) {
        /* After a failed command the order is lost: the stream must stop, and no other thread may wait for it. */
        if (command.run(stream, &command) < 0)
            host_cancel(stream->base.device);
    }
}

/* Execute the command in order: at once on an inline stream; otherwise it is queued, after a wait for room. */
static int command_put(struct stream *base, const struct command *command)
{
    struct host_stream *stream = (struct host_stream *)base;
    if (stream->thread == NULL)
        return host_is_cancelled(base->device) ? -ECANCELED : command->run(stream, command);
    pthread_mutex_lock(&stream->lock);
    while (stream->depth == STREAM_COMMANDS && !host_is_cancelled(base->device))
        pthread_cond_wait(&stream->has_room, &stream->lock);
    const bool cancelled = host_is_cancelled(base->device);
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
        const int rc = thread_start(&stream->thread, name, stream_loop, stream);
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
    thread_join(stream->thread);

    struct host_device *device = host_device_of(base->device);
    pthread_mutex_lock(&device->lock);
    LIST_REMOVE(stream, link);
    pthread_mutex_unlock(&device->lock);
    pthread_cond_destroy(&stream->has_room);
    pthread_cond_destroy(&stream->has_command);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* ---- commands ---- */

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
    /* The event may belong to another device, whose cancel would not find this stream among its own. */
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

/* ---- cancelling ---- */

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

/* A running command ends by itself; host_stream_close waits for it. */
void host_stream_drain(struct stream *stream)
{
    struct event *event;
    if (((struct host_stream *)stream)->thread == NULL || host_event_open(stream->device, EVENT_ORDER, &event) != 0)
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
