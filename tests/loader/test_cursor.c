/* Tests of the cursor: whatever the towers, the chunk size and the order, the chunks of a run are the places of its
 * schedule, one after the other, each with the record that the order has there; with lanes for any number of processes,
 * and lane by lane. */
#include <errno.h>
#include <string.h>

#include "loader/cursor.h"
#include "tests/helpers/test.h"

enum { RECORDS = 61, VALIDATION = 13, BATCH = 10, EPOCHS = 2, SEED = 5, LANES_MAX = 12 };

/* Where the chunks have come to. */
struct walk {
    struct schedule schedule;
    struct order_shape shape;
    uint64_t number;            /* of the batch */
    uint32_t tower, first;
    struct lane_range lanes;
    struct {
        struct order order;     /* by a walk of its own */
        uint64_t windows;       /* of training so far */
    } in_lanes[LANES_MAX];
    enum phase phase;
    uint32_t epoch;
};

static struct schedule schedule_of(uint32_t towers, uint64_t first, uint32_t lanes)
{
    return (struct schedule){ .records = { RECORDS, VALIDATION }, .batch = BATCH, .towers = towers, .epochs = EPOCHS,
                              .first = first, .lanes = lanes };
}

static void begin_phase(struct walk *walk, const struct local_batch *local)
{
    const struct order_shape stored = { .shuffle = SHUFFLE_NONE, .count = VALIDATION };
    const bool is_training = local->phase == PHASE_TRAIN;
    for (uint32_t i = 0; i < (is_training ? walk->lanes.count : 1); i++)
        order_init(&walk->in_lanes[i].order, is_training ? &walk->shape : &stored,
                   is_training ? walk->lanes.first + i : 0, SEED, local->epoch);
    walk->phase = local->phase;
    walk->epoch = local->epoch;
}

static void check_places(struct walk *walk, const struct chunk *chunk, const struct local_batch *local)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        const uint64_t position = local->first_position + walk->first + i;
        struct order_place at = { .place = position };
        if (local->phase == PHASE_TRAIN) {
            at = order_place_find(&walk->shape, position);
            at.lane -= walk->lanes.first;
        }
        assert_int_equal(chunk->lane, at.lane);
        struct order *const order = &walk->in_lanes[at.lane].order;
        if (!order_holds(order, at.place)) {
            order_enter(order, at.place);
            walk->in_lanes[at.lane].windows += local->phase == PHASE_TRAIN;
        }
        const uint64_t record = order_record(order, at.place);
        assert_int_equal(order_record_at(&chunk->order, chunk_offset(chunk, i)), record);
        if (local->phase != PHASE_TRAIN)
            continue;
        assert_int_equal(record, order_find(&walk->shape, SEED, local->epoch, position));
        assert_int_equal(chunk->window, walk->in_lanes[at.lane].windows - 1);
    }
}

static void check_chunk(struct walk *walk, const struct chunk *chunk)
{
    struct local_batch local;
    const struct tower_range here = schedule_here(&walk->schedule);
    assert_int_equal(schedule_find(&walk->schedule, walk->number, here.first + walk->tower, &local), 0);
    if (walk->number == walk->schedule.first || local.phase != walk->phase || local.epoch != walk->epoch)
        if (walk->tower == 0 && walk->first == 0)
            begin_phase(walk, &local);
    assert_int_equal(chunk->local.number, walk->number);
    assert_int_equal(chunk->local.first_position, local.first_position);
    assert_int_equal(chunk->tower, walk->tower);
    assert_int_equal(chunk->first, walk->first);
    assert_true(chunk->count > 0 || local.count == 0);
    check_places(walk, chunk, &local);
    walk->first += chunk->count;
    if (walk->first == local.count) {
        walk->first = 0;
        walk->tower = (walk->tower + 1) % here.count;
        walk->number += walk->tower == 0;
    }
    assert_int_equal(chunk->last_of_phase, local.last_of_phase && walk->tower == 0 && walk->first == 0);
}

static void check_run(const struct order_shape *shape, const struct schedule *schedule, uint32_t chunk_records)
{
    struct walk walk = { .schedule = *schedule, .shape = *shape, .number = schedule->first,
                         .lanes = schedule_lanes(schedule) };
    struct cursor cursor;
    struct chunk chunk;
    int rc;
    assert_int_equal(cursor_init(&cursor, &walk.schedule, shape, walk.lanes, SEED, chunk_records), 0);
    while ((rc = cursor_next(&cursor, &chunk)) == 0) {
        assert_true(chunk.count <= chunk_records);
        check_chunk(&walk, &chunk);
    }
    assert_int_equal(rc, -ENODATA);
    assert_int_equal(walk.number, schedule_batch_count(&walk.schedule));
    cursor_release(&cursor);
}

