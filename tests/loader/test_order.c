/* The order of records: a bijection that depends on seed and epoch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/order.h"
#include "stage/schedule.h"
#include "tests/helpers/test.h"

static struct order_shape full(uint64_t count)
{
    return (struct order_shape){ .shuffle = SHUFFLE_FULL, .count = count };
}

static struct order_shape blocks(uint64_t count, uint64_t block_records, uint64_t window_blocks)
{
    return (struct order_shape){ .shuffle = SHUFFLE_BLOCK, .count = count, .block_records = block_records,
                                 .window_blocks = window_blocks };
}

/* At the window of its first record. */
static struct order order_of(struct order_shape shape, uint64_t seed, uint32_t epoch)
{
    struct order order;
    order_init(&order, &shape, 0, seed, epoch);
    order_enter(&order, 0);
    return order;
}

static uint64_t record_at(struct order *order, uint64_t position)
{
    if (!order_holds(order, position))
        order_enter(order, position);
    return order_record(order, position);
}

static void assert_bijection(struct order_shape shape, uint64_t seed, uint32_t epoch)
{
    struct order order = order_of(shape, seed, epoch);
    uint8_t *seen = calloc(shape.count, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < shape.count; i++) {
        const uint64_t record = record_at(&order, i);
        assert_true(record < shape.count);
        assert_int_equal(seen[record]++, 0);
    }
    free(seen);
}

TEST(every_record_occurs_once_for_any_count)
{
    for (uint64_t count = 1; count <= 300; count++)
        assert_bijection(full(count), count * 31, (uint32_t)count % 5);
    const uint64_t large[] = { 1023, 1024, 1025, 60000, 65536, 65537, 131073, 1281167 };
    for (size_t i = 0; i < sizeof(large) / sizeof(*large); i++)
        assert_bijection(full(large[i]), 7, 3);
}

TEST(records_of_huge_sets_stay_in_range)
{
    const uint64_t counts[] = { UINT64_C(1) << 32, (UINT64_C(1) << 40) + 1, (UINT64_C(1) << 61) + 12345 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        const struct order order = order_of(full(counts[i]), 1, 1);
        for (uint64_t j = 0; j < 1000; j++)
            assert_true(order_record(&order, counts[i] - 1 - j) < counts[i]);
    }
}

TEST(without_shuffle_the_order_is_the_file_order)
{
    const struct order order = order_of((struct order_shape){ SHUFFLE_NONE, .count = 100 }, 5, 9);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(order_record(&order, i), i);
}

/* Positions whose records are the same in two orders; a random permutation has one on
 * average. */
static uint64_t count_agreements(const struct order *a, const struct order *b)
{
    uint64_t agreements = 0;
    for (uint64_t i = 0; i < a->shape.count; i++)
        agreements += order_record(a, i) == order_record(b, i);
    return agreements;
}

TEST(orders_of_other_epochs_and_seeds_are_unrelated)
{
    const struct order identity = order_of((struct order_shape){ SHUFFLE_NONE, .count = 10000 }, 0, 0);
    const struct order first = order_of(full(10000), 1, 0), again = order_of(full(10000), 1, 0);
    assert_int_equal(count_agreements(&first, &again), 10000);
    for (uint32_t i = 1; i < 20; i++) {
        struct order other = order_of(full(10000), 1, i);
        assert_true(count_agreements(&first, &other) < 12);
        assert_true(count_agreements(&identity, &other) < 12);
        other = order_of(full(10000), 1 + i, 0);
        assert_true(count_agreements(&first, &other) < 12);
    }
}

/* Chi-square of where one position's record falls over many epochs: 15 degrees of
 * freedom, 0.9999 quantile 44.3. */
static void assert_uniform(uint64_t count, uint64_t position)
{
    enum { BINS = 16, EPOCHS = 8000 };
    uint32_t bins[BINS] = { 0 };
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        const struct order order = order_of(full(count), 77, epoch);
        bins[order_record(&order, position) * BINS / count]++;
    }
    double chi_square = 0;
    const double expected = (double)EPOCHS / BINS;
    for (int i = 0; i < BINS; i++)
        chi_square += (bins[i] - expected) * (bins[i] - expected) / expected;
    assert_true(chi_square < 44.3);
}

