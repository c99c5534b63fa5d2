/* Tests of how a run goes and why it ends: the best evaluation, those since, and the course as a text. */
#include <errno.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/config/duration.h"
#include "tools/run/goal/ending.h"

static struct course course_of(const uint64_t *correct, size_t count)
{
    struct course course = { .stale = 0 };
    for (size_t i = 0; i < count; i++)
        course_add_evaluation(&course, correct[i], 100, (i + 1) * 10);
    return course;
}

TEST(the_first_of_the_best_evaluations_is_the_best)
{
    static const uint64_t correct[] = { 40, 70, 60, 70, 69 };
    const struct course course = course_of(correct, 5);
    assert_int_equal(course.best_correct, 70);
    assert_int_equal(course.best_step, 20);
    assert_int_equal(course.stale, 3);
    assert_false(course_is_best(&course));
    const struct course first = course_of(correct, 2);
    assert_true(course_is_best(&first));
    assert_true(isnan(course_best(&(struct course){ .stale = 0 })));
}

TEST(shares_are_compared_without_rounding)
{
    struct course course = { .stale = 0 };
    course_add_evaluation(&course, (UINT64_C(1) << 60) - 1, UINT64_C(1) << 60, 1);
    course_add_evaluation(&course, (UINT64_C(1) << 60) - 1, (UINT64_C(1) << 60) - 1, 2);
    assert_int_equal(course.best_step, 2);
    course_add_evaluation(&course, 0, 0, 3);        /* no record could be read */
    assert_int_equal(course.stale, 0);
    struct course none = { .stale = 0 };
    course_add_evaluation(&none, 0, 10, 1);
    assert_true(course_is_best(&none));
}

