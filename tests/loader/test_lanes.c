/* Lanes: processes that share a run load together what one process does, each from records of its own that stay the
 * same in every epoch, and read the set once between them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "loader/loader.h"
#include "loader/window_store.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { SMALL_RECORDS = 101, LARGE_RECORDS = 6000, EPOCHS = 3 };

static struct dataset *small, *large;

static int make_sets(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    small = fixture_open_set("small", 3, SMALL_RECORDS);
    large = fixture_open_set("large", 4, LARGE_RECORDS);
    return 0;
}

static int remove_sets(void **state)
{
    dataset_close(small);
    dataset_close(large);
    return fixture_folder_remove(state);
}

/* The harness of a process: `rank` of `ranks`, with `towers` towers each. */
static struct harness make_harness(const struct dataset *set, uint32_t batch, uint32_t lanes, uint32_t ranks,
                                   uint32_t towers, uint32_t rank)
{
    return (struct harness){
        .spec = { .datasets = { set, NULL }, .shuffle = SHUFFLE_BLOCK, .seed = 11, .read_threads = 2,
                  .decode_threads = 2, .block_bytes = 400, .window_bytes = 6000, .keep_bytes = LOADER_KEEP_NONE },
        .schedule = { .batch = batch, .towers = ranks * towers, .epochs = EPOCHS, .lanes = lanes,
                      .here = { rank * towers, towers } },
        .depth = 2,
    };
}

/* Compare what a process has delivered with the same places of a run of one process. Returns their number. */
static uint64_t compare(const struct harness *harness, const struct harness *reference)
{
    uint64_t count = 0;
    assert_int_equal(harness->batch_count, reference->batch_count);
    for (uint64_t i = 0; i < harness->batch_count * harness->schedule.batch; i++) {
        const struct delivery *const delivery = &harness->deliveries[i];
        if (delivery->times == 0)
            continue;
        assert_int_equal(delivery->times, 1);
        assert_int_equal(delivery->id, reference->deliveries[i].id);
        assert_true(delivery->pixels_hash == reference->deliveries[i].pixels_hash);
        count++;
    }
    return count;
}

struct sharing { uint32_t ranks, towers; };

static void load_shared(const struct harness *reference, uint32_t lanes, struct sharing sharing, uint64_t first,
                        size_t keep_bytes)
{
    const uint32_t batch = reference->schedule.batch;
    uint64_t delivered = 0, expected = 0;
    for (uint32_t rank = 0; rank < sharing.ranks; rank++) {
        struct harness harness = make_harness(small, batch, lanes, sharing.ranks, sharing.towers, rank);
        harness.schedule.first = first;
        harness.schedule.drop_last = reference->schedule.drop_last;
        harness.schedule.pairs = reference->schedule.pairs;
        harness.spec.keep_bytes = keep_bytes;
        harness.spec.chunk_records = first % 3 == 1 ? 2 : 0;
        harness_run(&harness);
        assert_string_equal(harness.message, "");
        delivered += compare(&harness, reference);
        harness_release(&harness);
    }
    for (uint64_t i = first * batch; i < reference->batch_count * batch; i++)
        expected += reference->deliveries[i].times;
    assert_int_equal(delivered, expected);
}

TEST(ranks_load_what_one_process_does_from_any_batch_on)
{
    static const struct sharing sharings[] = { { 1, 1 }, { 1, 3 }, { 2, 1 }, { 2, 2 }, { 4, 1 }, { 4, 2 }, { 8, 1 } };
    static const uint32_t batches[] = { 24, 13, 7 };
    for (uint32_t kind = 0; kind < 6; kind++) {
        struct harness reference = make_harness(small, batches[kind % 3], 8, 1, 1, 0);
        reference.schedule.drop_last = kind == 3;
        reference.schedule.pairs = kind >= 4;
        harness_run(&reference);
        assert_string_equal(reference.message, "");
        if (!reference.schedule.drop_last)
            harness_assert_complete(&reference);
        for (size_t i = 0; i < sizeof(sharings) / sizeof(sharings[0]); i++)
            for (uint64_t first = 0; first < reference.batch_count; first += 1 + reference.batch_count / 4)
                load_shared(&reference, 8, sharings[i], first, i % 2 == 0 ? LOADER_KEEP_NONE : LOADER_KEEP_ALL);
        harness_release(&reference);
    }
}

/* Another number of lanes is another order. */
TEST(the_number_of_lanes_decides_the_order)
{
    struct harness one = make_harness(small, 24, 1, 1, 1, 0), none = make_harness(small, 24, 0, 1, 1, 0);
    struct harness two = make_harness(small, 24, 2, 1, 1, 0);
    uint64_t same = 0;
    harness_run(&one);
    harness_run(&none);
    harness_run(&two);
    harness_assert_complete(&two);
    harness_assert_same(&one, &none);
    for (uint64_t i = 0; i < one.batch_count * 24; i++)
        same += one.deliveries[i].id == two.deliveries[i].id;
    assert_true(same < SMALL_RECORDS);
    harness_release(&one);
    harness_release(&none);
    harness_release(&two);
}

/* The rank of each record in `epoch`, noted once. */
static void note_ranks(const struct harness *harness, uint32_t epoch, uint8_t rank, uint8_t *ranks_of)
{
    const uint64_t steps = schedule_steps_per_epoch(&harness->schedule), batch = harness->schedule.batch;
    for (uint64_t i = epoch * steps * batch; i < (epoch + 1) * steps * batch; i++)
        if (harness->deliveries[i].times > 0)
            ranks_of[harness->deliveries[i].id] = rank;
}

