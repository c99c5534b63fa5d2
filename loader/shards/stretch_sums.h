/* CRC-32Cs of stretches of a shard, any number of them, however they overlap, at the price of reading
 * every byte once and a short piece for each: the CRCs of the shard's beginnings are kept, block by
 * block, and that of a stretch follows from those at its two ends. */
#ifndef PIPETRAIN_STRETCH_SUMS_H
#define PIPETRAIN_STRETCH_SUMS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/shards/shard_source.h"

/* Filled with zeros but for the first two, which are lent. */
struct stretch_sums {
    struct shard_source *source;
    const atomic_bool *is_unwanted;     /* NULL, or true once nobody wants sums any more */
    uint64_t first;             /* where what is kept begins, in blocks */
    size_t count, room;         /* of sums */
    uint32_t *sums;             /* of the bytes from block `first` to block first + i */
    uint8_t *buffer;
};

/* The CRC of `bytes` bytes at `offset`, which the source holds. Offsets should not go down from call to
 * call. 0, or a negative errno: -ENOMEM, -ESTALE where the source has become shorter, -ECANCELED once they are
 * unwanted, or what reading says. */
int stretch_sums_find(struct stretch_sums *sums, uint64_t offset, uint64_t bytes, uint32_t *crc_out);
void stretch_sums_release(struct stretch_sums *sums);

#endif
