/* Streams: a thread and a FIFO each. The threads are detached and a stream's struct stays for
 * good, so that using a destroyed handle is noticed and destroying never blocks. */
#include "tests/sim/sim_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LEAST_PRIORITY 0
#define GREATEST_PRIORITY (-5)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* for the two variables */
static struct CUstream_st *streams;
static struct CUstream_st *legacy_streams[SIM_DEVICES_MAX];

static atomic_uint delay_us;

void sim_delay_us(uint32_t us)
{
    atomic_store_explicit(&delay_us, us, memory_order_relaxed);
}

static void delay(void)
{
    const uint32_t us = atomic_load_explicit(&delay_us, memory_order_relaxed);
    struct timespec left = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };
    while (us > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

struct sim_op *sim_op_new(void (*run)(void *arguments), const void *arguments, size_t bytes, bool is_work)
{
    struct sim_op *const op = malloc(sizeof(*op) + bytes);
    if (op == NULL)
        sim_die("out of memory");
    atomic_init(&op->next, NULL);
    op->run = run;
    op->is_work = is_work;
    if (bytes > 0)
        memcpy(op->arguments, arguments, bytes);
    return op;
}

void sim_op_run(struct sim_op *op)
{
    if (op->is_work)
        delay();
    op->run(op->arguments);
}

/* The next operation. The one before, at whose end it was queued, is free now. */
static struct sim_op *take(struct CUstream_st *stream)
{
    while (sem_wait(&stream->queued) != 0)
        continue;
    struct sim_op *const op = atomic_load_explicit(&stream->taken->next, memory_order_acquire);
    free(stream->taken);
    stream->taken = op;
    return op;
}

static void finish(struct CUstream_st *stream)
{
    pthread_mutex_lock(&stream->finish_lock);
    stream->finished++;
    pthread_cond_broadcast(&stream->idle);
    pthread_mutex_unlock(&stream->finish_lock);
}

static void *stream_loop(void *argument)
{
    struct CUstream_st *const stream = argument;
    sim_enter_stream_thread();
    sim_set_current_device(stream->device);
    for (struct sim_op *op; (op = take(stream))->run != NULL;) {
        sim_op_run(op);
        finish(stream);
    }
    free(stream->taken);
    stream->taken = NULL;
    return NULL;
}

/* Signals are for the program's threads. */
static void start_thread(struct CUstream_st *stream)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, stream_loop, stream) != 0)
        sim_die("no thread for a stream");
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The lock is held. */
static struct CUstream_st *open_stream(int device)
{
    struct CUstream_st *const stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        sim_die("out of memory");
    stream->device = device;
    stream->last = stream->taken = sim_op_new(NULL, NULL, 0, false);
    sem_init(&stream->queued, 0, 0);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_mutex_init(&stream->finish_lock, NULL);
    pthread_cond_init(&stream->idle, NULL);
    start_thread(stream);
    stream->next = streams;
    streams = stream;
    return stream;
}

static struct CUstream_st *legacy_stream(int device)
{
    pthread_mutex_lock(&lock);
    if (legacy_streams[device] == NULL)
        legacy_streams[device] = open_stream(device);
    struct CUstream_st *const stream = legacy_streams[device];
    pthread_mutex_unlock(&lock);
    return stream;
}

