/* Loading cuBLASLt. Called by dense_library_open, from the towers' threads; the first call
 * loads, the others wait for it. The library stays until the process ends: it registers
 * kernels with the CUDA runtime, and unloading would pull them from under it. */
#include "compute/cuda/cublaslt_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "stage/log.h"

#define TEXT(number) #number
#define SONAME(major) "libcublasLt.so." TEXT(major)

/* The major version is that of the header the types come from. */
static const char library_name[] = SONAME(CUBLAS_VER_MAJOR);

#define ENTRY(name) { #name, offsetof(struct cublaslt_api, name) },
static const struct { const char *name; size_t offset; } entries[] = { CUBLASLT_FUNCTIONS(ENTRY) };

static struct cublaslt_api api;
static bool loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool load_functions(void *library)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *const function = dlsym(library, entries[i].name);
        if (function == NULL)
            return false;
        /* POSIX lets dlsym's pointer be used as a function's; C has no cast that says so. */
        memcpy((char *)&api + entries[i].offset, &function, sizeof(function));
    }
    return true;
}

static void load(void)
{
    void *const library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    loaded = library != NULL && load_functions(library);
    if (!loaded)
        log_message(LOG_ERROR, "cuBLASLt cannot be loaded: %s", dlerror());
}

const struct cublaslt_api *cublaslt_api_find(void)
{
    pthread_once(&once, load);
    return loaded ? &api : NULL;
}
