/* Writing the shards of a set with several threads, and reading each back. The bytes depend
 * on the samples and the seed, never on the number of threads. */
#ifndef PIPETRAIN_SHARD_WRITER_H
#define PIPETRAIN_SHARD_WRITER_H

#include <stdatomic.h>
#include <stdint.h>

#include "tools/convert/images/image_change.h"
#include "tools/convert/shard_set.h"

struct shard_writer_options {
    uint32_t jobs;                      /* threads, at least 1 */
    uint64_t seed;                      /* of the order of the records */
    bool keeps_order;                   /* it is that of the samples, instead */
    struct image_change change;         /* to the images */
    const atomic_bool *interrupted;     /* when true, give up soon */
};

/* Write and sync all files of the set under their temporary names, then read each again:
 * both checksums, the count and every payload must be those of its samples. 0,
 * -ECANCELED when interrupted, or a negative errno after stop_fail. */
int shards_write(struct shard_set *set, const struct shard_writer_options *options);

#endif