TEST(a_position_may_hold_any_record)
{
    const uint64_t counts[] = { 16, 48, 160, 60000, 65536 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        assert_uniform(counts[i], 0);
        assert_uniform(counts[i], 1);
        assert_uniform(counts[i], counts[i] - 1);
    }
}

/* Neighbouring positions must not hold neighbouring records more often than chance. */
TEST(neighbours_are_torn_apart)
{
    const struct order order = order_of(full(60000), 3, 0);
    uint32_t neighbours = 0, ascents = 0;
    for (uint64_t i = 0; i + 1 < order.shape.count; i++) {
        const uint64_t a = order_record(&order, i), b = order_record(&order, i + 1);
        neighbours += a + 1 == b || b + 1 == a;
        ascents += a < b;
    }
    assert_true(neighbours < 15);
    assert_in_range(ascents, 29500, 30500);
}

TEST(positions_of_a_permutation_are_found_again)
{
    for (uint64_t count = 1; count < 200; count++) {
        struct permutation permutation;
        permutation_init(&permutation, count, random_key(count, RANDOM_ORDER, 1), count % 7);
        for (uint64_t i = 0; i < count; i++)
            assert_int_equal(permutation_position(&permutation, permutation_value(&permutation, i)), i);
    }
}

/* The orders that runs have had so far stay as they are. */
TEST(the_full_order_is_the_one_it_always_was)
{
    static const uint64_t expected[] = { 48235, 53197, 49409, 9030, 42395, 48323 };
    const struct order order = order_of(full(60000), 1, 0);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        assert_int_equal(order_record(&order, i), expected[i]);
}

TEST(the_block_order_is_the_one_it_always_was)
{
    static const uint64_t expected[] = { 46223, 26862, 46741, 47200, 55512, 49159, 41109 };
    struct order order = order_of(blocks(60000, 100, 7), 1, 2);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        assert_int_equal(record_at(&order, 9001 * i), expected[i]);
}

TEST(every_record_occurs_once_for_any_blocks)
{
    static const uint64_t sizes[] = { 1, 2, 3, 7, 50, 1000 };
    for (uint64_t count = 1; count <= 120; count += count < 20 ? 1 : 13)
        for (size_t i = 0; i < 36; i++)
            assert_bijection(blocks(count, sizes[i % 6], sizes[i / 6]), count, (uint32_t)i);
    assert_bijection(blocks(100003, 64, 5), 1, 0);
    assert_bijection(blocks(65536, 4096, 16), 1, 0);
}

/* The blocks an order lists for a window are what its positions give, each block in one window only. */
static void assert_windows(struct order_shape shape)
{
    struct order order = order_of(shape, 3, 2);
    uint8_t *const seen = calloc(order_shape_blocks(&shape), 1);
    assert_non_null(seen);
    for (uint64_t first = 0; first < shape.count; first += order.window.count) {
        order_enter(&order, first);
        assert_int_equal(order.window.first, first);
        uint64_t offset = 0;
        for (uint64_t i = 0; i < order_window_blocks(&order); i++) {
            const struct order_block block = order_block(&order, i);
            assert_int_equal(block.offset, offset);
            assert_int_equal(block.first_record % shape.block_records, 0);
            assert_int_equal(seen[block.first_record / shape.block_records]++, 0);
            for (uint64_t j = 0; j < block.count; j++) {
                assert_int_equal(order_record_at(&order, offset + j), block.first_record + j);
                assert_int_equal(order_block_with(&order, offset + j), i);
            }
            offset += block.count;
        }
        assert_int_equal(offset, order.window.count);
    }
    for (uint64_t i = 0; i < order_shape_blocks(&shape); i++)
        assert_int_equal(seen[i], 1);
    free(seen);
}

TEST(a_window_is_made_of_whole_blocks)
{
    for (uint64_t count = 1; count < 90; count += 4)
        for (uint64_t records = 1; records < 12; records += 2)
            for (uint64_t window = 1; window < 9; window += 3)
                assert_windows(blocks(count, records, window));
}

/* The shorter block is in the first window of some epochs only, and orders of epochs differ within windows and
 * between them. */
