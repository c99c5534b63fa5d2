/* Surveys of a data set: which images and labels they read, what they find, which label offset they propose, and
 * whether they notice an order that leaves records of one class together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "loader/dataset_survey.h"
#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

#define BAD UINT32_MAX          /* no record */
enum { RECORDS = 3000 };

/* ---- images ---- */

/* `count` records, one of which has a byte less than its pixels. */
static struct dataset *open_set(uint32_t count, uint32_t bad)
{
    static uint8_t data[1200 * FIXTURE_FRAME_MAX];
    size_t bytes = 0;
    for (uint32_t id = 0; id < count; id++) {
        uint8_t pixels[FIXTURE_SAMPLE_BYTES];
        memset(pixels, 140 + (int)(id % 100), sizeof(pixels));
        bytes += fixture_example("image_raw", pixels, sizeof(pixels) - (id == bad), "label", 1, data + bytes);
    }
    fixture_write(fixture_path(folder, "set.tfrecord"), data, bytes);
    const struct dataset_options options = fixture_options(fixture_path(folder, "set.tfrecord"));
    return fixture_open(&options);
}

static struct image_survey image_survey_of(uint32_t count, uint32_t bad)
{
    struct image_survey survey;
    struct dataset *const dataset = open_set(count, bad);
    assert_int_equal(image_survey_make(&survey, dataset), 0);
    dataset_close(dataset);
    return survey;
}

TEST_WITH(all_images_of_a_small_set_are_decoded, fixture_folder_make, fixture_folder_remove)
{
    const struct image_survey survey = image_survey_of(100, BAD);
    assert_int_equal(survey.count, 100);
    assert_int_equal(survey.unreadable, 0);
    assert_int_equal(survey.flawed, 0);
    assert_int_equal(survey.flat, 100);         /* each has one number */
    assert_int_equal(survey.flat_id, 0);
    assert_int_equal(survey.lowest, 140);
    assert_int_equal(survey.highest, 239);
    assert_true(survey.mean > 189.49 && survey.mean < 189.51);
}

TEST_WITH(some_hundred_images_of_a_large_set_are_decoded, fixture_folder_make, fixture_folder_remove)
{
    const struct image_survey survey = image_survey_of(1200, BAD);
    assert_int_equal(survey.count, 512);
}

TEST_WITH(an_image_that_cannot_be_decoded_is_named_wherever_it_is, fixture_folder_make, fixture_folder_remove)
{
    for (uint32_t bad = 1; bad < 100; bad += 7) {
        const struct image_survey survey = image_survey_of(100, bad);
        assert_int_equal(survey.count, 99);
        assert_int_equal(survey.unreadable, 1);
        assert_int_equal(survey.bad_id, bad);
        assert_non_null(strstr(survey.problem.text, "has 23 bytes of pixels, the network wants 24"));
    }
}

/* ---- labels ---- */

static struct label_survey label_survey_of(const char *pattern)
{
    struct dataset_options options = fixture_options(pattern);
    struct label_survey survey;
    options.is_any_label_taken = true;
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(label_survey_make(&survey, dataset), 0);
    dataset_close(dataset);
    return survey;
}

TEST_WITH(all_labels_of_a_small_set_are_found_in_order, fixture_folder_make, fixture_folder_remove)
{
    size_t counts[FIXTURE_CLASSES] = { 0 };
    fixture_write_set(folder, 3, 100);
    struct label_survey survey = label_survey_of(folder);
    assert_int_equal(survey.count, 100);
    assert_int_equal(survey.unreadable, 0);
    assert_int_equal(survey.repeats, 0);
    for (size_t i = 0; i < survey.count; i++) {
        assert_true(i == 0 || survey.labels[i - 1] <= survey.labels[i]);
        counts[survey.labels[i]]++;
    }
    for (uint32_t i = 0; i < FIXTURE_CLASSES; i++)
        assert_int_equal(counts[i], 10);
    assert_true(label_survey_fits(&survey, 0, FIXTURE_CLASSES));
    assert_false(label_survey_fits(&survey, 1, FIXTURE_CLASSES));
    assert_false(label_survey_fits(&survey, 0, FIXTURE_CLASSES - 1));
    label_survey_release(&survey);
}

/* A shard of one record, whose payload is that of a fixture record followed by another label. */
TEST_WITH(records_that_say_a_feature_twice_are_counted, fixture_folder_make, fixture_folder_remove)
{
    static const uint8_t label[] = "\x0a\x0f\x0a\x0d\x0a\x05label\x12\x04\x1a\x02\x08\x2a";
    uint8_t payload[FIXTURE_FRAME_MAX + sizeof(label)], frame[sizeof(payload) + TFRECORD_FRAME_BYTES];
    const size_t bytes = fixture_record(0, frame) - TFRECORD_FRAME_BYTES;
    memcpy(payload, frame + TFRECORD_HEADER_BYTES, bytes);
    memcpy(payload + bytes, label, sizeof(label) - 1);
    const size_t frame_bytes = fixture_frame(payload, bytes + sizeof(label) - 1, frame);
    fixture_write(fixture_path(folder, "twice.tfrecord"), frame, frame_bytes);
    struct label_survey survey = label_survey_of(fixture_path(folder, "twice.tfrecord"));
    assert_int_equal(survey.count, 1);
    assert_int_equal(survey.repeats, 1);
    assert_int_equal(survey.labels[0], 42);
    label_survey_release(&survey);
}

