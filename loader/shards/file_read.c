/* pread that finishes what it began. Called by readers for every run of records, and
 * while data sets are opened. */
#include "loader/shards/file_read.h"

#include <errno.h>
#include <unistd.h>

ssize_t file_read(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = pread(fd, (char *)buffer + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}
