/* The null device: streams, events and memory of the host device, copies that move
 * nothing. What is left of a run on it is the loader and the hand-over. */
#include "stage/device_host.h"

static int null_open(struct device **device_out, const struct device_spec *spec)
{
    return host_open(device_out, spec, &device_null_ops);
}

/* In its place in the stream, so that order and events are those of a real copy. */
static int null_copy(struct stream *stream, void *to, const void *from, size_t bytes,
                     enum copy_direction direction)
{
    (void)bytes;
    return host_copy(stream, to, from, 0, direction);
}

const struct device_ops device_null_ops = {
    .kind = "null",
    .host_memory = true,
    .steps_ahead = 0,
    .count = host_count,
    .reaches = host_reaches,
    .supports = host_supports,
    .connect = host_connect,
    .open = null_open,
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
    .copy = null_copy,
    .call = host_call,
    .event_wait = host_event_wait,
    .event_passed = host_event_passed,
    .event_elapsed = host_event_elapsed,
    .cancel = host_cancel,
};
