/* Tests of equal images: those of the validation set that are in the training set, too, with which labels. */
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/convert/image_copies.h"

#define NO_LABEL (-1)
#define IMAGES_MAX 4u

/* Images of a set: the letter is the image, the number its label. */
struct labelled { char image; int label; };

static struct image_copies copies;
static char text[1024];

static void note_images(size_t source, const struct labelled *images, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const struct found_sample sample = {
            .image = FOUND_ROWS, .bytes = (const uint8_t *)&images[i].image, .byte_count = 1,
            .has_label = images[i].label != NO_LABEL, .label = images[i].label,
        };
        image_copies_note(&copies, source, i, &sample);
    }
}

static void report(const struct labelled *train, uint64_t train_count, const struct labelled *held, uint64_t held_count)
{
    const struct sample_source sources[] = { { .split = "train", .record_count = train_count },
                                             { .split = "validation", .record_count = held_count } };
    assert_int_equal(image_copies_init(&copies, sources, 2), 0);
    note_images(0, train, train_count);
    note_images(1, held, held_count);
    assert_int_equal(CAPTURE(text, image_copies_report(&copies)), 0);
    image_copies_release(&copies);
}

TEST(a_copy_is_compared_with_the_labelled_ones_of_the_training_set)
{
    static const struct labelled held[] = { { 'x', 2 } };
    static const struct { const char *words; struct labelled train[IMAGES_MAX]; } rows[] = {
        { "too, such as validation sample 0 and train sample 1:", { { 'a', 1 }, { 'x', 2 }, { 'x', NO_LABEL } } },
        { "1 of them with another label, such as validation sample 0 and train sample 1:",
          { { 'a', 1 }, { 'x', 1 }, { 'x', NO_LABEL } } },
        { "1 of them with another label, such as validation sample 0 and train sample 2:",
          { { 'a', 1 }, { 'x', NO_LABEL }, { 'x', 1 } } },
        { "1 of them with another label, such as validation sample 0 and train sample 3:",
          { { 'x', NO_LABEL }, { 'x', NO_LABEL }, { 'x', 2 }, { 'x', 1 } } },
        { "too, such as validation sample 0 and train sample 1:", { { 'a', 1 }, { 'x', NO_LABEL } } },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t count = 0;
        while (count < IMAGES_MAX && rows[i].train[count].image != '\0')
            count++;
        report(rows[i].train, count, held, 1);
        if (strstr(text, rows[i].words) == NULL)
            fail_msg("row %zu: no '%s' in: %s", i, rows[i].words, text);
    }
}

TEST(an_image_without_a_label_has_no_other_one)
{
    static const struct labelled train[] = { { 'x', 1 }, { 'x', 1 } }, held[] = { { 'x', NO_LABEL }, { 'y', 1 } };
    report(train, 2, held, 2);
    assert_non_null(strstr(text, "1 of 2 validation images is in the training set, too, such as"));
}

TESTS_MAIN(NULL, NULL)
