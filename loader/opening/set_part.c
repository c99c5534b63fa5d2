/* Parts of sets. Called while a data set is opened. */
#include "loader/opening/set_part.h"

#include <endian.h>
#include <string.h>
#include <xxhash.h>

static bool is_held_out(uint64_t number, uint64_t key, uint64_t limit)
{
    const uint64_t bytes = htole64(number);
    return XXH3_64bits_withSeed(&bytes, sizeof(bytes), key) < limit;
}

void set_part_keep(struct shard_index *index, const char *path, enum dataset_part part, double held_out)
{
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path;
    const uint64_t key = XXH3_64bits(name, strlen(name)), limit = (uint64_t)(held_out * 0x1p64);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < index->record_count; i++) {
        if (is_held_out(i, key, limit) != (part == DATASET_HELD_OUT))
            continue;
        index->records[kept] = index->records[i];
        index->records[kept].left_out = (uint32_t)(i - kept);
        kept++;
    }
    index->left_out = index->record_count - kept;
    index->record_count = kept;
}

/* Record g is floor(i * all / wanted) of some i where a multiple of `all` lies in [g * wanted, (g + 1) * wanted):
 * `passed` is how far g * wanted lies above the last multiple. */
static bool spread_takes(struct set_spread *spread)
{
    const bool is_taken = spread->passed == 0 || spread->passed > spread->all - spread->wanted;
    spread->passed += spread->wanted;
    if (spread->passed >= spread->all)
        spread->passed -= spread->all;
    return is_taken;
}

void set_part_spread(struct set_spread *spread, struct shard_index *index)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < index->record_count; i++) {
        if (!spread_takes(spread))
            continue;
        index->records[kept] = index->records[i];
        index->records[kept].left_out += (uint32_t)(i - kept);
        kept++;
    }
    index->left_out += index->record_count - kept;
    index->record_count = kept;
}
