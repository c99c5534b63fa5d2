/* Windows of blocks in memory. Called by readers for every chunk, and by decoders after each chunk. */
#include "loader/window_store.h"

#include <errno.h>
#include <stdlib.h>

#include "formats/tfrecord.h"
#include "loader/huge_pages.h"
#include "stage/clock.h"

static uint64_t frame_bytes(const struct shard_record *record)
{
    return record->payload_bytes + (uint64_t)TFRECORD_FRAME_BYTES;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The size of the largest block if blocks have this many records. */
static uint64_t largest_block(const struct dataset *dataset, uint64_t block_records)
{
    uint64_t largest = 0, bytes = 0, left = block_records;
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        const struct shard_index *const index = &dataset->indexes[i];
        struct shard_record record = { 0 };
        for (uint64_t j = 0; j < index->record_count; j++) {
            if (j == 0)
                record = shard_index_find(index, 0);
            else
                shard_index_advance(index, &record);
            bytes += frame_bytes(&record);
            if (--left > 0)
                continue;
            largest = larger(largest, bytes);
            bytes = 0;
            left = block_records;
        }
    }
    return larger(largest, bytes);
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

struct order_shape window_shape(const struct dataset *dataset, const struct schedule *schedule,
                                const struct window_sizes *sizes, uint64_t seed)
{
    const uint64_t records = schedule->records[PHASE_TRAIN];
    const uint64_t mean = larger(largest_block(dataset, UINT64_MAX) / larger(dataset->record_count, 1), 1);
    struct order_shape shape = { .shuffle = SHUFFLE_BLOCK, .count = records,
                                 .lanes = { schedule->lanes, schedule->batch, schedule->pairs } };
    shape.block_records = clamp(sizes->block_bytes / mean, 1, larger(records, 1));
    const uint64_t largest = larger(largest_block(dataset, shape.block_records), 1);
    shape.window_blocks = clamp(sizes->window_bytes / order_lanes(&shape) / largest, 1,
                                order_lane_blocks_max(&shape, seed));
    return shape;
}

/* The memory of a window; SIZE_MAX if it overflows. */
static size_t window_room(const struct dataset *dataset, const struct order_shape *shape)
{
    size_t bytes;
    const uint64_t largest = largest_block(dataset, shape->block_records);
    return __builtin_mul_overflow(shape->window_blocks, largest, &bytes) ? SIZE_MAX : huge_pages_round(bytes);
}

/* The number of records in a window, at most those of the data set. */
static size_t window_frames(const struct order_shape *shape)
{
    uint64_t records;
    const bool is_more = __builtin_mul_overflow(shape->window_blocks, shape->block_records, &records);
    return is_more || records > shape->count ? shape->count : records;
}

size_t window_store_bytes(const struct dataset *dataset, const struct order_shape *shape, uint32_t lanes)
{
    size_t bytes, frames, ids;
    const size_t own = sizeof(struct window_lane) + sizeof(struct cursor_lane);
    const bool is_counted = !__builtin_mul_overflow(window_frames(shape), sizeof(uint8_t *), &frames)
        && !__builtin_mul_overflow(shape->window_blocks, sizeof(uint64_t), &ids)
        && !__builtin_add_overflow(frames, ids, &frames)
        && !__builtin_add_overflow(window_room(dataset, shape), frames, &bytes)
        && !__builtin_mul_overflow(bytes, WINDOW_SLOTS, &bytes) && !__builtin_add_overflow(bytes, own, &bytes)
        && !__builtin_mul_overflow(bytes, lanes, &bytes);
    return is_counted ? bytes : SIZE_MAX;
}

static int window_init(struct window *window, size_t room, size_t frames, size_t blocks)
{
    window->bytes = huge_pages_alloc(room);
    window->frames = calloc(frames, sizeof(*window->frames));
    window->ids = calloc(blocks, sizeof(*window->ids));
    return window->bytes != NULL && window->frames != NULL && window->ids != NULL ? 0 : -ENOMEM;
}

/* Advance to the lane's next training chunk that is not empty. */
static void scout_advance(struct window_lane *lane)
{
    int rc;
    do
        rc = cursor_next(&lane->scout, &lane->next);
    while (rc == 0 && (lane->next.local.phase != PHASE_TRAIN || lane->next.count == 0));
    if (rc < 0)
        lane->next.count = 0;
}

int window_store_init(struct window_store *store, const struct dataset *dataset, const struct schedule *schedule,
                      const struct order_shape *shape, uint64_t seed)
{
    const struct lane_range lanes = schedule_lanes(schedule);
    *store = (struct window_store){ .dataset = dataset, .has_lock = true, .lane_count = lanes.count };
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, NULL);
    store->lanes = calloc(lanes.count, sizeof(*store->lanes));
    const size_t room = window_room(dataset, shape), frames = window_frames(shape);
    int rc = store->lanes != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < lanes.count && rc == 0; i++) {
        struct window_lane *const lane = &store->lanes[i];
        rc = cursor_init(&lane->scout, schedule, shape, (struct lane_range){ lanes.first + i, 1 }, seed, UINT32_MAX);
        for (uint32_t j = 0; j < WINDOW_SLOTS && rc == 0; j++)
            rc = window_init(&lane->slots[j], room, frames, shape->window_blocks);
        if (rc == 0)
            scout_advance(lane);
    }
    if (rc < 0)
        window_store_release(store);
    return rc;
}

