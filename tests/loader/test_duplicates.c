/* Records of a validation set that are in the training set, too. */
#include <string.h>

#include "loader/duplicates.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

#define READ_ALL UINT64_MAX

/* A set of one shard with these records of the fixture; `moved` puts the label under another name, which makes other
 * records of the same images. */
static struct dataset *open_records(const char *name, const uint64_t *ids, size_t count, bool moved)
{
    uint8_t data[32 * FIXTURE_FRAME_MAX];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t pixels[FIXTURE_SAMPLE_BYTES];
        fixture_pixels(ids[i], pixels);
        bytes += fixture_example("image_raw", pixels, sizeof(pixels), moved ? "image/class/label" : "label", 1,
                                 data + bytes);
    }
    fixture_write(fixture_path(folder, name), data, bytes);
    const struct dataset_options options = fixture_options(fixture_path(folder, name));
    return fixture_open(&options);
}

static const uint64_t train_ids[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static struct duplicates find(const uint64_t *ids, size_t count, bool moved, uint64_t read_max)
{
    struct duplicates found;
    struct dataset *const train = open_records("train.tfrecord", train_ids, 8, false);
    struct dataset *const validation = open_records("val.tfrecord", ids, count, moved);
    assert_int_equal(duplicates_find(&found, validation, train, read_max), 0);
    dataset_close(train);
    dataset_close(validation);
    return found;
}

TEST_WITH(records_of_both_sets_are_counted_once, fixture_folder_make, fixture_folder_remove)
{
    static const struct { uint64_t ids[6]; size_t count, copies, first, other; } cases[] = {
        { { 20, 21, 22 }, 3, 0, 0, 0 },          { { 20, 3, 22, 5 }, 4, 2, 1, 2 },
        { { 8, 8, 8 }, 3, 3, 0, 7 },             { { 1, 2, 3, 4, 5, 6 }, 6, 6, 0, 0 },
        { { 30, 31, 32, 33, 34, 7 }, 6, 1, 5, 6 },
    };
    static const uint64_t limits[] = { READ_ALL, 0 };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t k = 0; k < 2; k++) {
            const struct duplicates found = find(cases[i].ids, cases[i].count, false, limits[k]);
            assert_int_equal(found.are_images, k == 0);
            assert_int_equal(found.looked_at, cases[i].count);
            assert_int_equal(found.among, 8);
            assert_int_equal(found.count, cases[i].copies);
            assert_int_equal(found.first, cases[i].first);
            assert_int_equal(found.other, cases[i].other);
        }
}

TEST_WITH(a_record_that_the_other_set_has_twice_is_counted_once, fixture_folder_make, fixture_folder_remove)
{
    static const uint64_t once[] = { 1, 9 }, twice[] = { 2, 1, 1 };
    for (size_t k = 0; k < 2; k++) {
        struct duplicates found;
        struct dataset *const train = open_records("twice.tfrecord", twice, 3, false);
        struct dataset *const validation = open_records("once.tfrecord", once, 2, false);
        assert_int_equal(duplicates_find(&found, validation, train, k == 0 ? READ_ALL : 0), 0);
        assert_int_equal(found.count, 1);
        assert_true(found.first == 0 && found.other == 1);
        dataset_close(train);
        dataset_close(validation);
    }
}

TEST_WITH(images_of_small_sets_are_found_in_other_records, fixture_folder_make, fixture_folder_remove)
{
    static const uint64_t ids[] = { 20, 3, 5 };
    assert_int_equal(find(ids, 3, true, READ_ALL).count, 2);
    assert_int_equal(find(ids, 3, true, 0).count, 0);
}

TEST_WITH(images_with_two_labels_are_found, fixture_folder_make, fixture_folder_remove)
{
    static const struct { uint64_t ids[6]; int labels[6]; uint64_t count, first, other; } cases[] = {
        { { 1, 2, 3, 4, 5, 6 }, { 0, 1, 0, 1, 0, 1 }, 0, 0, 0 },
        { { 1, 2, 1, 4, 2, 6 }, { 3, 1, 3, 1, 1, 1 }, 0, 0, 0 },        /* copies with the same label */
        { { 1, 2, 3, 2, 5, 1 }, { 3, 1, 0, 2, 0, 3 }, 1, 3, 1 },
        { { 7, 7, 7, 8, 7, 8 }, { 1, 2, 1, 4, 3, 5 }, 3, 1, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t data[8 * FIXTURE_FRAME_MAX], pixels[FIXTURE_SAMPLE_BYTES];
        size_t bytes = 0;
        for (size_t k = 0; k < 6; k++) {
            fixture_pixels(cases[i].ids[k], pixels);
            bytes += fixture_example("image_raw", pixels, sizeof(pixels), "label", cases[i].labels[k], data + bytes);
        }
        fixture_write(fixture_path(folder, "set.tfrecord"), data, bytes);
        const struct dataset_options options = fixture_options(fixture_path(folder, "set.tfrecord"));
        struct dataset *const set = fixture_open(&options);
        struct label_conflicts found;
        assert_int_equal(label_conflicts_find(&found, set, READ_ALL), 0);
        assert_int_equal(found.looked_at, 6);
        assert_int_equal(found.count, cases[i].count);
        assert_true(found.first == cases[i].first && found.other == cases[i].other);
        if (found.count > 0) {
            assert_int_equal(found.first_label, cases[i].labels[found.first]);
            assert_int_equal(found.other_label, cases[i].labels[found.other]);
        }
        assert_int_equal(label_conflicts_find(&found, set, 0), 0);
        assert_int_equal(found.looked_at, 0);
        dataset_close(set);
    }
}

/* A set of one shard with records of these images and labels. */
static struct dataset *open_labelled(const char *name, const uint64_t *ids, const int *labels, size_t count)
{
    uint8_t data[8 * FIXTURE_FRAME_MAX], pixels[FIXTURE_SAMPLE_BYTES];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        fixture_pixels(ids[i], pixels);
        bytes += fixture_example("image_raw", pixels, sizeof(pixels), "label", labels[i], data + bytes);
    }
    fixture_write(fixture_path(folder, name), data, bytes);
    const struct dataset_options options = fixture_options(fixture_path(folder, name));
    return fixture_open(&options);
}

TEST_WITH(images_of_both_sets_with_two_labels_are_counted, fixture_folder_make, fixture_folder_remove)
{
    static const uint64_t train_images[] = { 1, 2, 3, 4 }, images[] = { 9, 2, 4, 4 };
    static const struct { int labels[4]; uint64_t count, first, other; } cases[] = {
        { { 0, 1, 3, 3 }, 0, 0, 0 },
        { { 0, 1, 3, 2 }, 1, 3, 3 },
        { { 5, 7, 2, 2 }, 3, 1, 1 },
    };
    static const int train_labels[] = { 0, 1, 2, 3 };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct duplicates found;
        struct dataset *const train = open_labelled("train.tfrecord", train_images, train_labels, 4);
        struct dataset *const validation = open_labelled("val.tfrecord", images, cases[i].labels, 4);
        assert_int_equal(duplicates_find(&found, validation, train, READ_ALL), 0);
        assert_int_equal(found.count, 3);
        assert_int_equal(found.relabelled, cases[i].count);
        assert_true(found.relabelled_first == cases[i].first && found.relabelled_other == cases[i].other);
        if (found.relabelled > 0) {
            assert_int_equal(found.first_label, cases[i].labels[found.relabelled_first]);
            assert_int_equal(found.other_label, train_labels[found.relabelled_other]);
        }
        dataset_close(train);
        dataset_close(validation);
    }
}

TESTS_MAIN(NULL, NULL)
