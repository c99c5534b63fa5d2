/* Writing compressed files: gzip (RFC 1952) by zlib, and LZ4 frames, which `lz4 -d` reads. A file is several members or
 * frames, one after another. If each has a few whole records, a reader can begin at each of them, and damage is limited
 * to one. Equal data give equal bytes on every machine. */
#ifndef PIPETRAIN_COMPRESS_H
#define PIPETRAIN_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

/* An upper bound of the compressed size of `bytes` bytes; SIZE_MAX over 2 GiB, which cannot be compressed. */
size_t gzip_write_bound(size_t bytes);
size_t lz4_frame_bound(size_t bytes);
/* Compress to one gzip member, without time and name, or to one LZ4 frame, with checksums of its content and of each
 * block. `out` has room for the bound. 0, -EFBIG (over 2 GiB) or -ENOMEM. */
int gzip_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);
int lz4_frame_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);

#endif
