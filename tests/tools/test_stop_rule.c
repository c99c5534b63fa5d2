/* Tests of what a run has achieved and why it stops: the best evaluation, those since, and the progress as a text. */
#include <errno.h>
#include <string.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/intervals.h"
#include "tools/lib/run/stop_rule.h"

static void add(struct run_progress *progress, uint64_t correct, uint64_t images, uint64_t step)
{
    run_progress_add_evaluation(progress, &(struct run_progress_evaluation){ correct, images, step, 0 });
}

static struct run_progress progress_of(const uint64_t *correct, size_t count)
{
    struct run_progress progress = { .stale = 0 };
    for (size_t i = 0; i < count; i++)
        add(&progress, correct[i], 100, (i + 1) * 10);
    return progress;
}

TEST(the_first_of_the_best_evaluations_is_the_best)
{
    static const uint64_t correct[] = { 40, 70, 60, 70, 69 };
    const struct run_progress progress = progress_of(correct, 5);
    assert_int_equal(progress.best_correct, 70);
    assert_int_equal(progress.best_step, 20);
    assert_int_equal(progress.stale, 3);
    assert_false(run_progress_is_best(&progress));
    const struct run_progress first = progress_of(correct, 2);
    assert_true(run_progress_is_best(&first));
    assert_true(isnan(run_progress_best(&(struct run_progress){ .stale = 0 })));
}

TEST(shares_are_compared_without_rounding)
{
    struct run_progress progress = { .stale = 0 };
    add(&progress, (UINT64_C(1) << 60) - 1, UINT64_C(1) << 60, 1);
    add(&progress, (UINT64_C(1) << 60) - 1, (UINT64_C(1) << 60) - 1, 2);
    assert_int_equal(progress.best_step, 2);
    add(&progress, 0, 0, 3);        /* no record could be read */
    assert_int_equal(progress.stale, 0);
    struct run_progress none = { .stale = 0 };
    add(&none, 0, 10, 1);
    assert_true(run_progress_is_best(&none));
}

