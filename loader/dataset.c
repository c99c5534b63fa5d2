/* An open data set: finding records, by any thread; files that two data sets share; closing. */
#include "loader/dataset.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    for (uint32_t i = 0; i < dataset->catalog_count; i++) {
        free(dataset->catalogs[i]->path);
        free(dataset->catalogs[i]);
    }
    free(dataset->catalogs);
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
    start_records_release(&dataset->start);
    free(dataset);
}

bool dataset_is_plain(const struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        if (dataset->sources[i] != NULL && !dataset->sources[i]->ops->is_plain)
            return false;
    return true;
}

/* The last shard whose first id is at most `id`. (An empty shard has the first id of the next one.) */
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
    shard_index_prefetch(&dataset->indexes[shard], record);
    return (struct dataset_place){ .shard = shard, .record = record };
}

void dataset_complete(const struct dataset *dataset, struct dataset_place *place)
{
    const struct shard_record found = shard_index_find(&dataset->indexes[place->shard], place->record);
    place->payload_bytes = found.payload_bytes;
    place->offset = found.offset;
}

struct dataset_place dataset_find(const struct dataset *dataset, uint64_t id)
{
    struct dataset_place place = dataset_seek(dataset, id);
    dataset_complete(dataset, &place);
    return place;
}

uint64_t dataset_number(const struct dataset *dataset, const struct dataset_place *place)
{
    return shard_index_number(&dataset->indexes[place->shard], place->record);
}

/* ---- overlaps ---- */

/* A key that two equal shards share: device and inode of a file, or checksum and number of its records. */
struct shard_key {
    uint64_t first, second;
};

/* Get the key of a shard. False if it has none. */
typedef bool (*shard_key_fn)(struct shard_key *key_out, const struct dataset *dataset, uint32_t shard);

static bool key_of_file(struct shard_key *key_out, const struct dataset *dataset, uint32_t shard)
{
    const struct shard_source *const source = dataset->sources[shard];
    if (source != NULL)
        *key_out = (struct shard_key){ source->device, source->stamp.inode };
    return source != NULL;
}

static bool key_of_records(struct shard_key *key_out, const struct dataset *dataset, uint32_t shard)
{
    const struct shard_index *const index = &dataset->indexes[shard];
    *key_out = (struct shard_key){ index->contents, index->record_count + index->left_out };
    return key_out->second > 0;
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct shard_key));
}

/* List the keys of all shards that have one. Returns their number. */
static uint32_t list_keys(struct shard_key *keys, const struct dataset *dataset, shard_key_fn key_of)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        count += key_of(&keys[count], dataset, i);
    return count;
}

static int find_common(struct dataset_overlap *overlap_out, const struct dataset *dataset, const struct dataset *other,
                       shard_key_fn key_of)
{
    struct shard_key *const known = calloc((size_t)other->shard_count + 1, sizeof(*known)), wanted;
    struct dataset_overlap overlap = { 0 };
    if (known == NULL)
        return -ENOMEM;
    const uint32_t known_count = list_keys(known, other, key_of);
    qsort(known, known_count, sizeof(*known), compare_keys);
    for (uint32_t i = dataset->shard_count; i-- > 0;) {
        if (!key_of(&wanted, dataset, i) ||
            bsearch(&wanted, known, known_count, sizeof(*known), compare_keys) == NULL)
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
    return find_common(overlap_out, dataset, other, key_of_file);
}

int dataset_copies_find(struct dataset_overlap *overlap_out, const struct dataset *dataset, const struct dataset *other)
{
    return find_common(overlap_out, dataset, other, key_of_records);
}
