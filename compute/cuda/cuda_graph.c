/* Recordings: capture, instantiate, upload; then launch. Made when all plans are, before the
 * first step; a step launches only. */
#include "compute/cuda/cuda_graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/heartbeat.h"

struct recording { cudaGraphExec_t graph; };

/* 0, or what *refusal tells. */
static int check(cudaError_t status, const char *call, struct recording_refusal *refusal)
{
    if (status == cudaSuccess)
        return 0;
    cudaGetLastError();         /* the runtime keeps it for the thread's next question otherwise */
    snprintf(refusal->text, sizeof(refusal->text), "%.*s: %s (%s)", (int)strcspn(call, "("), call,
             cudaGetErrorString(status), cudaGetErrorName(status));
    return status == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

#define RECORDING_CALL(call, refusal) check(HEARTBEAT_CALL(#call, call), #call, refusal)

/* The stream records instead of running from begin to end, whatever happens between. Other
 * threads' calls are none of the recording's business: hence thread-local. */
static int capture(cudaStream_t stream, int (*queue)(void *arg), void *arg, cudaGraph_t *graph_out,
                   struct recording_refusal *refusal)
{
    cudaGraph_t graph = NULL;
    int rc = RECORDING_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), refusal);
    if (rc != 0)
        return rc;
    const int queued = queue(arg);
    rc = RECORDING_CALL(cudaStreamEndCapture(stream, &graph), refusal);
    if (queued != 0) {
        snprintf(refusal->text, sizeof(refusal->text), "what is to be recorded failed");
        rc = queued;
    }
    if (rc != 0 && graph != NULL)
        cudaGraphDestroy(graph);
    else if (rc == 0)
        *graph_out = graph;
    return rc;
}

static int instantiate(struct recording *recording, cudaGraph_t graph, cudaStream_t stream,
                       struct recording_refusal *refusal)
{
    int rc = RECORDING_CALL(cudaGraphInstantiate(&recording->graph, graph, 0), refusal);
    if (rc != 0) {
        recording->graph = NULL;
        return rc;
    }
    return RECORDING_CALL(cudaGraphUpload(recording->graph, stream), refusal);
}

int recording_open(struct recording **recording_out, cudaStream_t stream, int (*queue)(void *arg), void *arg,
                   struct recording_refusal *refusal)
{
    cudaGraph_t graph;
    int rc = capture(stream, queue, arg, &graph, refusal);
    if (rc != 0)
        return rc;
    struct recording *const recording = calloc(1, sizeof(*recording));
    if (recording != NULL) {
        rc = instantiate(recording, graph, stream, refusal);
    } else {
        snprintf(refusal->text, sizeof(refusal->text), "no memory");
        rc = -ENOMEM;
    }
    cudaGraphDestroy(graph);
    if (rc != 0) {
        recording_close(recording);
        return rc;
    }
    *recording_out = recording;
    return 0;
}

void recording_close(struct recording *recording)
{
    if (recording == NULL)
        return;
    if (recording->graph != NULL)
        cudaGraphExecDestroy(recording->graph);
    free(recording);
}

cudaError_t recording_run(struct recording *recording, cudaStream_t stream)
{
    return HEARTBEAT_CALL("cudaGraphLaunch", cudaGraphLaunch(recording->graph, stream));
}
