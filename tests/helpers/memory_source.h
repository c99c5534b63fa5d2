/* Shards in memory, a second kind of source for tests: reads may be short, fail, give other
 * bytes past the caches, and change their stamp. The file of the same name only has to be
 * there to be found; its bytes are never looked at. */
#ifndef PIPETRAIN_MEMORY_SOURCE_H
#define PIPETRAIN_MEMORY_SOURCE_H

#include <stdatomic.h>

#include "loader/shards/shard_source.h"

struct memory_shard {
    const char *name;           /* of the file, without its folder */
    const uint8_t *data;
    size_t bytes;
    const uint8_t *afresh;      /* what lies behind the caches, as many bytes; NULL: the same */
    size_t piece;               /* bytes one read gives at most; 0: all */
    uint64_t bad_offset;        /* a read of the byte here fails, unless error is 0 */
    int error;                  /* negative errno */
    atomic_bool *raised;        /* NULL, or set by read number raised_at, counted from 1 */
    unsigned raised_at;
    atomic_bool is_changed;     /* the stamp is no longer the one at opening */
    atomic_uint opened, sized, read;    /* calls */
    atomic_ullong given;        /* bytes, by all reads */
};

/* What memory_source_ops can open from now on: `count` shards, lent. */
void memory_source_set(struct memory_shard *shards, size_t count);

extern const struct shard_source_ops memory_source_ops;
/* The same without a way to read afresh. */
extern const struct shard_source_ops memory_source_once_ops;

#endif
