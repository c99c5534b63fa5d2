/* Folders in which pipetrain-convert has begun to put a data set in place and has not ended: shards of it
 * and of the one before lie in them, each whole to itself. It leaves MANIFEST_COMMIT_FILE there until all are of the
 * new one. */
#ifndef PIPETRAIN_BEGUN_SET_H
#define PIPETRAIN_BEGUN_SET_H

#include <stdbool.h>

#include "loader/shards/shard_list.h"

/* What to say of such a folder. */
#define BEGUN_SET_TEXT \
    "a data set was being put in place in this directory, and is not whole yet: run pipetrain-convert with it " \
    "again, as -o or as shards of tfrecord, which finishes that first"

/* Whether the folder is one; "" is the current one. */
bool begun_set_is_in(const char *folder);
/* The first shard of the list that lies in one, or NULL. */
const char *begun_set_find(const struct shard_list *list);

#endif
