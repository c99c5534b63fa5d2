/* Events. Each record makes a point of its own, which the stream passes and waits hold on to:
 * recording again does not change what earlier waits wait for. An event's struct stays for
 * good, so that using a destroyed handle is noticed. */
#include "tests/sim/sim_internal.h"

#include <stdlib.h>
#include <time.h>

#define ASKED_AGAIN_NS 1000000u /* the longest that a question takes */

struct point {
    atomic_uint references;     /* of the event and of queued operations */
    pthread_mutex_t lock;       /* for all below */
    pthread_cond_t changed;
    bool asked;                 /* whether it was passed, and it was not */
    bool passed;
    uint64_t passed_ns;
};

struct CUevent_st {
    struct CUevent_st *next;    /* among all events ever */
    int device;
    bool timed;
    pthread_mutex_t lock;       /* for all below */
    bool destroyed;
    struct point *latest;       /* NULL: never recorded, or captured */
    uint64_t capture;           /* number of the capture it was last recorded in, 0 = none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* for `events` */
static struct CUevent_st *events;

static struct point *point_new(void)
{
    struct point *const point = calloc(1, sizeof(*point));
    if (point == NULL)
        sim_die("out of memory");
    atomic_init(&point->references, 1);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&point->lock, NULL);
    pthread_cond_init(&point->changed, &clock);
    pthread_condattr_destroy(&clock);
    return point;
}

/* Relaxed: who holds a reference to copy can rely on it. */
static struct point *point_hold(struct point *point)
{
    atomic_fetch_add_explicit(&point->references, 1, memory_order_relaxed);
    return point;
}

static void point_drop(struct point *point)
{
    if (point == NULL || atomic_fetch_sub_explicit(&point->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&point->changed);
    pthread_mutex_destroy(&point->lock);
    free(point);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void point_pass(struct point *point)
{
    pthread_mutex_lock(&point->lock);
    point->passed = true;
    point->passed_ns = now_ns();
    pthread_cond_broadcast(&point->changed);
    pthread_mutex_unlock(&point->lock);
}

static void point_wait(struct point *point)
{
    pthread_mutex_lock(&point->lock);
    while (!point->passed)
        pthread_cond_wait(&point->changed, &point->lock);
    pthread_mutex_unlock(&point->lock);
}

static bool point_passed(struct point *point, uint64_t *passed_ns_out)
{
    pthread_mutex_lock(&point->lock);
    const bool passed = point->passed;
    *passed_ns_out = point->passed_ns;
    pthread_mutex_unlock(&point->lock);
    return passed;
}

/* Who asks more than once waits: the simulated device is slow, and short naps between many questions would take the
 * time that it computes in. So all questions but the first are answered when the point is passed, or a little later. */
static bool point_ask(struct point *point)
{
    const uint64_t until_ns = now_ns() + ASKED_AGAIN_NS;
    const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000u),
                                    .tv_nsec = (long)(until_ns % 1000000000u) };
    int rc = 0;
    pthread_mutex_lock(&point->lock);
    while (point->asked && !point->passed && rc == 0)
        rc = pthread_cond_timedwait(&point->changed, &point->lock, &until);
    const bool passed = point->passed;
    point->asked = true;
    pthread_mutex_unlock(&point->lock);
    return passed;
}

/* The point before is dropped by the stream, not by the caller, who would otherwise learn
 * from the drop that it was passed: an order that the real library does not give. */
struct record {
    struct point *point, *before;
};

static void run_record(void *arguments)
{
    const struct record *const record = arguments;
    point_pass(record->point);
    point_drop(record->point);
    point_drop(record->before);
}

static void run_wait(void *arguments)
{
    struct point *const point = *(struct point **)arguments;
    point_wait(point);
    point_drop(point);
}

static void check_handle(struct CUevent_st *event)
{
    pthread_mutex_lock(&event->lock);
    const bool destroyed = event->destroyed;
    pthread_mutex_unlock(&event->lock);
    if (destroyed)
        sim_die("use of an event that was destroyed");
}

/* The latest point, held (NULL: never recorded), or cudaErrorCapturedEvent. */
static cudaError_t latest_point(struct CUevent_st *event, struct point **point_out)
{
    check_handle(event);
    pthread_mutex_lock(&event->lock);
    const bool captured = event->capture != 0;
    *point_out = event->latest == NULL ? NULL : point_hold(event->latest);
    pthread_mutex_unlock(&event->lock);
    return captured ? cudaErrorCapturedEvent : cudaSuccess;
}

