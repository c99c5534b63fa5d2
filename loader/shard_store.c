/* Shards in memory. Called by readers for every record. */
#include "loader/shard_store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "formats/tfrecord.h"
#include "loader/huge_pages.h"

#define BLOCK_BYTES ((uint64_t)1 << 18)

/* BLOCK_OUTSIDE: no record in it is needed; it has no place. */
enum block_state { BLOCK_ABSENT, BLOCK_COMING, BLOCK_HELD, BLOCK_OUTSIDE };

static uint64_t blocks_of(uint64_t bytes)
{
    return bytes / BLOCK_BYTES + (bytes % BLOCK_BYTES != 0);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Set the index of each shard's first block. */
static void number_blocks(const struct dataset *dataset, uint64_t *first_blocks)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        first_blocks[i] = blocks;
        blocks += blocks_of(dataset->indexes[i].bytes);
    }
}

static uint64_t count_blocks(const struct dataset *dataset)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        blocks += blocks_of(dataset->indexes[i].bytes);
    return blocks;
}

static uint64_t frame_end(const struct dataset_place *place)
{
    return place->offset + place->payload_bytes + TFRECORD_FRAME_BYTES;
}

/* The blocks of records [id, end) are absent, not outside. */
static void include_records(const struct shard_store *store, uint64_t id, uint64_t end)
{
    while (id < end) {
        const struct dataset_place first = dataset_find(store->dataset, id);
        const uint64_t in_shard = store->dataset->indexes[first.shard].record_count - first.record;
        const uint64_t next = smaller(end, id + in_shard);
        const struct dataset_place last = dataset_find(store->dataset, next - 1);
        for (uint64_t block = first.offset / BLOCK_BYTES; block <= (frame_end(&last) - 1) / BLOCK_BYTES; block++)
            atomic_init(&store->states[store->first_blocks[first.shard] + block], BLOCK_ABSENT);
        id = next;
    }
}

static void include_lane(const struct shard_store *store, const struct shard_store_need *need, uint32_t lane)
{
    struct order order;
    order_init(&order, need->shape, lane, need->seed, 0);
    for (uint64_t i = 0; i < order.block_count; i++) {
        const struct order_block block = order_lane_block(&order, i);
        include_records(store, block.first_record, block.first_record + block.count);
    }
}

/* Place the blocks that are not outside, one after another. Returns their bytes. */
static size_t place_blocks(struct shard_store *store)
{
    size_t at = 0;
    for (uint32_t i = 0; i < store->dataset->shard_count; i++) {
        const uint64_t bytes = store->dataset->indexes[i].bytes;
        for (uint64_t block = 0; block < blocks_of(bytes); block++) {
            const uint64_t number = store->first_blocks[i] + block;
            store->places[number] = at;
            if (atomic_load_explicit(&store->states[number], memory_order_relaxed) != BLOCK_OUTSIDE)
                at += smaller(bytes - block * BLOCK_BYTES, BLOCK_BYTES);
        }
    }
    return at;
}

/* Everything but the blocks themselves. 0 or -ENOMEM; the caller releases the store in any case. */
static int find_places(struct shard_store *store, const struct dataset *dataset, const struct shard_store_need *need,
                       size_t *bytes_out)
{
    const uint64_t blocks = count_blocks(dataset);
    *store = (struct shard_store){
        .dataset = dataset,
        .first_blocks = calloc(dataset->shard_count, sizeof(*store->first_blocks)),
        .places = calloc(blocks, sizeof(*store->places)),
        .states = calloc(blocks, sizeof(*store->states)),
    };
    if (store->first_blocks == NULL || store->places == NULL || store->states == NULL)
        return -ENOMEM;
    number_blocks(dataset, store->first_blocks);
    for (uint64_t i = 0; need != NULL && i < blocks; i++)
        atomic_init(&store->states[i], BLOCK_OUTSIDE);
    for (uint32_t i = 0; need != NULL && i < need->lanes.count; i++)
        include_lane(store, need, need->lanes.first + i);
    *bytes_out = place_blocks(store);
    return 0;
}

size_t shard_store_bytes(const struct dataset *dataset, const struct shard_store_need *need)
{
    struct shard_store store;
    size_t bytes;
    const int rc = find_places(&store, dataset, need, &bytes);
    shard_store_release(&store);
    if (rc < 0)
        return SIZE_MAX;
    return huge_pages_round(bytes) + count_blocks(dataset) * (sizeof(*store.places) + sizeof(*store.states))
        + dataset->shard_count * sizeof(*store.first_blocks);
}

uint64_t shard_store_file_bytes(const struct dataset *dataset, const struct shard_store_need *need)
{
    struct shard_store store;
    size_t bytes;
    const int rc = find_places(&store, dataset, need, &bytes);
    shard_store_release(&store);
    return rc < 0 ? UINT64_MAX : bytes;
}

int shard_store_init(struct shard_store *store, const struct dataset *dataset, const struct shard_store_need *need)
{
    size_t bytes;
    int rc = find_places(store, dataset, need, &bytes);
    if (rc == 0)
        store->bytes = huge_pages_alloc(bytes);
    if (rc < 0 || store->bytes == NULL) {
        shard_store_release(store);
        return -ENOMEM;
    }
    return 0;
}

void shard_store_release(struct shard_store *store)
{
    free(store->bytes);
    free(store->first_blocks);
    free(store->places);
    free(store->states);
    *store = (struct shard_store){ 0 };
}

static bool read_block(struct shard_store *store, uint32_t shard, uint64_t block, size_t *read_bytes)
{
    const uint64_t offset = block * BLOCK_BYTES;
    const uint64_t left = store->dataset->indexes[shard].bytes - offset;
    const size_t bytes = left < BLOCK_BYTES ? left : BLOCK_BYTES;
    uint8_t *const to = store->bytes + store->places[store->first_blocks[shard] + block];
    const ssize_t got = shard_source_read(store->dataset->sources[shard], to, bytes, offset);
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
    const uint64_t first = place->offset / BLOCK_BYTES;
    for (uint64_t block = first; block <= (frame_end(place) - 1) / BLOCK_BYTES; block++) {
        if (!hold_block(store, place->shard, block, read_bytes))
            return NULL;
    }
    return store->bytes + store->places[store->first_blocks[place->shard] + first] + place->offset % BLOCK_BYTES;
}