static void lane_release(struct window_lane *lane)
{
    for (uint32_t i = 0; i < WINDOW_SLOTS; i++) {
        free(lane->slots[i].bytes);
        free(lane->slots[i].frames);
        free(lane->slots[i].ids);
    }
    cursor_release(&lane->scout);
}

void window_store_release(struct window_store *store)
{
    if (!store->has_lock)
        return;
    for (uint32_t i = 0; store->lanes != NULL && i < store->lane_count; i++)
        lane_release(&store->lanes[i]);
    free(store->lanes);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    *store = (struct window_store){ 0 };
}

static struct window *slot_of(struct window_lane *lane, uint64_t number)
{
    return &lane->slots[number % WINDOW_SLOTS];
}

/* Open the lane's next window if its slot is free. */
static bool open_next_locked(struct window_lane *lane)
{
    struct window *const window = slot_of(lane, lane->opened);
    if (lane->next.count == 0 || window->left > 0)
        return false;
    const uint64_t number = lane->next.window;
    window->order = lane->next.order;
    window->block_count = order_window_blocks(&window->order);
    window->begun = window->held = window->records = window->taken = 0;
    atomic_store_explicit(&window->used, 0, memory_order_relaxed);
    for (; lane->next.count > 0 && lane->next.window == number; scout_advance(lane))
        window->records += lane->next.count;
    window->left = window->records;
    lane->opened++;
    return true;
}

/* The number of records that are consecutive in the shard, from `record` on and at most `most`, and their bytes. */
static uint64_t run_length(const struct shard_index *index, struct shard_record record, uint64_t most,
                           uint64_t *bytes_out)
{
    const uint64_t begin = record.offset;
    uint64_t count = 1, bytes = frame_bytes(&record);
    for (; count < most; count++) {
        shard_index_advance(index, &record);
        if (record.offset != begin + bytes)
            break;
        bytes += frame_bytes(&record);
    }
    *bytes_out = bytes;
    return count;
}

/* Read the records [id, end) up to the first one that is not consecutive in a shard. Returns the id of that record. */
static uint64_t read_run(struct window_store *store, struct window *window, uint64_t id, uint64_t end,
                         const uint8_t **frames, size_t *read_bytes)
{
    const struct dataset_place place = dataset_seek(store->dataset, id);
    const struct shard_index *const index = &store->dataset->indexes[place.shard];
    const uint64_t left = index->record_count - place.record;
    const struct shard_record first = shard_index_find(index, place.record);
    uint64_t bytes;
    const uint64_t count = run_length(index, first, end - id < left ? end - id : left, &bytes);
    uint8_t *const run = window->bytes + atomic_fetch_add_explicit(&window->used, bytes, memory_order_relaxed);
    const ssize_t got = shard_source_read(store->dataset->sources[place.shard], run, bytes, first.offset);
    *read_bytes += got > 0 ? (size_t)got : 0;
    struct shard_record record = first;
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0)
            shard_index_advance(index, &record);
        const uint64_t from = record.offset - first.offset;
        const bool is_read = got >= 0 && from + frame_bytes(&record) <= (uint64_t)got;
        frames[i] = is_read ? run + from : NULL;
    }
    return id + count;
}