static void check_handle(struct CUstream_st *stream)
{
    if (stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        sim_die("the handles cudaStreamLegacy and cudaStreamPerThread are not simulated");
    pthread_mutex_lock(&stream->lock);
    const bool destroyed = stream->destroyed;
    pthread_mutex_unlock(&stream->lock);
    if (destroyed)
        sim_die("use of a stream that was destroyed");
}

cudaError_t sim_stream_find(cudaStream_t handle, cudaStream_t *stream_out)
{
    if (handle != NULL) {
        check_handle(handle);
        *stream_out = handle;
        return cudaSuccess;
    }
    if (sim_invalidate_captures())
        return cudaErrorStreamCaptureImplicit;
    *stream_out = legacy_stream(sim_current_device());
    return cudaSuccess;
}

/* The lock is held. */
static void append(struct CUstream_st *stream, struct sim_op *op)
{
    atomic_store_explicit(&stream->last->next, op, memory_order_release);
    stream->last = op;
    sem_post(&stream->queued);
}

cudaError_t sim_stream_add(cudaStream_t stream, struct sim_op *op)
{
    cudaError_t status = cudaSuccess;
    pthread_mutex_lock(&stream->lock);
    if (stream->capture != NULL) {
        status = sim_capture_add(stream->capture, op);
    } else {
        append(stream, op);
        stream->pushed++;
    }
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static uint64_t pushed(struct CUstream_st *stream)
{
    pthread_mutex_lock(&stream->lock);
    const uint64_t count = stream->pushed;
    pthread_mutex_unlock(&stream->lock);
    return count;
}

void sim_stream_drain(cudaStream_t stream)
{
    const uint64_t target = pushed(stream);
    pthread_mutex_lock(&stream->finish_lock);
    while (stream->finished < target)
        pthread_cond_wait(&stream->idle, &stream->finish_lock);
    pthread_mutex_unlock(&stream->finish_lock);
}

static bool is_idle(struct CUstream_st *stream)
{
    const uint64_t target = pushed(stream);
    pthread_mutex_lock(&stream->finish_lock);
    const bool idle = stream->finished >= target;
    pthread_mutex_unlock(&stream->finish_lock);
    return idle;
}

static struct CUstream_st *first_stream(void)
{
    pthread_mutex_lock(&lock);
    struct CUstream_st *const first = streams;
    pthread_mutex_unlock(&lock);
    return first;
}

void sim_device_drain(int device)
{
    for (struct CUstream_st *stream = first_stream(); stream != NULL; stream = stream->next)
        if (stream->device == device)
            sim_stream_drain(stream);
}

int sim_stream_device(cudaStream_t stream)
{
    if (stream == NULL)
        return sim_current_device();
    check_handle(stream);
    return stream->device;
}

static cudaError_t push(cudaStream_t handle, void (*run)(void *arguments), const void *arguments, size_t bytes)
{
    cudaStream_t stream;
    const cudaError_t status = sim_stream_find(handle, &stream);
    if (status != cudaSuccess)
        return status;
    if (stream->device != sim_current_device())
        sim_die("device %d is current, the stream is of device %d", sim_current_device(), stream->device);
    return sim_stream_add(stream, sim_op_new(run, arguments, bytes, true));
}

static void compute_nothing(void *arguments)
{
    (void)arguments;
}

cudaError_t sim_stream_try_push(cudaStream_t stream, void (*run)(void *arguments), const void *arguments,
                                size_t bytes)
{
    return push(stream, sim_is_hollow() ? compute_nothing : run, arguments, bytes);
}

/* Without a status: a capture that was lost says so when it ends. */
void sim_stream_push(cudaStream_t stream, void (*run)(void *arguments), const void *arguments, size_t bytes)
{
    sim_result(sim_stream_try_push(stream, run, arguments, bytes));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    SIM_ENTER();
    if (least != NULL)
        *least = LEAST_PRIORITY;
    if (greatest != NULL)
        *greatest = GREATEST_PRIORITY;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream_out, unsigned int flags, int priority)
{
    SIM_ENTER();
    (void)priority;             /* out of range is not an error: it is moved into the range */
    if (stream_out == NULL || flags > cudaStreamNonBlocking)
        return sim_result(cudaErrorInvalidValue);
    if (sim_device_count() == 0)
        return sim_result(cudaErrorNoDevice);
    if (flags != cudaStreamNonBlocking)
        sim_die("streams that wait for the legacy stream are not simulated");
    pthread_mutex_lock(&lock);
    *stream_out = open_stream(sim_current_device());
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    SIM_ENTER();
    if (stream == NULL)
        return sim_result(cudaErrorInvalidResourceHandle);
    check_handle(stream);
    if (sim_capture_of(stream, NULL) != 0)
        sim_die("a stream is destroyed while it is captured");
    pthread_mutex_lock(&stream->lock);
    stream->destroyed = true;
    append(stream, sim_op_new(NULL, NULL, 0, false));
    pthread_mutex_unlock(&stream->lock);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    SIM_ENTER();
    cudaStream_t stream;
    cudaError_t status = sim_unsafe_call();
    if (status == cudaSuccess)
        status = sim_stream_find(handle, &stream);
    if (status == cudaSuccess)
        sim_stream_drain(stream);
    return sim_result(status);
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    SIM_ENTER();
    cudaStream_t stream;
    cudaError_t status = sim_unsafe_call();
    if (status == cudaSuccess)
        status = sim_stream_find(handle, &stream);
    if (status == cudaSuccess && !is_idle(stream))
        status = cudaErrorNotReady;
    return sim_result(status);
}

cudaError_t cudaDeviceSynchronize(void)
{
    SIM_ENTER();
    const cudaError_t status = sim_unsafe_call();
    if (status == cudaSuccess)
        sim_device_drain(sim_current_device());
    return sim_result(status);
}

struct host_call {
    cudaHostFn_t function;
    void *argument;
};

static void run_host_call(void *arguments)
{
    const struct host_call *const call = arguments;
    call->function(call->argument);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *argument)
{
    SIM_ENTER();
    if (function == NULL)
        return sim_result(cudaErrorInvalidValue);
    const struct host_call call = { .function = function, .argument = argument };
    return sim_result(push(handle, run_host_call, &call, sizeof(call)));
}
