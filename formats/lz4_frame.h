/* Writing LZ4 frames, which `lz4 -d` reads. Frames one behind the other are an LZ4 file: one for every few
 * records, each ending where a record does, makes records found without what lies before, and damage cost
 * one frame. Written so that every damage is seen: with the size and a checksum of the content, and a
 * checksum of each block, the blocks independent of each other. */
#ifndef PIPETRAIN_LZ4_FRAME_H
#define PIPETRAIN_LZ4_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* The most bytes lz4_frame_write gives for so many; SIZE_MAX where LZ4 cannot take them. */
size_t lz4_frame_bound(size_t bytes);
/* Compress to one frame of at most lz4_frame_bound(bytes) bytes at `out`, which has room for them. Equal
 * data give equal bytes. 0, -EFBIG or -ENOMEM. */
int lz4_frame_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);

#endif
