/* Reading whole files; called by the main thread of the converters. */
#include "tools/convert/file_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_bytes_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Fill the block, or less when the file has become shorter since its size was asked for. */
static int read_all(int fd, uint8_t *bytes, size_t wanted, size_t *done_out)
{
    size_t done = 0;

    while (done < wanted) {
        const ssize_t now = read(fd, bytes + done, wanted - done);
        if (now < 0 && errno == EINTR)
            continue;
        if (now < 0)
            return -errno;
        if (now == 0)
            break;
        done += (size_t)now;
    }
    *done_out = done;
    return 0;
}

static int read_open_file(int fd, uint8_t **bytes_out, size_t *byte_count_out)
{
    struct stat stat;

    if (fstat(fd, &stat) != 0)
        return -errno;
    if (!S_ISREG(stat.st_mode))
        return S_ISDIR(stat.st_mode) ? -EISDIR : -EINVAL;
    uint8_t *bytes = malloc(stat.st_size > 0 ? (size_t)stat.st_size : 1);
    if (bytes == NULL)
        return -ENOMEM;
    const int rc = read_all(fd, bytes, (size_t)stat.st_size, byte_count_out);
    if (rc < 0) {
        free(bytes);
        return rc;
    }
    *bytes_out = bytes;
    return 0;
}

int file_bytes_read(const char *path, uint8_t **bytes_out, size_t *byte_count_out)
{
    /* Without O_NONBLOCK a pipe without a writer would hold the program here. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return -errno;
    const int rc = read_open_file(fd, bytes_out, byte_count_out);
    close(fd);
    return rc;
}
