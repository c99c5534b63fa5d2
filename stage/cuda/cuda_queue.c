/* Streams and events of a GPU: CUDA's own; a call is a host function in its stream.
 *
 * Nothing here waits inside the driver, where a wait could not be ended: waits ask again and
 * again, first in quick succession, then with naps, until the device is cancelled. What is
 * queued on a stream cannot be taken back: a stream that does not come to its end after a
 * cancel is left as it is. */
#include "stage/cuda/cuda_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stage/clock.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/heartbeat.h"
#include "stage/log.h"

#define SPIN_NS 20000u                  /* longer waits do not notice a nap */
#define NAP_NS 20000
#define DRAIN_NS 1000000000u            /* what a stream has after a cancel */

struct cuda_stream {
    struct stream base;
    char name[16];
    bool is_left;                       /* its work did not end after a cancel, which is logged */
    cudaStream_t stream;
};

struct cuda_event {
    struct event base;
    enum event_kind kind;
    atomic_bool recorded;
    cudaEvent_t event;
};


static bool is_cancelled(struct device *device)
{
    return atomic_load(&cuda_device_of(device)->cancelled);
}

cudaStream_t cuda_stream_of(struct stream *stream)
{
    return ((struct cuda_stream *)stream)->stream;
}

/* Waiting. */

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Between two questions of a wait that began at begun_ns. */
static void wait_a_little(uint64_t begun_ns)
{
    if (clock_now_ns() - begun_ns < SPIN_NS)
        pause_briefly();
    else
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

/* "Not yet" is an answer, but the runtime keeps it as the thread's last error. */
static cudaError_t answer(cudaError_t status)
{
    if (status == cudaErrorNotReady)
        cudaGetLastError();
    return status;
}

/* Streams. */

int cuda_stream_open(struct device *base, enum stream_role role, const char *name, struct stream **stream_out)
{
    struct cuda_device *device = cuda_device_of(base);
    struct cuda_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return -ENOMEM;
    stream->base.device = base;
    snprintf(stream->name, sizeof(stream->name), "%s", name);
    /* What other devices wait for goes first. */
    const int priority = role == STREAM_COMMUNICATION ? device->high : device->low;
    int rc = cuda_enter(base);
    if (!rc)
        rc = CUDA_CALL(device->name, cudaStreamCreateWithPriority(&stream->stream, cudaStreamNonBlocking,
                                                                  priority));
    if (rc) {
        free(stream);
        return rc;
    }
    atomic_fetch_add(&device->opened, 1);
    *stream_out = &stream->base;
    return 0;
}

static cudaError_t query_stream(const struct cuda_stream *stream)
{
    return answer(HEARTBEAT_CALL("cudaStreamQuery", cudaStreamQuery(stream->stream)));
}

/* Wait for all that is queued; after a cancel for no longer than DRAIN_NS, once for all streams of a device: what holds
 * one up holds up the others. False when the work did not end. Work that ended by an error has ended. */
static bool work_ends(struct cuda_stream *stream)
{
    const uint64_t begun_ns = clock_now_ns();
    const uint64_t patience_ns = atomic_load(&cuda_device_of(stream->base.device)->is_stuck) ? 0 : DRAIN_NS;
    uint64_t cancelled_ns = 0;
    cudaError_t status;
    heartbeat_begin_wait("waiting for the end of its stream");
    while ((status = query_stream(stream)) == cudaErrorNotReady) {
        if (cancelled_ns == 0 && is_cancelled(stream->base.device))
            cancelled_ns = clock_now_ns();
        if (cancelled_ns != 0 && clock_now_ns() - cancelled_ns > patience_ns)
            break;
        wait_a_little(begun_ns);
    }
    heartbeat_end_wait();
    if (status == cudaErrorNotReady)
        return false;
    cuda_check(status, cuda_name(stream->base.device), "cudaStreamQuery");
    return true;
}

static bool drain(struct cuda_stream *stream)
{
    if (stream->is_left || work_ends(stream))
        return !stream->is_left;
    stream->is_left = true;
    atomic_store(&heartbeat_left_behind, true);
    atomic_store(&cuda_device_of(stream->base.device)->is_stuck, true);
    log_message(LOG_ERROR, "%s: the work on stream %s does not end: it is left behind", cuda_name(stream->base.device),
                stream->name);
    return false;
}

void cuda_stream_drain(struct stream *base)
{
    if (cuda_enter(base->device) == 0)
        drain((struct cuda_stream *)base);
}

void cuda_stream_close(struct stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    if (stream == NULL)
        return;
    struct cuda_device *device = cuda_device_of(base->device);
    if (cuda_enter(base->device) == 0 && drain(stream))
        CUDA_CALL(device->name, cudaStreamDestroy(stream->stream));
    atomic_fetch_sub(&device->opened, 1);
    free(stream);
}

bool cuda_has_stuck_work(void)
{
    return atomic_load(&heartbeat_left_behind);
}

/* Before anything is queued. */
static int stream_enter(struct stream *stream)
{
    return is_cancelled(stream->device) ? -ECANCELED : cuda_enter(stream->device);
}

int cuda_stream_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction)
{
    static const enum cudaMemcpyKind kinds[] = {
        [COPY_TO_DEVICE] = cudaMemcpyHostToDevice,
        [COPY_FROM_DEVICE] = cudaMemcpyDeviceToHost,
        [COPY_ON_DEVICE] = cudaMemcpyDeviceToDevice,
    };
    const int rc = stream_enter(stream);
    if (rc || bytes == 0)
        return rc;
    return CUDA_CALL(cuda_name(stream->device),
                     cudaMemcpyAsync(to, from, bytes, kinds[direction], cuda_stream_of(stream)));
}

