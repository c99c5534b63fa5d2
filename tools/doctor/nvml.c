/* The library, loaded at run time, behind a structure of plain numbers. */
#include "tools/doctor/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/nvml_api.h"

struct nvml {
    void *library;
    struct nvml_api call;
    char driver[80];            /* NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE */
};

#define ROW(name) { #name, offsetof(struct nvml_api, name) }

static const struct row { const char *name; size_t offset; } rows[] = {
    ROW(nvmlInit_v2), ROW(nvmlShutdown), ROW(nvmlErrorString), ROW(nvmlSystemGetDriverVersion),
    ROW(nvmlDeviceGetCount_v2), ROW(nvmlDeviceGetHandleByIndex_v2), ROW(nvmlDeviceGetHandleByPciBusId_v2),
    ROW(nvmlDeviceGetName), ROW(nvmlDeviceGetMemoryInfo), ROW(nvmlDeviceGetPciInfo_v3), ROW(nvmlDeviceGetClockInfo),
    ROW(nvmlDeviceGetMaxClockInfo), ROW(nvmlDeviceGetCurrentClocksThrottleReasons), ROW(nvmlDeviceGetTemperature),
    ROW(nvmlDeviceGetCurrPcieLinkGeneration), ROW(nvmlDeviceGetMaxPcieLinkGeneration),
    ROW(nvmlDeviceGetCurrPcieLinkWidth), ROW(nvmlDeviceGetMaxPcieLinkWidth), ROW(nvmlDeviceGetNvLinkState),
    ROW(nvmlDeviceGetPersistenceMode),
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
        if (function == NULL) {
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

/* "00000000:1B:00.0" as the kernel writes it: "0000:1b:00.0". */
static void put_bus(const char *id, char *bus, size_t bus_size)
{
    const char *const colon = strchr(id, ':');
    const char *const begin = colon != NULL && colon - id > 4 ? colon - 4 : id;
    snprintf(bus, bus_size, "%.12s", begin);
    for (char *at = bus; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
}

static void look_at_identity(const struct nvml_api *call, nvml_device device, struct gpu_state *state)
{
    struct nvml_memory memory;
    struct nvml_pci pci = { .id = "" };
    int is_on;
    if (call->nvmlDeviceGetName(device, state->name, sizeof(state->name)) != 0)
        strcpy(state->name, "GPU of unknown name");
    if (call->nvmlDeviceGetMemoryInfo(device, &memory) == 0) {
        state->memory_bytes = memory.total;
        state->used_bytes = memory.used;
    }
    if (call->nvmlDeviceGetPciInfo_v3(device, &pci) == 0)
        put_bus(pci.id, state->bus, sizeof(state->bus));
    state->has_persistence = call->nvmlDeviceGetPersistenceMode(device, &is_on) == 0;
    state->is_persistent = state->has_persistence && is_on != 0;
}

/* What a function of one number says; 0 when it does not. */
static uint32_t ask(int (*function)(nvml_device device, unsigned *number), nvml_device device)
{
    unsigned number;
    return function(device, &number) == 0 ? number : 0;
}

static uint32_t ask_with(int (*function)(nvml_device device, int what, unsigned *number), nvml_device device, int what)
{
    unsigned number;
    return function(device, what, &number) == 0 ? number : 0;
}

static uint32_t count_nvlinks(const struct nvml_api *call, nvml_device device)
{
    uint32_t count = 0;
    for (unsigned link = 0; link < NVML_LINKS_MAX; link++) {
        int is_active = 0;
        count += call->nvmlDeviceGetNvLinkState(device, link, &is_active) == 0 && is_active != 0;
    }
    return count;
}

static void look(const struct nvml_api *call, nvml_device device, struct gpu_state *state)
{
    unsigned long long reasons;
    *state = (struct gpu_state){ .name = "" };
    look_at_identity(call, device, state);
    state->clock_mhz = ask_with(call->nvmlDeviceGetClockInfo, device, NVML_CLOCK_SM);
    state->clock_most_mhz = ask_with(call->nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_SM);
    state->degrees = ask_with(call->nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU);
    if (call->nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons) == 0)
        state->reasons = reasons;
    state->generation = ask(call->nvmlDeviceGetCurrPcieLinkGeneration, device);
    state->generation_most = ask(call->nvmlDeviceGetMaxPcieLinkGeneration, device);
    state->lanes = ask(call->nvmlDeviceGetCurrPcieLinkWidth, device);
    state->lanes_most = ask(call->nvmlDeviceGetMaxPcieLinkWidth, device);
    state->nvlinks = count_nvlinks(call, device);
}

bool nvml_look(const struct nvml *nvml, uint32_t index, struct gpu_state *state_out)
{
    nvml_device device;
    if (nvml->call.nvmlDeviceGetHandleByIndex_v2(index, &device) != 0)
        return false;
    look(&nvml->call, device, state_out);
    return true;
}

bool nvml_look_at(const struct nvml *nvml, const char *bus, struct gpu_state *state_out)
{
    nvml_device device;
    if (*bus == '\0' || nvml->call.nvmlDeviceGetHandleByPciBusId_v2(bus, &device) != 0)
        return false;
    look(&nvml->call, device, state_out);
    return true;
}
