/* Tests of the simulated stream capture and graphs. */
#include <pthread.h>
#include <stdbool.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_fixture.h"

TEST(a_captured_stream_runs_at_the_launches_of_its_graph_only)
{
    cudaStream_t stream = stream_new();
    uint32_t *const memory = device_new(4);
    enum cudaStreamCaptureStatus status;
    cudaEvent_t event = event_new();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t nodes;
    assert_cuda(cudaMemsetAsync(memory, 0, 4, stream));
    assert_cuda(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaErrorIllegalState);
    assert_cuda(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_cuda(test_order(stream, 2, memory));
    assert_cuda(cudaEventRecord(event, stream));
    assert_cuda(cudaStreamWaitEvent(stream, event, 0));
    assert_cuda(test_order(stream, 1, memory));
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_int_equal(cudaEventQuery(event), cudaErrorCapturedEvent);
    assert_int_equal(peek(memory, 0), 0);
    assert_cuda(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 2);
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaGraphUpload(exec, stream));
    /* Blocks ascending: 0 -> 0 -> 1 -> 2; every launch changes the direction: two per graph. */
    assert_cuda(cudaGraphLaunch(exec, stream));
    assert_int_equal(peek(memory, 0), 2);
    assert_cuda(cudaGraphLaunch(exec, stream));
    assert_cuda(cudaGraphExecDestroy(exec));            /* while it may be running */
    assert_int_equal(peek(memory, 0), 2 * (2 * (2 * 2) + 1));
    assert_cuda(cudaEventRecord(event, stream));
    assert_cuda(cudaEventSynchronize(event));
    assert_cuda(cudaEventDestroy(event));
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
}

struct forbidden {
    cudaStream_t stream, other;
    cudaEvent_t event;
    void *memory, *pinned;
    uint32_t pageable;
};

static cudaError_t call_malloc(struct forbidden *with) { return cudaMalloc(&with->memory, 4); }
static cudaError_t call_host_alloc(struct forbidden *with) { return cudaHostAlloc(&with->pinned, 4, 0); }
static cudaError_t call_free(struct forbidden *with) { return cudaFree(with->memory); }
static cudaError_t call_synchronize(struct forbidden *with) { return cudaStreamSynchronize(with->stream); }
static cudaError_t call_query(struct forbidden *with) { return cudaStreamQuery(with->stream); }
static cudaError_t call_event_synchronize(struct forbidden *with) { return cudaEventSynchronize(with->event); }
static cudaError_t call_event_query(struct forbidden *with) { return cudaEventQuery(with->event); }
static cudaError_t call_device_synchronize(struct forbidden *with) { (void)with; return cudaDeviceSynchronize(); }
static cudaError_t call_memset(struct forbidden *with) { return cudaMemset(with->memory, 0, 4); }
static cudaError_t call_legacy(struct forbidden *with) { return cudaMemsetAsync(with->memory, 0, 4, NULL); }
static cudaError_t call_isolated(struct forbidden *with) { return cudaStreamWaitEvent(with->stream, with->event, 0); }
static cudaError_t call_pageable(struct forbidden *with)
{
    return cudaMemcpyAsync(with->memory, &with->pageable, 4, cudaMemcpyHostToDevice, with->stream);
}

TEST(calls_that_capture_forbids_spoil_it)
{
    static const struct { cudaError_t (*call)(struct forbidden *with); cudaError_t status; } calls[] = {
        { call_malloc, cudaErrorStreamCaptureUnsupported },
        { call_host_alloc, cudaErrorStreamCaptureUnsupported },
        { call_free, cudaErrorStreamCaptureUnsupported },
        { call_synchronize, cudaErrorStreamCaptureUnsupported },
        { call_query, cudaErrorStreamCaptureUnsupported },
        { call_event_synchronize, cudaErrorStreamCaptureUnsupported },
        { call_event_query, cudaErrorStreamCaptureUnsupported },
        { call_device_synchronize, cudaErrorStreamCaptureUnsupported },
        { call_memset, cudaErrorStreamCaptureUnsupported },
        { call_pageable, cudaErrorStreamCaptureUnsupported },
        { call_legacy, cudaErrorStreamCaptureImplicit },
        { call_isolated, cudaErrorStreamCaptureIsolation },
    };
    struct forbidden with = { .stream = stream_new(), .other = stream_new(), .event = event_new() };
    with.memory = device_new(4);
    assert_cuda(cudaEventRecord(with.event, with.other));
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        enum cudaStreamCaptureStatus status;
        cudaGraph_t graph = (cudaGraph_t)&with;
        assert_cuda(cudaStreamBeginCapture(with.stream, cudaStreamCaptureModeThreadLocal));
        assert_cuda(test_fill(with.stream, with.memory, 1, 1));
        assert_int_equal(calls[i].call(&with), calls[i].status);
        assert_cuda(cudaStreamIsCapturing(with.stream, &status));
        assert_int_equal(status, cudaStreamCaptureStatusInvalidated);
        assert_int_equal(test_fill(with.stream, with.memory, 1, 1), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaStreamEndCapture(with.stream, &graph), cudaErrorStreamCaptureInvalidated);
        assert_null(graph);
    }
    assert_cuda(cudaStreamSynchronize(with.stream));
    assert_cuda(cudaFree(with.memory));
    assert_cuda(cudaEventDestroy(with.event));
    assert_cuda(cudaStreamDestroy(with.stream));
    assert_cuda(cudaStreamDestroy(with.other));
}

/* The argument when all is well, as end_beside. */
static void *allocate_beside(void *stream)
{
    void *memory = NULL;
    return cudaMalloc(&memory, 4) == cudaSuccess && cudaFree(memory) == cudaSuccess ? stream : NULL;
}

static void *end_beside(void *stream)
{
    cudaGraph_t graph;
    return cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureWrongThread ? stream : NULL;
}

TEST(another_thread_neither_spoils_nor_ends_a_capture)
{
    cudaStream_t stream = stream_new();
    pthread_t thread;
    void *good;
    cudaGraph_t graph;
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(pthread_create(&thread, NULL, allocate_beside, stream), 0);
    assert_int_equal(pthread_join(thread, &good), 0);
    assert_non_null(good);
    assert_int_equal(pthread_create(&thread, NULL, end_beside, stream), 0);
    assert_int_equal(pthread_join(thread, &good), 0);
    assert_non_null(good);
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaStreamDestroy(stream));
}

int main(void)
{
    sim_setup(2, 64 << 20);
    return tests_run(NULL, NULL);
}
