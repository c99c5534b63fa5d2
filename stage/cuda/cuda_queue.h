/* The CUDA device's struct, and its table's rows for streams and events. Only device_cuda.c
 * uses them; everybody else goes through struct device_ops and device_cuda.h. */
#ifndef PIPETRAIN_CUDA_QUEUE_H
#define PIPETRAIN_CUDA_QUEUE_H

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "stage/device.h"

struct cuda_device {
    struct device base;
    char name[16];
    int ordinal;
    int node;                           /* NUMA node next to the device, -1 = not known */
    int low, high;                      /* priorities of streams */
    cudaStream_t setup;                 /* new memory is zeroed on it */
    atomic_bool cancelled;
    atomic_bool is_stuck;               /* a stream was left behind */
    atomic_uint opened;                 /* streams and events that are open */
};

static inline struct cuda_device *cuda_device_of(struct device *device)
{
    return (struct cuda_device *)device;
}

int cuda_stream_open(struct device *device, enum stream_role role, const char *name, struct stream **stream_out);
void cuda_stream_close(struct stream *stream);
void cuda_stream_drain(struct stream *stream);
int cuda_stream_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction);
int cuda_stream_call(struct stream *stream, void (*call)(void *arg), void *arg);
int cuda_event_open(struct device *device, enum event_kind kind, struct event **event_out);
void cuda_event_close(struct event *event);
int cuda_stream_record(struct stream *stream, struct event *event);
int cuda_stream_wait(struct stream *stream, struct event *event);
int cuda_event_wait(struct event *event);
bool cuda_event_passed(struct event *event);
int cuda_event_elapsed(struct event *from, struct event *to, uint64_t *elapsed_ns_out);

/* Was a stream left with work that does not end? Such work may touch any memory of the
 * process, its peers' too: from then on none may be freed. */
bool cuda_has_stuck_work(void);

#endif
