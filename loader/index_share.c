/* Builds index files of shards for other processes. */
#include "loader/index_share.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "loader/dataset_shards.h"
#include "loader/shards/catalog.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"
#include "loader/shards/text.h"
#include "stage/log.h"

#define PROBLEM_BYTES 1024u     /* size of problem texts, which are discarded */

/* Is there a file that is not older than the shard? */
static bool is_newer(const char *file, const struct stat *shard)
{
    struct stat status;
    return stat(file, &status) == 0 && (status.st_mtim.tv_sec > shard->st_mtim.tv_sec ||
                                        (status.st_mtim.tv_sec == shard->st_mtim.tv_sec &&
                                         status.st_mtim.tv_nsec >= shard->st_mtim.tv_nsec));
}

/* Has the shard an index already, of its own or in a catalog? Judged by names and times, without opening a file: what is
 * wrong is found when the data set is opened. */
static bool is_indexed(const char *path)
{
    char file[PATH_MAX], folder[PATH_MAX];
    struct stat status;
    snprintf(folder, sizeof(folder), "%.*s", (int)(shard_base_name(path) - path), path);
    if (stat(path, &status) < 0)
        return true;
    return (index_file_beside(path, file, sizeof(file)) && is_newer(file, &status)) ||
           (index_file_in_cache(path, file, sizeof(file)) && is_newer(file, &status)) ||
           (catalog_path_beside(folder, file, sizeof(file)) && is_newer(file, &status)) ||
           (catalog_path_in_cache(folder, file, sizeof(file)) && is_newer(file, &status));
}

static void build(const char *path, const struct index_share *share)
{
    const struct shard_index_options options = { .skip_damage = share->skip_damage, .use_cache = true,
                                                 .is_unwanted = share->is_unwanted };
    char problem[PROBLEM_BYTES];
    struct shard_source *source;
    struct shard_index index;
    if (shard_source_open(&source, NULL, path) != 0)
        return;
    if (shard_index_open(&index, source, &options, problem, sizeof(problem)) == 0)
        shard_index_release(&index);
    shard_source_close(source);
}

void index_share_build(const char *patterns, const char *what, const struct index_share *share)
{
    struct shard_counts counts = { 0 };
    struct shard_list list;
    struct text problems;
    char text[PROBLEM_BYTES];
    text_init(&problems, text, sizeof(text));
    log_mute(true);
    if (dataset_shards_find(&list, patterns, what, &counts, &problems) == 0) {
        for (uint32_t i = share->first; i < list.count && !atomic_load(share->is_unwanted); i += share->step)
            if (!is_indexed(list.paths[i]))
                build(list.paths[i], share);
        shard_list_release(&list);
    }
    log_mute(false);
    shard_counts_release(&counts);
}
