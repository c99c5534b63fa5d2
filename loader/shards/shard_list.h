/* Finding shard files by the patterns in a configuration. */
#ifndef PIPETRAIN_SHARD_LIST_H
#define PIPETRAIN_SHARD_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "formats/split_name.h"
#include "loader/shards/text.h"

struct shard_list {
    char **paths;               /* owned; the paths of one pattern are sorted bytewise */
    uint32_t count;
    bool is_folder;             /* the pattern names a directory, not files */
    char **left_out;            /* owned; shards in directories whose names show that they belong to another split */
    uint32_t left_out_count;
};

/* Find the files of `pattern`, which is an existing file, a directory, or else a glob. Of a directory these are the
 * files named *.tfrecord* or NAME-NNNNN-of-NNNNN; if names indicate splits, only those of the split `what` ("train" or
 * "validation"), or, if there are none, those whose names indicate no split. Index files, temporary files and the like
 * are skipped. Missing shards of an -of-N set are reported on stderr. 0, or a negative errno with a line in `problems`
 * that begins with `what`; -EBADMSG if a data set is being moved to the directory. */
int shard_list_find(struct shard_list *list_out, const char *pattern, const char *what, struct text *problems);
/* The same for one of several patterns, of which others may have the missing shards: nothing is reported. */
int shard_list_find_part(struct shard_list *list_out, const char *pattern, const char *what, struct text *problems);
/* Add all shards of a directory, of every split, to an empty list. 0, or a negative errno after which some may have
 * been added. */
int shard_list_folder(struct shard_list *list, const char *folder);
/* Append a file of a folder; call shard_list_sort afterwards. 0 or -ENOMEM. */
int shard_list_append(struct shard_list *list, const char *folder, const char *name);
/* Move the files of another list, including left_out, to the end of this list. 0; or -ENOMEM, and nothing was moved. */
int shard_list_join(struct shard_list *list, struct shard_list *other);
/* Refuse shards NAME-NNNNN-of-NNNNN of two conversions in one folder: with one NAME and different totals, or with the
 * same number twice. With `wants_all`, missing shards are reported on stderr. 0; -EINVAL with a line in `problems` that
 * begins with `what`; or -ENOMEM. */
int shard_list_check_numbers(const struct shard_list *list, const char *what, bool wants_all, struct text *problems);
/* Report the missing shards of -of-N sets. 0 or -ENOMEM. */
int shard_list_report_missing(const struct shard_list *list, const char *what);
/* Report shards in one folder whose names differ not only in numbers, since they may belong to different data sets: for
 * a glob, numbered shards (-of-N); for a directory, also others if there are few names. Several names of numbered
 * shards in a directory are an error. 0; -EINVAL with a line in `problems` that begins with `what`; or -ENOMEM. */
int shard_list_check_names(const struct shard_list *list, const char *what, struct text *problems);
void shard_list_sort(struct shard_list *list);
void shard_list_release(struct shard_list *list);

/* The part of a path after its last slash. */
static inline const char *shard_base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* The number of leading paths that are in the same folder as the first path; at least 1. */
uint32_t shard_list_folder_length(char *const *paths, uint32_t count);
/* Is a file with this name in a directory used as a shard? */
bool shard_list_is_shard(const char *name);

/* The split that the name of a shard, or of a split in a description, indicates (split_name.h). */
enum split split_of_name(const char *name);
/* Report training shards whose names, or whose folder's name, indicate validation or testing. */
void shard_list_report_other_split(const struct shard_list *list);

/* pipetrain-convert keeps MANIFEST_COMMIT_FILE in a folder while it replaces a data set, so that an interrupted
 * replacement is detected: the folder then has shards of both the old and the new data set. The message about it: */
#define BEGUN_SET_TEXT \
    "a data set was being put in place in this directory, and is not whole yet: run pipetrain-convert with it " \
    "again, as -o or as shards of tfrecord, which finishes that first"

/* Is the replacement of a data set in this folder unfinished? "" is the current folder. */
bool begun_set_is_in(const char *folder);
/* The first shard of the list in such a folder, or NULL. */
const char *begun_set_find(const struct shard_list *list);

#endif