static void flip_payload(const struct dataset *dataset, uint64_t id)
{
    const struct dataset_place place = dataset_find(dataset, id);
    const long at = (long)place.offset + TFRECORD_HEADER_BYTES + 3;
    FILE *const file = fopen(dataset->paths[place.shard], "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

TEST_WITH(a_damaged_record_is_counted_and_the_first_one_kept, fixture_folder_make, fixture_folder_remove)
{
    struct label_survey survey;
    fixture_write_set(folder, 3, 100);
    const struct dataset_options options = fixture_options(folder);
    struct dataset *const dataset = fixture_open(&options);
    flip_payload(dataset, 41);
    flip_payload(dataset, 77);
    assert_int_equal(label_survey_make(&survey, dataset), 0);
    assert_int_equal(survey.count, 98);
    assert_int_equal(survey.unreadable, 2);
    assert_int_equal(survey.bad_id, 41);
    assert_true(survey.problem.is_damage);
    assert_non_null(strstr(survey.problem.text, "payload checksum differs"));
    label_survey_release(&survey);
    dataset_close(dataset);
}

TEST(the_offset_nearest_to_0_is_proposed)
{
    static const struct { int64_t lowest, highest, offset; bool is_there; } cases[] = {
        { 0, 9, 0, true }, { 1, 10, -1, true }, { 3, 10, -1, true }, { 101, 110, -101, true }, { -1, 8, 1, true },
        { -5, -2, 5, true }, { 0, 10, 0, false }, { INT64_MIN, INT64_MAX, 0, false },
        { INT64_MIN, INT64_MIN, 0, false },
        /* Larger than an allowed offset. */
        { INT64_MAX, INT64_MAX, 9 - INT64_MAX, false }, { INT64_C(1) << 62, (INT64_C(1) << 62) + 9, 0, false },
        { 1 << 20, 9 + (1 << 20), -(1 << 20), true }, { 4, 7, 0, true },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t labels[2] = { cases[i].lowest, cases[i].highest }, offset = -7;
        const struct label_survey survey = { .labels = labels, .count = 2 };
        assert_int_equal(label_survey_offset(&survey, 10, &offset), cases[i].is_there);
        assert_true(!cases[i].is_there || offset == cases[i].offset);
        assert_true(!cases[i].is_there || label_survey_fits(&survey, cases[i].offset, 10));
    }
    const struct label_survey none = { .count = 0 };
    assert_true(label_survey_fits(&none, 0, 10));
}

/* ---- the order of labels ---- */

static int64_t class_by_class(uint32_t i) { return i * FIXTURE_CLASSES / RECORDS; }
static int64_t in_turns(uint32_t i) { return i % FIXTURE_CLASSES; }
static int64_t one_class(uint32_t i) { return (void)i, 3; }
static int64_t mixed(uint32_t i) { return (int64_t)(random_u64(random_key(1, RANDOM_DRAW, 0), i) % FIXTURE_CLASSES); }
static int64_t mostly_one(uint32_t i) { return mixed(i) < 9 ? 0 : mixed(i); }

static int64_t in_blocks(uint32_t i) { return i / 16; }

static struct dataset *make_set_of(uint32_t records, const char *name, int64_t (*label)(uint32_t i))
{
    uint8_t *const shard = malloc((size_t)records * FIXTURE_FRAME_MAX), pixels[FIXTURE_SAMPLE_BYTES] = { 0 };
    size_t bytes = 0;
    assert_non_null(shard);
    for (uint32_t i = 0; i < records; i++)
        bytes += fixture_example("image_raw", pixels, sizeof(pixels), "label", label(i), shard + bytes);
    fixture_write(fixture_path(folder, name), shard, bytes);
    free(shard);
    const struct dataset_options options = fixture_options(fixture_path(folder, name));
    return fixture_open(&options);
}

static struct dataset *make_set(const char *name, int64_t (*label)(uint32_t i))
{
    return make_set_of(RECORDS, name, label);
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

TEST_WITH(a_set_stored_class_by_class_is_noticed_unless_it_is_mixed, fixture_folder_make, fixture_folder_remove)
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

TEST_WITH(other_sets_are_not_reported, fixture_folder_make, fixture_folder_remove)
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

TEST_WITH(no_pair_of_a_small_set_is_counted_twice, fixture_folder_make, fixture_folder_remove)
{
    for (uint32_t records = 1; records < 140; records += records < 10 ? 1 : 43) {
        char name[32];
        snprintf(name, sizeof(name), "small-%u.tfrecord", records);
        struct dataset *const dataset = make_set_of(records, name, in_blocks);
        const struct label_order look = look_at(dataset, stored);
        assert_int_equal(look.pairs, records / 2 < 64 ? records / 2 : 64);
        assert_sorted(dataset, stored, records >= 64);
        dataset_close(dataset);
    }
}

TEST_WITH(a_single_record_has_no_order, fixture_folder_make, fixture_folder_remove)
{
    fixture_write_shard(fixture_path(folder, "single.tfrecord"), 0, 1);
    const struct dataset_options options = fixture_options(fixture_path(folder, "single.tfrecord"));
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(look_at(dataset, stored).pairs, 0);
    assert_sorted(dataset, stored, false);
    dataset_close(dataset);
}

TESTS_MAIN(NULL, NULL)
