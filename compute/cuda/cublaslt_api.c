/* Loading cuBLASLt: the first tower that needs it loads the library, the others wait. It stays loaded until the process
 * ends, because it registers kernels with the CUDA runtime. This is a file of its own because the simulated CUDA
 * replaces it at link time. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "compute/cuda/cublaslt_dense.h"
#include "stage/log.h"

#define TEXT(number) #number
#define SONAME(major) "libcublasLt.so." TEXT(major)

/* The same major version as the header that declares the types. */
static const char library_name[] = SONAME(CUBLAS_VER_MAJOR);

#define ENTRY(name) { #name, offsetof(struct cublaslt_api, name) },
static const struct { const char *name; size_t offset; } entries[] = { CUBLASLT_FUNCTIONS(ENTRY) };

static struct cublaslt_api loaded_api;
static bool loaded;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static bool load_functions(void *library)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *const function = dlsym(library, entries[i].name);
        if (function == NULL)
            return false;
        /* POSIX allows dlsym's result to be used as a function pointer; C has no cast for it. */
        memcpy((char *)&loaded_api + entries[i].offset, &function, sizeof(function));
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
    pthread_once(&load_once, load);
    return loaded ? &loaded_api : NULL;
}
