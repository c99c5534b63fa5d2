/* The simulated devices: their number, properties and attributes, the current device, versions, and texts of errors. */
#include "tests/sim/sim_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DEVICES 2
#define DEFAULT_MEMORY ((size_t)1 << 30)
#define DRIVER_VERSION CUDART_VERSION

static atomic_int device_count = DEFAULT_DEVICES;
static atomic_size_t device_bytes = DEFAULT_MEMORY;
static atomic_bool peer_access = true;
static atomic_bool is_hollow;
static atomic_bool ipc = true;
static atomic_bool ipc_is_within_process;
static atomic_bool has_one_host_thread;

static _Thread_local int current_device;

static unsigned long long read_number(const char *name, unsigned long long default_number)
{
    const char *const text = getenv(name);
    char *end;
    if (text == NULL)
        return default_number;
    const unsigned long long number = strtoull(text, &end, 10);
    if (end == text || *end != '\0')
        sim_die("%s is not a number: %s", name, text);
    return number;
}

static void set_device_count(unsigned long long devices)
{
    if (devices > SIM_DEVICES_MAX)
        sim_die("more than %d devices wanted", SIM_DEVICES_MAX);
    atomic_store(&device_count, (int)devices);
}

__attribute__((constructor)) static void read_environment(void)
{
    set_device_count(read_number("SIM_DEVICES", DEFAULT_DEVICES));
    atomic_store(&device_bytes, (size_t)read_number("SIM_MEMORY", DEFAULT_MEMORY));
    atomic_store(&peer_access, read_number("SIM_PEER", 1) != 0);
    atomic_store(&ipc, read_number("SIM_IPC", 1) != 0);
    atomic_store(&has_one_host_thread, read_number("SIM_ONE_HOST_THREAD", 0) != 0);
}

void sim_setup(uint32_t devices, size_t memory_bytes)
{
    set_device_count(devices);
    atomic_store(&device_bytes, memory_bytes);
}

void sim_setup_hollow(size_t memory_bytes)
{
    sim_setup(1, memory_bytes);
    atomic_store(&is_hollow, true);
}

bool sim_is_hollow(void)
{
    return atomic_load(&is_hollow);
}

void sim_set_ipc(bool is_possible, bool is_within_process)
{
    atomic_store(&ipc, is_possible);
    atomic_store(&ipc_is_within_process, is_within_process);
}

bool sim_ipc(void)
{
    return atomic_load(&ipc);
}

bool sim_ipc_is_within_process(void)
{
    return atomic_load(&ipc_is_within_process);
}

bool sim_has_one_host_thread(void)
{
    return atomic_load(&has_one_host_thread);
}

int sim_device_count(void)
{
    return atomic_load(&device_count);
}

size_t sim_device_bytes(void)
{
    return atomic_load(&device_bytes);
}

void sim_set_peer_access(bool can_access)
{
    atomic_store(&peer_access, can_access);
}

bool sim_peer_access(void)
{
    return atomic_load(&peer_access);
}

int sim_current_device(void)
{
    return current_device;
}

void sim_set_current_device(int device)
{
    current_device = device;
}

/* Success if the device exists, else the error. */
static cudaError_t check_device(int device)
{
    const int count = sim_device_count();
    if (count == 0)
        return cudaErrorNoDevice;
    return device < 0 || device >= count ? cudaErrorInvalidDevice : cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    SIM_ENTER();
    *count = sim_device_count();
    return sim_result(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
    SIM_ENTER();
    const cudaError_t status = check_device(device);
    if (status == cudaSuccess)
        current_device = device;
    return sim_result(status);
}

cudaError_t cudaGetDevice(int *device)
{
    SIM_ENTER();
    *device = current_device;
    return sim_result(check_device(current_device));
}

/* SIM_CAPABILITY, e.g. 75; 90 when unset. */
static int capability(void)
{
    const char *const text = getenv("SIM_CAPABILITY");
    return text != NULL ? atoi(text) : 90;
}

/* The code of a kernel is as new as the device. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    SIM_ENTER();
    (void)kernel;
    *attributes = (struct cudaFuncAttributes){ .ptxVersion = capability(), .binaryVersion = capability() };
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    SIM_ENTER();
    const cudaError_t status = check_device(device);
    if (status != cudaSuccess)
        return sim_result(status);
    memset(properties, 0, sizeof(*properties));
    snprintf(properties->name, sizeof(properties->name), "Simulated GPU");
    properties->totalGlobalMem = sim_device_bytes();
    properties->major = capability() / 10;
    properties->minor = capability() % 10;
    properties->pciBusID = device + 1;
    return cudaSuccess;
}

static int attribute_value(enum cudaDeviceAttr attribute)
{
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        return capability() / 10;
    case cudaDevAttrComputeCapabilityMinor:
        return capability() % 10;
    case cudaDevAttrHostNumaId:
        return 0;
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
        return 1;
    default:
        sim_die("attribute %d of a device is not simulated", (int)attribute);
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    SIM_ENTER();
    const cudaError_t status = check_device(device);
    if (status == cudaSuccess)
        *value = attribute_value(attribute);
    return sim_result(status);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    SIM_ENTER();
    *version = DRIVER_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    SIM_ENTER();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* Those that the simulation returns, or that tests make it return. */
#define ERROR_ROW(code, text) { code, #code, text }
static const struct error_text { cudaError_t code; const char *name, *text; } error_texts[] = {
    ERROR_ROW(cudaSuccess, "no error"),
    ERROR_ROW(cudaErrorInvalidValue, "invalid argument"),
    ERROR_ROW(cudaErrorMemoryAllocation, "out of memory"),
    ERROR_ROW(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR_ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR_ROW(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR_ROW(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    ERROR_ROW(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR_ROW(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR_ROW(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    ERROR_ROW(cudaErrorNotSupported, "operation not supported"),
    ERROR_ROW(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR_ROW(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR_ROW(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR_ROW(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR_ROW(cudaErrorNotReady, "device not ready"),
    ERROR_ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR_ROW(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ERROR_ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR_ROW(cudaErrorMisalignedAddress, "misaligned address"),
    ERROR_ROW(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR_ROW(cudaErrorSystemNotReady, "system not yet initialized"),
    ERROR_ROW(cudaErrorUnknown, "unknown error"),
};

static const struct error_text *find_error(cudaError_t error)
{
    static const struct error_text unknown = { cudaErrorUnknown, "unrecognized error code", "unrecognized error code" };
    for (size_t i = 0; i < sizeof(error_texts) / sizeof(*error_texts); i++)
        if (error_texts[i].code == error)
            return &error_texts[i];
    return &unknown;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return find_error(error)->name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return find_error(error)->text;
}
