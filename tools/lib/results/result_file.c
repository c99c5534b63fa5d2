/* Output files of commands. Called by the main thread. */
#include "tools/lib/results/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/folders.h"
#include "stage/log.h"
#include "stage/stop.h"

static int write_at(const char *path, const struct file_part *parts, size_t count)
{
    char folder[PATH_MAX];
    const char *name;
    if (folder_of_file(path, folder, sizeof(folder), &name) != 0)
        return -ENAMETOOLONG;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int rc = *name == '\0' ? -EISDIR : whole_file_write(fd, name, parts, count);
    close(fd);
    return rc;
}

int result_file_check(const char *path, bool may_replace)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return EXIT_CODE_OK;    /* other problems are reported when it is written */
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