TEST(blocks_move_from_epoch_to_epoch)
{
    uint32_t early = 0, same = 0;
    struct order before = order_of(blocks(1005, 10, 5), 1, 0);
    for (uint32_t epoch = 1; epoch <= 400; epoch++) {
        struct order order = order_of(blocks(1005, 10, 5), 1, epoch);
        early += order.window.count < 50;
        for (uint64_t i = 0; i < 50; i++)
            same += record_at(&order, i) == record_at(&before, i);
        before = order;
    }
    assert_in_range(early, 5, 60);
    assert_in_range(same, 1, 60);
}

/* ---- lanes ---- */

static struct order_shape laned(uint64_t count, uint64_t block_records, uint64_t window_blocks, uint32_t lanes,
                                uint32_t batch)
{
    struct order_shape shape = blocks(count, block_records, window_blocks);
    shape.lanes.count = lanes;
    shape.lanes.batch = batch;
    return shape;
}

/* Write the lane of each record to owners: every record occurs once, in the part of a batch that its lane has. */
static void find_owners(const struct order_shape *shape, uint32_t epoch, uint8_t *owners)
{
    const uint32_t batch = shape->lanes.batch, lanes = order_lanes(shape);
    memset(owners, UINT8_MAX, shape->count);
    for (uint64_t position = 0; position < shape->count; position++) {
        const uint64_t first = position / batch * batch;
        const uint32_t samples = (uint32_t)(shape->count - first < batch ? shape->count - first : batch);
        const struct order_place found = order_place_find(shape, position);
        const struct batch_part part = batch_part_find(samples, shape->lanes.pairs, lanes, found.lane);
        assert_true(position - first - part.first < part.count);
        assert_int_equal(found.left, first + part.first + part.count - position);
        assert_true(found.place < order_lane_records(shape, found.lane));
        const uint64_t record = order_find(shape, 3, epoch, position);
        assert_true(record < shape->count);
        assert_int_equal(owners[record], UINT8_MAX);
        owners[record] = (uint8_t)found.lane;
    }
}

static void assert_lanes(const struct order_shape *shape)
{
    uint8_t *const owners = malloc(2 * shape->count);
    assert_non_null(owners);
    find_owners(shape, 0, owners);
    for (uint32_t epoch = 1; epoch < 4; epoch++) {
        find_owners(shape, epoch, owners + shape->count);
        assert_memory_equal(owners, owners + shape->count, shape->count);
    }
    uint64_t sum = 0;
    for (uint32_t lane = 0; lane < order_lanes(shape); lane++)
        sum += order_lane_records(shape, lane);
    assert_int_equal(sum, shape->count);
    free(owners);
}

TEST(every_record_occurs_once_an_epoch_and_stays_in_its_lane)
{
    static const uint64_t counts[] = { 12, 13, 29, 60, 97, 256 };
    static const uint32_t lanes[] = { 2, 3, 4, 5, 7, 8, 12 }, batches[] = { 1, 5, 8, 12, 16, 31, 300 };
    for (size_t i = 0; i < 6 * 7 * 7 * 4; i++) {
        struct order_shape shape = laned(counts[i % 6], 1 + i / 294 * 3, 1 + i % 3, lanes[i / 6 % 7],
                                         batches[i / 42 % 7]);
        assert_lanes(&shape);
        shape.lanes.pairs = true;
        assert_lanes(&shape);
    }
    const struct order_shape larger = laned(20011, 37, 4, 8, 96);
    assert_lanes(&larger);
}

/* Lane `lane` by its blocks: those of the windows of an epoch are those of the lane in any epoch, without the records
 * that another lane has of the first and the last one. */
static uint64_t read_lane(const struct order_shape *shape, uint32_t lane, uint32_t epoch, uint8_t *seen)
{
    struct order order;
    uint64_t read = 0, offset = 0;
    order_init(&order, shape, lane, 3, epoch);
    for (uint64_t first = 0; first < order.count; first += order.window.count) {
        order_enter(&order, first);
        assert_int_equal(order.window.first, first);
        offset = 0;
        for (uint64_t i = 0; i < order_window_blocks(&order); i++) {
            const struct order_block block = order_block(&order, i);
            assert_int_equal(block.offset, offset);
            for (uint64_t j = 0; j < block.count; j++) {
                assert_int_equal(order_record_at(&order, offset + j), block.first_record + j);
                assert_int_equal(order_block_with(&order, offset + j), i);
                seen[block.first_record + j]++;
            }
            offset += block.count;
            read += block.count;
        }
        assert_int_equal(offset, order.window.count);
    }
    return read;
}

