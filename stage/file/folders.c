/* Finding, making and removing folders. */
#include "stage/file/folders.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Do the first `bytes` > 0 bytes of the path end at the end of a component? */
static bool is_end(const char *path, size_t bytes)
{
    return path[bytes - 1] != '/' && (path[bytes] == '/' || path[bytes] == '\0');
}

/* Call `call` with the first `bytes` bytes of the path. 0 or a negative errno. */
static int on_beginning(char *path, size_t bytes, int (*call)(const char *path))
{
    const char kept = path[bytes];
    path[bytes] = '\0';
    const int rc = call(path) == 0 ? 0 : -errno;
    path[bytes] = kept;
    return rc;
}

static int make(const char *path)
{
    return mkdir(path, 0777);
}

static int make_all(char *path, size_t *topmost_out)
{
    const size_t length = strlen(path);
    size_t topmost = 0;
    for (size_t bytes = 1; bytes <= length; bytes++) {
        const int rc = is_end(path, bytes) ? on_beginning(path, bytes, make) : -EEXIST;
        if (rc == 0 && topmost == 0)
            topmost = bytes;
        if (rc < 0 && rc != -EEXIST) {
            folders_remove(path, topmost);
            return rc;
        }
    }
    *topmost_out = topmost;
    return 0;
}

int folders_make(const char *path, size_t *topmost_out)
{
    char *const own = strdup(path);
    if (own == NULL)
        return -ENOMEM;
    const int rc = make_all(own, topmost_out);
    free(own);
    return rc;
}

void folders_remove(const char *path, size_t topmost)
{
    char *const own = topmost > 0 ? strdup(path) : NULL;
    if (own == NULL)
        return;
    for (size_t bytes = strlen(own); bytes >= topmost; bytes--)
        if (is_end(own, bytes))
            (void)on_beginning(own, bytes, rmdir);  /* fails if others use the folder now */
    free(own);
}

int folder_of_file(const char *path, char *folder_out, size_t folder_size, const char **name_out)
{
    const char *const slash = strrchr(path, '/'), *const folder = slash != NULL ? path : ".";
    const size_t bytes = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
    if (bytes >= folder_size)
        return -ENAMETOOLONG;
    memcpy(folder_out, folder, bytes);
    folder_out[bytes] = '\0';
    *name_out = slash != NULL ? slash + 1 : path;
    return 0;
}

bool cache_folder_find(char *path_out, size_t path_size)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int wanted = -1;
    if (cache != NULL && cache[0] == '/')
        wanted = snprintf(path_out, path_size, "%s/pipetrain", cache);
    else if (home != NULL && home[0] == '/')
        wanted = snprintf(path_out, path_size, "%s/.cache/pipetrain", home);
    return wanted > 0 && (size_t)wanted < path_size;
}

void cache_folder_make(void)
{
    char folder[PATH_MAX];
    if (!cache_folder_find(folder, sizeof(folder)))
        return;
    char *last = strrchr(folder, '/');
    *last = '\0';
    (void)mkdir(folder, 0700);
    *last = '/';
    (void)mkdir(folder, 0700);
}
