/* The functions of NVIDIA's management library that are called, with the types and numbers of its reference (NVML API
 * Reference Guide): it comes with the driver, and is loaded where it is there. All return 0 on success. */
#ifndef PIPETRAIN_NVML_API_H
#define PIPETRAIN_NVML_API_H

#define NVML_FILE "libnvidia-ml.so.1"

typedef struct nvmlDevice_st *nvml_device;

struct nvml_memory { unsigned long long total, free, used; };           /* nvmlMemory_t, bytes */
struct nvml_pci {                                                       /* nvmlPciInfo_t */
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};

enum { NVML_DRIVER_NOT_LOADED = 9, NVML_VERSION_MISMATCH = 18 };        /* of nvmlReturn_t */
enum { NVML_CLOCK_SM = 1 };                                             /* of nvmlClockType_t */
enum { NVML_TEMPERATURE_GPU = 0 };                                      /* of nvmlTemperatureSensors_t */
enum { NVML_LINKS_MAX = 18 };                                           /* NVML_NVLINK_MAX_LINKS */

/* nvmlClocksThrottleReason... */
#define NVML_REASON_SETTING 0x2ull
#define NVML_REASON_POWER_CAP 0x4ull
#define NVML_REASON_HARDWARE 0x8ull
#define NVML_REASON_WARM 0x20ull
#define NVML_REASON_HOT 0x40ull
#define NVML_REASON_POWER_BRAKE 0x80ull

struct nvml_api {
    int (*nvmlInit_v2)(void);
    int (*nvmlShutdown)(void);
    const char *(*nvmlErrorString)(int status);
    int (*nvmlSystemGetDriverVersion)(char *version, unsigned length);
    int (*nvmlDeviceGetCount_v2)(unsigned *count);
    int (*nvmlDeviceGetHandleByIndex_v2)(unsigned index, nvml_device *device);
    int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *id, nvml_device *device);
    int (*nvmlDeviceGetName)(nvml_device device, char *name, unsigned length);
    int (*nvmlDeviceGetMemoryInfo)(nvml_device device, struct nvml_memory *memory);
    int (*nvmlDeviceGetPciInfo_v3)(nvml_device device, struct nvml_pci *pci);
    int (*nvmlDeviceGetClockInfo)(nvml_device device, int type, unsigned *mhz);
    int (*nvmlDeviceGetMaxClockInfo)(nvml_device device, int type, unsigned *mhz);
    int (*nvmlDeviceGetCurrentClocksThrottleReasons)(nvml_device device, unsigned long long *reasons);
    int (*nvmlDeviceGetTemperature)(nvml_device device, int sensor, unsigned *degrees);
    int (*nvmlDeviceGetCurrPcieLinkGeneration)(nvml_device device, unsigned *generation);
    int (*nvmlDeviceGetMaxPcieLinkGeneration)(nvml_device device, unsigned *generation);
    int (*nvmlDeviceGetCurrPcieLinkWidth)(nvml_device device, unsigned *lanes);
    int (*nvmlDeviceGetMaxPcieLinkWidth)(nvml_device device, unsigned *lanes);
    int (*nvmlDeviceGetNvLinkState)(nvml_device device, unsigned link, int *is_active);
    int (*nvmlDeviceGetPersistenceMode)(nvml_device device, int *is_on);
};

#endif
