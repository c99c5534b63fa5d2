/* Functions of the driver that are found by name: values in memory that streams write, or wait for, and the range of an
 * allocation. */
#include <cudaTypedefs.h>

#include <string.h>
#include <time.h>

#include "tests/sim/sim_internal.h"

#define NAP_NS 20000            /* between two looks at a value */

struct value {
    _Atomic(uint32_t) *address;
    uint32_t value;
};

static void run_write(void *arguments)
{
    const struct value *const value = arguments;
    atomic_store(value->address, value->value);
}

static void run_wait(void *arguments)
{
    const struct value *const value = arguments;
    while ((int32_t)(atomic_load(value->address) - value->value) < 0)
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

static CUresult push_value(CUstream stream, CUdeviceptr address, struct value value, void (*run)(void *arguments),
                           const char *who)
{
    value.address = (_Atomic(uint32_t) *)(uintptr_t)address;
    sim_check_no_capture(who);
    sim_check_value((const void *)(uintptr_t)address, sim_stream_device(stream), who);
    sim_stream_push(stream, run, &value, sizeof(value));
    return CUDA_SUCCESS;
}

static CUresult write_value(CUstream stream, CUdeviceptr_v2 address, cuuint32_t value, unsigned int flags)
{
    static const char name[] = "cuStreamWriteValue32";
    const cudaError_t status = sim_runtime_enter(name);
    if (status != cudaSuccess)
        return (CUresult)status;
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT)
        sim_die("%s: flags %u are not simulated", name, flags);
    return push_value(stream, address, (struct value){ .value = value }, run_write, name);
}

static CUresult wait_value(CUstream stream, CUdeviceptr_v2 address, cuuint32_t value, unsigned int flags)
{
    static const char name[] = "cuStreamWaitValue32";
    const cudaError_t status = sim_runtime_enter(name);
    if (status != cudaSuccess)
        return (CUresult)status;
    if (flags != CU_STREAM_WAIT_VALUE_GEQ)
        sim_die("%s: flags %u are not simulated", name, flags);
    return push_value(stream, address, (struct value){ .value = value }, run_wait, name);
}

static CUresult get_range(CUdeviceptr_v2 *base_out, size_t *bytes_out, CUdeviceptr_v2 memory)
{
    void *base = NULL;
    cudaError_t status = sim_runtime_enter("cuMemGetAddressRange");
    if (status == cudaSuccess)
        status = sim_memory_range((const void *)(uintptr_t)memory, &base, bytes_out);
    *base_out = (CUdeviceptr_v2)(uintptr_t)base;
    return (CUresult)status;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function_out, unsigned int version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result_out)
{
    static const struct { const char *name; void *function; } functions[] = {
        { "cuStreamWriteValue32", (void *)write_value },
        { "cuStreamWaitValue32", (void *)wait_value },
        { "cuMemGetAddressRange", (void *)get_range },
    };
    SIM_ENTER();
    if (flags != cudaEnableDefault || version > CUDART_VERSION)
        sim_die("%s: flags %llu, version %u", __func__, flags, version);
    *function_out = NULL;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strcmp(functions[i].name, symbol) == 0)
            *function_out = functions[i].function;
    *result_out = *function_out != NULL ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
