/* An open set of shards: finding records, by any thread; files that two sets share; closing. */
#include "loader/dataset.h"

#include <assert.h>
#include <errno.h>
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
    free(dataset->classes_said_in);
    class_names_release(&dataset->class_names);
    free(dataset);
}

bool dataset_is_plain(const struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        if (dataset->sources[i] != NULL && !dataset->sources[i]->ops->is_plain)
            return false;
    return true;
}

/* The last shard whose first id is at most `id`; an empty shard has the first id of the next one. */
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

/* ---- overlaps ---- */

struct identity {
    uint64_t device, inode;
};

/* False for a shard that has none. */
typedef bool (*identity_fn)(struct identity *identity_out, const struct dataset *dataset, uint32_t shard);

static bool identity_of_file(struct identity *identity_out, const struct dataset *dataset, uint32_t shard)
{
    const struct shard_source *const source = dataset->sources[shard];
    if (source != NULL)
        *identity_out = (struct identity){ source->device, source->stamp.inode };
    return source != NULL;
}

static bool identity_of_records(struct identity *identity_out, const struct dataset *dataset, uint32_t shard)
{
    const struct shard_index *const index = &dataset->indexes[shard];
    *identity_out = (struct identity){ index->contents, index->record_count + index->left_out };
    return identity_out->inode > 0;
}

static int identity_compare(const void *a, const void *b)
{
    const struct identity *const one = a, *const other = b;
    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    return (one->inode > other->inode) - (one->inode < other->inode);
}

/* The identities of all shards that have one. Returns their count. */
static uint32_t identify(struct identity *identities, const struct dataset *dataset, identity_fn identity_of)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        count += identity_of(&identities[count], dataset, i);
    return count;
}

static int find_common(struct dataset_overlap *overlap_out, const struct dataset *dataset, const struct dataset *other,
                       identity_fn identity_of)
{
    struct identity *const known = calloc((size_t)other->shard_count + 1, sizeof(*known)), wanted;
    struct dataset_overlap overlap = { 0 };
    if (known == NULL)
        return -ENOMEM;
    const uint32_t known_count = identify(known, other, identity_of);
    qsort(known, known_count, sizeof(*known), identity_compare);
    for (uint32_t i = dataset->shard_count; i-- > 0;) {
        if (known_count == 0 || !identity_of(&wanted, dataset, i) ||
            bsearch(&wanted, known, known_count, sizeof(*known), identity_compare) == NULL)
            continue;
        overlap.count++;
        overlap.first = i;
    }
    free(known);
    *overlap_out = overlap;
    return 0;
}

int dataset_overlap_find(struct dataset_overlap *overlap_out, const struct dataset *dataset,
                         const struct dataset *other)
{
    return find_common(overlap_out, dataset, other, identity_of_file);
}

int dataset_copies_find(struct dataset_overlap *overlap_out, const struct dataset *dataset, const struct dataset *other)
{
    return find_common(overlap_out, dataset, other, identity_of_records);
}
