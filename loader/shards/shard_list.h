/* From the patterns of a configuration to shard files. */
#ifndef PIPETRAIN_SHARD_LIST_H
#define PIPETRAIN_SHARD_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "formats/split_name.h"
#include "loader/shards/text.h"

struct shard_list {
    char **paths;               /* owned; those of one pattern are sorted bytewise */
    uint32_t count;
    bool is_folder;             /* the pattern names a directory, not files */
    char **left_out;            /* owned; shards of directories that belong to another set by their names */
    uint32_t left_out_count;
};

/* Find the files of `pattern`: an existing file; a directory; else a glob. Of a directory these are the files named
 * *.tfrecord* or NAME-NNNNN-of-NNNNN; if names tell their set, only those of `what` ("train" or "validation"), else
 * those whose names do not. Index files, temporary files and the like are skipped. If shards of an -of-N set are
 * missing, that is reported on stderr. 0, or a negative errno with a line in `problems` that begins with `what`;
 * -EBADMSG if a data set is just being moved to the directory. */
int shard_list_find(struct shard_list *list_out, const char *pattern, const char *what, struct text *problems);
/* Add all shards of a directory, of any set, to an empty list. 0 or a negative errno, when some may have been added. */
int shard_list_folder(struct shard_list *list, const char *folder);
/* Add a file of a folder at the end; call shard_list_sort afterwards. 0 or -ENOMEM. */
int shard_list_append(struct shard_list *list, const char *folder, const char *name);
/* Move the files of another list, including left_out, to the end of this one. 0; or -ENOMEM, with nothing moved. */
int shard_list_join(struct shard_list *list, struct shard_list *other);
/* Refuse shards NAME-NNNNN-of-NNNNN of two conversions in one folder: of one NAME, with different totals or with a
 * number twice. With `wants_all` missing ones are reported on stderr. 0; -EINVAL with a line in `problems` that begins
 * with `what`; or -ENOMEM. */
int shard_list_check_numbers(const struct shard_list *list, const char *what, bool wants_all, struct text *problems);
/* Report shards in one folder whose names differ in more than their numbers, which may be of different sets: of a glob,
 * numbered ones (-of-N); of a directory, also others if they are few. Several names of numbered ones in a directory are
 * refused. 0; -EINVAL with a line in `problems` that begins with `what`; or -ENOMEM. */
int shard_list_check_names(const struct shard_list *list, const char *what, struct text *problems);
void shard_list_sort(struct shard_list *list);
void shard_list_release(struct shard_list *list);

/* The part of a path after its last slash. */
static inline const char *shard_base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* How many of the paths, at least one, from the first on are in its folder. */
uint32_t shard_list_folder_length(char *const *paths, uint32_t count);
/* Whether a file of this name in a directory is used as a shard. */
bool shard_list_is_shard(const char *name);

/* The set that the name of a shard, or of a split in a description, tells (split_name.h). */
enum split split_of_name(const char *name);
/* Report shards to train on whose names, or whose folder's name, say that they are for validation or testing. */
void shard_list_report_other_split(const struct shard_list *list);

/* pipetrain-convert leaves MANIFEST_COMMIT_FILE in a folder while it replaces a data set, so that an interrupted commit
 * is noticed: the folder contains shards of the old and the new set then. The message about it: */
#define BEGUN_SET_TEXT \
    "a data set was being put in place in this directory, and is not whole yet: run pipetrain-convert with it " \
    "again, as -o or as shards of tfrecord, which finishes that first"

/* Whether this is such a folder; "" is the current one. */
bool begun_set_is_in(const char *folder);
/* The first shard of the list in such a folder, or NULL. */
const char *begun_set_find(const struct shard_list *list);

#endif
