/* The plan cache, and turns at measuring. Called by convolutions and dense layers from the towers' threads. */
#include "compute/cuda/plan_cache.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "stage/cuda/cuda_call.h"
#include "stage/file/file.h"
#include "stage/log.h"

/* ---- files ---- */

#define HASH_DIGITS 16u
#define FILE_BYTES_MAX (4u << 20)

static bool cache_path(char path[PATH_MAX], const char *folder, const char *kind, const char *key)
{
    const uint64_t hash = XXH3_64bits(key, strlen(key));
    return snprintf(path, PATH_MAX, "%s/%s-%016" PRIx64 ".plan", folder, kind, hash) < PATH_MAX;
}

/* Formats the lines of a cache file before the plan. */
static char *cache_header(const char *key, const char *plan, size_t bytes, size_t *header_bytes_out)
{
    const size_t header_bytes = strlen(key) + 1 + HASH_DIGITS + 1;
    char *const header = malloc(header_bytes + 1);
    if (header != NULL) {
        snprintf(header, header_bytes + 1, "%s\n%016" PRIx64 "\n", key, (uint64_t)XXH3_64bits(plan, bytes));
        *header_bytes_out = header_bytes;
    }
    return header;
}

/* Does `text` hold an undamaged plan for the key? */
static bool cache_is_valid(const char *text, size_t bytes, const char *key, size_t *header_bytes_out)
{
    const size_t header_bytes = strlen(key) + 1 + HASH_DIGITS + 1;
    if (bytes <= header_bytes)
        return false;
    char *const header = cache_header(key, text + header_bytes, bytes - header_bytes, header_bytes_out);
    const bool whole = header != NULL && memcmp(text, header, header_bytes) == 0;
    free(header);
    return whole;
}

bool plan_cache_load(const char *folder, const char *kind, const char *key, char **plan_out, size_t *bytes_out)
{
    char path[PATH_MAX];
    size_t bytes, header_bytes;
    char *text;
    if (!cache_path(path, folder, kind, key) || file_load(path, FILE_BYTES_MAX, &text, &bytes) != 0)
        return false;
    if (!cache_is_valid(text, bytes, key, &header_bytes)) {
        free(text);
        return false;
    }
    memmove(text, text + header_bytes, bytes - header_bytes);
    *plan_out = text;
    *bytes_out = bytes - header_bytes;
    return true;
}

static int cache_write_file(int file, const char *header, size_t header_bytes, const char *plan, size_t bytes)
{
    int rc = file_write(file, header, header_bytes);
    if (rc == 0)
        rc = file_write(file, plan, bytes);
    if (close(file) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

static int cache_write(const char *folder, const char *path, const char *key, const char *plan, size_t bytes)
{
    char temporary[PATH_MAX];
    size_t header_bytes;
    if (snprintf(temporary, sizeof(temporary), "%s/plan-XXXXXX", folder) >= PATH_MAX)
        return -ENAMETOOLONG;
    char *const header = cache_header(key, plan, bytes, &header_bytes);
    if (header == NULL)
        return -ENOMEM;
    const int file = mkostemp(temporary, O_CLOEXEC);
    int rc = file < 0 ? -errno : cache_write_file(file, header, header_bytes, plan, bytes);
    if (rc == 0 && rename(temporary, path) < 0)
        rc = -errno;
    if (rc < 0 && file >= 0)
        unlink(temporary);
    free(header);
    return rc;
}

void plan_cache_store(const char *folder, const char *kind, const char *key, const char *plan, size_t bytes)
{
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    char path[PATH_MAX];
    const int rc = cache_path(path, folder, kind, key) ? cache_write(folder, path, key, plan, bytes) : -ENAMETOOLONG;
    if (rc < 0 && !atomic_flag_test_and_set(&is_reported))
        log_message(LOG_RUN, "plans are not kept in %s: %s", folder, strerror(-rc));
}

void plan_cache_drop(const char *folder, const char *kind, const char *key)
{
    char path[PATH_MAX];
    if (cache_path(path, folder, kind, key))
        unlink(path);
}

int plan_cache_device(const char *name, char *text, size_t text_size)
{
    int device, driver;
    struct cudaDeviceProp properties;
    int rc = CUDA_CALL(name, cudaGetDevice(&device));
    if (rc == 0)
        rc = CUDA_CALL(name, cudaDriverGetVersion(&driver));
    if (rc == 0)
        rc = CUDA_CALL(name, cudaGetDeviceProperties(&properties, device));
    if (rc == 0)
        snprintf(text, text_size, "driver %d, sm_%d%d, %s", driver / 1000, properties.major, properties.minor,
                 properties.name);
    return rc;
}

/* ---- turns ---- */

static pthread_mutex_t measuring = PTHREAD_MUTEX_INITIALIZER;
static bool is_turn_overdue;            /* guarded by measuring */
#define TURN_LOOK_NS 10000000
#define TURN_LOOKS_MAX 3000u

/* Waits until this process has the folder's lock, or another process has held it for too long. */
static void await_turn(int folder, const char *cache)
{
    const struct timespec nap = { .tv_nsec = TURN_LOOK_NS };
    uint32_t looks = 0;
    while (flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && !is_turn_overdue) {
        nanosleep(&nap, NULL);
        is_turn_overdue = ++looks == TURN_LOOKS_MAX;
        if (is_turn_overdue)
            log_message(LOG_RUN, "%s: another process has had its lock for 30 s: measuring beside it, so plans may not "
                        "be the fastest", cache);
    }
}

/* The turn is the open folder; -1: there is none. */
int plan_turn_begin(const char *cache)
{
    pthread_mutex_lock(&measuring);
    const int folder = cache != NULL ? open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder >= 0)
        await_turn(folder, cache);
    return folder;
}

void plan_turn_end(int turn)
{
    if (turn >= 0)
        close(turn);
    pthread_mutex_unlock(&measuring);
}
