/* An open set of shards: finding a record, by any thread, and closing. */
#include "loader/dataset.h"

#include <assert.h>
#include <stdlib.h>

void dataset_close(struct dataset *dataset)
{
    if (dataset == NULL)
        return;
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        if (dataset->sources != NULL)
            shard_source_close(dataset->sources[i]);
        if (dataset->indexes != NULL)
            shard_index_release(&dataset->indexes[i]);
        free(dataset->paths[i]);
    }
    for (uint32_t i = 0; i < dataset->left_out_count; i++)
        free(dataset->left_out[i]);
    free(dataset->paths);
    free(dataset->left_out);
    free(dataset->sources);
    free(dataset->indexes);
    free(dataset->first_ids);
    free(dataset->missing_records);
    free((char *)dataset->options.what);
    free((char *)dataset->options.pattern);
    free((char *)dataset->options.image_key);
    free((char *)dataset->options.label_key);
    free((char *)dataset->options.class_names);
    free(dataset->class_names_path);
    class_names_release(&dataset->class_names);
    class_names_release(&dataset->described_names);
    free(dataset);
}

/* The last shard that begins at or before `id`: an empty one shares its first id with the
 * shard behind it. */
bool dataset_is_plain(const struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        if (dataset->sources[i] != NULL && !dataset->sources[i]->ops->is_plain)
            return false;
    return true;
}

static uint32_t find_shard(const struct dataset *dataset, uint64_t id)
{
    uint32_t low = 0, high = dataset->shard_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (dataset->first_ids[middle] <= id)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct dataset_place dataset_seek(const struct dataset *dataset, uint64_t id)
{
    assert(id < dataset->record_count);
    const uint32_t shard = find_shard(dataset, id);
    const uint64_t record = id - dataset->first_ids[shard];
    __builtin_prefetch(&dataset->indexes[shard].records[record]);
    return (struct dataset_place){ .shard = shard, .record = record };
}

void dataset_complete(const struct dataset *dataset, struct dataset_place *place)
{
    const struct shard_record *const found = &dataset->indexes[place->shard].records[place->record];
    place->payload_bytes = found->payload_bytes;
    place->offset = found->offset;
}

struct dataset_place dataset_find(const struct dataset *dataset, uint64_t id)
{
    struct dataset_place place = dataset_seek(dataset, id);
    dataset_complete(dataset, &place);
    return place;
}

uint64_t dataset_number(const struct dataset *dataset, const struct dataset_place *place)
{
    return place->record + dataset->indexes[place->shard].records[place->record].left_out;
}
