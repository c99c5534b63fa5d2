/* The survey of labels: which records it looks at, what it finds, and which offset it proposes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "loader/dataset_survey.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

static struct label_survey survey_of(const char *pattern)
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
    struct label_survey survey = survey_of(folder);
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

/* A shard of one record, whose payload is that of a fixture record and another label behind it. */
TEST_WITH(records_that_say_a_feature_twice_are_counted, fixture_folder_make, fixture_folder_remove)
{
    static const uint8_t label[] = "\x0a\x0f\x0a\x0d\x0a\x05label\x12\x04\x1a\x02\x08\x2a";
    uint8_t payload[FIXTURE_FRAME_MAX + sizeof(label)], frame[sizeof(payload) + TFRECORD_FRAME_BYTES];
    const size_t bytes = fixture_record(0, frame) - TFRECORD_FRAME_BYTES;
    memcpy(payload, frame + TFRECORD_HEADER_BYTES, bytes);
    memcpy(payload + bytes, label, sizeof(label) - 1);
    const size_t frame_bytes = fixture_frame(payload, bytes + sizeof(label) - 1, frame);
    fixture_write(fixture_path(folder, "twice.tfrecord"), frame, frame_bytes);
    struct label_survey survey = survey_of(fixture_path(folder, "twice.tfrecord"));
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
        /* More than anybody may set. */
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

TESTS_MAIN(NULL, NULL)
