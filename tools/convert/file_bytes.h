/* A whole file in memory, for converters of small formats. */
#ifndef PIPETRAIN_FILE_BYTES_H
#define PIPETRAIN_FILE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Something, of whatever kind, is there under this name. */
bool file_bytes_exists(const char *path);
/* Read a regular file into a malloc'ed block. 0, -EISDIR, -EINVAL (neither file nor
 * directory), -ENOMEM or what open and read say. */
int file_bytes_read(const char *path, uint8_t **bytes_out, size_t *byte_count_out);

#endif
