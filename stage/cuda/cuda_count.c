/* The GPUs there are, and where there are none, the reason in words for people. Prints
 * nothing: a program that may run on CPUs as well asks here too. */
#include "stage/cuda/cuda_count.h"

#include <ctype.h>
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/cuda/cuda_call.h"
#include "stage/log.h"

static int version_of(cudaError_t (*ask)(int *version_out))
{
    int version = 0;
    return ask(&version) == cudaSuccess ? version : 0;
}

int cuda_driver_version(void)
{
    return version_of(cudaDriverGetVersion);
}

int cuda_runtime_version(void)
{
    return version_of(cudaRuntimeGetVersion);
}

static void put_version(int version, char *text, size_t text_size)
{
    if (version > 0)
        snprintf(text, text_size, "%d.%d", version / 1000, version % 1000 / 10);
    else
        snprintf(text, text_size, "?");
}

static void put_runtime(char *text, size_t text_size)
{
    put_version(cuda_runtime_version(), text, text_size);
}

static void put_driver(char *text, size_t text_size)
{
    put_version(cuda_driver_version(), text, text_size);
}

const struct library cuda_libraries[] = { { "CUDA", put_runtime, "libcudart.so" },
                                          { "CUDA driver", put_driver, "libcuda.so" },
                                          { NULL, NULL, NULL } };

static void explain_driver(char *why, size_t why_size)
{
    const int driver = cuda_driver_version(), runtime = cuda_runtime_version();
    if (driver == 0)
        snprintf(why, why_size, "no CUDA driver is installed");
    else
        snprintf(why, why_size, "the driver is for CUDA up to %d.%d, this program needs CUDA %d.%d",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

static void explain_absence(char *why, size_t why_size)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char escaped[128];
    if (visible == NULL) {
        snprintf(why, why_size, "the CUDA driver finds no device");
        return;
    }
    log_escape(visible, strlen(visible), escaped, sizeof(escaped));
    snprintf(why, why_size, "the CUDA driver finds no device with CUDA_VISIBLE_DEVICES=\"%s\"", escaped);
}

static void explain(cudaError_t status, char *why, size_t why_size)
{
    if (status == cudaErrorInsufficientDriver)
        explain_driver(why, why_size);
    else if (status == cudaSuccess || status == cudaErrorNoDevice)
        explain_absence(why, why_size);
    else
        snprintf(why, why_size, "%s (%s)", cudaGetErrorString(status), cudaGetErrorName(status));
}

/* Is there machine code, or code to compile it from, for all of them? */
static bool are_new_enough(int count, char *why, size_t why_size)
{
    for (int i = 0; i < count; i++) {
        int major = 0, minor = 0;
        if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) != cudaSuccess ||
            cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i) != cudaSuccess ||
            10 * major + minor >= CUDA_ARCH_LEAST)
            continue;
        snprintf(why, why_size, "device %d has compute capability %d.%d and this program is built for %d.%d and newer "
                 "(configure's CUDA_ARCHS; CUDA_VISIBLE_DEVICES hides devices)",
                 i, major, minor, CUDA_ARCH_LEAST / 10, CUDA_ARCH_LEAST % 10);
        return false;
    }
    return true;
}

uint32_t cuda_count(char *why, size_t why_size)
{
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0 && !are_new_enough(count, why, why_size))
        return 0;
    if (status == cudaSuccess && count > 0) {
        snprintf(why, why_size, "%s", "");
        return (uint32_t)count;
    }
    explain(status, why, why_size);
    cudaGetLastError();                 /* the runtime keeps errors for the thread's next question */
    return 0;
}

/* Files called nvidia0, nvidia1, and so on. */
static uint32_t device_files(const char *folder)
{
    uint32_t count = 0;
    DIR *const files = opendir(folder);
    if (files == NULL)
        return 0;
    for (const struct dirent *file; (file = readdir(files)) != NULL;)
        if (strncmp(file->d_name, "nvidia", 6) == 0 && isdigit((unsigned char)file->d_name[6]))
            count++;
    closedir(files);
    return count;
}

uint32_t cuda_count_at_most(const char *folder)
{
    const uint32_t files = device_files(folder);
    const char *const visible = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t names = 1;
    for (const char *at = visible; at != NULL && (at = strchr(at, ',')) != NULL; at++)
        names++;
    const uint32_t most = files > 0 ? files : UINT32_MAX;
    return visible != NULL && names < most ? names : most;
}

bool cuda_reaches(uint32_t index, uint32_t other)
{
    int can_access = 0;
    char name[16];
    if (index == other)
        return true;
    snprintf(name, sizeof(name), "cuda%u", index);
    const int rc = CUDA_CALL(name, cudaDeviceCanAccessPeer(&can_access, (int)index, (int)other));
    return !rc && can_access;
}