TEST(ends_are_found_where_they_are_asked_for)
{
    static const uint64_t correct[] = { 40, 70, 60, 65 };
    const struct course course = course_of(correct, 4), none = { .stale = 0 };
    static const struct { struct train_settings train; enum ending ending; const char *words; } cases[] = {
        { { .stop_at = 0 }, ENDING_NONE, "" },
        { { .stop_at = 0.71 }, ENDING_NONE, "" },
        { { .stop_at = 0.7 }, ENDING_STOP_AT, "validation accuracy 70.00 % reaches train.stop_at (70 %)" },
        { { .patience = 3 }, ENDING_NONE, "" },
        { { .patience = 2 }, ENDING_PATIENCE,
          "2 evaluations without a better validation accuracy than 70.00 % at step 20 (train.patience)" },
        { { .patience = 2, .stop_at = 0.5 }, ENDING_STOP_AT,
          "validation accuracy 70.00 % reaches train.stop_at (50 %)" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char words[192];
        assert_int_equal(ending_of_course(&cases[i].train, &course), cases[i].ending);
        assert_int_equal(ending_of_course(&cases[i].train, &none), ENDING_NONE);
        ending_tell(cases[i].ending, &cases[i].train, &course, words, sizeof(words));
        assert_string_equal(words, cases[i].words);
    }
}

TEST(time_is_over_when_it_has_passed)
{
    const struct train_settings hour = { .max_seconds = 3600 }, any = { .max_seconds = 0 };
    assert_int_equal(ending_of_time(&hour, UINT64_C(3599999999999)), ENDING_NONE);
    assert_int_equal(ending_of_time(&hour, UINT64_C(3600000000000)), ENDING_MAX_TIME);
    assert_int_equal(ending_of_time(&any, UINT64_MAX), ENDING_NONE);
}

TEST(durations_are_read_as_people_write_them)
{
    static const struct { const char *text; uint64_t seconds; } cases[] = {
        { "90 minutes", 5400 }, { "1 minute", 60 },  { "2 hours", 7200 }, { "30 seconds", 30 }, { "", 0 },
        { "0 hours", 0 },       { "-1 hours", 0 },   { "90", 0 },         { "90 steps", 0 },    { "1.5 hours", 0 },
        { "2 hours ", 0 },      { "two hours", 0 },  { "9999999999999 hours", 0 },
        { "99999999999999999999 hours", 0 },
        { "10 min", 600 },      { "10min", 600 },    { "1s", 1 },         { "30 sec", 30 },     { "2h", 7200 },
        { "2 h", 7200 },        { "2 ", 0 },         { "2  h", 0 },       { "2 m", 0 },         { "2 days", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(duration_seconds(cases[i].text), cases[i].seconds);
}

/* Guessing among ten, 40 steps an epoch, behind a first loss of 2.3. */
static bool warns(struct course *course, double loss, double accuracy)
{
    return course_add_epoch(course, &(struct course_epoch){ loss, accuracy, 40, 10 });
}

TEST(a_run_that_is_lost_is_told_once)
{
    struct course course = { .stale = 0 };
    assert_false(warns(&course, 9, 0.1));           /* no first loss is known */
    course_note_first(&course, 2.3);
    course_note_first(&course, 100);                /* the first counts */
    assert_false(warns(&course, 1.9, 0.4));
    assert_false(warns(&course, 9, 0.4));           /* overfitted, or on other labels: it is no guessing */
    assert_false(warns(&course, 2.31, 0.1));        /* about where it began */
    assert_true(warns(&course, 2.5, 0.113));        /* a class may be larger than others */
    assert_false(warns(&course, 2.5, 0.1));
    course.has_warned = 0;
    assert_true(warns(&course, 1e300, 0));
}

TEST(short_epochs_are_waited_for)
{
    struct course course = { .stale = 0 };
    const struct course_epoch lost = { 5, 0.1, 7, 10 }, good = { 2, 0.3, 7, 10 };
    course_note_first(&course, 2.3);
    assert_false(course_add_epoch(&course, &lost));
    assert_false(course_add_epoch(&course, &lost));
    assert_false(course_add_epoch(&course, &good));
    assert_false(course_add_epoch(&course, &lost));
    assert_false(course_add_epoch(&course, &lost));
    assert_true(course_add_epoch(&course, &lost));
}

TEST(of_one_class_nothing_is_a_guess)
{
    struct course course = { .stale = 0 };
    course_note_first(&course, 1e-9);
    assert_false(course_add_epoch(&course, &(struct course_epoch){ 5, 1, 100, 1 }));
    course_note_first(&course, 1e300);
    struct course two = { .first_loss = 693148 };
    assert_false(course_add_epoch(&two, &(struct course_epoch){ 0.9, 0.6, 100, 2 }));
    assert_true(course_add_epoch(&two, &(struct course_epoch){ 0.9, 0.5, 100, 2 }));
}

TEST(a_course_reads_back_as_itself)
{
    struct course course, again;
    char text[COURSE_TEXT_BYTES];
    memset(&course, 0, sizeof(course));
    course = (struct course){ .best_correct = UINT64_MAX, .best_images = UINT64_MAX, .best_step = UINT64_MAX,
                              .stale = UINT64_MAX, .skipped = UINT64_MAX, .skipped_in_row = UINT64_MAX,
                              .first_loss = UINT64_MAX, .lost_steps = UINT64_MAX, .has_warned = 1,
                              .rollbacks = COURSE_ROLLBACKS_MAX, .rate_last = UINT64_MAX };
    course_write(&course, text);
    assert_int_equal(course_read(&again, text), 0);
    assert_int_equal(again.best_step, course.best_step);
    assert_int_equal(again.stale, course.stale);
    assert_int_equal(again.skipped_in_row, course.skipped_in_row);
    assert_int_equal(again.rollbacks, course.rollbacks);
    assert_int_equal(again.rate_last, course.rate_last);
    assert_int_equal(again.best_correct, course.best_correct);
    assert_int_equal(again.best_images, course.best_images);
}

TEST(an_older_text_is_read_and_what_is_none_is_refused)
{
    struct course course;
    assert_int_equal(course_read(&course, ""), 0);
    assert_int_equal(course.best_images, 0);
    assert_int_equal(course_read(&course, "7 9"), 0);
    assert_int_equal(course.best_correct, 7);
    assert_int_equal(course.best_step, 0);
    static const char *const bad[] = { "x", "7 9 x", "7  9", "-7", "7,9", "99999999999999999999999",
                                       "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
                                       /* Numbers that no run has: the loops over them would not end. */
                                       "0 0 0 0 0 0 0 0 0 6", "0 0 0 0 0 0 0 0 0 40", "0 0 0 0 0 0 0 0 0 1000",
                                       "0 0 0 0 0 0 0 0 0 18446744073709551615", "2 1", "0 0 0 0 1 2",
                                       "0 0 0 0 0 0 0 0 2" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(course_read(&course, bad[i]), -EINVAL);
}

TESTS_MAIN(NULL, NULL)
