/* CRC-32Cs of any number of overlapping ranges of a shard. Every byte is read once, plus a short part for each range:
 * the CRCs of the shard's prefixes are stored block by block, and the CRC of a range follows from those at its ends. */
#ifndef PIPETRAIN_RANGE_CRC_H
#define PIPETRAIN_RANGE_CRC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/shards/shard_source.h"

/* Zeros but for the first two, which must stay valid. */
struct range_crc {
    struct shard_source *source;
    const atomic_bool *is_unwanted;     /* NULL, or set by another thread to end the search */
    uint64_t first;             /* the block with which the sums begin */
    size_t count, room;         /* of sums */
    uint32_t *sums;             /* of the bytes from block `first` to block first + i */
    uint8_t *buffer;
};

/* The CRC of `bytes` bytes at `offset`, which must be inside the source. Fast if offsets do not decrease between calls.
 * 0, or a negative errno: -ENOMEM, -ESTALE if the source has become shorter, -ECANCELED once unwanted, or from
 * reading. */
int range_crc_find(struct range_crc *crc, uint64_t offset, uint64_t bytes, uint32_t *crc_out);
void range_crc_release(struct range_crc *crc);

#endif
