/* From what the configuration names to the shard files it means. */
#ifndef PIPETRAIN_SHARD_LIST_H
#define PIPETRAIN_SHARD_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/shards/text.h"

struct shard_list {
    char **paths;               /* of one pattern sorted bytewise; owned */
    uint32_t count;
    bool is_folder;             /* all of a directory that are of the set, not only those a name or a glob means */
    char **left_out;            /* of directories, the shards whose names do not tell of the set; owned */
    uint32_t left_out_count;
};

/* The files of `pattern`: an existing file; a directory (its files named *.tfrecord* or
 * NAME-NNNNN-of-NNNNN, of these only the ones whose names tell of the set `what`, "train" or
 * "validation", where some do; else those that tell of none); else a glob. A set that lacks
 * shards its names tell of is said on stderr. Index files, temporary files and the like are
 * left out; where a set is just being put in place (begun_set.h) nothing is found: -EBADMSG. 0, or a negative errno
 * with a line in `problems` that begins with `what`. */
int shard_list_find(struct shard_list *list_out, const char *pattern, const char *what, struct text *problems);
/* All shards of a directory, of whatever set, to an empty list. 0 or a negative errno; the list may hold some
 * then. */
int shard_list_folder(struct shard_list *list, const char *folder);
/* Add a file of a folder behind the others, which shard_list_sort puts in its place. 0 or -ENOMEM. */
int shard_list_append(struct shard_list *list, const char *folder, const char *name);
/* Move the files of another list behind those of this one, those left out too. 0 or -ENOMEM, with nothing moved. */
int shard_list_join(struct shard_list *list, struct shard_list *other);
void shard_list_sort(struct shard_list *list);
void shard_list_release(struct shard_list *list);

/* Whether a file of this name in a directory is taken for a shard. */
bool shard_list_is_shard(const char *name);

#endif