TEST(chunks_are_the_places_of_the_schedule_with_the_records_of_the_order)
{
    static const struct order_shape shapes[] = {
        { .shuffle = SHUFFLE_NONE, .count = RECORDS },
        { .shuffle = SHUFFLE_FULL, .count = RECORDS },
        { .shuffle = SHUFFLE_BLOCK, .count = RECORDS, .block_records = 4, .window_blocks = 3 },
        { .shuffle = SHUFFLE_BLOCK, .count = RECORDS, .block_records = 30, .window_blocks = 1 },
    };
    const struct schedule schedule = schedule_of(1, 0, 0);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (uint32_t towers = 1; towers <= 12; towers += towers < 4 ? 1 : 4)
            for (uint32_t chunk_records = 1; chunk_records <= BATCH + 1; chunk_records++)
                for (uint64_t first = 0; first < schedule_batch_count(&schedule); first += 3) {
                    const struct schedule own = schedule_of(towers, first, 0);
                    check_run(&shapes[i], &own, chunk_records);
                }
}

/* ---- lanes ---- */

static const struct lane_case {
    uint32_t lanes, processes, towers;  /* towers of each process */
    bool pairs;
} lane_cases[] = {
    { 2, 1, 1, false }, { 2, 1, 3, false }, { 2, 2, 1, false }, { 2, 2, 2, false }, { 3, 1, 2, false },
    { 3, 3, 1, false }, { 3, 3, 2, true }, { 4, 2, 3, false }, { 4, 4, 1, true }, { 6, 3, 1, false },
    { 8, 2, 4, false }, { 8, 4, 1, false }, { 12, 4, 1, false }, { 12, 6, 2, true },
};

static struct order_shape lane_shape(const struct lane_case *row, uint64_t block_records, uint64_t window_blocks)
{
    return (struct order_shape){ .shuffle = SHUFFLE_BLOCK, .count = RECORDS, .block_records = block_records,
                                 .window_blocks = window_blocks, .lanes = { row->lanes, BATCH, row->pairs } };
}

static struct schedule lane_schedule(const struct lane_case *row, uint32_t process, uint64_t first)
{
    struct schedule schedule = schedule_of(row->processes * row->towers, first, row->lanes);
    schedule.here = (struct tower_range){ process * row->towers, row->towers };
    schedule.pairs = row->pairs;
    return schedule;
}

TEST(a_process_has_chunks_of_its_lanes_only)
{
    for (size_t i = 0; i < sizeof(lane_cases) / sizeof(lane_cases[0]); i++)
        for (uint32_t process = 0; process < lane_cases[i].processes; process++)
            for (uint32_t chunk_records = 1; chunk_records <= BATCH + 1; chunk_records += 3)
                for (uint64_t first = 0; first < 14; first += 5) {
                    const struct order_shape small = lane_shape(&lane_cases[i], 2, 2);
                    const struct order_shape large = lane_shape(&lane_cases[i], 30, 1);
                    const struct schedule schedule = lane_schedule(&lane_cases[i], process, first);
                    check_run(&small, &schedule, chunk_records);
                    check_run(&large, &schedule, chunk_records);
                }
}

/* The records of a lane in the order in which a cursor's training chunks have them, with the windows' numbers. Returns
 * their number. */
static uint32_t lane_records(const struct order_shape *shape, const struct schedule *schedule, struct lane_range lanes,
                             uint32_t lane, uint64_t records[][2])
{
    struct cursor cursor;
    struct chunk chunk;
    uint32_t count = 0;
    assert_int_equal(cursor_init(&cursor, schedule, shape, lanes, SEED, BATCH), 0);
    while (cursor_next(&cursor, &chunk) == 0)
        for (uint32_t i = 0; chunk.local.phase == PHASE_TRAIN && i < chunk.count; i++) {
            if (lanes.first + chunk.lane != lane)
                continue;
            records[count][0] = order_record_at(&chunk.order, chunk_offset(&chunk, i));
            records[count++][1] = chunk.window;
        }
    cursor_release(&cursor);
    return count;
}

/* A window store counts the records of a window with a cursor in its lane alone. */
TEST(a_cursor_in_one_lane_has_the_same_records_as_one_in_all)
{
    for (size_t i = 0; i < sizeof(lane_cases) / sizeof(lane_cases[0]); i++)
        for (uint64_t first = 0; first < 14; first += 3) {
            const struct order_shape shape = lane_shape(&lane_cases[i], 2, 2);
            const struct schedule schedule = lane_schedule(&lane_cases[i], lane_cases[i].processes - 1, first);
            const struct lane_range all = schedule_lanes(&schedule);
            for (uint32_t lane = all.first; lane < all.first + all.count; lane++) {
                uint64_t expected[EPOCHS * RECORDS][2], found[EPOCHS * RECORDS][2];
                const uint32_t count = lane_records(&shape, &schedule, all, lane, expected);
                assert_int_equal(lane_records(&shape, &schedule, (struct lane_range){ lane, 1 }, lane, found), count);
                assert_memory_equal(found, expected, count * sizeof(found[0]));
            }
        }
}

TESTS_MAIN(NULL, NULL)
