/* The simulated devices themselves: how many, what they are, which one is current, versions,
 * and the texts of errors. */
#include "tests/sim/sim_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DEVICES 2
#define DEFAULT_MEMORY ((size_t)1 << 30)
#define DRIVER_VERSION CUDART_VERSION

static pthread_once_t environment_read = PTHREAD_ONCE_INIT;
static atomic_int device_count = DEFAULT_DEVICES;
static atomic_size_t device_bytes = DEFAULT_MEMORY;
static atomic_bool peer_access = true;
static atomic_bool is_hollow;

static _Thread_local int current_device;

static unsigned long long read_number(const char *name, unsigned long long otherwise)
{
    const char *const text = getenv(name);
    char *end;
    if (text == NULL)
        return otherwise;
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

static void read_environment(void)
{
    set_device_count(read_number("SIM_DEVICES", DEFAULT_DEVICES));
    atomic_store(&device_bytes, (size_t)read_number("SIM_MEMORY", DEFAULT_MEMORY));
    atomic_store(&peer_access, read_number("SIM_PEER", 1) != 0);
}

void sim_setup(uint32_t devices, size_t memory_bytes)
{
    pthread_once(&environment_read, read_environment);
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

int sim_device_count(void)
{
    pthread_once(&environment_read, read_environment);
    return atomic_load(&device_count);
}

size_t sim_device_bytes(void)
{
    pthread_once(&environment_read, read_environment);
    return atomic_load(&device_bytes);
}

void sim_set_peer_access(bool can_access)
{
    pthread_once(&environment_read, read_environment);
    atomic_store(&peer_access, can_access);
}

bool sim_peer_access(void)
{
    pthread_once(&environment_read, read_environment);
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

/* The device exists, or the error that says it does not. */
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
    if (count == NULL)
        return sim_result(cudaErrorInvalidValue);
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
    if (device == NULL)
        return sim_result(cudaErrorInvalidValue);
    *device = current_device;
    return sim_result(sim_device_count() == 0 ? cudaErrorNoDevice : cudaSuccess);
}

static void describe(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof(*properties));
    snprintf(properties->name, sizeof(properties->name), "Simulated GPU");
    properties->totalGlobalMem = sim_device_bytes();
    properties->sharedMemPerBlock = 48 << 10;
    properties->regsPerBlock = 65536;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 0x7FFFFFFF;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 0xFFFF;
    properties->major = 9;
    properties->multiProcessorCount = 132;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->asyncEngineCount = 3;
    properties->concurrentKernels = 1;
    properties->unifiedAddressing = 1;
    properties->canMapHostMemory = 1;
    properties->streamPrioritiesSupported = 1;
    properties->l2CacheSize = 50 << 20;
    properties->memoryBusWidth = 5120;
    properties->pciBusID = device + 1;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    SIM_ENTER();
    const cudaError_t status = properties == NULL ? cudaErrorInvalidValue : check_device(device);
    if (status == cudaSuccess)
        describe(properties, device);
    return sim_result(status);
}

static const struct { enum cudaDeviceAttr attribute; int value; } attributes[] = {
    { cudaDevAttrMaxThreadsPerBlock, 1024 },
    { cudaDevAttrWarpSize, 32 },
    { cudaDevAttrMultiProcessorCount, 132 },
    { cudaDevAttrMaxThreadsPerMultiProcessor, 2048 },
    { cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10 },
    { cudaDevAttrUnifiedAddressing, 1 },
    { cudaDevAttrAsyncEngineCount, 3 },
    { cudaDevAttrConcurrentKernels, 1 },
    { cudaDevAttrClockRate, 1980000 },
    { cudaDevAttrMemoryClockRate, 2619000 },
    { cudaDevAttrGlobalMemoryBusWidth, 5120 },
    { cudaDevAttrL2CacheSize, 50 << 20 },
    { cudaDevAttrIntegrated, 0 },
    { cudaDevAttrEccEnabled, 1 },
    { cudaDevAttrComputeMode, cudaComputeModeDefault },
    { cudaDevAttrPciDomainId, 0 },
    { cudaDevAttrPciDeviceId, 0 },
    { cudaDevAttrHostNumaId, 0 },
};

/* SIM_CAPABILITY, e.g. 75; 90 when unset. */
static int capability(void)
{
    const char *const text = getenv("SIM_CAPABILITY");
    return text != NULL ? atoi(text) : 90;
}

static int attribute_value(enum cudaDeviceAttr attribute, int device)
{
    if (attribute == cudaDevAttrPciBusId)
        return device + 1;
    if (attribute == cudaDevAttrComputeCapabilityMajor)
        return capability() / 10;
    if (attribute == cudaDevAttrComputeCapabilityMinor)
        return capability() % 10;
    for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
        if (attributes[i].attribute == attribute)
            return attributes[i].value;
    sim_die("attribute %d of a device is not simulated", (int)attribute);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    SIM_ENTER();
    const cudaError_t status = value == NULL ? cudaErrorInvalidValue : check_device(device);
    if (status == cudaSuccess)
        *value = attribute_value(attribute, device);
    return sim_result(status);
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    SIM_ENTER();
    const cudaError_t status = text == NULL || length < 13 ? cudaErrorInvalidValue : check_device(device);
    if (status == cudaSuccess)
        snprintf(text, (size_t)length, "0000:%02X:00.0", (unsigned int)device + 1);
    return sim_result(status);
}

static cudaError_t give_version(int *version, int value)
{
    if (version == NULL)
        return sim_result(cudaErrorInvalidValue);
    *version = value;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    SIM_ENTER();
    return give_version(version, DRIVER_VERSION);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    SIM_ENTER();
    return give_version(version, CUDART_VERSION);
}

#define ERROR_ROW(code, text) { code, #code, text }
static const struct error_text { cudaError_t code; const char *name, *text; } error_texts[] = {
    ERROR_ROW(cudaSuccess, "no error"),
    ERROR_ROW(cudaErrorInvalidValue, "invalid argument"),
    ERROR_ROW(cudaErrorMemoryAllocation, "out of memory"),
    ERROR_ROW(cudaErrorInitializationError, "initialization error"),
    ERROR_ROW(cudaErrorCudartUnloading, "driver shutting down"),
    ERROR_ROW(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR_ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR_ROW(cudaErrorStubLibrary, "CUDA driver is a stub library"),
    ERROR_ROW(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR_ROW(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR_ROW(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR_ROW(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR_ROW(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR_ROW(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    ERROR_ROW(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    ERROR_ROW(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ERROR_ROW(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR_ROW(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR_ROW(cudaErrorNotReady, "device not ready"),
    ERROR_ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR_ROW(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ERROR_ROW(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    ERROR_ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR_ROW(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ERROR_ROW(cudaErrorAssert, "device-side assert triggered"),
    ERROR_ROW(cudaErrorMisalignedAddress, "misaligned address"),
    ERROR_ROW(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR_ROW(cudaErrorNotPermitted, "operation not permitted"),
    ERROR_ROW(cudaErrorNotSupported, "operation not supported"),
    ERROR_ROW(cudaErrorSystemNotReady, "system not yet initialized"),
    ERROR_ROW(cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver combination"),
    ERROR_ROW(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR_ROW(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ERROR_ROW(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    ERROR_ROW(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ERROR_ROW(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR_ROW(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ERROR_ROW(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capture"),
    ERROR_ROW(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    ERROR_ROW(cudaErrorStreamCaptureWrongThread, "a thread-local capture cannot be ended by another thread"),
    ERROR_ROW(cudaErrorTimeout, "wait operation timed out"),
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