/* Windows of as many blocks as the largest lane has make no other order than larger ones. */
TEST(no_lane_has_more_blocks_than_are_found_for_all)
{
    for (uint32_t lanes = 1; lanes <= 8; lanes++)
        for (uint64_t block_records = 1; block_records < 70; block_records += 4) {
            struct order_shape shape = laned(257, block_records, 1, lanes, 24);
            const uint64_t most = order_lane_blocks_max(&shape, 3);
            uint64_t seen = 0;
            for (uint32_t lane = 0; lane < lanes; lane++) {
                struct order order;
                order_init(&order, &shape, lane, 3, 1);
                assert_true(order.block_count <= most);
                seen = order.block_count > seen ? order.block_count : seen;
            }
            assert_int_equal(seen, most);
            assert_true(lanes > 1 || most == order_shape_blocks(&shape));
            struct order_shape larger = shape;
            shape.window_blocks = most;
            larger.window_blocks = most + 100;
            for (uint64_t position = 0; position < shape.count; position += 5)
                assert_int_equal(order_find(&shape, 3, 1, position), order_find(&larger, 3, 1, position));
        }
}

TEST(the_windows_of_all_lanes_read_each_record_once)
{
    for (uint32_t lanes = 2; lanes <= 8; lanes++)
        for (uint64_t block_records = 1; block_records < 70; block_records += 4) {
            const struct order_shape shape = laned(1003, block_records, 2, lanes, 24);
            uint8_t seen[1003] = { 0 };
            for (uint32_t epoch = 0; epoch < 3; epoch++)
                for (uint32_t lane = 0; lane < lanes; lane++)
                    assert_int_equal(read_lane(&shape, lane, epoch, seen), order_lane_records(&shape, lane));
            for (uint64_t i = 0; i < shape.count; i++)
                assert_int_equal(seen[i], 3);
        }
}

TEST(the_blocks_of_a_lane_do_not_depend_on_the_epoch)
{
    const struct order_shape shape = laned(1003, 10, 3, 4, 24);
    for (uint32_t lane = 0; lane < 4; lane++) {
        struct order first, later;
        uint64_t records = 0;
        order_init(&first, &shape, lane, 3, 0);
        order_init(&later, &shape, lane, 3, 7);
        assert_int_equal(first.block_count, later.block_count);
        for (uint64_t i = 0; i < first.block_count; i++) {
            const struct order_block block = order_lane_block(&first, i), again = order_lane_block(&later, i);
            assert_int_equal(block.first_record, again.first_record);
            assert_int_equal(block.count, again.count);
            records += block.count;
        }
        assert_int_equal(records, first.count);
    }
}

/* ImageNet's records in 64 lanes of blocks of 36. */
TEST(lanes_of_a_large_set_are_of_equal_size)
{
    const struct order_shape shape = laned(1281167, 36, 8, 64, 256);
    uint64_t blocks = 0;
    for (uint32_t lane = 0; lane < 64; lane++) {
        struct order order;
        order_init(&order, &shape, lane, 1, 0);
        assert_in_range(order.count, 20016, 20020);
        blocks += order.block_count;
    }
    assert_in_range(blocks, order_shape_blocks(&shape), order_shape_blocks(&shape) + 63);
}

TEST(lanes_differ_between_seeds_and_epochs)
{
    const struct order_shape shape = laned(6000, 10, 4, 4, 32);
    uint32_t same_epoch = 0, same_seed = 0;
    for (uint64_t position = 0; position < shape.count; position++) {
        const uint64_t record = order_find(&shape, 1, 0, position);
        same_epoch += record == order_find(&shape, 1, 1, position);
        same_seed += record == order_find(&shape, 2, 0, position);
    }
    assert_true(same_epoch < 20);       /* a record is one of 1,500 */
    assert_true(same_seed < 12);
}

static void assert_about(double value, double expected, double tolerance)
{
    if (value < expected - tolerance || value > expected + tolerance)
        fail_msg("%f is not %f", value, expected);
}

