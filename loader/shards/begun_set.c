/* Looking for the marker of a commit. Called while shards are looked for. */
#include "loader/shards/begun_set.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/manifest.h"

/* Whether the marker lies in the folder that the first `bytes` bytes of `path` name. */
static bool has_marker(const char *path, size_t bytes)
{
    char marker[PATH_MAX];
    struct stat status;
    const char *const slash = bytes > 0 && path[bytes - 1] != '/' ? "/" : "";
    const int length = snprintf(marker, sizeof(marker), "%.*s%s" MANIFEST_COMMIT_FILE, (int)bytes, path, slash);
    return length < (int)sizeof(marker) && lstat(marker, &status) == 0;
}

static size_t folder_bytes(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

bool begun_set_is_in(const char *folder)
{
    return has_marker(folder, strlen(folder));
}

const char *begun_set_find(const struct shard_list *list)
{
    const char *last = NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        const char *const path = list->paths[i];
        const size_t bytes = folder_bytes(path);
        if (last != NULL && folder_bytes(last) == bytes && memcmp(last, path, bytes) == 0)
            continue;
        if (has_marker(path, bytes))
            return path;
        last = path;
    }
    return NULL;
}
