/* One device with a stream of each role and events, for tests of devices. */
#ifndef PIPETRAIN_DEVICE_RIG_H
#define PIPETRAIN_DEVICE_RIG_H

#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>

#include "stage/device.h"

struct device_rig {
    struct device *device;
    const struct device_ops *ops;
    struct stream *compute, *copy, *communication;
    struct event *event, *other;
    struct event *done;         /* of device_rig_wait */
};

/* Kind 0 is the one to test, kind 1 the null device. */
const struct device_ops *device_rig_kind(size_t k);

void device_rig_open(struct device_rig *rig, const struct device_ops *ops);
/* Two devices, or one opened twice where there is only one. */
void device_rig_open_two(struct device_rig *here, struct device_rig *there);
void device_rig_close(struct device_rig *rig);

/* Wait for all that is queued on the compute stream. */
void device_rig_wait(struct device_rig *rig);
/* Memory of the device, and pinned memory. */
void *device_rig_memory(struct device_rig *rig, size_t bytes);
void *device_rig_pinned(struct device_rig *rig, size_t bytes);

/* A stream that stands at a door, until the test opens it. */
struct door { sem_t reached, opened; };

void door_close(struct door *door, struct device_rig *rig, struct stream *stream);
void door_open(struct door *door);

/* What calls on a stream leave: their numbers in the order they ran, and the thread of the last. */
enum { CALL_LOG_MAX = 1000 };

struct call_log {
    int order[CALL_LOG_MAX];
    int count;
    pthread_t thread;
};
struct numbered_call {
    struct call_log *log;
    int number;
};

/* For a stream to call with a struct numbered_call. */
void call_log_note(void *arg);

#endif