TEST(mixing_is_measured)
{
    assert_about(order_mixing(&(struct order_shape){ SHUFFLE_NONE, .count = 100000 }, 1), 0, 0.001);
    const struct order_shape whole = full(100000);
    assert_about(order_mixing(&whole, 1), 1, 0.05);
    for (uint64_t window = 1; window <= 32; window *= 2) {
        const struct order_shape shape = blocks(1000000, 100, window);
        assert_about(order_mixing(&shape, 5), 1 - 1 / (double)window, 0.05);
    }
    /* A batch of 64 samples of 8 lanes has 8 of each, from windows of one block. */
    const struct order_shape lanes = laned(1000000, 100, 1, 8, 64);
    assert_about(order_mixing(&lanes, 5), 1 - 7 / 63., 0.05);
    const struct order_shape one = full(1), two = full(2);
    assert_about(order_mixing(&one, 1), 1, 0);
    assert_about(order_mixing(&two, 1), 1, 0);
}

/* ---- balanced orders ---- */

enum { LABELS = 1000 };

/* Class 0 has most records, 1 and 3 few, 2 none, 4 a single one; some records have no class. */
static void uneven_labels(int32_t labels[LABELS])
{
    for (int i = 0; i < LABELS; i++)
        labels[i] = i == 77 ? 4 : i % 50 == 3 ? -1 : i % 10 == 5 ? 1 : i % 33 == 0 ? 3 : 0;
}

TEST(classes_hold_the_records_with_their_label)
{
    int32_t labels[LABELS];
    struct order_classes classes;
    uneven_labels(labels);
    assert_int_equal(order_classes_make(&classes, labels, LABELS), 0);
    assert_int_equal(classes.count, 4);
    static const int32_t wanted[] = { 0, 1, 3, 4 };
    uint64_t seen = 0;
    for (uint32_t k = 0; k < 4; k++)
        for (uint64_t i = classes.firsts[k]; i < classes.firsts[k + 1]; i++, seen++) {
            assert_int_equal(labels[classes.records[i]], wanted[k]);
            assert_true(i == classes.firsts[k] || classes.records[i] > classes.records[i - 1]);
        }
    uint64_t labelled = 0;
    for (int i = 0; i < LABELS; i++)
        labelled += labels[i] >= 0;
    assert_int_equal(seen, labelled);
    order_classes_release(&classes);
    static const int32_t none[] = { -1, -1 };
    assert_int_equal(order_classes_make(&classes, none, 2), -ENODATA);
}

/* How often each record occurs in an epoch. */
static void count_records(const struct order_classes *classes, uint64_t count, uint32_t epoch, uint32_t times[LABELS])
{
    struct order order = order_of((struct order_shape){ .shuffle = SHUFFLE_FULL, .count = count, .classes = classes }, 9,
                                  epoch);
    memset(times, 0, LABELS * sizeof(*times));
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t record = record_at(&order, i);
        assert_true(record < LABELS);
        times[record]++;
    }
}

TEST(in_a_balanced_order_classes_occur_equally_often)
{
    static const uint64_t counts[] = { LABELS, 999, 501, 7, 3, 1 };
    int32_t labels[LABELS];
    uint32_t times[LABELS];
    struct order_classes classes;
    uneven_labels(labels);
    assert_int_equal(order_classes_make(&classes, labels, LABELS), 0);
    for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
        count_records(&classes, counts[n], 2, times);
        for (uint32_t k = 0; k < classes.count; k++) {
            uint64_t sum = 0;
            uint32_t least = UINT32_MAX, most = 0;
            for (uint64_t i = classes.firsts[k]; i < classes.firsts[k + 1]; i++) {
                const uint32_t own = times[classes.records[i]];
                sum += own;
                least = own < least ? own : least;
                most = own > most ? own : most;
            }
            assert_true(sum == counts[n] / 4 || sum == counts[n] / 4 + (counts[n] % 4 != 0));
            assert_true(most - least <= 1);
        }
    }
    order_classes_release(&classes);
}

TEST(epochs_of_a_balanced_order_use_other_records)
{
    int32_t labels[LABELS];
    uint32_t times[2][LABELS];
    struct order_classes classes;
    uint32_t differing = 0;
    uneven_labels(labels);
    assert_int_equal(order_classes_make(&classes, labels, LABELS), 0);
    for (uint32_t epoch = 0; epoch < 2; epoch++)
        count_records(&classes, LABELS, epoch, times[epoch]);
    for (int i = 0; i < LABELS; i++)
        differing += times[0][i] != times[1][i];
    assert_true(differing > LABELS / 4);
    order_classes_release(&classes);
}

TESTS_MAIN(NULL, NULL)
