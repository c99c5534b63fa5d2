/* Stream capture and graphs: one capture at a time per thread, in cudaStreamCaptureModeThreadLocal. A graph has a
 * branch for every stream that took part: the captured one, and those that waited for an event of the capture. A branch
 * is the list of the operations that were queued on the stream, and of its waits for other branches. A launch runs the
 * graph as one operation of the stream. Only waits order the branches: launches run the captured stream's branch as
 * early as its waits allow, or the others, or one operation of each in turn, so that a missing wait shows in the
 * results. */
#include "tests/sim/sim_internal.h"

#include <stdlib.h>

#define BRANCHES_MAX 4u

/* Of the branches in a launch. */
enum order { CAPTURED_FIRST, OTHERS_FIRST, IN_TURNS, ORDERS };

/* The operations of one stream. */
struct sim_branch {
    struct sim_capture *capture;
    cudaStream_t stream;
    struct sim_op *first, *last;
    uint64_t count;             /* operations, waits included */
    uint64_t joined;            /* as many of them the captured stream has waited for */
    struct sim_op *next;        /* while a launch runs: the next operation, and how many were run */
    uint64_t done;
};

/* Shared by a graph, its instances and their queued launches. */
struct sim_capture {
    atomic_uint references;
    uint64_t number;            /* of all captures, from 1 */
    struct sim_branch branches[BRANCHES_MAX];   /* the first one is the captured stream's */
    unsigned int branch_count;
    pthread_mutex_t running;    /* launches of one graph run one after the other; protects the next field */
    enum order order;           /* of the next launch */
};

struct CUgraph_st {
    struct sim_capture *capture;
};

struct CUgraphExec_st {
    struct sim_capture *capture;
    int device;
};

static _Thread_local struct sim_capture *current;       /* what this thread captures, or NULL */
static atomic_ullong captures;                          /* that have begun */

static struct sim_capture *capture_new(void)
{
    struct sim_capture *const capture = sim_alloc(sizeof(*capture));
    atomic_init(&capture->references, 1);
    capture->number = atomic_fetch_add(&captures, 1) + 1;
    capture->order = (enum order)(capture->number % ORDERS);
    pthread_mutex_init(&capture->running, NULL);
    return capture;
}

static struct sim_capture *capture_hold(struct sim_capture *capture)
{
    atomic_fetch_add_explicit(&capture->references, 1, memory_order_relaxed);
    return capture;
}

static void capture_drop(struct sim_capture *capture)
{
    if (atomic_fetch_sub_explicit(&capture->references, 1, memory_order_acq_rel) != 1)
        return;
    for (unsigned int i = 0; i < capture->branch_count; i++)
        for (struct sim_op *op = capture->branches[i].first, *next; op != NULL; op = next) {
            next = op->next;
            free(op);
        }
    pthread_mutex_destroy(&capture->running);
    free(capture);
}

/* ---- running ---- */

/* A branch waits until `count` operations of another one have run. */
struct wait { const struct sim_branch *branch; uint64_t count; };

static void wait_call(void *arguments)
{
    (void)arguments;            /* run_branch looks whether the wait is over */
}

static bool has_to_wait(const struct sim_op *op)
{
    const struct wait *const wait = (const struct wait *)(const void *)op->arguments;
    return op->run == wait_call && wait->branch->done < wait->count;
}

/* Runs the branch's next operation. False: there is none, or it waits. */
static bool run_next(struct sim_branch *branch)
{
    struct sim_op *const op = branch->next;
    if (op == NULL || has_to_wait(op))
        return false;
    sim_op_run(op);
    branch->next = op->next;
    branch->done++;
    return true;
}

/* Runs one operation at a time: of the first branch in order that need not wait, or of every branch in turn. */
static void run_branches(struct sim_capture *capture)
{
    const unsigned int count = capture->branch_count;
    const enum order order = capture->order;
    for (unsigned int i = 0; i < count; i++) {
        capture->branches[i].next = capture->branches[i].first;
        capture->branches[i].done = 0;
    }
    for (unsigned int i = 0, idle = 0; idle < count;) {
        const bool has_run = run_next(&capture->branches[order == OTHERS_FIRST ? count - 1 - i : i]);
        idle = has_run ? 0 : idle + 1;
        i = has_run && order != IN_TURNS ? 0 : (i + 1) % count;
    }
    capture->order = (enum order)((order + 1) % ORDERS);
}

static void run_capture(void *arguments)
{
    struct sim_capture *const capture = *(struct sim_capture **)arguments;
    pthread_mutex_lock(&capture->running);
    run_branches(capture);
    pthread_mutex_unlock(&capture->running);
    capture_drop(capture);
}

/* ---- capturing ---- */

void sim_branch_add(struct sim_branch *branch, struct sim_op *op)
{
    if (branch->last == NULL)
        branch->first = op;
    else
        atomic_store_explicit(&branch->last->next, op, memory_order_relaxed);
    branch->last = op;
    branch->count++;
}

