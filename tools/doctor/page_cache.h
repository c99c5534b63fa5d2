/* How much of a file is in the kernel's page cache, and how fast it is read past that. Neither changes what is in it.
 * Main only. */
#ifndef PIPETRAIN_PAGE_CACHE_H
#define PIPETRAIN_PAGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the open file that are in the page cache. 0; or -EPERM (the kernel tells it only to who owns or may write
 * the file) or another negative errno. */
int page_cache_count(int fd, const char *path, uint64_t file_bytes, uint64_t *cached_out);

struct disk_read {
    uint64_t bytes, elapsed_ns;
};

/* Read the file past the page cache (O_DIRECT), from the middle of it on, until `*sum` has `bytes_most` bytes or took
 * `ns_most`; adds to it. 0, -EINVAL (this file system cannot), or another negative errno. */
int disk_read(const char *path, uint64_t file_bytes, uint64_t bytes_most, uint64_t ns_most, struct disk_read *sum);

#endif