static cudaError_t event_new(cudaEvent_t *event_out, unsigned int flags)
{
    if (event_out == NULL || (flags & ~(unsigned int)(cudaEventBlockingSync | cudaEventDisableTiming)) != 0)
        return sim_result(cudaErrorInvalidValue);
    if (sim_device_count() == 0)
        return sim_result(cudaErrorNoDevice);
    struct CUevent_st *const event = calloc(1, sizeof(*event));
    if (event == NULL)
        sim_die("out of memory");
    event->device = sim_current_device();
    event->timed = (flags & cudaEventDisableTiming) == 0;
    pthread_mutex_init(&event->lock, NULL);
    pthread_mutex_lock(&lock);
    event->next = events;
    events = event;
    pthread_mutex_unlock(&lock);
    *event_out = event;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event_out)
{
    SIM_ENTER();
    return event_new(event_out, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event_out, unsigned int flags)
{
    SIM_ENTER();
    return event_new(event_out, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    SIM_ENTER();
    if (event == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    check_handle(event);
    pthread_mutex_lock(&event->lock);
    event->destroyed = true;
    struct point *const point = event->latest;
    event->latest = NULL;
    pthread_mutex_unlock(&event->lock);
    point_drop(point);
    return cudaSuccess;
}

static struct point *replace_point(struct CUevent_st *event, struct point *point, uint64_t capture)
{
    pthread_mutex_lock(&event->lock);
    struct point *const before = event->latest;
    event->latest = point;
    event->capture = capture;
    pthread_mutex_unlock(&event->lock);
    return before;
}

/* An event recorded while captured is an order within the graph, and no point in time. */
static cudaError_t record_captured(struct CUevent_st *event, uint64_t capture, bool invalid)
{
    if (invalid)
        return cudaErrorStreamCaptureInvalidated;
    point_drop(replace_point(event, NULL, capture));
    return cudaSuccess;
}

static cudaError_t record(struct CUevent_st *event, cudaStream_t stream)
{
    bool invalid;
    check_handle(event);
    if (event->device != stream->device)
        return cudaErrorInvalidResourceHandle;
    const uint64_t capture = sim_capture_of(stream, &invalid);
    if (capture != 0)
        return record_captured(event, capture, invalid);
    struct point *const point = point_new();
    const struct record record = { .point = point_hold(point), .before = replace_point(event, point, 0) };
    return sim_stream_add(stream, sim_op_new(run_record, &record, sizeof(record), false));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    SIM_ENTER();
    cudaStream_t stream;
    if (event == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    const cudaError_t status = sim_stream_find(handle, &stream);
    return sim_result(status != cudaSuccess ? status : record(event, stream));
}

/* Within one capture of one stream the order is there already. */
static cudaError_t wait_captured(struct CUevent_st *event, uint64_t capture, bool invalid)
{
    struct point *point;
    if (invalid)
        return cudaErrorStreamCaptureInvalidated;
    const cudaError_t status = latest_point(event, &point);
    point_drop(point);
    if (status == cudaSuccess && point == NULL)
        return cudaSuccess;
    if (status == cudaErrorCapturedEvent && event->capture == capture)
        return cudaSuccess;
    sim_invalidate_captures();
    return cudaErrorStreamCaptureIsolation;
}

static cudaError_t wait(cudaStream_t stream, struct CUevent_st *event)
{
    bool invalid;
    struct point *point;
    const uint64_t capture = sim_capture_of(stream, &invalid);
    if (capture != 0)
        return wait_captured(event, capture, invalid);
    const cudaError_t status = latest_point(event, &point);
    if (status == cudaErrorCapturedEvent && sim_capture_is_open(event->capture))
        sim_die("a second stream joins a capture: not simulated");
    if (status != cudaSuccess || point == NULL)
        return status;
    return sim_stream_add(stream, sim_op_new(run_wait, &point, sizeof(point), false));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags)
{
    SIM_ENTER();
    cudaStream_t stream;
    if (event == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (flags != cudaEventWaitDefault)
        return sim_result(cudaErrorInvalidValue);
    check_handle(event);
    const cudaError_t status = sim_stream_find(handle, &stream);
    return sim_result(status != cudaSuccess ? status : wait(stream, event));
}

/* What cudaEventQuery and cudaEventSynchronize refuse; else the latest point or NULL. */
static cudaError_t point_to_ask(cudaEvent_t event, struct point **point_out)
{
    if (event == NULL)
        return cudaErrorInvalidResourceHandle;
    const cudaError_t status = sim_unsafe_call();
    return status != cudaSuccess ? status : latest_point(event, point_out);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    SIM_ENTER();
    struct point *point;
    const cudaError_t status = point_to_ask(event, &point);
    if (status != cudaSuccess || point == NULL)
        return sim_result(status);
    const bool passed = point_ask(point);
    point_drop(point);
    return sim_result(passed ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    SIM_ENTER();
    struct point *point;
    const cudaError_t status = point_to_ask(event, &point);
    if (status != cudaSuccess || point == NULL)
        return sim_result(status);
    point_wait(point);
    point_drop(point);
    return cudaSuccess;
}

/* When the event was passed; of an event that cannot tell a time, the reason. */
static cudaError_t time_of(struct CUevent_st *event, uint64_t *passed_ns_out)
{
    struct point *point;
    const cudaError_t status = latest_point(event, &point);
    if (status != cudaSuccess)
        return status;
    if (point == NULL || !event->timed) {
        point_drop(point);
        return cudaErrorInvalidResourceHandle;
    }
    const bool passed = point_passed(point, passed_ns_out);
    point_drop(point);
    return passed ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms_out, cudaEvent_t start, cudaEvent_t end)
{
    SIM_ENTER();
    uint64_t start_ns, end_ns;
    if (ms_out == NULL)
        return sim_result(cudaErrorInvalidValue);
    if (start == NULL || end == NULL || start->device != end->device)
        return sim_result(cudaErrorInvalidResourceHandle);
    const cudaError_t first = time_of(start, &start_ns), second = time_of(end, &end_ns);
    if (first == cudaErrorInvalidResourceHandle || second == cudaErrorInvalidResourceHandle)
        return sim_result(cudaErrorInvalidResourceHandle);
    if (first != cudaSuccess || second != cudaSuccess)
        return sim_result(first != cudaSuccess ? first : second);
    *ms_out = (float)((double)(int64_t)(end_ns - start_ns) / 1e6);
    return cudaSuccess;
}