void sim_check_no_capture(const char *function)
{
    if (current != NULL)
        sim_die("%s is called while the thread captures a stream", function);
}

bool sim_stream_is_captured(cudaStream_t stream)
{
    pthread_mutex_lock(&stream->lock);
    const bool is_captured = stream->capture != NULL;
    pthread_mutex_unlock(&stream->lock);
    return is_captured;
}

/* Returns the branch that operations of the stream were recorded in, or NULL. */
static struct sim_branch *set_branch(cudaStream_t stream, struct sim_branch *branch)
{
    pthread_mutex_lock(&stream->lock);
    struct sim_branch *const before = stream->capture;
    stream->capture = branch;
    pthread_mutex_unlock(&stream->lock);
    return before;
}

static struct sim_branch *branch_new(struct sim_capture *capture, cudaStream_t stream)
{
    if (capture->branch_count == BRANCHES_MAX)
        sim_die("a graph of more than %u streams is not simulated", BRANCHES_MAX);
    struct sim_branch *const branch = &capture->branches[capture->branch_count++];
    branch->capture = capture;
    branch->stream = stream;
    if (set_branch(stream, branch) != NULL)
        sim_die("a stream that another thread captures");
    return branch;
}

/* The branch of a stream in the capture of this thread, or NULL. */
static struct sim_branch *branch_of(cudaStream_t stream)
{
    for (unsigned int i = 0; current != NULL && i < current->branch_count; i++)
        if (current->branches[i].stream == stream)
            return &current->branches[i];
    return NULL;
}

bool sim_capture_mark(cudaStream_t stream, struct sim_mark *mark_out)
{
    const struct sim_branch *const branch = branch_of(stream);
    if (branch == NULL && sim_stream_is_captured(stream))
        sim_die("an event is recorded in a stream that another thread captures");
    *mark_out = (struct sim_mark){ 0 };
    if (branch != NULL)
        *mark_out = (struct sim_mark){ current->number, (unsigned int)(branch - current->branches), branch->count };
    return branch != NULL;
}

bool sim_capture_wait(cudaStream_t stream, const struct sim_mark *mark)
{
    struct sim_branch *branch = branch_of(stream);
    if (mark->capture == 0 && branch == NULL && !sim_stream_is_captured(stream))
        return false;
    if (mark->capture == 0)
        sim_die("a captured stream waits for an event that was not recorded in the capture");
    if (current == NULL || current->number != mark->capture)
        sim_die("an event of another capture is waited for");
    if (branch == NULL)
        branch = branch_new(current, stream);
    struct sim_branch *const other = &current->branches[mark->branch];
    const struct wait wait = { other, mark->count };
    if (other != branch)
        sim_branch_add(branch, sim_op_new(wait_call, &wait, sizeof(wait), false));
    if (branch == current->branches && other->joined < mark->count)
        other->joined = mark->count;
    return true;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    SIM_ENTER();
    sim_stream_check(stream);
    sim_check_no_capture(__func__);
    if (mode != cudaStreamCaptureModeThreadLocal)
        sim_die("capture other than cudaStreamCaptureModeThreadLocal is not simulated");
    current = capture_new();
    branch_new(current, stream);
    return cudaSuccess;
}

/* Has the captured stream waited for all that other streams were given? */
static bool is_joined(const struct sim_capture *capture)
{
    for (unsigned int i = 1; i < capture->branch_count; i++)
        if (capture->branches[i].joined < capture->branches[i].count)
            return false;
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph_out)
{
    SIM_ENTER();
    if (stream == NULL || current == NULL || current->branches[0].stream != stream)
        sim_die("%s: the thread does not capture this stream", __func__);
    struct sim_capture *const capture = current;
    for (unsigned int i = 0; i < capture->branch_count; i++)
        set_branch(capture->branches[i].stream, NULL);
    current = NULL;
    *graph_out = NULL;
    if (!is_joined(capture)) {
        capture_drop(capture);
        return sim_result(cudaErrorStreamCaptureUnjoined);
    }
    *graph_out = sim_alloc(sizeof(**graph_out));
    (*graph_out)->capture = capture;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec_out, cudaGraph_t graph, unsigned long long flags)
{
    SIM_ENTER();
    if (flags != 0)
        sim_die("%s: flags are not simulated", __func__);
    *exec_out = sim_alloc(sizeof(**exec_out));
    (*exec_out)->capture = capture_hold(graph->capture);
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
    struct sim_capture *const capture = capture_hold(exec->capture);
    sim_stream_add(stream, sim_op_new(run_capture, &capture, sizeof(capture), false));
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    SIM_ENTER();
    capture_drop(graph->capture);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    SIM_ENTER();
    capture_drop(exec->capture);
    free(exec);
    return cudaSuccess;
}
