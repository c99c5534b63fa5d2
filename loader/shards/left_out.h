/* Shards in directories that are named, and that no set takes. */
#ifndef PIPETRAIN_LEFT_OUT_H
#define PIPETRAIN_LEFT_OUT_H

#include <stdint.h>

#include "loader/shards/shard_list.h"

/* Say on stderr, in one line, which shards the lists leave out and none of them takes, each file once, under whatever
 * names; nothing where there is none. 0 or -ENOMEM. */
int left_out_tell(const struct shard_list *lists, uint32_t count);

#endif
