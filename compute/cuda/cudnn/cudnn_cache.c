/* The plan cache's files. A file is three lines, the last without an end: the key, the hash
 * of the plan in hexadecimal, the plan. It appears whole, by a rename. */
#include "compute/cuda/cudnn/cudnn_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "stage/log.h"

#define HASH_DIGITS 16u
#define FILE_BYTES_MAX (4u << 20)

static bool path_of(char path[PATH_MAX], const char *folder, const char *key)
{
    const uint64_t hash = XXH3_64bits(key, strlen(key));
    return snprintf(path, PATH_MAX, "%s/conv-%016" PRIx64 ".plan", folder, hash) < PATH_MAX;
}

static char *file_read(const char *path, size_t *bytes_out)
{
    char *text = NULL;
    struct stat facts;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return NULL;
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0 && facts.st_size < FILE_BYTES_MAX)
        text = malloc((size_t)facts.st_size);
    if (text != NULL && read(file, text, (size_t)facts.st_size) != facts.st_size) {
        free(text);
        text = NULL;
    }
    close(file);
    if (text != NULL)
        *bytes_out = (size_t)facts.st_size;
    return text;
}

/* What comes before the plan. */
static char *head_make(const char *key, const char *plan, size_t bytes, size_t *head_bytes_out)
{
    const size_t head_bytes = strlen(key) + 1 + HASH_DIGITS + 1;
    char *const head = malloc(head_bytes + 1);
    if (head != NULL) {
        snprintf(head, head_bytes + 1, "%s\n%016" PRIx64 "\n", key, (uint64_t)XXH3_64bits(plan, bytes));
        *head_bytes_out = head_bytes;
    }
    return head;
}

/* Does `text` hold a plan for the key, and whole? */
static bool is_whole(const char *text, size_t bytes, const char *key, size_t *head_bytes_out)
{
    const size_t head_bytes = strlen(key) + 1 + HASH_DIGITS + 1;
    if (bytes <= head_bytes)
        return false;
    char *const head = head_make(key, text + head_bytes, bytes - head_bytes, head_bytes_out);
    const bool whole = head != NULL && memcmp(text, head, head_bytes) == 0;
    free(head);
    return whole;
}

bool plan_cache_load(const char *folder, const char *key, char **plan_out, size_t *bytes_out)
{
    char path[PATH_MAX];
    size_t bytes, head_bytes;
    char *const text = path_of(path, folder, key) ? file_read(path, &bytes) : NULL;
    if (text == NULL)
        return false;
    if (!is_whole(text, bytes, key, &head_bytes)) {
        free(text);
        return false;
    }
    memmove(text, text + head_bytes, bytes - head_bytes);
    *plan_out = text;
    *bytes_out = bytes - head_bytes;
    return true;
}

static int file_write(int file, const char *head, size_t head_bytes, const char *plan, size_t bytes)
{
    FILE *const stream = fdopen(file, "w");
    int rc = stream == NULL ? -errno : 0;
    if (stream == NULL) {
        close(file);
        return rc;
    }
    if (fwrite(head, 1, head_bytes, stream) != head_bytes || fwrite(plan, 1, bytes, stream) != bytes)
        rc = -errno;
    if (fclose(stream) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

static int store(const char *folder, const char *path, const char *key, const char *plan, size_t bytes)
{
    char temporary[PATH_MAX];
    size_t head_bytes;
    if (snprintf(temporary, sizeof(temporary), "%s/conv-XXXXXX", folder) >= PATH_MAX)
        return -ENAMETOOLONG;
    char *const head = head_make(key, plan, bytes, &head_bytes);
    if (head == NULL)
        return -ENOMEM;
    const int file = mkostemp(temporary, O_CLOEXEC);
    int rc = file < 0 ? -errno : file_write(file, head, head_bytes, plan, bytes);
    if (rc == 0 && rename(temporary, path) < 0)
        rc = -errno;
    if (rc < 0 && file >= 0)
        unlink(temporary);
    free(head);
    return rc;
}

void plan_cache_store(const char *folder, const char *key, const char *plan, size_t bytes)
{
    static atomic_flag is_told = ATOMIC_FLAG_INIT;
    char path[PATH_MAX];
    const int rc = path_of(path, folder, key) ? store(folder, path, key, plan, bytes) : -ENAMETOOLONG;
    if (rc < 0 && !atomic_flag_test_and_set(&is_told))
        log_message(LOG_RUN, "convolution plans are not kept in %s: %s", folder, strerror(-rc));
}

void plan_cache_drop(const char *folder, const char *key)
{
    char path[PATH_MAX];
    if (path_of(path, folder, key))
        unlink(path);
}
