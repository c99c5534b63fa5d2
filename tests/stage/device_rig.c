/* Devices to test, and what is queued on them. */
#include "tests/stage/device_rig.h"

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

const struct device_ops *device_rig_kind(size_t k)
{
    return k == 0 ? test_device_ops() : &device_null_ops;
}

static void open_at(struct device_rig *rig, const struct device_ops *ops, uint32_t index)
{
    const struct device_spec spec = { .index = index, .name = "cpu0" };
    rig->ops = ops;
    assert_int_equal(ops->open(&rig->device, &spec), 0);
    assert_ptr_equal(rig->device->ops, ops);
    assert_int_equal(ops->stream_open(rig->device, STREAM_COMPUTE, "compute", &rig->compute), 0);
    assert_int_equal(ops->stream_open(rig->device, STREAM_COPY, "copy", &rig->copy), 0);
    assert_int_equal(ops->stream_open(rig->device, STREAM_COMMUNICATION, "comm", &rig->communication), 0);
    assert_int_equal(ops->event_open(rig->device, EVENT_TIMED, &rig->event), 0);
    assert_int_equal(ops->event_open(rig->device, EVENT_TIMED, &rig->other), 0);
    assert_int_equal(ops->event_open(rig->device, EVENT_ORDER, &rig->done), 0);
}

void device_rig_open(struct device_rig *rig, const struct device_ops *ops)
{
    open_at(rig, ops, 0);
}

void device_rig_open_two(struct device_rig *here, struct device_rig *there)
{
    char why[256];
    open_at(here, test_device_ops(), 0);
    open_at(there, test_device_ops(), test_device_ops()->count(why, sizeof(why)) > 1);
}

void device_rig_close(struct device_rig *rig)
{
    rig->ops->stream_close(rig->communication);
    rig->ops->stream_close(rig->copy);
    rig->ops->stream_close(rig->compute);
    rig->ops->event_close(rig->done);
    rig->ops->event_close(rig->other);
    rig->ops->event_close(rig->event);
    rig->ops->close(rig->device);
}

void device_rig_wait(struct device_rig *rig)
{
    assert_int_equal(stream_record(rig->compute, rig->done), 0);
    assert_int_equal(rig->ops->event_wait(rig->done), 0);
}

void *device_rig_memory(struct device_rig *rig, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(rig->ops->alloc(rig->device, bytes, &memory), 0);
    assert_non_null(memory);
    return memory;
}

void *device_rig_pinned(struct device_rig *rig, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(rig->ops->alloc_pinned(rig->device, bytes, &memory), 0);
    assert_non_null(memory);
    return memory;
}

static void door_call(void *arg)
{
    struct door *door = arg;
    sem_post(&door->reached);
    sem_wait(&door->opened);
}

void door_close(struct door *door, struct device_rig *rig, struct stream *stream)
{
    sem_init(&door->reached, 0, 0);
    sem_init(&door->opened, 0, 0);
    assert_int_equal(rig->ops->call(stream, door_call, door), 0);
}

void door_open(struct door *door)
{
    sem_post(&door->opened);
}

void call_log_note(void *arg)
{
    const struct numbered_call *call = arg;
    call->log->order[call->log->count++] = call->number;
    call->log->thread = pthread_self();
}
