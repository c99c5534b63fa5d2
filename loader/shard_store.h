/* The shards of a small data set in memory. Each block of a shard is read once, in one large read, when a record in it
 * is first needed, because a system call for every record would cost more than all other work on it. Records are
 * verified and parsed at every use, as if they were read from the file. */
#ifndef PIPETRAIN_SHARD_STORE_H
#define PIPETRAIN_SHARD_STORE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "loader/order.h"
#include "stage/schedule.h"

/* The reader that changes a block's state from absent to coming reads the block; once its state is held, the block is
 * constant. */
struct shard_store {
    const struct dataset *dataset;
    uint8_t *bytes;             /* the blocks that have records which are needed, in the order of the shards */
    uint64_t *first_blocks;     /* index of each shard's first block in `places` and `states` */
    uint64_t *places;           /* offset of each block in `bytes` */
    _Atomic uint8_t *states;    /* state of each block */
};

/* The records that are needed: those of some lanes of an order (loader/order.h) with several. */
struct shard_store_need {
    const struct order_shape *shape;
    struct lane_range lanes;
    uint64_t seed;
};

/* The memory of a store for the data set; `need` NULL: for all its records. SIZE_MAX if memory to find it is short. */
size_t shard_store_bytes(const struct dataset *dataset, const struct shard_store_need *need);
/* How many bytes of shards the store reads in all. UINT64_MAX if memory is short. */
uint64_t shard_store_file_bytes(const struct dataset *dataset, const struct shard_store_need *need);
/* 0 or -ENOMEM. */
int shard_store_init(struct shard_store *store, const struct dataset *dataset, const struct shard_store_need *need);
/* Accepts a struct of zeros. */
void shard_store_release(struct shard_store *store);
/* Find the frame of the record at `place`; NULL if it is not needed, one of its blocks cannot be read or another thread is
 * reading it now. Adds the number of bytes read to *read_bytes. Any thread. */
const uint8_t *shard_store_find(struct shard_store *store, const struct dataset_place *place, size_t *read_bytes);

#endif
