/* Rank 0 sends a copy in parts: the number of bytes, then messages of at most RANK_COPY_PART_BYTES, or an empty one if it
 * cannot read the rest. Each part has left before the next one is read, so that the memory for it is bounded. */
#include "tools/lib/run/ranks/rank_copy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stage/file/file.h"

static size_t part_bytes(uint64_t left)
{
    return left < RANK_COPY_PART_BYTES ? (size_t)left : RANK_COPY_PART_BYTES;
}

static int send_part(struct ranks *ranks, const void *data, size_t bytes)
{
    const int rc = ranks_send_all(ranks, MESSAGE_COLLECTIVE, data, bytes);
    return rc == 0 ? ranks_flush(ranks) : rc;
}

int rank_copy_send_file(struct ranks *ranks, int fd, uint64_t bytes)
{
    char *const part = malloc(RANK_COPY_PART_BYTES);
    int rc = ranks_send_all(ranks, MESSAGE_COLLECTIVE, &bytes, sizeof(bytes)), read = part == NULL ? -ENOMEM : 0;
    for (uint64_t at = 0; at < bytes && rc == 0 && (read == 0 || at == 0); at += part_bytes(bytes - at)) {
        if (read == 0)
            read = file_read_at(fd, at, part, part_bytes(bytes - at));
        rc = send_part(ranks, part, read == 0 ? part_bytes(bytes - at) : 0);
    }
    free(part);
    return rc != 0 ? rc : read;
}

int rank_copy_send_memory(struct ranks *ranks, const void *data, uint64_t bytes)
{
    int rc = ranks_send_all(ranks, MESSAGE_COLLECTIVE, &bytes, sizeof(bytes));
    for (uint64_t at = 0; at < bytes && rc == 0; at += part_bytes(bytes - at))
        rc = send_part(ranks, (const char *)data + at, part_bytes(bytes - at));
    return rc;
}

static int receive_size(struct ranks *ranks, uint64_t *bytes_out)
{
    struct message *message;
    const int rc = ranks_receive(ranks, 0, MESSAGE_COLLECTIVE, &message);
    if (rc != 0)
        return rc;
    const bool is_size = message->bytes == sizeof(*bytes_out);
    if (is_size)
        memcpy(bytes_out, message->data, sizeof(*bytes_out));
    free(message);
    return is_size ? 0 : -EPROTO;
}

/* Receive the parts. The first error of writing is returned when all parts have arrived. */
static int receive_parts(struct ranks *ranks, int fd, uint64_t bytes)
{
    int written = fd < 0 ? -errno : 0;
    for (uint64_t at = 0; at < bytes;) {
        struct message *message;
        const int rc = ranks_receive(ranks, 0, MESSAGE_COLLECTIVE, &message);
        if (rc != 0)
            return rc;
        const size_t got = message->bytes;
        const bool fits = got > 0 && got <= bytes - at;
        if (written == 0 && fits)
            written = file_write(fd, message->data, got);
        free(message);
        if (!fits)
            return -EIO;
        at += got;
    }
    return written;
}

int rank_copy_receive(struct ranks *ranks, int *fd_out, uint64_t *bytes_out)
{
    uint64_t bytes;
    int rc = receive_size(ranks, &bytes);
    if (rc != 0)
        return rc;
    const int fd = memfd_create("pipetrain-copy", MFD_CLOEXEC);
    rc = receive_parts(ranks, fd, bytes);
    if (rc == 0) {
        *fd_out = fd;
        *bytes_out = bytes;
    } else if (fd >= 0)
        close(fd);
    return rc;
}