static uint64_t set_bytes(const struct dataset *dataset)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        bytes += dataset->indexes[i].bytes;
    return bytes;
}

/* Load as `ranks` processes; returns the bytes read by all. */
static uint64_t load_large(uint32_t lanes, uint32_t ranks)
{
    uint8_t ranks_of[EPOCHS][LARGE_RECORDS];
    uint64_t bytes = 0;
    memset(ranks_of, UINT8_MAX, sizeof(ranks_of));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct harness harness = make_harness(large, 96, lanes, ranks, 1, rank);
        harness_run(&harness);
        assert_string_equal(harness.message, "");
        bytes += harness.counts.bytes;
        assert_int_equal(loader_kept_file_bytes(&harness.spec), 0);
        if (lanes > 1)
            assert_true(loader_epoch_bytes(&harness.spec) <= set_bytes(large) / ranks);
        for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
            note_ranks(&harness, epoch, (uint8_t)rank, ranks_of[epoch]);
        harness_release(&harness);
    }
    for (uint32_t epoch = 1; lanes > 1 && epoch < EPOCHS; epoch++)
        assert_memory_equal(ranks_of[epoch], ranks_of[0], LARGE_RECORDS);
    for (uint32_t i = 0; i < LARGE_RECORDS; i++)
        assert_true(ranks_of[0][i] < ranks);
    return bytes;
}

TEST(ranks_read_the_set_once_between_them_and_a_rank_the_same_records_in_every_epoch)
{
    struct harness harness = make_harness(large, 96, 8, 1, 1, 0);
    harness.schedule.records[PHASE_TRAIN] = LARGE_RECORDS;
    harness.spec.schedule = &harness.schedule;
    const struct order_shape shape = loader_order(&harness.spec);
    assert_true(order_shape_blocks(&shape) >= 200 * 8);
    const uint64_t once = EPOCHS * set_bytes(large);
    for (uint32_t ranks = 1; ranks <= 8; ranks *= 2)
        assert_in_range(load_large(8, ranks), once, once + once / 100);
    assert_true(load_large(1, 4) > 2 * once);   /* without lanes every rank reads almost all */
}

/* Of a set that is kept in memory, a rank keeps and reads the parts with its records. One reader: of two, one reads a record
 * by itself while the other reads the piece that contains it. */
TEST(a_rank_keeps_only_the_parts_of_shards_with_records_of_its_lanes)
{
    struct dataset *const set = fixture_open_set("kept", 3, 40000);
    struct harness reference = make_harness(set, 512, 4, 1, 1, 0);
    uint64_t bytes = 0;
    reference.spec.block_bytes = 1 << 20;
    reference.spec.read_threads = 1;
    reference.spec.keep_bytes = LOADER_KEEP_ALL;
    harness_run(&reference);
    harness_assert_complete(&reference);
    assert_int_equal(reference.counts.bytes, set_bytes(set));
    assert_int_equal(reference.counts.bytes, loader_kept_file_bytes(&reference.spec));
    const size_t all = loader_memory(&reference.spec).kept_bytes;
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct harness harness = make_harness(set, 512, 4, 4, 1, rank);
        harness.spec.block_bytes = 1 << 20;
        harness.spec.read_threads = 1;
        harness.spec.keep_bytes = LOADER_KEEP_ALL;
        harness_run(&harness);
        assert_string_equal(harness.message, "");
        assert_true(compare(&harness, &reference) > 0);
        bytes += harness.counts.bytes;
        assert_int_equal(harness.counts.bytes, loader_kept_file_bytes(&harness.spec));
        assert_true(harness.counts.bytes < set_bytes(set) * 2 / 3);
        assert_true(loader_memory(&harness.spec).kept_bytes < all);
        harness_release(&harness);
    }
    assert_in_range(bytes, set_bytes(set), 2 * set_bytes(set));        /* in pieces of 256 KiB of blocks of 1 MiB */
    harness_release(&reference);
    dataset_close(set);
}

/* The memory of windows is divided by the ranks, too, and the windows do not depend on them. */
TEST(windows_depend_on_the_lanes_and_their_memory_on_the_ranks)
{
    size_t bytes[9] = { 0 };
    struct order_shape shapes[9];
    for (uint32_t ranks = 1; ranks <= 8; ranks *= 2) {
        struct harness harness = make_harness(large, 96, 8, ranks, 1, 0);
        harness.schedule.records[PHASE_TRAIN] = LARGE_RECORDS;
        harness.spec.schedule = &harness.schedule;
        shapes[ranks] = loader_order(&harness.spec);
        bytes[ranks] = window_store_bytes(large, &shapes[ranks], schedule_lanes(&harness.schedule).count);
        assert_int_equal(shapes[ranks].block_records, shapes[1].block_records);
        assert_int_equal(shapes[ranks].window_blocks, shapes[1].window_blocks);
        assert_int_equal(bytes[ranks] * ranks, bytes[1]);
    }
    assert_true(shapes[1].window_blocks > 1);
}

/* With room for the whole set, a window has the blocks of a lane. */
TEST(windows_are_no_larger_than_lanes)
{
    struct harness harness = make_harness(large, 96, 8, 8, 1, 0);
    harness.schedule.records[PHASE_TRAIN] = LARGE_RECORDS;
    harness.spec.schedule = &harness.schedule;
    harness.spec.window_bytes = SIZE_MAX;
    const struct order_shape shape = loader_order(&harness.spec);
    assert_in_range(shape.window_blocks, order_shape_blocks(&shape) / 8, order_shape_blocks(&shape) / 8 + 2);
}

TESTS_MAIN(make_sets, remove_sets)
