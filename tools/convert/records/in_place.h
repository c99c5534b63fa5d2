/* Sets that are converted in the folder that they lie in. */
#ifndef PIPETRAIN_IN_PLACE_H
#define PIPETRAIN_IN_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/shards/shard_list.h"
#include "stage/stop.h"

/* Refuse an output folder that shards of the lists lie in, where what is not converted would go with them: other
 * shards, or a MANIFEST_FILE that does not describe those of the lists, `is_described` false. Nothing is refused
 * where the new set takes the place of one that has nothing to do with the lists. 0, or a negative errno after
 * stop_fail. */
int in_place_check(const struct shard_list *lists, uint32_t count, const char *output, bool is_described,
                   struct stop *stop);

#endif
