/* The rows of the host device's table, for devices that differ from it in a few of
 * them (device_null.c). Everybody else goes through struct device_ops. */
#ifndef PIPETRAIN_DEVICE_HOST_H
#define PIPETRAIN_DEVICE_HOST_H

#include "stage/device.h"

/* As device_ops.open, for a device that answers to `ops`. */
int host_open(struct device **device_out, const struct device_spec *spec, const struct device_ops *ops);
void host_close(struct device *device);
void host_describe(struct device *device, char *text, size_t text_size);
int host_alloc(struct device *device, size_t bytes, void **memory_out);
void host_free(struct device *device, void *memory);
int host_stream_open(struct device *device, enum stream_role role, const char *name, struct stream **stream_out);
void host_stream_close(struct stream *stream);
int host_event_open(struct device *device, struct event **event_out);
void host_event_close(struct event *event);
int host_record(struct stream *stream, struct event *event);
int host_stream_wait(struct stream *stream, struct event *event);
int host_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction);
int host_call(struct stream *stream, void (*call)(void *arg), void *arg);
int host_event_wait(struct event *event);
bool host_event_passed(struct event *event);
int host_event_time(struct event *event, uint64_t *time_ns_out);
void host_cancel(struct device *device);

#endif
