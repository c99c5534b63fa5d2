/* Shards in memory. Called by readers for every record. */
#include "loader/shard_store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "formats/tfrecord.h"
#include "loader/huge_pages.h"

#define BLOCK_BYTES ((uint64_t)1 << 18)

enum block_state { BLOCK_ABSENT, BLOCK_COMING, BLOCK_HELD };

static uint64_t blocks_of(uint64_t bytes)
{
    return bytes / BLOCK_BYTES + (bytes % BLOCK_BYTES != 0);
}

static void count_all(const struct dataset *dataset, size_t *bytes_out, size_t *blocks_out)
{
    *bytes_out = *blocks_out = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        *bytes_out += dataset->indexes[i].bytes;
        *blocks_out += blocks_of(dataset->indexes[i].bytes);
    }
}

size_t shard_store_bytes(const struct dataset *dataset)
{
    size_t bytes, blocks;
    count_all(dataset, &bytes, &blocks);
    return huge_pages_round(bytes) + blocks + 2 * dataset->shard_count * sizeof(uint64_t);
}

static void place_shards(struct shard_store *store)
{
    const struct dataset *dataset = store->dataset;
    uint64_t start = 0, block = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        store->starts[i] = start;
        store->first_blocks[i] = block;
        start += dataset->indexes[i].bytes;
        block += blocks_of(dataset->indexes[i].bytes);
    }
}

int shard_store_init(struct shard_store *store, const struct dataset *dataset)
{
    size_t bytes, blocks;
    count_all(dataset, &bytes, &blocks);
    *store = (struct shard_store){
        .dataset = dataset,
        .bytes = huge_pages_alloc(bytes),
        .starts = calloc(dataset->shard_count, sizeof(*store->starts)),
        .first_blocks = calloc(dataset->shard_count, sizeof(*store->first_blocks)),
        .states = calloc(blocks, sizeof(*store->states)),
    };
    if (store->bytes == NULL || store->starts == NULL || store->first_blocks == NULL || store->states == NULL) {
        shard_store_release(store);
        return -ENOMEM;
    }
    place_shards(store);
    return 0;
}

void shard_store_release(struct shard_store *store)
{
    free(store->bytes);
    free(store->starts);
    free(store->first_blocks);
    free(store->states);
    *store = (struct shard_store){ 0 };
}

static bool read_block(struct shard_store *store, uint32_t shard, uint64_t block, size_t *read_bytes)
{
    const uint64_t offset = block * BLOCK_BYTES;
    const uint64_t left = store->dataset->indexes[shard].bytes - offset;
    const size_t bytes = left < BLOCK_BYTES ? left : BLOCK_BYTES;
    const ssize_t got = shard_source_read(store->dataset->sources[shard], store->bytes + store->starts[shard] + offset,
                                          bytes, offset);
    *read_bytes += got > 0 ? (size_t)got : 0;
    return got == (ssize_t)bytes;
}

static bool hold_block(struct shard_store *store, uint32_t shard, uint64_t block, size_t *read_bytes)
{
    _Atomic uint8_t *state = &store->states[store->first_blocks[shard] + block];
    uint8_t found = atomic_load_explicit(state, memory_order_acquire);
    if (found == BLOCK_HELD)
        return true;
    if (found != BLOCK_ABSENT || !atomic_compare_exchange_strong(state, &found, BLOCK_COMING))
        return false;
    const bool is_read = read_block(store, shard, block, read_bytes);
    atomic_store_explicit(state, is_read ? BLOCK_HELD : BLOCK_ABSENT, memory_order_release);
    return is_read;
}

const uint8_t *shard_store_find(struct shard_store *store, const struct dataset_place *place, size_t *read_bytes)
{
    const uint64_t end = place->offset + place->payload_bytes + TFRECORD_FRAME_BYTES;
    for (uint64_t block = place->offset / BLOCK_BYTES; block <= (end - 1) / BLOCK_BYTES; block++) {
        if (!hold_block(store, place->shard, block, read_bytes))
            return NULL;
    }
    return store->bytes + store->starts[place->shard] + place->offset;
}
