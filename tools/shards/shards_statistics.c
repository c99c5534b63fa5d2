/* Statistics of records. Called by the threads of a scan, each with its own struct, and by the main thread. */
#include "tools/shards/shards_statistics.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- counts in a hash table with open addressing ---- */

#define ROOM_MIN ((size_t)64)

static size_t hash_of(const struct value_counts *counts, int64_t first, int64_t second)
{
    uint64_t hash = (uint64_t)first * 0x9e3779b97f4a7c15u ^ (uint64_t)second * 0xc2b2ae3d27d4eb4fu;
    hash ^= hash >> 32;
    return (size_t)(hash * 0x9e3779b97f4a7c15u >> 16) & (counts->room - 1);
}

/* The entry of the key or, if there is none, the free entry where it is to be added. */
static struct value_count *find_entry(const struct value_counts *counts, int64_t first, int64_t second)
{
    size_t slot = hash_of(counts, first, second);
    for (;; slot = (slot + 1) & (counts->room - 1)) {
        struct value_count *const entry = &counts->entries[slot];
        if (entry->count == 0 || (entry->first == first && entry->second == second))
            return entry;
    }
}

/* Make room for one more key; a quarter of the table stays free. */
static int grow(struct value_counts *counts)
{
    if (4 * (counts->count + 1) <= 3 * counts->room)
        return 0;
    struct value_counts grown = { .room = counts->room > 0 ? 2 * counts->room : ROOM_MIN };
    grown.entries = calloc(grown.room, sizeof(*grown.entries));
    if (grown.entries == NULL)
        return -ENOMEM;
    grown.count = counts->count;
    for (size_t i = 0; i < counts->room; i++)
        if (counts->entries[i].count > 0)
            *find_entry(&grown, counts->entries[i].first, counts->entries[i].second) = counts->entries[i];
    free(counts->entries);
    *counts = grown;
    return 0;
}

int value_counts_add(struct value_counts *counts, int64_t first, int64_t second, uint64_t count)
{
    if (grow(counts) < 0)
        return -ENOMEM;
    struct value_count *const entry = find_entry(counts, first, second);
    counts->count += entry->count == 0;
    *entry = (struct value_count){ first, second, entry->count + count };
    return 0;
}

int value_counts_merge(struct value_counts *counts, const struct value_counts *other)
{
    int rc = 0;
    for (size_t i = 0; i < other->room && rc == 0; i++) {
        const struct value_count *const entry = &other->entries[i];
        if (entry->count > 0)
            rc = value_counts_add(counts, entry->first, entry->second, entry->count);
    }
    return rc;
}

void value_counts_sort(struct value_counts *counts, int (*compare)(const void *a, const void *b))
{
    size_t kept = 0;
    for (size_t i = 0; i < counts->room; i++)
        if (counts->entries[i].count > 0)
            counts->entries[kept++] = counts->entries[i];
    if (kept > 0)
        qsort(counts->entries, kept, sizeof(*counts->entries), compare);
}

int value_counts_by_key(const void *a, const void *b)
{
    const struct value_count *const left = a, *const right = b;
    const int order = (left->first > right->first) - (left->first < right->first);
    return order != 0 ? order : (left->second > right->second) - (left->second < right->second);
}

int value_counts_by_count(const void *a, const void *b)
{
    const struct value_count *const left = a, *const right = b;
    const int order = (left->count < right->count) - (left->count > right->count);
    return order != 0 ? order : value_counts_by_key(a, b);
}

void value_counts_release(struct value_counts *counts)
{
    free(counts->entries);
    *counts = (struct value_counts){ 0 };
}

/* ---- records ---- */

int shards_statistics_add(struct shards_statistics *statistics, const struct found_sample *sample,
                          size_t payload_bytes)
{
    const int64_t sizes = (int64_t)((uint64_t)sample->height << 32 | sample->width);
    const int64_t kind = (int64_t)((uint64_t)sample->channels << 32 | (uint32_t)sample->image);
    statistics->records++;
    statistics->payload_bytes += payload_bytes;
    statistics->unlabelled += !sample->has_label;
    statistics->turned += sample->is_turned;
    int rc = value_counts_add(&statistics->payloads, (int64_t)payload_bytes, 0, 1);
    if (rc == 0)
        rc = value_counts_add(&statistics->images, kind, sizes, 1);
    if (rc == 0 && sample->has_label)
        rc = value_counts_add(&statistics->labels, sample->label, 0, 1);
    return rc;
}

int shards_statistics_merge(struct shards_statistics *statistics, const struct shards_statistics *other)
{
    statistics->records += other->records;
    statistics->unlabelled += other->unlabelled;
    statistics->turned += other->turned;
    statistics->payload_bytes += other->payload_bytes;
    int rc = value_counts_merge(&statistics->labels, &other->labels);
    if (rc == 0)
        rc = value_counts_merge(&statistics->payloads, &other->payloads);
    return rc == 0 ? value_counts_merge(&statistics->images, &other->images) : rc;
}

void shards_statistics_release(struct shards_statistics *statistics)
{
    value_counts_release(&statistics->labels);
    value_counts_release(&statistics->payloads);
    value_counts_release(&statistics->images);
}

struct found_sample shards_statistics_image(const struct value_count *entry)
{
    return (struct found_sample){
        .image = (enum found_image)(uint32_t)entry->first,
        .channels = (uint32_t)((uint64_t)entry->first >> 32),
        .height = (uint32_t)((uint64_t)entry->second >> 32),
        .width = (uint32_t)entry->second,
    };
}

int64_t shards_statistics_median(const struct value_counts *counts)
{
    uint64_t all = 0, below = 0;
    size_t i = 0;
    for (size_t k = 0; k < counts->count; k++)
        all += counts->entries[k].count;
    while (i + 1 < counts->count && below + counts->entries[i].count <= all / 2)
        below += counts->entries[i++].count;
    return counts->count > 0 ? counts->entries[i].first : 0;
}

bool shards_statistics_offset(int64_t least, int64_t most, uint64_t classes, int64_t *offset_out)
{
    uint64_t spread;
    if (__builtin_sub_overflow(most, least, &spread) || spread >= classes || least == INT64_MIN)
        return false;
    *offset_out = least >= 0 && (uint64_t)most < classes ? 0 : -least;
    return true;
}
