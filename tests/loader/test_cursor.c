/* Tests of the cursor: whatever the towers, the chunk size and the order, the chunks of a run are the places of its
 * schedule, one after the other, each with the record that the order has there. */
#include <errno.h>
#include <string.h>

#include "loader/cursor.h"
#include "tests/helpers/test.h"

enum { RECORDS = 61, VALIDATION = 13, BATCH = 10, EPOCHS = 2, SEED = 5 };

/* Where the chunks have come to. */
struct walk {
    struct schedule schedule;
    struct order_shape shape;
    uint64_t number;            /* of the batch */
    uint32_t tower, first;
    uint64_t windows;           /* of training so far */
    struct order order;         /* by a walk of its own */
    enum phase phase;
    uint32_t epoch;
};

static struct schedule schedule_of(uint32_t towers, uint64_t first)
{
    return (struct schedule){ .records = { RECORDS, VALIDATION }, .batch = BATCH, .towers = towers, .epochs = EPOCHS,
                              .first = first };
}

static void begin_phase(struct walk *walk, const struct local_batch *local)
{
    const struct order_shape stored = { .shuffle = SHUFFLE_NONE, .count = VALIDATION };
    order_init(&walk->order, local->phase == PHASE_TRAIN ? &walk->shape : &stored, SEED, local->epoch);
    walk->phase = local->phase;
    walk->epoch = local->epoch;
}

static void check_places(struct walk *walk, const struct chunk *chunk, const struct local_batch *local)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        const uint64_t position = local->first_position + walk->first + i;
        if (!order_holds(&walk->order, position)) {
            order_enter(&walk->order, position);
            walk->windows += local->phase == PHASE_TRAIN;
        }
        assert_int_equal(order_record_at(&chunk->order, chunk_offset(chunk, i)),
                         order_record(&walk->order, position));
        if (local->phase == PHASE_TRAIN)
            assert_int_equal(chunk->window, walk->windows - 1);
    }
}

static void check_chunk(struct walk *walk, const struct chunk *chunk)
{
    struct local_batch local;
    assert_int_equal(schedule_find(&walk->schedule, walk->number, walk->tower, &local), 0);
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
        walk->tower = (walk->tower + 1) % walk->schedule.towers;
        walk->number += walk->tower == 0;
    }
    assert_int_equal(chunk->last_of_phase, local.last_of_phase && walk->tower == 0 && walk->first == 0);
}

static void check_run(const struct order_shape *shape, uint32_t towers, uint32_t chunk_records, uint64_t first)
{
    struct walk walk = { .schedule = schedule_of(towers, first), .shape = *shape, .number = first };
    struct cursor cursor;
    struct chunk chunk;
    int rc;
    cursor_init(&cursor, &walk.schedule, shape, SEED, chunk_records);
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
    const struct schedule schedule = schedule_of(1, 0);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (uint32_t towers = 1; towers <= 12; towers += towers < 4 ? 1 : 4)
            for (uint32_t chunk_records = 1; chunk_records <= BATCH + 1; chunk_records++)
                for (uint64_t first = 0; first < schedule_batch_count(&schedule); first += 3)
                    check_run(&shapes[i], towers, chunk_records, first);
}

TESTS_MAIN(NULL, NULL)
