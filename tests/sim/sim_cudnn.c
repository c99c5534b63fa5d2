/* The simulated cuDNN: versions, errors and handles. */
#include "tests/sim/sim_cudnn.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_cudnn_graph.h"
#include "tests/sim/sim_internal.h"

#define HANDLE_MAGIC 0x64486e64u

struct cudnnContext {
    uint32_t magic;
    int device;
    cudaStream_t stream;
};

static atomic_uint live, refusals;
static _Thread_local char last_error[256];

void sim_cudnn_refuse(unsigned wanted)
{
    atomic_store(&refusals, wanted);
}

unsigned sim_cudnn_refused(void)
{
    return atomic_load(&refusals);
}

void sim_cudnn_count(int change)
{
    atomic_fetch_add(&live, (unsigned)change);
}

uint32_t sim_cudnn_live(void)
{
    return atomic_load(&live);
}

cudnnStatus_t sim_cudnn_fail(cudnnStatus_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof(last_error), format, arguments);
    va_end(arguments);
    return status;
}

cudnnStatus_t sim_cudnn_enter(const char *function)
{
    const int status = sim_enter(function);
    return status == 0 ? CUDNN_STATUS_SUCCESS : sim_cudnn_fail((cudnnStatus_t)status, "%s is made to fail", function);
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
    snprintf(message, max_size, "%s", last_error);
    *last_error = '\0';
}

/* Those that the simulation returns, or that tests make it return. */
#define NAMED(status) { status, #status }
static const struct { cudnnStatus_t status; const char *name; } status_names[] = {
    NAMED(CUDNN_STATUS_SUCCESS),
    NAMED(CUDNN_STATUS_NOT_INITIALIZED),
    NAMED(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH),
    NAMED(CUDNN_STATUS_BAD_PARAM),
    NAMED(CUDNN_STATUS_BAD_PARAM_NULL_POINTER),
    NAMED(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER),
    NAMED(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED),
    NAMED(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT),
    NAMED(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH),
    NAMED(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES),
    NAMED(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE),
    NAMED(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE),
    NAMED(CUDNN_STATUS_NOT_SUPPORTED),
    NAMED(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN),
    NAMED(CUDNN_STATUS_INTERNAL_ERROR),
    NAMED(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED),
    NAMED(CUDNN_STATUS_EXECUTION_FAILED),
};

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    for (size_t i = 0; i < sizeof(status_names) / sizeof(*status_names); i++)
        if (status_names[i].status == status)
            return status_names[i].name;
    return "CUDNN_UNKNOWN_STATUS";
}

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

cudnnStatus_t cudnnGraphVersionCheck(void)
{
    SIM_CUDNN_ENTER();
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnOpsVersionCheck(void)
{
    SIM_CUDNN_ENTER();
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCnnVersionCheck(void)
{
    SIM_CUDNN_ENTER();
    return CUDNN_STATUS_SUCCESS;
}

static struct cudnnContext *check_handle(cudnnHandle_t handle)
{
    if (handle == NULL || handle->magic != HANDLE_MAGIC)
        sim_die("not a cuDNN handle, or a destroyed one");
    return handle;
}

int sim_handle_device(cudnnHandle_t handle)
{
    return check_handle(handle)->device;
}

cudaStream_t sim_handle_stream(cudnnHandle_t handle)
{
    return check_handle(handle)->stream;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    SIM_CUDNN_ENTER();
    sim_check_no_capture(__func__);
    *handle = sim_alloc(sizeof(**handle));
    (*handle)->magic = HANDLE_MAGIC;
    (*handle)->device = sim_current_device();
    sim_cudnn_count(1);
    return CUDNN_STATUS_SUCCESS;
}

/* Destroys the handle even when a test makes the call fail. */
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    check_handle(handle)->magic = 0;
    free(handle);
    sim_cudnn_count(-1);
    SIM_CUDNN_ENTER();
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    SIM_CUDNN_ENTER();
    if (sim_stream_device(stream) != check_handle(handle)->device)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "a stream of another device");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream)
{
    SIM_CUDNN_ENTER();
    *stream = check_handle(handle)->stream;
    return CUDNN_STATUS_SUCCESS;
}
