/* Writes the shards of a set with several threads, and reads each back. The bytes depend on the samples and the seed,
 * never on the number of threads. */
#ifndef PIPETRAIN_SHARD_WRITER_H
#define PIPETRAIN_SHARD_WRITER_H

#include <stdatomic.h>
#include <stdint.h>

#include "tools/convert/image_change.h"
#include "tools/convert/image_flaws.h"
#include "tools/convert/shard_set.h"

struct shard_writer_options {
    uint32_t jobs;                      /* threads, at least 1 */
    uint64_t seed;                      /* of the record order */
    bool keeps_order;                   /* keep the order of the samples instead */
    struct image_change change;         /* of the images */
    const atomic_bool *interrupted;     /* true: stop soon */
};

/* Write and sync all files of the set under their temporary names, then read each back: both checksums, the number of
 * records and the hash of all payloads must be right. Damaged images are printed; after one that cannot be decoded the
 * others are only checked, so that all are found. 0, -ECANCELED when interrupted, or a negative errno after
 * stop_fail. */
int shards_write(struct shard_set *set, const struct shard_writer_options *options);
/* Only note the damaged images of a source, as of its order. 0, -ECANCELED when interrupted, or a negative errno after
 * stop_fail. */
int images_check(const struct sample_source *source, const struct shard_writer_options *options,
                 struct image_flaws *flaws, struct stop *stop);

#endif