int cuda_stream_call(struct stream *stream, void (*call)(void *arg), void *arg)
{
    const int rc = stream_enter(stream);
    return rc ? rc : CUDA_CALL(cuda_name(stream->device),
                               cudaLaunchHostFunc(cuda_stream_of(stream), call, arg));
}

/* Events. */

int cuda_event_open(struct device *device, enum event_kind kind, struct event **event_out)
{
    struct cuda_event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        return -ENOMEM;
    event->base.device = device;
    event->kind = kind;
    const unsigned flags = kind == EVENT_ORDER ? cudaEventDisableTiming : cudaEventDefault;
    int rc = cuda_enter(device);
    if (!rc)
        rc = CUDA_CALL(cuda_name(device), cudaEventCreateWithFlags(&event->event, flags));
    if (rc) {
        free(event);
        return rc;
    }
    atomic_fetch_add(&cuda_device_of(device)->opened, 1);
    *event_out = &event->base;
    return 0;
}

void cuda_event_close(struct event *base)
{
    struct cuda_event *event = (struct cuda_event *)base;
    if (event == NULL)
        return;
    if (cuda_enter(base->device) == 0)
        CUDA_CALL(cuda_name(base->device), cudaEventDestroy(event->event));
    atomic_fetch_sub(&cuda_device_of(base->device)->opened, 1);
    free(event);
}

int cuda_stream_record(struct stream *stream, struct event *base)
{
    struct cuda_event *event = (struct cuda_event *)base;
    int rc = stream_enter(stream);
    if (!rc)
        rc = CUDA_CALL(cuda_name(stream->device), cudaEventRecord(event->event, cuda_stream_of(stream)));
    if (!rc)
        atomic_store(&event->recorded, true);
    return rc;
}

int cuda_stream_wait(struct stream *stream, struct event *base)
{
    const struct cuda_event *event = (struct cuda_event *)base;
    const int rc = stream_enter(stream);
    return rc ? rc : CUDA_CALL(cuda_name(stream->device),
                               cudaStreamWaitEvent(cuda_stream_of(stream), event->event, cudaEventWaitDefault));
}

static cudaError_t query_event(const struct event *base)
{
    const struct cuda_event *event = (const struct cuda_event *)base;
    return answer(HEARTBEAT_CALL("cudaEventQuery", cudaEventQuery(event->event)));
}

/* Ask until the event has passed or the device is cancelled. */
static cudaError_t await_event(const struct event *base)
{
    const uint64_t begun_ns = clock_now_ns();
    cudaError_t status = cudaErrorNotReady;
    heartbeat_begin_wait("waiting for an event");
    while (!is_cancelled(base->device) && (status = query_event(base)) == cudaErrorNotReady)
        wait_a_little(begun_ns);
    heartbeat_end_wait();
    return status;
}

int cuda_event_wait(struct event *base)
{
    const int rc = cuda_enter(base->device);
    if (rc)
        return rc;
    const cudaError_t status = await_event(base);
    return status == cudaErrorNotReady ? -ECANCELED : cuda_check(status, cuda_name(base->device), "cudaEventQuery");
}

/* After an error nothing more is to be waited for; the next call will say so. */
bool cuda_event_passed(struct event *base)
{
    return cuda_enter(base->device) != 0 || query_event(base) != cudaErrorNotReady;
}

int cuda_event_elapsed(struct event *from_base, struct event *to_base, uint64_t *elapsed_ns_out)
{
    struct cuda_event *from = (struct cuda_event *)from_base, *to = (struct cuda_event *)to_base;
    assert(from_base->device == to_base->device && from->kind == EVENT_TIMED && to->kind == EVENT_TIMED);
    if (!atomic_load(&from->recorded) || !atomic_load(&to->recorded))
        return -EAGAIN;
    float elapsed_ms;
    int rc = cuda_enter(from_base->device);
    if (rc)
        return rc;
    const cudaError_t status = answer(HEARTBEAT_CALL("cudaEventElapsedTime",
                                                     cudaEventElapsedTime(&elapsed_ms, from->event, to->event)));
    if (status == cudaErrorNotReady)
        return -EAGAIN;
    rc = cuda_check(status, cuda_name(from_base->device), "cudaEventElapsedTime");
    if (!rc)
        *elapsed_ns_out = elapsed_ms > 0 ? (uint64_t)((double)elapsed_ms * 1e6) : 0;
    return rc;
}
