/* Compress shards for tests. */
#ifndef PIPETRAIN_PACKED_FIXTURE_H
#define PIPETRAIN_PACKED_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

/* Ways to compress. */
enum packed_way {
    PACKED_GZIP,                /* a member for every piece */
    PACKED_ZLIB,                /* one stream, flushed in full at the end of each piece */
    PACKED_LZ4,                 /* a frame for every piece, as the converter writes it */
    PACKED_LZ4_LINKED,          /* one frame without checksums, blocks that depend on each other */
    PACKED_LZ4_SKIPPABLE,       /* as PACKED_LZ4, with a skippable frame before each */
    PACKED_WAY_COUNT
};

/* The size of the buffer for packed_fixture. */
size_t packed_fixture_room(size_t bytes, size_t pieces);
/* Compress data in pieces; piece i ends at ends[i], the last one at the end. Returns the compressed size. */
size_t packed_fixture(enum packed_way way, const uint8_t *data, const size_t *ends, size_t pieces, uint8_t *out);

#endif
