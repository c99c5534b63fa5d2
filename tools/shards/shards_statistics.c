/* Statistics of records. Called by the threads of a scan, each with its own, and by main. */
#include "tools/shards/shards_statistics.h"

#include <errno.h>

int shards_statistics_add(struct shards_statistics *statistics, const struct found_sample *sample,
                          size_t payload_bytes)
{
    const int64_t sizes = (int64_t)((uint64_t)sample->height << 32 | sample->width);
    const int64_t kind = (int64_t)((uint64_t)sample->channels << 32 | (uint32_t)sample->image);
    statistics->records++;
    statistics->payload_bytes += payload_bytes;
    statistics->unlabelled += !sample->has_label;
    statistics->turned += sample->is_turned;
    int rc = tally_add(&statistics->payloads, (int64_t)payload_bytes, 0, 1);
    if (rc == 0)
        rc = tally_add(&statistics->images, kind, sizes, 1);
    if (rc == 0 && sample->has_label)
        rc = tally_add(&statistics->labels, sample->label, 0, 1);
    return rc;
}

int shards_statistics_merge(struct shards_statistics *statistics, const struct shards_statistics *other)
{
    statistics->records += other->records;
    statistics->unlabelled += other->unlabelled;
    statistics->turned += other->turned;
    statistics->payload_bytes += other->payload_bytes;
    int rc = tally_merge(&statistics->labels, &other->labels);
    if (rc == 0)
        rc = tally_merge(&statistics->payloads, &other->payloads);
    return rc == 0 ? tally_merge(&statistics->images, &other->images) : rc;
}

void shards_statistics_release(struct shards_statistics *statistics)
{
    tally_release(&statistics->labels);
    tally_release(&statistics->payloads);
    tally_release(&statistics->images);
}

struct found_sample shards_statistics_image(const struct tally_entry *entry)
{
    return (struct found_sample){
        .image = (enum found_image)(uint32_t)entry->first,
        .channels = (uint32_t)((uint64_t)entry->first >> 32),
        .height = (uint32_t)((uint64_t)entry->second >> 32),
        .width = (uint32_t)entry->second,
    };
}

int64_t shards_statistics_median(const struct tally *tally)
{
    uint64_t all = 0, below = 0;
    size_t i = 0;
    for (size_t k = 0; k < tally->count; k++)
        all += tally->entries[k].count;
    while (i + 1 < tally->count && below + tally->entries[i].count <= all / 2)
        below += tally->entries[i++].count;
    return tally->count > 0 ? tally->entries[i].first : 0;
}

bool shards_statistics_offset(int64_t least, int64_t most, uint64_t classes, int64_t *offset_out)
{
    uint64_t spread;
    if (__builtin_sub_overflow(most, least, &spread) || spread >= classes || least == INT64_MIN)
        return false;
    *offset_out = least >= 0 && (uint64_t)most < classes ? 0 : -least;
    return true;
}
