/* Writes the shards of a data set with several threads, and reads each shard back. The bytes depend on the samples
 * and the seed, but not on the number of threads. */
#ifndef PIPETRAIN_SHARD_WRITER_H
#define PIPETRAIN_SHARD_WRITER_H

#include <stdatomic.h>
#include <stdint.h>

#include "tools/convert/image_change.h"
#include "tools/convert/image_flaws.h"
#include "tools/convert/shard_set.h"

struct shard_writer_options {
    uint32_t jobs;                      /* number of threads, at least 1 */
    uint64_t seed;                      /* seed of the record order */
    bool keeps_order;                   /* do not shuffle: keep the order of the samples */
    struct image_change change;         /* changes of the images */
    const atomic_bool *interrupted;     /* true: stop as soon as possible */
};

/* Write and sync all files of the set under their temporary names. Then read each back, and verify both checksums of
 * the records, their number, and the hash of all payloads. Damaged images are reported. After one that cannot be
 * decoded, the remaining images are only checked, so that all damaged ones are found. 0, -ECANCELED when
 * interrupted, or a negative errno after stop_fail. */
int shards_write(struct shard_set *set, const struct shard_writer_options *options);
/* Only check the images of a source: flaws are added, and nothing is written. `title` is that of the progress.
 * *has_encoded_out: whether there are JPEG or PNG images. 0, -ECANCELED when interrupted, or a negative errno after
 * stop_fail. */
int images_check(const struct sample_source *source, const struct shard_writer_options *options, const char *title,
                 struct image_flaws *flaws, bool *has_encoded_out, struct stop *stop);

#endif
