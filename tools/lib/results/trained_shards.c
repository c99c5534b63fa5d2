/* Finds out whether weights were trained on given shards. */
#include "tools/lib/results/trained_shards.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_DIGITS 16u

static int hash_compare(const void *a, const void *b)
{
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static bool has_records(const struct dataset *dataset, uint32_t shard)
{
    return dataset->indexes[shard].record_count + dataset->indexes[shard].left_out > 0;
}

int trained_shards_save(struct weights *weights, const struct dataset *train)
{
    char text[WEIGHTS_SHARDS_BYTES] = "";
    size_t count = 0;
    if (weights == NULL || train == NULL)
        return 0;
    uint64_t *const hashes = calloc((size_t)train->shard_count + 1, sizeof(*hashes));
    if (hashes == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < train->shard_count; i++)
        if (has_records(train, i))
            hashes[count++] = train->indexes[i].contents;
    qsort(hashes, count, sizeof(*hashes), hash_compare);
    for (size_t i = 0; i < count && i < TRAINED_SHARDS_MAX; i++)
        snprintf(text + i * (HASH_DIGITS + 1), sizeof(text) - i * (HASH_DIGITS + 1), "%016" PRIx64 " ", hashes[i]);
    free(hashes);
    return weights_name_shards(weights, text);
}

uint32_t trained_shards_count(const char *text, const struct dataset *dataset, uint32_t *first_out)
{
    uint32_t count = 0;
    for (uint32_t i = dataset->shard_count; text != NULL && i-- > 0;) {
        char hash[HASH_DIGITS + 2];
        snprintf(hash, sizeof(hash), "%016" PRIx64 " ", dataset->indexes[i].contents);
        if (!has_records(dataset, i) || strstr(text, hash) == NULL)
            continue;
        count++;
        *first_out = i;
    }
    return count;
}
