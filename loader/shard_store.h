/* The shards of a small data set in memory. Each block of a shard is read once, in one large read, when a record in it
 * is first needed: a system call for every record costs more than everything else that is done with it. Records are
 * verified and parsed at every use, as if they came from the file. */
#ifndef PIPETRAIN_SHARD_STORE_H
#define PIPETRAIN_SHARD_STORE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"

/* A block is written by the reader that changes its state from absent to coming; it is constant once held. */
struct shard_store {
    const struct dataset *dataset;
    uint8_t *bytes;             /* all shards, end to end */
    uint64_t *starts;           /* of each shard, in `bytes` */
    uint64_t *first_blocks;     /* of each shard, in `states` */
    _Atomic uint8_t *states;    /* of each block */
};

/* Memory of a store of the data set. */
size_t shard_store_bytes(const struct dataset *dataset);
/* 0 or -ENOMEM. */
int shard_store_init(struct shard_store *store, const struct dataset *dataset);
/* Accepts a struct of zeros. */
void shard_store_release(struct shard_store *store);
/* The frame of the record at `place`; or NULL if one of its blocks cannot be read or is just being read by another
 * thread. Adds the bytes read to *read_bytes. Any thread. */
const uint8_t *shard_store_find(struct shard_store *store, const struct dataset_place *place, size_t *read_bytes);

#endif
