/* Reading parts of files that may change meanwhile. Any thread. */
#ifndef PIPETRAIN_FILE_READ_H
#define PIPETRAIN_FILE_READ_H

#include <stddef.h>
#include <stdint.h>

/* `bytes` bytes from `offset`, fewer only where the file ends. 0 or a negative errno. */
int file_read_some(int fd, uint64_t offset, void *out, size_t bytes, size_t *done_out);
/* Exactly `bytes` bytes from `offset`, which is at most INT64_MAX. 0; -EBADMSG when the file ends before; or a
 * negative errno. */
int file_read_at(int fd, uint64_t offset, void *out, size_t bytes);
/* The whole of a file that should have `bytes` bytes; `out` has room for one more. As file_read_at, and -EBADMSG when
 * it is longer. */
int file_read_whole(int fd, void *out, size_t bytes);

#endif
