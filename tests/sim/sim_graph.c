/* Stream capture and graphs, for one stream per capture and cudaStreamCaptureModeThreadLocal.
 * A graph is the list of what was queued; a launch runs it as one operation of the stream. */
#include "tests/sim/sim_internal.h"

#include <stdlib.h>

/* Shared by a graph, what was instantiated from it, and queued launches. */
struct op_list {
    atomic_uint references;
    struct sim_op *first, *last;
    size_t count;
    pthread_mutex_t running;    /* launches of one graph come one after the other */
};

struct sim_capture {
    struct sim_capture *next;   /* among those of the thread */
    uint64_t number;
    cudaStream_t stream;
    struct op_list *list;
    bool invalid;               /* under the stream's lock */
};

struct CUgraph_st {
    struct op_list *list;
};

struct CUgraphExec_st {
    struct op_list *list;
    int device;
};

static atomic_uint_least64_t last_number;
static _Thread_local struct sim_capture *own_captures;

static struct op_list *list_new(void)
{
    struct op_list *const list = calloc(1, sizeof(*list));
    if (list == NULL)
        sim_die("out of memory");
    atomic_init(&list->references, 1);
    pthread_mutex_init(&list->running, NULL);
    return list;
}

static struct op_list *list_hold(struct op_list *list)
{
    atomic_fetch_add_explicit(&list->references, 1, memory_order_relaxed);
    return list;
}

static void list_drop(struct op_list *list)
{
    if (atomic_fetch_sub_explicit(&list->references, 1, memory_order_acq_rel) != 1)
        return;
    while (list->first != NULL) {
        struct sim_op *const op = list->first;
        list->first = op->next;
        free(op);
    }
    pthread_mutex_destroy(&list->running);
    free(list);
}

static void run_list(void *arguments)
{
    struct op_list *const list = *(struct op_list **)arguments;
    pthread_mutex_lock(&list->running);
    for (struct sim_op *op = list->first; op != NULL; op = op->next)
        sim_op_run(op);
    pthread_mutex_unlock(&list->running);
    list_drop(list);
}

bool sim_invalidate_captures(void)
{
    for (struct sim_capture *capture = own_captures; capture != NULL; capture = capture->next) {
        pthread_mutex_lock(&capture->stream->lock);
        capture->invalid = true;
        pthread_mutex_unlock(&capture->stream->lock);
    }
    return own_captures != NULL;
}

