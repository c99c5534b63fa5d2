/* How many records shards should hold, by the manifests that lie beside them. Used while a data
 * set is opened. */
#ifndef PIPETRAIN_SHARD_COUNTS_H
#define PIPETRAIN_SHARD_COUNTS_H

#include <stdbool.h>

#include "formats/manifest.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"

struct shard_folder {
    char *name;                 /* with its slash; owned */
    struct manifest manifest;   /* nothing in it where there is none to be used */
};

/* The manifests of the folders looked at, each read and told of once, for any number of data sets. Zeros to
 * begin with. */
struct shard_counts {
    struct shard_folder *folders;
    size_t count, last;         /* the folder looked at last, where there is one */
};

/* What the manifest in its folder says of the shard at `path`, NULL when nothing is said. Cheap while
 * shards come folder by folder. A manifest that cannot be used is told and not an error. 0 or -ENOMEM. */
int shard_counts_find(struct shard_counts *counts, const char *path, const struct manifest_shard **shard_out);
/* The manifest of a folder, whose name ends with a slash; one without shards where there is none. Valid until the next
 * call. 0 or -ENOMEM. */
int shard_counts_folder(struct shard_counts *counts, const char *folder, const struct manifest **manifest_out);
/* The same of the folder of the shard at `path`. */
int shard_counts_of(struct shard_counts *counts, const char *path, const struct manifest **manifest_out);
/* Add to the shards of a directory those that belong to them and are not there: with a name of the same kind, and
 * listed beside one of them with some records. 0 or -ENOMEM. */
int shard_counts_add_absent(struct shard_counts *counts, struct shard_list *list);
void shard_counts_release(struct shard_counts *counts);

/* Whether a shard is as the manifest says; if not, a text that follows "PATH: ". */
bool shard_counts_agree(const struct manifest_shard *listed, const struct shard_index *index, char *text_out,
                        size_t text_size);
/* What is wrong with a listed shard that is not there, and what to do: a text that follows "PATH: ". */
void shard_counts_tell_absent(const struct manifest_shard *listed, char *text_out, size_t text_size);
/* Records the shard should hold besides those that are found and one for every damage. `listed` may be NULL:
 * then only a shard of no bytes misses one, at least. */
uint64_t shard_counts_missing(const struct manifest_shard *listed, const struct shard_index *index);

#endif
