/* Streams: a thread with a FIFO queue each. The thread is detached, so that destroying a stream does not block. The
 * struct is never freed, so that use of a destroyed handle is detected. */
#include "tests/sim/sim_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LEAST_PRIORITY 0
#define GREATEST_PRIORITY (-5)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* protects `streams` */
static struct CUstream_st *streams;

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
    struct sim_op *const op = sim_alloc(sizeof(*op) + bytes);
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

/* Wait for the next operation. Frees the one before it, whose `next` pointed to it. */
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

/* All signals are blocked in the thread, so that the program's threads receive them. */
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

static struct CUstream_st *open_stream(int device)
{
    struct CUstream_st *const stream = sim_alloc(sizeof(*stream));
    stream->device = device;
    stream->last = stream->taken = sim_op_new(NULL, NULL, 0, false);
    sem_init(&stream->queued, 0, 0);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_mutex_init(&stream->finish_lock, NULL);
    pthread_cond_init(&stream->idle, NULL);
    start_thread(stream);
    pthread_mutex_lock(&lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&lock);
    return stream;
}

void sim_stream_check(cudaStream_t stream)
{
    if (stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        sim_die("the default streams of a device are not simulated");
    pthread_mutex_lock(&stream->lock);
    const bool destroyed = stream->destroyed;
    pthread_mutex_unlock(&stream->lock);
    if (destroyed)
        sim_die("use of a stream that was destroyed");
}

/* The stream's lock is held. */
static void append(struct CUstream_st *stream, struct sim_op *op)
{
    atomic_store_explicit(&stream->last->next, op, memory_order_release);
    stream->last = op;
    sem_post(&stream->queued);
}

void sim_stream_add(cudaStream_t stream, struct sim_op *op)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->capture != NULL) {
        sim_branch_add(stream->capture, op);
    } else {
        append(stream, op);
        stream->pushed++;
    }
    pthread_mutex_unlock(&stream->lock);
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

void sim_device_drain(int device)
{
    pthread_mutex_lock(&lock);
    struct CUstream_st *stream = streams;
    pthread_mutex_unlock(&lock);
    for (; stream != NULL; stream = stream->next)
        if (stream->device == device)
            sim_stream_drain(stream);
}

int sim_stream_device(cudaStream_t stream)
{
    sim_stream_check(stream);
    return stream->device;
}

static void push(cudaStream_t stream, void (*run)(void *arguments), const void *arguments, size_t bytes)
{
    sim_stream_check(stream);
    if (stream->device != sim_current_device())
        sim_die("device %d is current, the stream is of device %d", sim_current_device(), stream->device);
    sim_stream_add(stream, sim_op_new(run, arguments, bytes, true));
}

static void compute_nothing(void *arguments)
{
    (void)arguments;
}

void sim_stream_push(cudaStream_t stream, void (*run)(void *arguments), const void *arguments, size_t bytes)
{
    push(stream, sim_is_hollow() ? compute_nothing : run, arguments, bytes);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    SIM_ENTER();
    *least = LEAST_PRIORITY;
    *greatest = GREATEST_PRIORITY;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream_out, unsigned int flags, int priority)
{
    SIM_ENTER();
    (void)priority;             /* clamped to the range, never an error */
    if (flags != cudaStreamNonBlocking)
        sim_die("streams that wait for the legacy stream are not simulated");
    *stream_out = open_stream(sim_current_device());
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    SIM_ENTER();
    sim_stream_check(stream);
    if (sim_stream_is_captured(stream))
        sim_die("a stream is destroyed while it is captured");
    pthread_mutex_lock(&stream->lock);
    stream->destroyed = true;
    append(stream, sim_op_new(NULL, NULL, 0, false));
    pthread_mutex_unlock(&stream->lock);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    sim_stream_check(stream);
    sim_stream_drain(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    sim_stream_check(stream);
    return sim_result(is_idle(stream) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize(void)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    sim_device_drain(sim_current_device());
    return cudaSuccess;
}

struct host_call {
    cudaHostFn_t function;
    void *argument;
};

static pthread_mutex_t host_thread = PTHREAD_MUTEX_INITIALIZER;

static void run_host_call(void *arguments)
{
    const struct host_call *const call = arguments;
    const bool is_alone = sim_has_one_host_thread();
    if (is_alone)
        pthread_mutex_lock(&host_thread);
    call->function(call->argument);
    if (is_alone)
        pthread_mutex_unlock(&host_thread);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    SIM_ENTER();
    const struct host_call call = { .function = function, .argument = argument };
    push(stream, run_host_call, &call, sizeof(call));
    return cudaSuccess;
}
