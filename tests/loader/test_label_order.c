/* Orders that leave records of one class together are noticed, and no others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset_survey.h"
#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { RECORDS = 3000 };

static int64_t class_by_class(uint32_t i) { return i * FIXTURE_CLASSES / RECORDS; }
static int64_t in_turns(uint32_t i) { return i % FIXTURE_CLASSES; }
static int64_t one_class(uint32_t i) { return (void)i, 3; }
static int64_t mixed(uint32_t i) { return (int64_t)(random_u64(random_key(1, RANDOM_DRAW, 0), i) % FIXTURE_CLASSES); }
static int64_t mostly_one(uint32_t i) { return mixed(i) < 9 ? 0 : mixed(i); }

static struct dataset *make_set(const char *name, int64_t (*label)(uint32_t i))
{
    uint8_t *const shard = malloc((size_t)RECORDS * FIXTURE_FRAME_MAX), pixels[FIXTURE_SAMPLE_BYTES] = { 0 };
    size_t bytes = 0;
    assert_non_null(shard);
    for (uint32_t i = 0; i < RECORDS; i++)
        bytes += fixture_example("image_raw", pixels, sizeof(pixels), "label", label(i), shard + bytes);
    fixture_write(fixture_path(folder, name), shard, bytes);
    free(shard);
    const struct dataset_options options = fixture_options(fixture_path(folder, name));
    return fixture_open(&options);
}

static struct label_order look_at(const struct dataset *dataset, struct order_shape shape)
{
    struct label_order look;
    shape.count = dataset->record_count;
    assert_int_equal(label_order_look(&look, dataset, &shape, 1), 0);
    return look;
}

static void assert_sorted(const struct dataset *dataset, struct order_shape shape, bool expected)
{
    const struct label_order look = look_at(dataset, shape);
    if (label_order_is_sorted(&look) != expected)
        fail_msg("%u of %u equal, %f expected", look.equal, look.pairs, look.expected);
}

static const struct order_shape stored = { .shuffle = SHUFFLE_NONE }, full = { .shuffle = SHUFFLE_FULL };

static struct order_shape blocks(uint64_t window)
{
    return (struct order_shape){ .shuffle = SHUFFLE_BLOCK, .block_records = 50, .window_blocks = window };
}

TEST(a_set_stored_class_by_class_is_noticed_unless_it_is_mixed)
{
    struct dataset *const dataset = make_set("sorted.tfrecord", class_by_class);
    assert_int_equal(look_at(dataset, stored).pairs, 64);
    assert_sorted(dataset, stored, true);
    assert_sorted(dataset, blocks(1), true);
    assert_sorted(dataset, blocks(2), true);
    assert_sorted(dataset, blocks(30), false);
    assert_sorted(dataset, full, false);
    dataset_close(dataset);
}

TEST(other_sets_are_left_in_peace)
{
    static const struct { const char *name; int64_t (*label)(uint32_t i); } sets[] = {
        { "turns.tfrecord", in_turns },
        { "one.tfrecord", one_class },
        { "mixed.tfrecord", mixed },
        { "mostly.tfrecord", mostly_one },
    };
    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        struct dataset *const dataset = make_set(sets[i].name, sets[i].label);
        assert_sorted(dataset, stored, false);
        assert_sorted(dataset, blocks(1), false);
        const struct label_order look = look_at(dataset, stored);
        assert_int_equal(look.is_one_label, sets[i].label == one_class);
        assert_true(!look.is_one_label || look.label == 3);
        dataset_close(dataset);
    }
}

TEST(a_single_record_has_no_order)
{
    fixture_write_shard(fixture_path(folder, "single.tfrecord"), 0, 1);
    const struct dataset_options options = fixture_options(fixture_path(folder, "single.tfrecord"));
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(look_at(dataset, stored).pairs, 0);
    assert_sorted(dataset, stored, false);
    dataset_close(dataset);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
