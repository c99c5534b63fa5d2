/* Writing compressed files: gzip (RFC 1952) by zlib and LZ4 frames, which `lz4 -d` reads. Several members or frames
 * one after another are one file: with one for every few records, each ending where a record does, a reader can
 * begin in many places and damage costs only one of them. Equal data give equal bytes on every machine. */
#ifndef PIPETRAIN_COMPRESS_H
#define PIPETRAIN_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

/* The most bytes that compressing so many gives; SIZE_MAX where that is not possible (over 2 GiB). */
size_t gzip_write_bound(size_t bytes);
size_t lz4_frame_bound(size_t bytes);
/* Compress to one member, without time and name, or to one frame, with checksums of its content and of each block, at
 * `out`, which has room for the bound. 0, -EFBIG (over 2 GiB) or -ENOMEM. */
int gzip_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);
int lz4_frame_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);

#endif