cudaError_t sim_unsafe_call(void)
{
    return sim_invalidate_captures() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t sim_capture_add(struct sim_capture *capture, struct sim_op *op)
{
    if (capture->invalid) {
        free(op);
        return cudaErrorStreamCaptureInvalidated;
    }
    struct op_list *const list = capture->list;
    if (list->last == NULL)
        list->first = op;
    else
        atomic_store_explicit(&list->last->next, op, memory_order_relaxed);
    list->last = op;
    list->count++;
    return cudaSuccess;
}

uint64_t sim_capture_of(cudaStream_t stream, bool *invalid_out)
{
    pthread_mutex_lock(&stream->lock);
    const struct sim_capture *const capture = stream->capture;
    const uint64_t number = capture == NULL ? 0 : capture->number;
    if (invalid_out != NULL)
        *invalid_out = capture != NULL && capture->invalid;
    pthread_mutex_unlock(&stream->lock);
    return number;
}

bool sim_capture_is_open(uint64_t number)
{
    for (const struct sim_capture *capture = own_captures; capture != NULL; capture = capture->next)
        if (capture->number == number)
            return true;
    return false;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status_out)
{
    SIM_ENTER();
    cudaStream_t stream;
    bool invalid;
    if (status_out == NULL)
        return sim_result(cudaErrorInvalidValue);
    const cudaError_t status = sim_stream_find(handle, &stream);
    if (status != cudaSuccess)
        return sim_result(status);
    const bool captured = sim_capture_of(stream, &invalid) != 0;
    *status_out = !captured ? cudaStreamCaptureStatusNone
                  : invalid ? cudaStreamCaptureStatusInvalidated
                            : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

static struct sim_capture *capture_new(cudaStream_t stream)
{
    struct sim_capture *const capture = calloc(1, sizeof(*capture));
    if (capture == NULL)
        sim_die("out of memory");
    capture->number = atomic_fetch_add(&last_number, 1) + 1;
    capture->stream = stream;
    capture->list = list_new();
    capture->next = own_captures;
    own_captures = capture;
    return capture;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    SIM_ENTER();
    cudaStream_t stream;
    if (handle == NULL)
        return sim_result(cudaErrorStreamCaptureUnsupported);
    const cudaError_t status = sim_stream_find(handle, &stream);
    if (status != cudaSuccess)
        return sim_result(status);
    if (mode != cudaStreamCaptureModeThreadLocal)
        sim_die("capture other than cudaStreamCaptureModeThreadLocal is not simulated");
    if (sim_capture_of(stream, NULL) != 0)
        return sim_result(cudaErrorIllegalState);
    struct sim_capture *const capture = capture_new(stream);
    pthread_mutex_lock(&stream->lock);
    stream->capture = capture;
    pthread_mutex_unlock(&stream->lock);
    return cudaSuccess;
}

/* The thread's capture of the stream, taken out of its list; NULL when it has none. */
static struct sim_capture *take_capture(cudaStream_t stream)
{
    for (struct sim_capture **place = &own_captures; *place != NULL; place = &(*place)->next) {
        struct sim_capture *const capture = *place;
        if (capture->stream == stream) {
            *place = capture->next;
            return capture;
        }
    }
    return NULL;
}

static struct CUgraph_st *graph_new(struct op_list *list)
{
    struct CUgraph_st *const graph = malloc(sizeof(*graph));
    if (graph == NULL)
        sim_die("out of memory");
    graph->list = list;
    return graph;
}

/* The capture is over, well or not. */
static cudaError_t end_capture(struct sim_capture *capture, cudaGraph_t *graph_out)
{
    pthread_mutex_lock(&capture->stream->lock);
    const bool invalid = capture->invalid;
    capture->stream->capture = NULL;
    pthread_mutex_unlock(&capture->stream->lock);
    *graph_out = NULL;
    if (invalid)
        list_drop(capture->list);
    else
        *graph_out = graph_new(capture->list);
    free(capture);
    return invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph_out)
{
    SIM_ENTER();
    cudaStream_t stream;
    if (graph_out == NULL)
        return sim_result(cudaErrorInvalidValue);
    if (handle == NULL)
        return sim_result(cudaErrorIllegalState);
    const cudaError_t status = sim_stream_find(handle, &stream);
    if (status != cudaSuccess)
        return sim_result(status);
    if (sim_capture_of(stream, NULL) == 0)
        return sim_result(cudaErrorIllegalState);
    struct sim_capture *const capture = take_capture(stream);
    if (capture == NULL)
        return sim_result(cudaErrorStreamCaptureWrongThread);
    return sim_result(end_capture(capture, graph_out));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec_out, cudaGraph_t graph, unsigned long long flags)
{
    SIM_ENTER();
    if (exec_out == NULL || graph == NULL || flags != 0)
        return sim_result(cudaErrorInvalidValue);
    struct CUgraphExec_st *const exec = malloc(sizeof(*exec));
    if (exec == NULL)
        sim_die("out of memory");
    exec->list = list_hold(graph->list);
    exec->device = sim_current_device();
    *exec_out = exec;
    return cudaSuccess;
}

/* Nothing to bring to the device; checked as a launch is. */
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle)
{
    SIM_ENTER();
    cudaStream_t stream;
    return sim_result(exec == NULL ? cudaErrorInvalidValue : sim_stream_find(handle, &stream));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle)
{
    SIM_ENTER();
    cudaStream_t stream;
    if (exec == NULL)
        return sim_result(cudaErrorInvalidValue);
    const cudaError_t status = sim_stream_find(handle, &stream);
    if (status != cudaSuccess)
        return sim_result(status);
    if (sim_capture_of(stream, NULL) != 0)
        sim_die("the launch of a graph is captured: not simulated");
    if (stream->device != exec->device)
        sim_die("a graph of device %d is launched on device %d", exec->device, stream->device);
    struct op_list *const list = list_hold(exec->list);
    return sim_result(sim_stream_add(stream, sim_op_new(run_list, &list, sizeof(list), false)));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    SIM_ENTER();
    if (graph == NULL || count == NULL)
        return sim_result(cudaErrorInvalidValue);
    if (nodes == NULL) {
        *count = graph->list->count;
        return cudaSuccess;
    }
    const struct sim_op *op = graph->list->first;
    for (size_t i = 0; i < *count; i++, op = op == NULL ? NULL : op->next)
        nodes[i] = (cudaGraphNode_t)op;
    if (*count > graph->list->count)
        *count = graph->list->count;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    SIM_ENTER();
    if (graph == NULL)
        return sim_result(cudaErrorInvalidValue);
    list_drop(graph->list);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    SIM_ENTER();
    if (exec == NULL)
        return sim_result(cudaErrorInvalidValue);
    list_drop(exec->list);
    free(exec);
    return cudaSuccess;
}
