/* Temporary folders. */
#include "tools/trial/trial_folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/log.h"

#define DESCRIPTORS_MAX 8

int trial_folder_make(char *path_out, size_t path_size)
{
    const char *const parent = getenv("TMPDIR");
    const int bytes = snprintf(path_out, path_size, "%s/pipetrain-trial.XXXXXX",
                               parent != NULL && *parent != '\0' ? parent : "/tmp");
    if (bytes < 0 || (size_t)bytes >= path_size)
        return -ENAMETOOLONG;
    return mkdtemp(path_out) != NULL ? 0 : -errno;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

void trial_folder_remove(const char *path)
{
    if (nftw(path, remove_one, DESCRIPTORS_MAX, FTW_DEPTH | FTW_PHYS) != 0)
        log_message(LOG_RUN, "%s could not be removed: %s", path, strerror(errno));
}
