/* The folder of a set: what opening, listing and renaming in it have in common. */
#include "tools/convert/set_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"

#define NUMBERS_LENGTH 15u      /* -NNNNN-of-NNNNN */

static const char *const splits[] = { "train", "validation", "test" };
#define SPLIT_COUNT (sizeof(splits) / sizeof(splits[0]))

int set_folder_fail(const struct set_folder *folder, const char *what, const char *name, int error)
{
    stop_fail(folder->stop, exit_code_of(-error, EXIT_CODE_OUTPUT), "cannot %s %s/%s: %s%s", what, folder->path, name,
              exit_cause(-error), folder->advice);
    return -error;
}

int set_folder_open(struct set_folder *folder, const char *path, struct stop *stop)
{
    *folder = (struct set_folder){ .path = path, .advice = "", .stop = stop };
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0)
        return set_folder_fail(folder, "open", "", errno);
    const int rc = file_lock(folder->fd);
    if (rc == -EWOULDBLOCK) {
        stop_fail(stop, EXIT_CODE_OUTPUT, "%s: another pipetrain-convert is writing there", path);
        return rc;
    }
    if (rc == -EOPNOTSUPP)
        log_message(LOG_RUN, "%s: the file system has no locks: nothing keeps a second writer out", path);
    return rc == 0 || rc == -EOPNOTSUPP ? 0 : set_folder_fail(folder, "lock", "", -rc);
}

void set_folder_close(struct set_folder *folder)
{
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = -1;
}

int set_folder_visit(const struct set_folder *folder,
                     int (*look)(const struct set_folder *folder, const char *name, void *arg), void *arg)
{
    const int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const entries = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int rc = 0;

    if (entries == NULL) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return set_folder_fail(folder, "list", ".", error);
    }
    while (rc == 0 && (errno = 0, entry = readdir(entries)) != NULL)
        rc = look(folder, entry->d_name, arg);
    if (rc == 0 && errno != 0)
        rc = set_folder_fail(folder, "list", ".", errno);
    closedir(entries);
    return rc;
}

int set_folder_remove(const struct set_folder *folder, const char *name)
{
    return unlinkat(folder->fd, name, 0) == 0 || errno == ENOENT ? 0 : set_folder_fail(folder, "remove", name, errno);
}

int set_folder_rename(const struct set_folder *folder, const char *name, const char *new_name)
{
    if (renameat(folder->fd, name, folder->fd, new_name) != 0)
        return set_folder_fail(folder, "rename to", new_name, errno);
    return 0;
}

int set_folder_sync(const struct set_folder *folder)
{
    const int rc = whole_file_sync_names(folder->fd);
    return rc == 0 ? 0 : set_folder_fail(folder, "sync", "", -rc);
}

/* Whether the text is -NNNNN-of-NNNNN. */
static bool is_numbers(const char *text)
{
    static const char pattern[NUMBERS_LENGTH + 1] = "-ddddd-of-ddddd";

    for (size_t i = 0; i < NUMBERS_LENGTH; i++) {
        if (pattern[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != pattern[i])
            return false;
    }
    return true;
}

/* Whether the first `bytes` bytes are SPLIT-NNNNN-of-NNNNN. */
static bool is_shard_name(const char *name, size_t bytes)
{
    for (size_t i = 0; i < SPLIT_COUNT; i++) {
        const size_t split_bytes = strlen(splits[i]);
        if (bytes == split_bytes + NUMBERS_LENGTH && memcmp(name, splits[i], split_bytes) == 0 &&
            is_numbers(name + split_bytes))
            return true;
    }
    return false;
}

bool set_folder_is_shard(const char *name)
{
    return is_shard_name(name, strlen(name));
}

bool set_folder_is_temporary_shard(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes > 5 && name[0] == '.' && strcmp(name + bytes - 4, ".tmp") == 0 && is_shard_name(name + 1, bytes - 5);
}
