/* In place of NVIDIA's management library, for e2e_doctor.sh: two GPUs, at the places of the bus that the simulated
 * CUDA gives its devices. NVML_REASONS in the environment is why clocks are low, NVML_INIT what nvmlInit_v2 returns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/nvml_api.h"

struct nvmlDevice_st { unsigned bus; };

static struct nvmlDevice_st devices[2] = { { 1 }, { 2 } };

static int number_of(const char *name)
{
    const char *const text = getenv(name);
    return text != NULL ? (int)strtol(text, NULL, 0) : 0;
}

int nvmlInit_v2(void)
{
    return number_of("NVML_INIT");
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int status)
{
    (void)status;
    return "a text of the library";
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    return snprintf(version, length, "580.65.06") < (int)length ? 0 : 7;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device)
{
    *device = &devices[index % 2];
    return index < 2 ? 0 : 2;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvml_device *device)
{
    unsigned domain, bus;
    if (sscanf(id, "%x:%x:", &domain, &bus) != 2 || domain != 0 || bus < 1 || bus > 2)
        return 6;
    *device = &devices[bus - 1];
    return 0;
}

int nvmlDeviceGetName(nvml_device device, char *name, unsigned length)
{
    return snprintf(name, length, "GPU %u", device->bus) < (int)length ? 0 : 7;
}

int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    (void)device;
    *memory = (struct nvml_memory){ .total = 80ull << 30, .free = 79ull << 30, .used = 1ull << 30 };
    return 0;
}

int nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *pci)
{
    snprintf(pci->id, sizeof(pci->id), "00000000:%02X:00.0", device->bus);
    return 0;
}

int nvmlDeviceGetClockInfo(nvml_device device, int type, unsigned *mhz)
{
    (void)device;
    *mhz = 1000;
    return type == NVML_CLOCK_SM ? 0 : 2;
}

int nvmlDeviceGetMaxClockInfo(nvml_device device, int type, unsigned *mhz)
{
    (void)device;
    *mhz = 1980;
    return type == NVML_CLOCK_SM ? 0 : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device, unsigned long long *reasons)
{
    (void)device;
    *reasons = (unsigned long long)number_of("NVML_REASONS");
    return 0;
}

int nvmlDeviceGetTemperature(nvml_device device, int sensor, unsigned *degrees)
{
    (void)device;
    *degrees = 41;
    return sensor == NVML_TEMPERATURE_GPU ? 0 : 2;
}

int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device device, unsigned *generation)
{
    (void)device;
    *generation = 1;
    return 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(nvml_device device, unsigned *generation)
{
    (void)device;
    *generation = 1;
    return 0;
}

int nvmlDeviceGetCurrPcieLinkWidth(nvml_device device, unsigned *lanes)
{
    *lanes = device->bus == 1 ? 1 : 2;
    return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(nvml_device device, unsigned *lanes)
{
    (void)device;
    *lanes = 2;
    return 0;
}

int nvmlDeviceGetNvLinkState(nvml_device device, unsigned link, int *is_active)
{
    (void)device;
    *is_active = link < 4;
    return link < 6 ? 0 : 2;
}

int nvmlDeviceGetPersistenceMode(nvml_device device, int *is_on)
{
    (void)device;
    *is_on = 1;
    return 0;
}
