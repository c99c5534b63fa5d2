/* Builds index files of shards for other processes. */
#include "loader/index_share.h"

#include "loader/dataset_shards.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/text.h"
#include "stage/log.h"

#define PROBLEM_BYTES 1024u     /* size of problem texts, which are discarded */

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
            build(list.paths[i], share);
        shard_list_release(&list);
    }
    log_mute(false);
    shard_counts_release(&counts);
}
