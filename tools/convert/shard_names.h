/* The files that the arguments of a converter of archives mean: a file, a folder of archives, a pattern of the shell
 * that was quoted, or a range as in train-{000000..000099}.tar. */
#ifndef PIPETRAIN_SHARD_NAMES_H
#define PIPETRAIN_SHARD_NAMES_H

#include <stddef.h>

#include "stage/stop.h"

#define SHARD_NAMES_MAX 65000u

struct shard_names {
    char **paths;               /* owned, and so is each path */
    size_t count, room;
};

/* Expand the arguments, in their order; what a pattern or a folder means is in bytewise order. A range may name files
 * that do not exist. 0, or a negative errno after stop_fail: an argument means no file, or too many. Call
 * shard_names_release in both cases. */
int shard_names_expand(struct shard_names *names, char *const *arguments, size_t count, struct stop *stop);
/* Accepts a struct of zeros. */
void shard_names_release(struct shard_names *names);

/* Report numbers that are missing between those of the files, such as 2 of a-0.tar, a-1.tar, a-3.tar. 0 or -ENOMEM. */
int shard_names_report_gaps(const struct shard_names *names);

#endif
