/* TensorBoard reads the event files of a folder in the order of their names, which contain a time. */
#include "tools/lib/run/observe/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/folders.h"
#include "stage/text/decimal.h"
#include "tools/lib/results/file_list.h"

#define NAME_BEGINS "events.out.tfevents."
#define NAME_ENDS ".pipetrain"          /* where other programs write the machine's name, which is private */
#define SECONDS_DIGITS 10
#define TRIES 100                       /* the most names to try if other processes create files at the same time */

/* The time that the name of an event file contains; 0 for other names. */
static uint64_t time_of(const char *name)
{
    const size_t begins = strlen(NAME_BEGINS);
    uint64_t seconds;
    return strncmp(name, NAME_BEGINS, begins) == 0 &&
           decimal_u64_start(name + begins, &seconds) == name + begins + SECONDS_DIGITS ? seconds : 0;
}

static bool is_ours(const char *name)
{
    return time_of(name) > 0 && strcmp(name + strlen(NAME_BEGINS) + SECONDS_DIGITS, NAME_ENDS) == 0;
}

/* The latest time in the names of the folder's event files, of any program; 0: there are none. */
static uint64_t latest_time(int folder_fd)
{
    uint64_t latest = 0;
    const int fd = dup(folder_fd);
    DIR *const folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        if (time_of(entry->d_name) > latest)
            latest = time_of(entry->d_name);
    closedir(folder);
    return latest;
}

static int make_in(int folder_fd, uint64_t now)
{
    const uint64_t latest = latest_time(folder_fd);
    uint64_t seconds = latest >= now ? latest + 1 : now;
    int fd = -EEXIST;
    for (int i = 0; i < TRIES && fd == -EEXIST; i++, seconds++) {
        char name[64];
        snprintf(name, sizeof(name), NAME_BEGINS "%0*" PRIu64 NAME_ENDS, SECONDS_DIGITS, seconds);
        fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0)
            fd = -errno;
    }
    return fd;
}

int event_file_make(const char *folder, bool may_be_link, uint64_t now)
{
    size_t topmost;
    const int rc = folders_make(folder, &topmost);
    if (rc != 0)
        return rc;
    const int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (may_be_link ? 0 : O_NOFOLLOW));
    if (folder_fd < 0)
        return -errno;
    const int fd = make_in(folder_fd, now);
    close(folder_fd);
    return fd;
}

bool event_file_exists(const char *folder)
{
    const int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0)
        return false;
    const bool exists = latest_time(folder_fd) > 0;
    close(folder_fd);
    return exists;
}

int event_file_put(int fd, struct tfevent *event)
{
    size_t bytes;
    const uint8_t *const record = tfevent_frame(event, &bytes);
    return record != NULL ? file_write(fd, record, bytes) : -ENOMEM;
}

void event_file_clear(const char *folder)
{
    const int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder_fd < 0)
        return;
    file_list_remove(folder_fd, is_ours);
    close(folder_fd);
}