/* Read the next block of the window. Called with the lock held, which is released while reading. */
static void read_block_locked(struct window_store *store, struct window *window, struct window_cost *cost)
{
    const uint64_t i = window->begun++;
    const struct order_block block = order_block(&window->order, i);
    pthread_mutex_unlock(&store->lock);
    window->ids[i] = block.first_record - block.offset;
    const uint64_t end = block.first_record + block.count;
    const uint8_t **const frames = window->frames + block.offset;
    for (uint64_t id = block.first_record; id < end;)
        id = read_run(store, window, id, end, frames + (id - block.first_record), &cost->read_bytes);
    pthread_mutex_lock(&store->lock);
    if (++window->held == window->block_count)
        pthread_cond_broadcast(&store->changed);
}

static void wait_locked(struct window_store *store, struct window_cost *cost)
{
    const uint64_t begun_ns = clock_now_ns();
    pthread_cond_wait(&store->changed, &store->lock);
    cost->waited_ns += clock_now_ns() - begun_ns;
}

/* Do one step towards having window `number` of the lane in memory. */
static void approach_locked(struct window_store *store, struct window_lane *lane, uint64_t number,
                            struct window_cost *cost)
{
    struct window *const window = slot_of(lane, number);
    if (lane->opened > number && window->begun < window->block_count)
        read_block_locked(store, window, cost);
    else if (lane->opened > number || !open_next_locked(lane))
        wait_locked(store, cost);
}

int window_store_take(struct window_store *store, const struct chunk *chunk, const struct window **window_out,
                      struct window_cost *cost)
{
    struct window_lane *const lane = &store->lanes[chunk->lane];
    struct window *const window = slot_of(lane, chunk->window);
    pthread_mutex_lock(&store->lock);
    while (!store->is_cancelled && (lane->opened <= chunk->window || window->held < window->block_count))
        approach_locked(store, lane, chunk->window, cost);
    const int rc = store->is_cancelled ? -ECANCELED : 0;
    window->taken += chunk->count;
    pthread_mutex_unlock(&store->lock);
    *window_out = window;
    return rc;
}

void window_store_give_back(struct window_store *store, const struct chunk *chunk)
{
    struct window *const window = slot_of(&store->lanes[chunk->lane], chunk->window);
    pthread_mutex_lock(&store->lock);
    window->left -= chunk->count;
    if (window->left == 0)
        pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

/* Is the part of window `number` that was read smaller than the part of the previous window that was taken? */
static bool is_behind(struct window_lane *lane, uint64_t number)
{
    const struct window *const window = slot_of(lane, number), *const before = slot_of(lane, number - 1);
    return window->begun < window->block_count
        && (double)window->begun * (double)before->records < (double)before->taken * (double)window->block_count;
}

void window_store_read_ahead(struct window_store *store, uint32_t lane, struct window_cost *cost)
{
    struct window_lane *const windows = &store->lanes[lane];
    pthread_mutex_lock(&store->lock);
    if (windows->opened > 0 && slot_of(windows, windows->opened - 1)->taken > 0)
        (void)open_next_locked(windows);
    while (!store->is_cancelled && windows->opened > 1 && is_behind(windows, windows->opened - 1))
        read_block_locked(store, slot_of(windows, windows->opened - 1), cost);
    pthread_mutex_unlock(&store->lock);
}

void window_store_cancel(struct window_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->is_cancelled = true;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}
