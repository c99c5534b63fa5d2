/* Loading NVML, and calls of its functions. */
#include "tools/lib/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/nvml_api.h"

struct nvml {
    void *library;
    struct nvml_api call;
    char driver[80];            /* NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE */
};

#define ROW(name) { #name, offsetof(struct nvml_api, name), false }
#define OPTIONAL_ROW(name) { #name, offsetof(struct nvml_api, name), true }

/* is_optional: drivers that can do everything else may lack it. */
static const struct row { const char *name; size_t offset; bool is_optional; } rows[] = {
    ROW(nvmlInit_v2), ROW(nvmlShutdown), ROW(nvmlErrorString), ROW(nvmlSystemGetDriverVersion),
    ROW(nvmlDeviceGetCount_v2), ROW(nvmlDeviceGetHandleByPciBusId_v2), ROW(nvmlDeviceGetMemoryInfo),
    ROW(nvmlDeviceGetClockInfo),
    ROW(nvmlDeviceGetMaxClockInfo), ROW(nvmlDeviceGetCurrentClocksThrottleReasons), ROW(nvmlDeviceGetTemperature),
    ROW(nvmlDeviceGetCurrPcieLinkGeneration), ROW(nvmlDeviceGetMaxPcieLinkGeneration),
    ROW(nvmlDeviceGetCurrPcieLinkWidth), ROW(nvmlDeviceGetMaxPcieLinkWidth),
    OPTIONAL_ROW(nvmlDeviceGetTotalEnergyConsumption),
};

static int load(struct nvml *nvml, char *why, size_t why_size)
{
    nvml->library = dlopen(NVML_FILE, RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == NULL) {
        snprintf(why, why_size, "%s, which comes with NVIDIA's driver, cannot be loaded", NVML_FILE);
        return -ENOENT;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *const function = dlsym(nvml->library, rows[i].name);
        if (function == NULL && !rows[i].is_optional) {
            snprintf(why, why_size, "%s of this driver has no %s", NVML_FILE, rows[i].name);
            return -ENOTSUP;
        }
        memcpy((char *)&nvml->call + rows[i].offset, &function, sizeof(function));
    }
    return 0;
}

static int begin(struct nvml *nvml, char *why, size_t why_size)
{
    const int status = nvml->call.nvmlInit_v2();
    if (status == 0)
        return 0;
    if (status == NVML_DRIVER_NOT_LOADED)
        snprintf(why, why_size, "NVIDIA's driver is installed but not loaded");
    else if (status == NVML_VERSION_MISMATCH)
        snprintf(why, why_size, "NVIDIA's driver was updated, and the old one is still loaded");
    else
        snprintf(why, why_size, "NVIDIA's driver says: %s", nvml->call.nvmlErrorString(status));
    return -ENODEV;
}

static void unload(struct nvml *nvml)
{
    if (nvml->library != NULL)
        dlclose(nvml->library);
    free(nvml);
}

int nvml_open(struct nvml **nvml_out, char *why, size_t why_size)
{
    struct nvml *const nvml = calloc(1, sizeof(*nvml));
    if (nvml == NULL) {
        snprintf(why, why_size, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    int rc = load(nvml, why, why_size);
    if (rc == 0)
        rc = begin(nvml, why, why_size);
    if (rc != 0) {
        unload(nvml);
        return rc;
    }
    if (nvml->call.nvmlSystemGetDriverVersion(nvml->driver, sizeof(nvml->driver)) != 0)
        strcpy(nvml->driver, "?");
    *nvml_out = nvml;
    return 0;
}

void nvml_close(struct nvml *nvml)
{
    if (nvml == NULL)
        return;
    nvml->call.nvmlShutdown();
    unload(nvml);
}

const char *nvml_driver(const struct nvml *nvml)
{
    return nvml->driver;
}

uint32_t nvml_count(const struct nvml *nvml)
{
    unsigned count = 0;
    return nvml->call.nvmlDeviceGetCount_v2(&count) == 0 ? count : 0;
}

/* The number that the function returns; 0 if it fails. */
static uint32_t number_of(int (*function)(nvml_device device, unsigned *number), nvml_device device)
{
    unsigned number;
    return function(device, &number) == 0 ? number : 0;
}

static uint32_t number_with(int (*function)(nvml_device device, int what, unsigned *number), nvml_device device,
                            int what)
{
    unsigned number;
    return function(device, what, &number) == 0 ? number : 0;
}

int nvml_find(const struct nvml *nvml, const char *bus, nvml_device *device_out)
{
    return *bus != '\0' && nvml->call.nvmlDeviceGetHandleByPciBusId_v2(bus, device_out) == 0 ? 0 : -ENODEV;
}

bool nvml_read(const struct nvml *nvml, const char *bus, struct gpu_state *state_out)
{
    const struct nvml_api *const call = &nvml->call;
    struct gpu_state state = { .memory_bytes = 0 };
    struct nvml_memory memory;
    unsigned long long reasons;
    nvml_device device;
    if (nvml_find(nvml, bus, &device) != 0)
        return false;
    if (call->nvmlDeviceGetMemoryInfo(device, &memory) == 0) {
        state.memory_bytes = memory.total;
        state.used_bytes = memory.used;
    }
    if (call->nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons) == 0)
        state.reasons = reasons;
    state.clock_mhz = number_with(call->nvmlDeviceGetClockInfo, device, NVML_CLOCK_SM);
    state.clock_most_mhz = number_with(call->nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_SM);
    state.degrees = number_with(call->nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU);
    state.generation = number_of(call->nvmlDeviceGetCurrPcieLinkGeneration, device);
    state.generation_most = number_of(call->nvmlDeviceGetMaxPcieLinkGeneration, device);
    state.lanes = number_of(call->nvmlDeviceGetCurrPcieLinkWidth, device);
    state.lanes_most = number_of(call->nvmlDeviceGetMaxPcieLinkWidth, device);
    *state_out = state;
    return true;
}

int nvml_energy(const struct nvml *nvml, nvml_device device, uint64_t *microjoules_out)
{
    unsigned long long millijoules;
    if (nvml->call.nvmlDeviceGetTotalEnergyConsumption == NULL ||
        nvml->call.nvmlDeviceGetTotalEnergyConsumption(device, &millijoules) != 0)
        return -ENOTSUP;
    *microjoules_out = (uint64_t)millijoules * 1000;
    return 0;
}
