/* Events. Every record makes a new point, which the stream passes and which waits refer to: recording an event again
 * does not change what earlier waits wait for. In a capture an event is no point in time but a place in the graph,
 * which only streams of the capture can wait for. The struct of an event is never freed, so that use of a destroyed
 * handle is detected. */
#include "tests/sim/sim_internal.h"

#include <stdlib.h>
#include <time.h>

#define QUERY_WAIT_NS 1000000u

struct point {
    atomic_uint references;     /* of the event and of queued operations */
    pthread_mutex_t lock;       /* protects the next four fields */
    pthread_cond_t changed;
    bool queried;               /* by cudaEventQuery */
    bool passed;
    uint64_t passed_ns;
};

struct CUevent_st {
    struct CUevent_st *next;    /* in the list of all events ever created */
    int device;
    bool timed;
    pthread_mutex_t lock;       /* protects the next three fields */
    bool destroyed;
    struct point *latest;       /* of the last record, or NULL */
    struct sim_mark mark;       /* of the last record, if that was in a capture */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* protects `events` */
static struct CUevent_st *events;

static struct point *point_new(void)
{
    struct point *const point = sim_alloc(sizeof(*point));
    pthread_condattr_t clock;
    atomic_init(&point->references, 1);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&point->lock, NULL);
    pthread_cond_init(&point->changed, &clock);
    pthread_condattr_destroy(&clock);
    return point;
}

/* Relaxed is enough, because the caller has a reference already. */
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

static atomic_ullong pretended_ns;

void sim_pretend_ns(uint64_t ns)
{
    atomic_fetch_add(&pretended_ns, ns);
}

static void point_pass(struct point *point)
{
    pthread_mutex_lock(&point->lock);
    point->passed = true;
    point->passed_ns = now_ns() + atomic_load(&pretended_ns);
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

/* For cudaEventQuery: was the point passed? All queries of a point but the first wait for it, up to QUERY_WAIT_NS: the
 * simulated device needs the CPU time that a caller would use for polling. */
static bool point_query(struct point *point)
{
    const uint64_t until_ns = now_ns() + QUERY_WAIT_NS;
    const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000u),
                                    .tv_nsec = (long)(until_ns % 1000000000u) };
    int rc = 0;
    pthread_mutex_lock(&point->lock);
    while (point->queried && !point->passed && rc == 0)
        rc = pthread_cond_timedwait(&point->changed, &point->lock, &until);
    const bool passed = point->passed;
    point->queried = true;
    pthread_mutex_unlock(&point->lock);
    return passed;
}

/* The stream drops the point of the record before, not the caller: dropping it in the caller would synchronise the
 * caller with the stream, which the real library does not guarantee. */
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

/* Takes the lock of the event, which must not be destroyed. */
static void event_lock(struct CUevent_st *event)
{
    pthread_mutex_lock(&event->lock);
    if (event->destroyed)
        sim_die("use of an event that was destroyed");
}

/* The point of the last record, with a reference for the caller; NULL: never recorded. */
static struct point *latest_point(struct CUevent_st *event)
{
    event_lock(event);
    if (event->mark.capture != 0)
        sim_die("an event that was recorded in a capture has no point in time");
    struct point *const point = event->latest == NULL ? NULL : point_hold(event->latest);
    pthread_mutex_unlock(&event->lock);
    return point;
}

/* Returns the point of the record before, or NULL. */
static struct point *replace_point(struct CUevent_st *event, struct point *point, const struct sim_mark *mark)
{
    event_lock(event);
    struct point *const before = event->latest;
    event->latest = point;
    event->mark = *mark;
    pthread_mutex_unlock(&event->lock);
    return before;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event_out, unsigned int flags)
{
    SIM_ENTER();
    if ((flags & ~(unsigned int)(cudaEventBlockingSync | cudaEventDisableTiming)) != 0)
        sim_die("%s: flags %u are not simulated", __func__, flags);
    struct CUevent_st *const event = sim_alloc(sizeof(*event));
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
    return cudaEventCreateWithFlags(event_out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    SIM_ENTER();
    struct point *const point = replace_point(event, NULL, &(struct sim_mark){ 0 });
    pthread_mutex_lock(&event->lock);
    event->destroyed = true;
    pthread_mutex_unlock(&event->lock);
    point_drop(point);
    return cudaSuccess;
}

static struct sim_mark mark_of(struct CUevent_st *event)
{
    event_lock(event);
    const struct sim_mark mark = event->mark;
    pthread_mutex_unlock(&event->lock);
    return mark;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    SIM_ENTER();
    struct sim_mark mark;
    sim_stream_check(stream);
    if (event->device != stream->device)
        sim_die("%s: an event of device %d, a stream of device %d", __func__, event->device, stream->device);
    if (sim_capture_mark(stream, &mark)) {
        point_drop(replace_point(event, NULL, &mark));
        return cudaSuccess;
    }
    struct point *const point = point_new();
    const struct record record = { .point = point_hold(point), .before = replace_point(event, point, &mark) };
    sim_stream_add(stream, sim_op_new(run_record, &record, sizeof(record), false));
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    SIM_ENTER();
    const struct sim_mark mark = mark_of(event);
    sim_stream_check(stream);
    if (flags != cudaEventWaitDefault)
        sim_die("%s: flags are not simulated", __func__);
    if (sim_capture_wait(stream, &mark))
        return cudaSuccess;
    struct point *const point = latest_point(event);
    if (point != NULL)
        sim_stream_add(stream, sim_op_new(run_wait, &point, sizeof(point), false));
    return cudaSuccess;
}

/* Success also for an event that was never recorded. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    struct point *const point = latest_point(event);
    const bool passed = point == NULL || point_query(point);
    point_drop(point);
    return sim_result(passed ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    struct point *const point = latest_point(event);
    if (point != NULL)
        point_wait(point);
    point_drop(point);
    return cudaSuccess;
}

/* The time at which the event was passed; false: not yet. */
static bool time_of(struct CUevent_st *event, uint64_t *passed_ns_out)
{
    struct point *const point = latest_point(event);
    if (point == NULL || !event->timed)
        sim_die("cudaEventElapsedTime: an event that was never recorded, or that has no time");
    const bool passed = point_passed(point, passed_ns_out);
    point_drop(point);
    return passed;
}

cudaError_t cudaEventElapsedTime(float *ms_out, cudaEvent_t start, cudaEvent_t end)
{
    SIM_ENTER();
    uint64_t start_ns, end_ns;
    if (start->device != end->device)
        sim_die("%s: events of two devices", __func__);
    const bool has_started = time_of(start, &start_ns), has_ended = time_of(end, &end_ns);
    if (!has_started || !has_ended)
        return sim_result(cudaErrorNotReady);
    *ms_out = (float)((double)(int64_t)(end_ns - start_ns) / 1e6);
    return cudaSuccess;
}
