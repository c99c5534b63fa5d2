/* Writing gzip (RFC 1952). Members one behind the other are a gzip file: one for every few records, each
 * ending where a record does, lets a reader begin in many places, and loses little to damage. */
#ifndef PIPETRAIN_GZIP_WRITE_H
#define PIPETRAIN_GZIP_WRITE_H

#include <stddef.h>
#include <stdint.h>

/* The most bytes gzip_write gives for so many; SIZE_MAX where they do not fit into a size. */
size_t gzip_write_bound(size_t bytes);
/* Compress to one member of at most gzip_write_bound(bytes) bytes at `out`, which has room for them. Equal
 * data give equal bytes on every machine: no time, no name. Allocates and frees what zlib needs. 0,
 * -EFBIG (over 2 GiB) or -ENOMEM. */
int gzip_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);

#endif
