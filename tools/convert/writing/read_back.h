/* Reading a shard that was written, to see that the disk has what was meant. */
#ifndef PIPETRAIN_READ_BACK_H
#define PIPETRAIN_READ_BACK_H

#include <stdatomic.h>

#include "tools/convert/progress.h"
#include "tools/convert/shard_set.h"

/* Read all of a file that is written, under its temporary name: both checksums, the count and the hash over all
 * payloads must be right. Every record is one of progress. 0, -ECANCELED when interrupted or when the set has
 * failed, or a negative errno after stop_fail. Any thread. */
int read_back(const struct shard_set *set, const struct shard_file *file, const atomic_bool *interrupted,
              struct progress *progress);

#endif