TEST(ends_are_found_where_they_are_asked_for)
{
    static const uint64_t correct[] = { 40, 70, 60, 65 };
    const struct run_progress progress = progress_of(correct, 4), none = { .stale = 0 };
    static const struct { struct train_settings train; enum stop_reason reason; const char *words; } cases[] = {
        { { .stop_at = 0 }, STOP_REASON_NONE, "" },
        { { .stop_at = 0.71 }, STOP_REASON_NONE, "" },
        { { .stop_at = 0.7 }, STOP_REASON_STOP_AT, "validation accuracy 70.00 % reaches train.stop_at (70 %)" },
        { { .patience = 3 }, STOP_REASON_NONE, "" },
        { { .patience = 2 }, STOP_REASON_PATIENCE,
          "2 evaluations without a better validation accuracy than 70.00 % at step 20 (train.patience)" },
        { { .patience = 2, .stop_at = 0.5 }, STOP_REASON_STOP_AT,
          "validation accuracy 70.00 % reaches train.stop_at (50 %)" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char words[192];
        assert_int_equal(stop_reason_of_progress(&cases[i].train, &progress), cases[i].reason);
        assert_int_equal(stop_reason_of_progress(&cases[i].train, &none), STOP_REASON_NONE);
        stop_reason_describe(cases[i].reason, &cases[i].train, &progress, words, sizeof(words));
        assert_string_equal(words, cases[i].words);
    }
}

/* Evaluations of values, in order; all are equally accurate. */
static struct run_progress progress_by(enum best_by by, const double *values, size_t count)
{
    struct run_progress progress = { .best_by = by };
    for (size_t i = 0; i < count; i++)
        run_progress_add_evaluation(&progress, &(struct run_progress_evaluation){ 5, 10, i + 1, values[i] });
    return progress;
}

TEST(other_measures_than_accuracy_decide_where_they_are_asked_for)
{
    static const double values[] = { 0.5, 0.3, 0.9, 0.3, 0.9 }, lost[] = { NAN, 0.5, NAN };
    const struct run_progress loss = progress_by(BEST_BY_LOSS, values, 5);
    assert_int_equal(loss.best_step, 2);
    assert_int_equal(loss.stale, 3);
    for (enum best_by by = BEST_BY_BALANCED_ACCURACY; by < BEST_BY_COUNT; by++) {
        const struct run_progress score = progress_by(by, values, 5);
        assert_int_equal(score.best_step, 3);
        assert_int_equal(score.stale, 2);
        assert_true(run_progress_best_value(&score) == 0.9);
    }
    const struct run_progress accuracy = progress_by(BEST_BY_ACCURACY, values, 5);
    assert_int_equal(accuracy.best_step, 1);
    assert_true(run_progress_best_value(&accuracy) == 0.5);
    const struct run_progress found = progress_by(BEST_BY_LOSS, lost, 3);
    assert_int_equal(found.best_step, 2);
    assert_int_equal(found.stale, 1);
}

TEST(a_loss_reaches_its_goal_from_above)
{
    static const double values[] = { 0.5, 0.3, 0.4 };
    const struct run_progress loss = progress_by(BEST_BY_LOSS, values, 3), f1 = progress_by(BEST_BY_MACRO_F1, values, 3);
    static const struct { struct train_settings train; enum stop_reason reason; const char *words; } cases[] = {
        { { .best_by = BEST_BY_LOSS, .stop_at = 0.29 }, STOP_REASON_NONE, "" },
        { { .best_by = BEST_BY_LOSS, .stop_at = 2.5 }, STOP_REASON_STOP_AT,
          "validation loss 0.3 reaches train.stop_at (2.5)" },
        { { .best_by = BEST_BY_MACRO_F1, .stop_at = 0.51 }, STOP_REASON_NONE, "" },
        { { .best_by = BEST_BY_MACRO_F1, .stop_at = 0.5 }, STOP_REASON_STOP_AT,
          "validation macro F1 0.5000 reaches train.stop_at (0.5)" },
        { { .best_by = BEST_BY_MACRO_F1, .patience = 2 }, STOP_REASON_PATIENCE,
          "2 evaluations without a better validation macro F1 than 0.5000 at step 1 (train.patience)" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct run_progress *const progress = cases[i].train.best_by == BEST_BY_LOSS ? &loss : &f1;
        char words[192];
        assert_int_equal(stop_reason_of_progress(&cases[i].train, progress), cases[i].reason);
        stop_reason_describe(cases[i].reason, &cases[i].train, progress, words, sizeof(words));
        assert_string_equal(words, cases[i].words);
    }
}

TEST(another_measure_begins_with_no_best_evaluation)
{
    static const double values[] = { 0.5, 0.3 };
    struct run_progress progress = progress_by(BEST_BY_LOSS, values, 2);
    assert_false(run_progress_set_best_by(&progress, BEST_BY_LOSS));
    assert_int_equal(progress.best_step, 2);
    assert_true(run_progress_set_best_by(&progress, BEST_BY_MACRO_F1));
    assert_int_equal(progress.best_images, 0);
    assert_int_equal(progress.best_by, BEST_BY_MACRO_F1);
    assert_false(run_progress_set_best_by(&progress, BEST_BY_ACCURACY));
}

TEST(time_is_over_when_it_has_passed)
{
    const struct train_settings hour = { .max_seconds = 3600 }, any = { .max_seconds = 0 };
    assert_int_equal(stop_reason_of_time(&hour, UINT64_C(3599999999999)), STOP_REASON_NONE);
    assert_int_equal(stop_reason_of_time(&hour, UINT64_C(3600000000000)), STOP_REASON_MAX_TIME);
    assert_int_equal(stop_reason_of_time(&any, UINT64_MAX), STOP_REASON_NONE);
}

/* The number of skipped steps in a row after which a run of `steps` steps ends; 0: it does not. */
static uint32_t skips_until_end(uint64_t steps)
{
    const struct train_settings train = { .on_nan = ON_NAN_SKIP };
    const struct run_plan plan = { .schedule = { .records = { steps, 0 }, .batch = 1, .towers = 1, .epochs = 1 } };
    struct run_progress progress = { .stale = 0 };
    uint32_t skips = 0;
    struct stop *stop;
    assert_int_equal(stop_open(&stop), 0);
    while (skips < steps && !stop_failed(stop)) {
        struct step_report report = { .local = { .phase = PHASE_TRAIN, .step = skips++ },
                                      .result = { .is_skipped = 1 } }, *reports[] = { &report };
        nonfinite_check(stop, reports, &plan, &train, &progress);
    }
    const bool has_ended = stop_code(stop) == EXIT_CODE_NONFINITE;
    stop_close(stop);
    return has_ended ? skips : 0;
}

TEST(a_run_ends_with_the_step_that_completes_the_row_of_skipped_ones)
{
    assert_int_equal(skips_until_end(1000), NONFINITE_ROW_MAX);
    assert_int_equal(skips_until_end(NONFINITE_ROW_MAX), NONFINITE_ROW_MAX);
    assert_int_equal(skips_until_end(7), 7);        /* all of the run */
}

TEST(a_run_of_which_one_step_was_learned_from_ends_as_others_do)
{
    enum { STEPS = 7 };
    const struct train_settings train = { .on_nan = ON_NAN_SKIP };
    const struct run_plan plan = { .schedule = { .records = { STEPS, 0 }, .batch = 1, .towers = 1, .epochs = 1 } };
    for (uint64_t finite = 0; finite < STEPS; finite++) {
        struct run_progress progress = { .stale = 0 };
        struct stop *stop;
        assert_int_equal(stop_open(&stop), 0);
        for (uint64_t step = 0; step < STEPS; step++) {
            struct step_report report = { .local = { .phase = PHASE_TRAIN, .step = step },
                                          .result = { .is_skipped = step != finite } }, *reports[] = { &report };
            nonfinite_check(stop, reports, &plan, &train, &progress);
            assert_false(stop_failed(stop));
        }
        assert_int_equal(progress.skipped, STEPS - 1);
        stop_close(stop);
    }
}

TEST(losses_that_are_not_finite_are_reported_if_there_are_some_and_others)
{
    static const struct { uint64_t lossless; const char *words; } cases[] = {
        { 0, "" }, { 1, "with 1 of the 8 samples" }, { 7, "with 7 of the 8 samples" }, { 8, "" },
    };
    const struct train_settings train = { .epochs = 1 };
    const struct local_batch local = { .phase = PHASE_EVALUATE, .last_of_phase = true };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct run_progress progress = { .stale = 0 };
        const struct account account = { .state = { .phases = {
            [PHASE_EVALUATE] = { .images = 8, .lossless = cases[i].lossless } } } };
        struct stop_rule rule = { .train = &train, .progress = &progress, .account = &account, .uses_evaluations = true };
        struct capture capture;
        char messages[1024];
        capture_begin(&capture);
        assert_false(stop_rule_check(&rule, &local));
        capture_end(&capture, messages, sizeof(messages));
        assert_true(*cases[i].words == '\0' ? *messages == '\0' : strstr(messages, cases[i].words) != NULL);
    }
}

/* Guessing among ten, 40 steps an epoch, behind a first loss of 2.3. */
static bool warns(struct run_progress *progress, double loss, double accuracy)
{
    return run_progress_add_epoch(progress, &(struct run_progress_epoch){ loss, accuracy, 40, 10 });
}

TEST(a_run_that_is_lost_is_reported_once)
{
    struct run_progress progress = { .stale = 0 };
    assert_false(warns(&progress, 9, 0.1));           /* no first loss is known */
    run_progress_note_first(&progress, 2.3);
    run_progress_note_first(&progress, 100);                /* the first counts */
    assert_false(warns(&progress, 1.9, 0.4));
    assert_false(warns(&progress, 9, 0.4));           /* overfitted, or on other labels: it is no guessing */
    assert_false(warns(&progress, 2.31, 0.1));        /* about where it began */
    assert_true(warns(&progress, 2.5, 0.113));        /* a class may be larger than others */
    assert_false(warns(&progress, 2.5, 0.1));
    progress.has_warned = 0;
    assert_true(warns(&progress, 1e300, 0));
}

TEST(short_epochs_are_waited_for)
{
    struct run_progress progress = { .stale = 0 };
    const struct run_progress_epoch lost = { 5, 0.1, 7, 10 }, good = { 2, 0.3, 7, 10 };
    run_progress_note_first(&progress, 2.3);
    assert_false(run_progress_add_epoch(&progress, &lost));
    assert_false(run_progress_add_epoch(&progress, &lost));
    assert_false(run_progress_add_epoch(&progress, &good));
    assert_false(run_progress_add_epoch(&progress, &lost));
    assert_false(run_progress_add_epoch(&progress, &lost));
    assert_true(run_progress_add_epoch(&progress, &lost));
}

TEST(of_one_class_nothing_is_a_guess)
{
    struct run_progress progress = { .stale = 0 };
    run_progress_note_first(&progress, 1e-9);
    assert_false(run_progress_add_epoch(&progress, &(struct run_progress_epoch){ 5, 1, 100, 1 }));
    run_progress_note_first(&progress, 1e300);
    struct run_progress two = { .first_loss = 693148 };
    assert_false(run_progress_add_epoch(&two, &(struct run_progress_epoch){ 0.9, 0.6, 100, 2 }));
    assert_true(run_progress_add_epoch(&two, &(struct run_progress_epoch){ 0.9, 0.5, 100, 2 }));
}

TEST(progress_reads_back_as_itself)
{
    struct run_progress progress, again;
    char text[RUN_PROGRESS_TEXT_BYTES];
    memset(&progress, 0, sizeof(progress));
    progress = (struct run_progress){ .best_correct = UINT64_MAX, .best_images = UINT64_MAX, .best_step = UINT64_MAX,
                              .stale = UINT64_MAX, .skipped = UINT64_MAX, .skipped_in_row = UINT64_MAX,
                              .first_loss = UINT64_MAX, .lost_steps = UINT64_MAX, .has_warned = 1,
                              .rollbacks = RUN_PROGRESS_ROLLBACKS_MAX, .rate_last = UINT64_MAX,
                              .best_by = BEST_BY_MACRO_F1, .best_value = 1.0 / 3,
                              .spent = { UINT64_MAX, UINT64_MAX, UINT64_MAX, 1 },
                              .best_spent = { UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - 2, 1 } };
    run_progress_write(&progress, text);
    assert_int_equal(run_progress_read(&again, text), 0);
    assert_int_equal(again.best_step, progress.best_step);
    assert_int_equal(again.stale, progress.stale);
    assert_int_equal(again.skipped_in_row, progress.skipped_in_row);
    assert_int_equal(again.rollbacks, progress.rollbacks);
    assert_int_equal(again.rate_last, progress.rate_last);
    assert_int_equal(again.best_correct, progress.best_correct);
    assert_int_equal(again.best_images, progress.best_images);
    assert_int_equal(again.best_by, progress.best_by);
    assert_true(again.best_value == progress.best_value);
    assert_memory_equal(&again.spent, &progress.spent, sizeof(again.spent));
    assert_memory_equal(&again.best_spent, &progress.best_spent, sizeof(again.best_spent));
    progress.best_value = NAN;
    run_progress_write(&progress, text);
    assert_int_equal(run_progress_read(&again, text), 0);
    assert_true(isnan(again.best_value));
}

TEST(an_older_text_is_read_and_what_is_none_is_refused)
{
    struct run_progress progress;
    assert_int_equal(run_progress_read(&progress, ""), 0);
    assert_int_equal(progress.best_images, 0);
    assert_int_equal(run_progress_read(&progress, "7 9"), 0);
    assert_int_equal(progress.best_correct, 7);
    assert_int_equal(progress.best_step, 0);
    static const char *const bad[] = { "x", "7 9 x", "7  9", "-7", "7,9", "99999999999999999999999",
                                       "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
                                       /* Numbers that no run has: the loops over them would not end. */
                                       "0 0 0 0 0 0 0 0 0 6", "0 0 0 0 0 0 0 0 0 40", "0 0 0 0 0 0 0 0 0 1000",
                                       "0 0 0 0 0 0 0 0 0 18446744073709551615", "2 1", "0 0 0 0 1 2",
                                       "0 0 0 0 0 0 0 0 2", "0 0 0 0 0 0 0 0 0 0 0 99",
                                       "0 0 0 0 0 0 0 0 0 0 0 1 x", "0 0 0 0 0 0 0 0 0 0 0 1 0.5 1", "0 0 0 0 0 0 0 0 0 0 0 1 0.5 2 2 0 0 1 1 0",
                                       "0 0 0 0 0 0 0 0 0 0 0 1 0.5 2 2 0 0 1 1 0 0 0", "0 0 0 0 0 0 0 0 0 0 0 1 0.5 2 2 0 0 3 3 0 0",
                                       "0 0 0 0 0 0 0 0 0 0 0 1 0.5 2 1 0 0 1 1 0 0", "0 0 0 0 0 0 0 0 0 0 0 1 0.5 2 2 0 2 1 1 0 0",
                                       "0 0 0 0 0 0 0 0 0 0 0 1 0.5 2 2 5 0 1 1 6 0" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(run_progress_read(&progress, bad[i]), -EINVAL);
}

TEST(the_best_evaluation_has_what_was_spent_up_to_it)
{
    struct run_progress progress = { .spent = { 5, 10, 7, 0 } };
    run_progress_add_evaluation(&progress, &(struct run_progress_evaluation){ 6, 10, 100, 0.6 });
    progress.spent = (struct run_spent){ 6, 12, 9, 0 };
    run_progress_add_evaluation(&progress, &(struct run_progress_evaluation){ 5, 10, 200, 0.5 });
    assert_int_equal(progress.best_spent.wall_ns, 5);
    assert_int_equal(progress.best_spent.microjoules, 7);
    run_progress_add_evaluation(&progress, &(struct run_progress_evaluation){ 7, 10, 300, 0.7 });
    assert_int_equal(progress.best_spent.machines_ns, 12);
}

TESTS_MAIN(NULL, NULL)
