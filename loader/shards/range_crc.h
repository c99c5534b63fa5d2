/* CRC-32Cs of any number of overlapping ranges of a shard. Every byte is read once, plus a short part for each range:
 * the CRCs of the shard's prefixes are stored for every block, and a range's CRC is computed from those at its ends. */
#ifndef PIPETRAIN_RANGE_CRC_H
#define PIPETRAIN_RANGE_CRC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/shards/shard_source.h"

/* Starts as all zeros except the first two fields, which must stay valid. */
struct range_crc {
    struct shard_source *source;
    const atomic_bool *is_unwanted;     /* NULL, or set by another thread to cancel the search */
    uint64_t first;             /* the block at which the sums begin */
    size_t count, room;         /* number of sums */
    uint32_t *sums;             /* sums[i]: CRC of the bytes from block `first` to block first + i */
    uint8_t *buffer;
};

/* Find the CRC of `bytes` bytes at `offset`, which must be inside the source. Fast if offsets do not decrease from call
 * to call. 0, or a negative errno: -ENOMEM, -ESTALE if the source has become shorter, -ECANCELED soon after
 * *is_unwanted is set, or an error of reading. */
int range_crc_find(struct range_crc *crc, uint64_t offset, uint64_t bytes, uint32_t *crc_out);
void range_crc_release(struct range_crc *crc);

#endif
