/* Fuzz target of catalogs: any bytes as a catalog, whose checksum is made right if the first byte is odd, as somebody
 * might forge one. What is accepted has records inside its streams. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "loader/shards/catalog.h"
#include "tests/fuzz/fuzz.h"

#define CHECKSUM_AT 16u
#define CHECKSUM_BYTES 8u

/* Shards a of two records, of 3 and 0 bytes, and b, compressed, of one of 5. */
static const uint8_t two_shards[] = {
    1,
    'P', 'T', 'C', 'A', 'T', 'L', 'G', 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
    35, 0, 0, 0, 0, 0, 0, 0, 35, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
    1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 2, 0, 0, 0,
    9, 0, 0, 0, 0, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 2, 0, 0, 0,
    3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 'a', 0, 'b', 0,
};
static const uint8_t no_shards[] = {
    1,
    'P', 'T', 'C', 'A', 'T', 'L', 'G', 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};

const struct fuzz_seed fuzz_seeds[] = {
    { two_shards, sizeof(two_shards) },
    { no_shards, sizeof(no_shards) },
    { NULL, 0 },
};

static void check_shard(const struct catalog *catalog, const struct catalog_shard *shard)
{
    struct shard_index index;
    if (catalog_find(catalog, shard->name) != shard || catalog_index(shard, "fuzz", &index) < 0)
        abort();
    if (index.end != shard->stream_bytes || index.record_count != shard->record_count)
        abort();
    for (uint64_t i = 0; i < index.record_count; i++) {
        const struct shard_record record = shard_index_find(&index, i);
        if (record.offset + record.payload_bytes + TFRECORD_FRAME_BYTES > shard->stream_bytes)
            abort();
    }
    shard_index_release(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct catalog catalog;
    char problem[256] = "";
    if (bytes == 0)
        return 0;
    const size_t image_bytes = bytes - 1;
    uint8_t *const image = malloc(image_bytes + 1);
    if (image == NULL)
        abort();
    memcpy(image, data + 1, image_bytes);
    if (data[0] % 2 == 1 && image_bytes >= CHECKSUM_AT + CHECKSUM_BYTES) {
        memset(image + CHECKSUM_AT, 0, CHECKSUM_BYTES);
        const uint64_t checksum = XXH3_64bits(image, image_bytes);
        memcpy(image + CHECKSUM_AT, &checksum, CHECKSUM_BYTES);
    }
    if (catalog_parse(&catalog, image, image_bytes, problem, sizeof(problem)) == 0) {
        for (uint32_t i = 0; i < catalog.shard_count; i++)
            check_shard(&catalog, &catalog.shards[i]);
        catalog_release(&catalog);
    } else if (problem[0] == '\0')
        abort();
    return 0;
}
