/* pread that goes on behind short reads. */
#include "stage/file/file_read.h"

#include <errno.h>
#include <unistd.h>

int file_read_some(int fd, uint64_t offset, void *out, size_t bytes, size_t *done_out)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t now = pread(fd, (uint8_t *)out + done, bytes - done, (off_t)(offset + done));
        if (now < 0 && errno == EINTR)
            continue;
        if (now < 0)
            return -errno;
        if (now == 0)
            break;              /* the end */
        done += (size_t)now;
    }
    *done_out = done;
    return 0;
}

int file_read_at(int fd, uint64_t offset, void *out, size_t bytes)
{
    size_t done = 0;
    const int rc = file_read_some(fd, offset, out, bytes, &done);

    return rc < 0 ? rc : done == bytes ? 0 : -EBADMSG;
}

int file_read_whole(int fd, void *out, size_t bytes)
{
    size_t done = 0;
    const int rc = file_read_some(fd, 0, out, bytes + 1, &done);

    return rc < 0 ? rc : done == bytes ? 0 : -EBADMSG;
}
