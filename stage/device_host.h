/* The rows of the host device's table, for devices that differ from it in a few of
 * them (device_null.c). Everybody else goes through struct device_ops. */
#ifndef PIPETRAIN_DEVICE_HOST_H
#define PIPETRAIN_DEVICE_HOST_H

#include "stage/device.h"

uint32_t host_count(char *why, size_t why_size);
bool host_reaches(uint32_t index, uint32_t other);
int host_supports(uint32_t count, struct unsupported_reason *reason);
int host_connect(struct device *device, struct device *other);
/* As device_ops.open, for a device that answers to `ops`. */
int host_open(struct device **device_out, const struct device_spec *spec, const struct device_ops *ops);
void host_close(struct device *device);
int host_describe(uint32_t index, struct device_description *description_out);
int host_memory(struct device *device, size_t *free_out, size_t *total_out);
void host_bind(struct device *device);
int host_alloc(struct device *device, size_t bytes, void **memory_out);
void host_free(struct device *device, void *memory);
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
