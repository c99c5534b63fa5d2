/* Device memory in tests. See device_memory.h. */
#include "tests/helpers/device_memory.h"

#include "tests/helpers/test.h"

struct device *device_memory_open(const struct backend_ops *backend, struct stream **compute_out)
{
    const struct device_ops *ops = device_find(backend->host_memory ? "cpu" : "cuda");
    struct device *device;
    assert_non_null(ops);
    assert_int_equal(ops->open(&device, &(struct device_spec){ 0, "test" }), 0);
    assert_int_equal(ops->stream_open(device, STREAM_COMPUTE, "test", compute_out), 0);
    return device;
}

void device_memory_close(struct device *device, struct stream *compute)
{
    device->ops->stream_close(compute);
    device->ops->close(device);
}

void *device_memory_make(struct stream *compute, const void *from, size_t bytes)
{
    struct device *device = compute->device;
    void *memory;
    assert_int_equal(device->ops->alloc(device, bytes > 0 ? bytes : 1, &memory), 0);
    if (from != NULL && bytes > 0)
        device_memory_write(compute, memory, from, bytes);
    return memory;
}

void device_memory_wait(struct stream *compute)
{
    struct device *device = compute->device;
    struct event *event;
    assert_int_equal(device->ops->event_open(device, EVENT_ORDER, &event), 0);
    assert_int_equal(stream_record(compute, event), 0);
    assert_int_equal(device->ops->event_wait(event), 0);
    device->ops->event_close(event);
}

void device_memory_write(struct stream *compute, void *to, const void *from, size_t bytes)
{
    assert_int_equal(compute->device->ops->copy(compute, to, from, bytes, COPY_TO_DEVICE), 0);
    device_memory_wait(compute);
}

void device_memory_read(struct stream *compute, void *to, const void *from, size_t bytes)
{
    assert_int_equal(compute->device->ops->copy(compute, to, from, bytes, COPY_FROM_DEVICE), 0);
    device_memory_wait(compute);
}
