/* Stream capture and graphs: one capture at a time per thread, in cudaStreamCaptureModeThreadLocal. A graph is the list
 * of the operations that were queued during the capture; a launch runs the list as one operation of the stream. */
#include "tests/sim/sim_internal.h"

#include <stdlib.h>

/* Shared by a graph, its instances and their queued launches. */
struct sim_op_list {
    atomic_uint references;
    struct sim_op *first, *last;
    pthread_mutex_t running;    /* launches of one graph run one after the other */
};

struct CUgraph_st {
    struct sim_op_list *list;
};

struct CUgraphExec_st {
    struct sim_op_list *list;
    int device;
};

static _Thread_local cudaStream_t captured;     /* the stream that this thread captures, or NULL */

static struct sim_op_list *list_new(void)
{
    struct sim_op_list *const list = sim_alloc(sizeof(*list));
    atomic_init(&list->references, 1);
    pthread_mutex_init(&list->running, NULL);
    return list;
}

static struct sim_op_list *list_hold(struct sim_op_list *list)
{
    atomic_fetch_add_explicit(&list->references, 1, memory_order_relaxed);
    return list;
}

static void list_drop(struct sim_op_list *list)
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
    struct sim_op_list *const list = *(struct sim_op_list **)arguments;
    pthread_mutex_lock(&list->running);
    for (struct sim_op *op = list->first; op != NULL; op = op->next)
        sim_op_run(op);
    pthread_mutex_unlock(&list->running);
    list_drop(list);
}

void sim_op_list_add(struct sim_op_list *list, struct sim_op *op)
{
    if (list->last == NULL)
        list->first = op;
    else
        atomic_store_explicit(&list->last->next, op, memory_order_relaxed);
    list->last = op;
}

void sim_check_no_capture(const char *function)
{
    if (captured != NULL)
        sim_die("%s is called while the thread captures a stream", function);
}

bool sim_stream_is_captured(cudaStream_t stream)
{
    pthread_mutex_lock(&stream->lock);
    const bool is_captured = stream->capture != NULL;
    pthread_mutex_unlock(&stream->lock);
    return is_captured;
}

/* Returns what operations of the stream were recorded in, or NULL. */
static struct sim_op_list *set_capture(cudaStream_t stream, struct sim_op_list *list)
{
    pthread_mutex_lock(&stream->lock);
    struct sim_op_list *const before = stream->capture;
    stream->capture = list;
    pthread_mutex_unlock(&stream->lock);
    return before;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    SIM_ENTER();
    sim_stream_check(stream);
    sim_check_no_capture(__func__);
    if (mode != cudaStreamCaptureModeThreadLocal)
        sim_die("capture other than cudaStreamCaptureModeThreadLocal is not simulated");
    if (set_capture(stream, list_new()) != NULL)
        sim_die("%s: another thread captures the stream", __func__);
    captured = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph_out)
{
    SIM_ENTER();
    if (stream == NULL || captured != stream)
        sim_die("%s: the thread does not capture this stream", __func__);
    *graph_out = sim_alloc(sizeof(**graph_out));
    (*graph_out)->list = set_capture(stream, NULL);
    captured = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec_out, cudaGraph_t graph, unsigned long long flags)
{
    SIM_ENTER();
    if (flags != 0)
        sim_die("%s: flags are not simulated", __func__);
    *exec_out = sim_alloc(sizeof(**exec_out));
    (*exec_out)->list = list_hold(graph->list);
    (*exec_out)->device = sim_current_device();
    return cudaSuccess;
}

static void check_launch(const struct CUgraphExec_st *exec, cudaStream_t stream)
{
    sim_stream_check(stream);
    if (sim_stream_is_captured(stream))
        sim_die("the launch of a graph is captured: not simulated");
    if (stream->device != exec->device)
        sim_die("a graph of device %d is launched on device %d", exec->device, stream->device);
}

/* Copies nothing, because the operations are in the host's memory. */
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    SIM_ENTER();
    check_launch(exec, stream);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    SIM_ENTER();
    check_launch(exec, stream);
    struct sim_op_list *const list = list_hold(exec->list);
    sim_stream_add(stream, sim_op_new(run_list, &list, sizeof(list), false));
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    SIM_ENTER();
    list_drop(graph->list);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    SIM_ENTER();
    list_drop(exec->list);
    free(exec);
    return cudaSuccess;
}
