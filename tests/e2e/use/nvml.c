/* A replacement of NVML for tests: two GPUs at the PCI addresses of the simulated CUDA devices. In the environment,
 * NVML_REASONS are the reasons for low clocks, NVML_INIT is what nvmlInit_v2 returns, and NVML_MILLIJOULES is the
 * energy that a GPU uses between two readings; without it, as on GPUs before Volta, none is reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/nvml_api.h"

struct nvmlDevice_st { unsigned bus; unsigned long long millijoules; };

static struct nvmlDevice_st devices[2] = { { .bus = 1 }, { .bus = 2 } };

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

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvml_device *device)
{
    unsigned domain, bus;
    if (sscanf(id, "%x:%x:", &domain, &bus) != 2 || domain != 0 || bus < 1 || bus > 2)
        return 6;
    *device = &devices[bus - 1];
    return 0;
}

int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    (void)device;
    *memory = (struct nvml_memory){ .total = 80ull << 30, .free = 79ull << 30, .used = 1ull << 30 };
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

int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *millijoules)
{
    const int step = number_of("NVML_MILLIJOULES");
    device->millijoules += (unsigned long long)step;
    *millijoules = 1000000 + device->millijoules;
    return step > 0 ? 0 : 3;
}
