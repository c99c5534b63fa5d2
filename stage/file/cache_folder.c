/* The user's cache folder. See cache_folder.h. */
#include "stage/file/cache_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
