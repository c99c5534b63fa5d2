/* The functions of NVML that are called, with types and constants from the NVML API Reference Guide. All return 0 on
 * success. */
#ifndef PIPETRAIN_NVML_API_H
#define PIPETRAIN_NVML_API_H

#define NVML_FILE "libnvidia-ml.so.1"

typedef struct nvmlDevice_st *nvml_device;

struct nvml_memory { unsigned long long total, free, used; };           /* nvmlMemory_t; numbers of bytes */
enum { NVML_DRIVER_NOT_LOADED = 9, NVML_VERSION_MISMATCH = 18 };        /* of nvmlReturn_t */
enum { NVML_CLOCK_SM = 1 };                                             /* of nvmlClockType_t */
enum { NVML_TEMPERATURE_GPU = 0 };                                      /* of nvmlTemperatureSensors_t */

struct nvml_api {
    int (*nvmlInit_v2)(void);
    int (*nvmlShutdown)(void);
    const char *(*nvmlErrorString)(int status);
    int (*nvmlSystemGetDriverVersion)(char *version, unsigned length);
    int (*nvmlDeviceGetCount_v2)(unsigned *count);
    int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *id, nvml_device *device);
    int (*nvmlDeviceGetMemoryInfo)(nvml_device device, struct nvml_memory *memory);
    int (*nvmlDeviceGetClockInfo)(nvml_device device, int type, unsigned *mhz);
    int (*nvmlDeviceGetMaxClockInfo)(nvml_device device, int type, unsigned *mhz);
    int (*nvmlDeviceGetCurrentClocksThrottleReasons)(nvml_device device, unsigned long long *reasons);
    int (*nvmlDeviceGetTemperature)(nvml_device device, int sensor, unsigned *degrees);
    int (*nvmlDeviceGetCurrPcieLinkGeneration)(nvml_device device, unsigned *generation);
    int (*nvmlDeviceGetMaxPcieLinkGeneration)(nvml_device device, unsigned *generation);
    int (*nvmlDeviceGetCurrPcieLinkWidth)(nvml_device device, unsigned *lanes);
    int (*nvmlDeviceGetMaxPcieLinkWidth)(nvml_device device, unsigned *lanes);
    int (*nvmlDeviceGetTotalEnergyConsumption)(nvml_device device, unsigned long long *millijoules);    /* or NULL */
};

#endif
