/* mincore over a mapping that is never touched, and reads with O_DIRECT. */
#include "tools/doctor/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/clock.h"

#define WINDOW_BYTES ((uint64_t)1 << 30)        /* of a mapping at a time */
#define BLOCK_BYTES ((size_t)2 << 20)           /* of a read */
#define ALIGNMENT 4096u

/* To others the kernel says that all is there. */
static bool is_told(int fd, const char *path)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (status.st_uid == geteuid() || access(path, W_OK) == 0);
}

static int count_window(int fd, uint64_t offset, uint64_t bytes, uint64_t page, unsigned char *residence,
                        uint64_t *cached)
{
    void *const mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    if (mapped == MAP_FAILED)
        return -errno;
    const int rc = mincore(mapped, bytes, residence) == 0 ? 0 : -errno;
    for (uint64_t i = 0; rc == 0 && i * page < bytes; i++)
        if (residence[i] & 1)
            *cached += bytes - i * page < page ? bytes - i * page : page;
    munmap(mapped, bytes);
    return rc;
}

int page_cache_count(int fd, const char *path, uint64_t file_bytes, uint64_t *cached_out)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!is_told(fd, path))
        return -EPERM;
    unsigned char *const residence = malloc(WINDOW_BYTES / page);
    uint64_t cached = 0;
    int rc = residence != NULL ? 0 : -ENOMEM;
    for (uint64_t offset = 0; rc == 0 && offset < file_bytes; offset += WINDOW_BYTES) {
        const uint64_t left = file_bytes - offset;
        rc = count_window(fd, offset, left < WINDOW_BYTES ? left : WINDOW_BYTES, page, residence, &cached);
    }
    free(residence);
    if (rc == 0)
        *cached_out = cached;
    return rc;
}

static int read_blocks(int fd, void *block, uint64_t begin, uint64_t bytes_most, uint64_t ns_most,
                       struct disk_read *sum)
{
    uint64_t offset = begin;
    while (sum->bytes < bytes_most && sum->elapsed_ns < ns_most) {
        const uint64_t before_ns = clock_now_ns();
        const ssize_t bytes = pread(fd, block, BLOCK_BYTES, (off_t)offset);
        if (bytes < 0)
            return -errno;
        sum->elapsed_ns += clock_now_ns() - before_ns;
        sum->bytes += (uint64_t)bytes;
        offset += (uint64_t)bytes;
        if ((size_t)bytes < BLOCK_BYTES)
            return 0;
    }
    return 0;
}

int disk_read(const char *path, uint64_t file_bytes, uint64_t bytes_most, uint64_t ns_most, struct disk_read *sum)
{
    const int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    void *const block = aligned_alloc(ALIGNMENT, BLOCK_BYTES);
    const uint64_t middle = file_bytes / 2 / ALIGNMENT * ALIGNMENT;
    const int rc = block != NULL ? read_blocks(fd, block, middle, bytes_most, ns_most, sum) : -ENOMEM;
    free(block);
    close(fd);
    return rc;
}
