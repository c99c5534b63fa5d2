/* Replacing a file. */
#include "tools/run/observe/scrape_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/whole_file.h"

static int write_in(int folder_fd, const char *file, const char *text, size_t bytes)
{
    const int fd = whole_file_make(folder_fd, file);
    if (fd < 0)
        return fd;
    int rc = file_write(fd, text, bytes);
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0)
        rc = whole_file_appear(folder_fd, file);
    if (rc != 0)
        whole_file_drop(folder_fd, file);
    return rc;
}

int scrape_file_write(const char *path, const char *text, size_t bytes)
{
    char folder[PATH_MAX] = ".";
    const char *const slash = strrchr(path, '/');
    const char *const file = slash != NULL ? slash + 1 : path;
    const size_t length = slash == path ? 1 : slash != NULL ? (size_t)(slash - path) : 0;
    if (length >= sizeof(folder) || strlen(file) > WHOLE_FILE_NAME_MAX)
        return -ENAMETOOLONG;
    if (length > 0) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    const int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0)
        return -errno;
    const int rc = write_in(folder_fd, file, text, bytes);
    close(folder_fd);
    return rc;
}
