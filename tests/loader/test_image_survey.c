/* The survey of images: what it decodes, the pixels it finds, and the record it names when one cannot be decoded. */
#include <string.h>

#include "loader/dataset_survey.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

#define BAD UINT32_MAX          /* no record */

/* `count` records, of which one holds a byte less than its pixels. */
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

static struct image_survey survey_of(uint32_t count, uint32_t bad)
{
    struct image_survey survey;
    struct dataset *const dataset = open_set(count, bad);
    assert_int_equal(image_survey_make(&survey, dataset), 0);
    dataset_close(dataset);
    return survey;
}

TEST(all_images_of_a_small_set_are_decoded)
{
    const struct image_survey survey = survey_of(100, BAD);
    assert_int_equal(survey.count, 100);
    assert_int_equal(survey.unreadable, 0);
    assert_int_equal(survey.flawed, 0);
    assert_int_equal(survey.lowest, 140);
    assert_int_equal(survey.highest, 239);
    assert_true(survey.mean > 189.49 && survey.mean < 189.51);
}

TEST(some_hundred_images_of_a_large_set_are_decoded)
{
    const struct image_survey survey = survey_of(1200, BAD);
    assert_int_equal(survey.count, 512);
}

TEST(an_image_that_cannot_be_decoded_is_named_wherever_it_is)
{
    for (uint32_t bad = 1; bad < 100; bad += 7) {
        const struct image_survey survey = survey_of(100, bad);
        assert_int_equal(survey.count, 99);
        assert_int_equal(survey.unreadable, 1);
        assert_int_equal(survey.bad_id, bad);
        assert_non_null(strstr(survey.problem.text, "has 23 bytes of pixels, the network wants 24"));
    }
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
