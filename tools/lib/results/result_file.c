/* Output files of commands. Called by the main thread. */
#include "tools/lib/results/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/stop.h"

static int open_folder(const char *path, const char *name)
{
    char folder[PATH_MAX];
    const int bytes = (int)(name - path);
    if (bytes >= (int)sizeof(folder))
        return -ENAMETOOLONG;
    snprintf(folder, sizeof(folder), "%.*s", bytes, path);
    const int fd = open(bytes == 0 ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

static int write_at(const char *path, const struct file_part *parts, size_t count)
{
    const char *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    const int fd = open_folder(path, name);
    if (fd < 0)
        return fd;
    const int rc = *name == '\0' ? -EISDIR : whole_file_write(fd, name, parts, count);
    close(fd);
    return rc;
}

int result_file_check(const char *path, bool may_replace)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return EXIT_CODE_OK;    /* writing it reports other problems */
    const char *const kind = file_kind(status.st_mode);
    if (kind != NULL)
        log_message(LOG_ERROR, "%s: is %s: name a regular file", path, kind);
    else if (!may_replace)
        log_message(LOG_ERROR, "%s: exists already: replace it with --force", path);
    return kind == NULL && may_replace ? EXIT_CODE_OK : EXIT_CODE_OUTPUT;
}

int result_file_write(const char *path, bool may_replace, const struct file_part *parts, size_t count)
{
    const int code = result_file_check(path, may_replace);
    if (code != EXIT_CODE_OK)
        return code;
    const int rc = write_at(path, parts, count);
    if (rc == 0)
        return EXIT_CODE_OK;
    log_message(LOG_ERROR, "%s: cannot be written: %s", path, strerror(-rc));
    return EXIT_CODE_OUTPUT;
}
