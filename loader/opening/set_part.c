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
