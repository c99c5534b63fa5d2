/* Bytes of archives. Called by the main thread of the converter, and by the writing threads for archives
 * that are not compressed. */
#include "tools/convert/files/tar_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/gunzip.h"
#include "formats/html.h"
#include "stage/file/file.h"

#define STREAM_BUFFER_BYTES (1u << 20)
#define MARK(text) text, sizeof(text) - 1

/* How archives begin that have to be unpacked first. */
static const struct {
    const char *begin;
    size_t bytes;
    const char *problem;
} others[] = {
    { MARK("\xfd" "7zXZ"), "is compressed with xz: unpack it with xz -d first" },
    { MARK("BZh"), "is compressed with bzip2: unpack it with bzip2 -d first" },
    { MARK("\x28\xb5\x2f\xfd"), "is compressed with zstd: unpack it with zstd -d first" },
    { MARK("PK\x03\x04"), "is a ZIP archive: unpack it and convert the folder" },
    { MARK("7z\xbc\xaf"), "is a 7z archive: unpack it and convert the folder" },
};

static const char *what_else(const uint8_t *head, size_t bytes)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (bytes >= others[i].bytes && memcmp(head, others[i].begin, others[i].bytes) == 0)
            return others[i].problem;
    }
    return html_begins(head, bytes) ? "is HTML, not an archive: download it again" : NULL;
}

static int open_stream(struct tar_file *file)
{
    const int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    file->stream = gzdopen(fd, "rb");
    if (file->stream == NULL) {
        close(fd);
        return -ENOMEM;
    }
    return gzbuffer(file->stream, STREAM_BUFFER_BYTES) == 0 ? 0 : -ENOMEM;
}

int tar_file_open(struct tar_file *file, const char *path, const char **problem_out)
{
    struct stat stat;
    uint8_t head[256];
    size_t bytes;

    *file = (struct tar_file){ .path = path, .fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) };
    if (file->fd < 0 || fstat(file->fd, &stat) != 0)
        return -errno;
    *problem_out = file_kind(stat.st_mode);
    if (*problem_out != NULL) {
        *problem_out = S_ISDIR(stat.st_mode) ? "is a folder: convert it with 'folder'" : "is no regular file";
        return -EBADMSG;
    }
    const int rc = tar_file_read(file, 0, head, sizeof(head), &bytes);
    if (rc < 0)
        return rc;
    *problem_out = what_else(head, bytes);
    if (*problem_out != NULL)
        return -EBADMSG;
    file->is_compressed = gunzip_is_gzip(head, bytes);
    return file->is_compressed ? open_stream(file) : 0;
}

/* An end of the file inside the stream shows only behind the last bytes it gave. */
static int stream_problem(struct tar_file *file)
{
    int status;

    gzerror(file->stream, &status);
    return status == Z_OK ? 0 : status == Z_MEM_ERROR ? -ENOMEM : status == Z_ERRNO && errno != 0 ? -errno : -EBADMSG;
}

/* The next bytes, fewer only at the stream's end. */
static int stream_read(struct tar_file *file, void *out, size_t bytes, size_t *done_out)
{
    size_t done = 0;

    while (done < bytes) {
        const size_t wanted = bytes - done < STREAM_BUFFER_BYTES ? bytes - done : STREAM_BUFFER_BYTES;
        const int now = gzread(file->stream, (uint8_t *)out + done, (unsigned)wanted);
        const int rc = now <= 0 ? stream_problem(file) : 0;
        if (rc < 0)
            return rc;
        if (now <= 0)
            break;
        done += (size_t)now;
        file->at += (uint64_t)now;
    }
    *done_out = done;
    return 0;
}

/* Go on to the offset, or to the end where that comes first. */
static int stream_skip(struct tar_file *file, uint64_t offset)
{
    uint8_t block[16384];
    size_t done = 1;

    while (file->at < offset && done > 0) {
        const uint64_t left = offset - file->at;
        const int rc = stream_read(file, block, left < sizeof(block) ? (size_t)left : sizeof(block), &done);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int tar_file_read(void *arg, uint64_t offset, void *out, size_t bytes, size_t *done_out)
{
    struct tar_file *file = arg;

    if (!file->is_compressed)
        return file_read_some(file->fd, offset, out, bytes, done_out);
    const int rc = stream_skip(file, offset);
    if (rc < 0)
        return rc;
    if (file->at >= offset)
        return stream_read(file, out, bytes, done_out);
    *done_out = 0;
    return 0;
}

uint64_t tar_file_packed_offset(const struct tar_file *file)
{
    const z_off_t offset = file->stream != NULL ? gzoffset(file->stream) : -1;
    return offset > 0 ? (uint64_t)offset : 0;
}

int tar_file_end(struct tar_file *file)
{
    if (file->stream == NULL)
        return 0;
    int rc = stream_skip(file, UINT64_MAX);
    const int status = gzclose_r(file->stream);
    file->stream = NULL;
    if (rc == 0 && status != Z_OK)
        rc = -EBADMSG;
    return rc;
}

void tar_file_close(struct tar_file *file)
{
    if (file->stream != NULL)
        gzclose_r(file->stream);
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct tar_file){ .fd = -1 };
}
