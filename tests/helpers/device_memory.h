/* Device memory in tests, on any device. Every function is synchronous, and asserts that it succeeds. */
#ifndef PIPETRAIN_DEVICE_MEMORY_H
#define PIPETRAIN_DEVICE_MEMORY_H

#include <stddef.h>

#include "compute/backend.h"
#include "stage/device.h"

/* The device a backend computes on: the host's, or the first CUDA device. */
struct device *device_memory_open(const struct backend_ops *backend, struct stream **compute_out);
void device_memory_close(struct device *device, struct stream *compute);

/* A copy of `bytes` bytes of host memory (zeroed with from NULL), freed with the device's free. */
void *device_memory_make(struct stream *compute, const void *from, size_t bytes);
void device_memory_write(struct stream *compute, void *to, const void *from, size_t bytes);
void device_memory_read(struct stream *compute, void *to, const void *from, size_t bytes);
/* Wait for what is queued on the stream. */
void device_memory_wait(struct stream *compute);

#endif
