/* Devices that are only described to cuDNN. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compute/cuda/cudnn_graph.h"
#include "tests/cuda/cudnn_planning_fixture.h"
#include "tests/helpers/test.h"

/* Options of the address sanitizer: libraries that cuDNN loads and unloads leak. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* A device's properties in cuDNN's format. */
#define DEVICE(name, version, processors, optin, threads, blocks, memory, cache)                                       \
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"               \
    "\"multiProcessorCount\":" #processors ",\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"                       \
    "\"maxSharedMemoryPerBlockOptin\":" #optin ",\"reservedSharedMemoryPerBlock\":1024,"                               \
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":" #blocks ",\"maxThreadsPerBlock\":1024,"                            \
    "\"maxThreadsPerSM\":" #threads ",\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"                    \
    "\"totalGlobalMem\":" #memory ",\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,"                           \
    "\"l2CacheSize\":" #cache ",\"cudaDeviceId\":0,\"deviceVer\":" #version ",\"driverVer\":13000,"                    \
    "\"deviceName\":\"" name "\"}"

static const struct { const char *name, *json; } devices[DEVICE_COUNT] = {
    [SM_75] = { "sm_75", DEVICE("Tesla T4", 750, 40, 65536, 1024, 16, 15600000000, 4194304) },
    [SM_80] = { "sm_80", DEVICE("NVIDIA A100-SXM4-80GB", 800, 108, 166912, 2048, 32, 85000000000, 41943040) },
    [SM_90] = { "sm_90", DEVICE("NVIDIA H100 80GB HBM3", 900, 132, 232448, 2048, 32, 85000000000, 52428800) },
    [SM_100] = { "sm_100", DEVICE("NVIDIA B200", 1000, 148, 232448, 2048, 32, 190000000000, 132644864) },
    [SM_120] = { "sm_120", DEVICE("NVIDIA GeForce RTX 5090", 1200, 170, 101376, 1536, 24, 34000000000, 100663296) },
};

cudnnBackendDescriptor_t described_devices[DEVICE_COUNT];

static const char *const precision_names[PRECISION_COUNT] = { "fp32", "tf32", "bf16", "fp16" };
static const char *const pass_names[PRODUCT_PASS_COUNT] = { "forward", "data", "weight" };

int described_device(const char *name)
{
    int device = 0;
    while (device < DEVICE_COUNT && strcmp(devices[device].name, name) != 0)
        device++;
    return device;
}

bool described_devices_open(void)
{
    for (int i = 0; i < DEVICE_COUNT; i++) {
        cudnnBackendDescriptor_t *const device = &described_devices[i];
        const char *const json = devices[i].json;
        if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, device) != CUDNN_STATUS_SUCCESS ||
            cudnnBackendSetAttribute(*device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                     (int64_t)strlen(json) + 1, json) != CUDNN_STATUS_SUCCESS ||
            cudnnBackendFinalize(*device) != CUDNN_STATUS_SUCCESS)
            return false;
    }
    return true;
}

void described_devices_close(void)
{
    for (int i = 0; i < DEVICE_COUNT; i++)
        descriptor_close(described_devices[i]);
}

struct conv_planner planner_for(int device)
{
    return (struct conv_planner){ .name = devices[device].name, .properties = described_devices[device],
                                  .workspace_max = WORKSPACE_MAX };
}

struct conv_shape square(enum product_pass pass, enum precision precision, uint32_t in_channels, uint32_t size,
                         uint32_t out_channels, uint32_t kernel, uint32_t stride, uint32_t before, uint32_t after)
{
    const uint32_t out = (size + before + after - kernel) / stride + 1;
    const bool forward = pass == FPROP;
    return (struct conv_shape){
        .pass = pass, .precision = precision, .bias = forward, .relu = forward, .count = 64,
        .in_channels = in_channels, .in_h = size, .in_w = size,
        .out_channels = out_channels, .out_h = out, .out_w = out,
        .kernel_h = kernel, .kernel_w = kernel, .stride_h = stride, .stride_w = stride,
        .pad_top = before, .pad_bottom = after, .pad_left = before, .pad_right = after, .groups = 1,
    };
}

static uint32_t difference(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

/* Bytes of the image with the zeros that make its padding even, for a weight gradient; 0: it is even. */
static size_t padded_image_bytes(const struct conv_shape *shape)
{
    const uint32_t more_h = difference(shape->pad_top, shape->pad_bottom);
    const uint32_t more_w = difference(shape->pad_left, shape->pad_right);
    if (shape->pass != WGRAD || more_h + more_w == 0)
        return 0;
    const size_t pixels = (size_t)shape->count * (shape->in_h + more_h) * (shape->in_w + more_w);
    return (pixels * shape->in_channels * value_bytes(precision_type(shape->precision)) + 255) & ~(size_t)255;
}

size_t assert_plans(int device, const struct conv_shape *shape, bool fast, const char *what)
{
    const struct conv_planner planner = planner_for(device);
    struct conv_plan *plan = NULL;
    char text[128];
    assert_int_equal(conv_plan_open(&plan, &planner, shape, false), 0);
    const size_t workspace = conv_plan_workspace(plan);
    assert_true(workspace <= WORKSPACE_MAX + padded_image_bytes(shape));
    conv_plan_describe(plan, text, sizeof(text));
    if (device == SM_90)
        printf("%-6s %-22s %-7s %s %4" PRIu32 ": %s\n", devices[device].name, what, pass_names[shape->pass],
               precision_names[shape->precision], shape->count, text);
    assert_int_equal(strstr(text, "zeros apart") != NULL, padded_image_bytes(shape) > 0);
    assert_null(strstr(text, "bias apart"));
    assert_null(strstr(text, "relu apart"));
    if (fast)
        assert_null(strstr(text, "engine 0,"));
    conv_plan_close(plan);
    return workspace;
}
