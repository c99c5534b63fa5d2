/* Shards in memory, a second kind of source for tests: reads may be short, fail, return other bytes past the caches,
 * and change the stamp. A file of the same name must exist, but is never read. */
#ifndef PIPETRAIN_MEMORY_SOURCE_H
#define PIPETRAIN_MEMORY_SOURCE_H

#include <stdatomic.h>

#include "loader/shards/shard_source.h"

struct memory_shard {
    const char *name;           /* of the file, without its folder */
    const uint8_t *data;
    size_t bytes;
    const uint8_t *afresh;      /* the bytes past the caches, as many; NULL: the same */
    size_t piece;               /* most bytes of a read; 0: all */
    uint64_t bad_offset;        /* a read of this byte fails, unless error is 0 */
    int error;                  /* negative errno */
    atomic_bool *raised;        /* NULL, or set by read number raised_at, from 1 */
    unsigned raised_at;
    atomic_bool is_changed;     /* the stamp differs from that at opening */
    atomic_uint opened, sized, read;    /* calls */
    atomic_ullong given;        /* bytes, by all reads */
};

/* Set the shards that memory_source_ops can open; borrowed. */
void memory_source_set(struct memory_shard *shards, size_t count);

extern const struct shard_source_ops memory_source_ops;
/* The same, without reads past the caches. */
extern const struct shard_source_ops memory_source_once_ops;

#endif
