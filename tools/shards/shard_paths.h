/* The shards that the words of a command name. */
#ifndef PIPETRAIN_SHARD_PATHS_H
#define PIPETRAIN_SHARD_PATHS_H

#include "loader/shards/shard_list.h"
#include "tools/shards/shards_command.h"

/* All of them, word by word, each once: a file, all shards of a directory, or those a glob means. 0, or a negative
 * errno after a message; of a word that names nothing, too. */
int shard_paths_find(struct shard_list *list_out, const struct shards_request *request);
/* Those of a directory, to an empty list, which may hold some whatever comes. 0, or a negative errno after a message;
 * of a directory without shards, too. */
int shard_paths_in_folder(struct shard_list *list, const char *folder);

#endif
