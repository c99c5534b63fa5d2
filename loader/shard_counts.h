/* How many records shards should have, by the manifests in their folders. Used while a data set is opened. */
#ifndef PIPETRAIN_SHARD_COUNTS_H
#define PIPETRAIN_SHARD_COUNTS_H

#include <stdbool.h>

#include "formats/manifest.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"

struct shard_folder {
    char *name;                 /* ends with a slash; owned */
    struct manifest manifest;   /* empty if there is none that can be used */
};

/* The manifests of folders, each read and reported once, for any number of data sets. Zeros at first. */
struct shard_counts {
    struct shard_folder *folders;
    size_t count, last;         /* last: the folder that was used last */
    bool is_quiet;              /* unusable manifests are not reported */
};

/* What the manifest in its folder says about the shard at `path`; NULL if nothing. Fast while shards come folder by
 * folder. An unusable manifest is reported and is no error. 0 or -ENOMEM. */
int shard_counts_find(struct shard_counts *counts, const char *path, const struct manifest_shard **shard_out);
/* The manifest of a folder, whose name ends with a slash; an empty one if there is none. Valid until the next call. 0
 * or -ENOMEM. */
int shard_counts_folder(struct shard_counts *counts, const char *folder, const struct manifest **manifest_out);
/* The same for the folder of the shard at `path`. */
int shard_counts_of(struct shard_counts *counts, const char *path, const struct manifest **manifest_out);
/* Add missing shards to those of a directory: listed with some records in the same split as one of them, and named for
 * the same set. 0 or -ENOMEM. */
int shard_counts_add_absent(struct shard_counts *counts, struct shard_list *list);
/* Report on stderr, for the folders of these files: files that the manifest does not list, and listed ones of the same
 * splits that are not among them and do not exist. 0 or -ENOMEM. */
int shard_counts_report_others(struct shard_counts *counts, char *const *paths, uint32_t count, const char *what);
void shard_counts_release(struct shard_counts *counts);

/* Whether a shard is as the manifest says; if not, a text that follows "PATH: ". */
bool shard_counts_agree(const struct manifest_shard *listed, const struct shard_index *index, char *text_out,
                        size_t text_size);
/* The message about a listed shard that is missing; follows "PATH: ". */
void shard_counts_report_absent(const struct manifest_shard *listed, char *text_out, size_t text_size);
/* Records that the shard lacks, besides one for every damage. `listed` may be NULL: then an empty file lacks at least
 * one. */
uint64_t shard_counts_missing(const struct manifest_shard *listed, const struct shard_index *index);

#endif
