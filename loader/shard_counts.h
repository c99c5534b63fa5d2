/* The numbers of records that shards should have, from the manifests in their folders, and the folders' catalogs. Used while a data set is
 * opened. */
#ifndef PIPETRAIN_SHARD_COUNTS_H
#define PIPETRAIN_SHARD_COUNTS_H

#include <stdbool.h>

#include "formats/manifest.h"
#include "loader/shards/catalog.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"

struct shard_folder {
    char *name;                 /* ends with a slash; owned */
    struct manifest manifest;   /* empty if there is no usable manifest */
    bool catalog_is_read;       /* the following are set */
    int catalog_result;         /* of catalog_read */
    struct catalog catalog;     /* empty unless catalog_result is 0 */
    int64_t catalog_ns;         /* when the catalog's file was last written */
    char *catalog_path, *catalog_problem;       /* owned */
};

/* The manifests of folders, each read and reported once, for any number of data sets. Starts as all zeros. */
struct shard_counts {
    struct shard_folder *folders;
    size_t count, last;         /* last: index of the folder used last */
    bool is_quiet;              /* do not report unusable manifests */
};

/* Find the entry for the shard at `path` in the manifest in its folder; NULL if there is none. Fast if successive
 * shards are in the same folder. An unusable manifest is reported and is no error. 0 or -ENOMEM. */
int shard_counts_find(struct shard_counts *counts, const char *path, const struct manifest_shard **shard_out);
/* Get the manifest of a folder, whose name ends with a slash; an empty one if there is none. Valid until the next call.
 * 0 or -ENOMEM. */
int shard_counts_folder(struct shard_counts *counts, const char *folder, const struct manifest **manifest_out);
/* As shard_counts_folder, for the folder of the shard at `path`. */
int shard_counts_of(struct shard_counts *counts, const char *path, const struct manifest **manifest_out);
/* Get the folder of the shard at `path` with its catalog, which is read when it is first asked for. Valid until the next
 * call. 0 or -ENOMEM; whether there is a usable catalog is in catalog_result. */
int shard_counts_catalog(struct shard_counts *counts, const char *path, const struct shard_folder **folder_out);
/* Add the missing shards of a directory to the list of its shards: those that the manifest lists with at least one
 * record, in the same split as one of the shards, and whose names are of the same split. 0 or -ENOMEM. */
int shard_counts_add_absent(struct shard_counts *counts, struct shard_list *list);
/* Report on stderr, for the folders of these files: files that the manifest does not list; and listed files of the same
 * splits that are not among these files and do not exist, where there is no manifest also those of a catalog that was
 * read. 0 or -ENOMEM. */
int shard_counts_report_others(struct shard_counts *counts, char *const *paths, uint32_t count, const char *what);
void shard_counts_release(struct shard_counts *counts);

/* Does a shard agree with its entry in the manifest? If not, text_out gets a text that follows "PATH: ". */
bool shard_counts_agree(const struct manifest_shard *listed, const struct shard_index *index, char *text_out,
                        size_t text_size);
/* Write the message about a listed shard that does not exist; it follows "PATH: ". */
void shard_counts_report_absent(const struct manifest_shard *listed, char *text_out, size_t text_size);
/* The number of records missing from the shard, besides one for every damage. `listed` may be NULL: then an empty file
 * lacks at least one record. */
uint64_t shard_counts_missing(const struct manifest_shard *listed, const struct shard_index *index);

#endif
