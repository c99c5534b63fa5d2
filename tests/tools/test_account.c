/* Tests of the accounting: what is added up, what counts as warm-up, and what the hash of
 * the sample order depends on. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/run_state.h"

enum { TOWERS_MAX = 7, SLICE_MAX = 64, CLASSES = 5 };

/* The towers' reports of one global batch. */
struct round {
    struct step_report reports[TOWERS_MAX];
    struct step_report *pointers[TOWERS_MAX];
    uint64_t ids[TOWERS_MAX][SLICE_MAX];
    struct answer answers[TOWERS_MAX][SLICE_MAX];
};

/* Class 4 has no sample; every 11th position has no label. */
static struct answer answer_of(uint64_t position)
{
    return (struct answer){ position % 11 == 10 ? -1 : (int32_t)(position % 4), (uint32_t)(position * position % 5) };
}

static uint64_t id_of(const struct local_batch *local, uint32_t i)
{
    return (local->first_position + i) * 7919 % 1009 + local->epoch * 100000;
}

static struct step_times times_of(const struct local_batch *local, uint32_t tower)
{
    struct step_times times = { .input_wait = 1 + local->step, .exposed_copy = 2, .forward = 100 + tower,
                                .backward = 200, .exposed_reduction = 7 * tower, .exposed_exchange = 3 + tower,
                                .update = 11, .other = 5 };
    times.total = times.input_wait + times.exposed_copy + times.forward + times.backward + times.exposed_reduction +
                  times.exposed_exchange + times.update + times.other;
    return times;
}

/* Every batch takes 1 ms, evaluation 10 ms; the last tower ends last. */
static void round_fill(struct round *round, const struct schedule *schedule, uint64_t number, uint64_t *now_ns)
{
    struct local_batch local;
    assert_int_equal(schedule_find(schedule, number, 0, &local), 0);
    *now_ns += local.phase == PHASE_TRAIN ? 1000000 : 10000000;
    for (uint32_t d = 0; d < schedule->towers; d++) {
        struct step_report *report = &round->reports[d];
        assert_int_equal(schedule_find(schedule, number, d, &local), 0);
        assert_in_range(local.count, 0, SLICE_MAX);
        report->local = local;
        report->result = (struct backend_result){ .loss_sum = 0.5 * local.count, .correct = local.count / 2,
                                                  .counted = local.count };
        report->times = times_of(&local, d);
        report->batches_found = (uint32_t)(local.step % 7);
        report->slots_found = (uint32_t)(local.step % 2);
        report->ended_ns = *now_ns - (schedule->towers - 1 - d) * 1000;
        report->ids = round->ids[d];
        for (uint32_t i = 0; i < local.count; i++)
            report->ids[i] = id_of(&local, i);
        report->answers = local.phase == PHASE_EVALUATE ? round->answers[d] : NULL;
        for (uint32_t i = 0; i < local.count; i++)
            round->answers[d][i] = answer_of(local.first_position + i);
        round->pointers[d] = report;
    }
}

/* Batches from the schedule's first to `end`, going on from `state` unless that is NULL. */
static struct account *account_run_part(const struct schedule *schedule, uint64_t end,
                                        const struct account_state *state)
{
    static struct round round;
    struct account *account;
    uint64_t now_ns = 5000000;
    assert_int_equal(account_open(&account, schedule, CLASSES), 0);
    if (state != NULL)
        account_resume(account, state);
    account_begin(account, now_ns);
    for (uint64_t number = schedule->first; number < end; number++) {
        round_fill(&round, schedule, number, &now_ns);
        account_add(account, round.pointers, schedule->towers);
    }
    return account;
}

static struct account *account_run(const struct schedule *schedule)
{
    return account_run_part(schedule, schedule_batch_count(schedule), NULL);
}

static struct schedule schedule_of(uint32_t towers)
{
    return (struct schedule){ .records = { 1000, 130 }, .batch = 48, .towers = towers, .epochs = 3 };
}

static double sum_of(const struct fractions *share)
{
    return share->input_wait + share->exposed_copy + share->forward + share->backward + share->exposed_reduction + share->exposed_exchange +
           share->update + share->other;
}

/* The first step, one between and the last are left out; the images of all are counted. */
TEST(the_loss_is_the_mean_of_the_steps_that_have_one)
{
    static struct round round;
    const struct schedule schedule = schedule_of(2);
    struct account *account;
    uint64_t now_ns = 5000000;
    assert_int_equal(account_open(&account, &schedule, CLASSES), 0);
    account_begin(account, now_ns);
    for (uint64_t number = 0; number < 6; number++) {
        round_fill(&round, &schedule, number, &now_ns);
        if (number == 0 || number == 3 || number == 5)
            round.reports[1].result.loss_sum = number == 3 ? INFINITY : NAN;
        account_add(account, round.pointers, schedule.towers);
        const struct step_totals *const training = &account->state.training;
        assert_int_equal(training->images, 48 * (number + 1));
        assert_true(number == 0 ? isnan(totals_loss(training)) : fabs(totals_loss(training) - 0.5) < 1e-12);
    }
    account_close(account);
}

TEST(counts_every_sample_of_every_pass)
{
    for (uint32_t towers = 1; towers <= TOWERS_MAX; towers++) {
        const struct schedule schedule = schedule_of(towers);
        struct account *account = account_run(&schedule);
        const struct step_totals *training = &account->state.training;
        const struct step_totals *evaluation = &account->state.phases[PHASE_EVALUATE];
        assert_int_equal(training->images, 3 * 1000);
        assert_int_equal(training->steps, schedule_step_count(&schedule));
        assert_true(fabs(totals_loss(training) - 0.5) < 1e-12);
        assert_int_equal(account->state.phases[PHASE_TRAIN].images, 1000);
        assert_int_equal(evaluation->images, 130);
        assert_int_equal(evaluation->steps, schedule_batches_per_evaluation(&schedule));
        assert_true(totals_accuracy(evaluation) <= 0.5 && totals_accuracy(evaluation) > 0.4);
        account_close(account);
    }
}

TEST(training_time_leaves_evaluation_out)
{
    const struct schedule schedule = schedule_of(2);
    struct account *account = account_run(&schedule);
    const uint64_t steps = schedule_step_count(&schedule);
    assert_int_equal(account->state.training.wall_ns, steps * 1000000);
    assert_int_equal(account->state.phases[PHASE_EVALUATE].wall_ns,
                     schedule_batches_per_evaluation(&schedule) * 10000000);
    assert_int_equal(account->first_step_ns, 5000000 + 1000000);
    account_close(account);
}

TEST(shares_of_tower_time_sum_to_one)
{
    for (uint32_t towers = 1; towers <= TOWERS_MAX; towers++) {
        const struct schedule schedule = schedule_of(towers);
        struct account *account = account_run(&schedule);
        const struct fractions share = account_fractions(account);
        assert_true(fabs(sum_of(&share) - 1) < 1e-12);
        assert_true(share.forward > 0 && share.backward > share.forward / 2);
        account_close(account);
    }
}

TEST(an_account_without_steps_says_nothing)
{
    const struct schedule schedule = schedule_of(2);
    struct account *account;
    assert_int_equal(account_open(&account, &schedule, CLASSES), 0);
    account_begin(account, 1);
    const struct fractions share = account_fractions(account);
    assert_true(sum_of(&share) == 0);
    assert_true(isnan(account_percentiles(account).p99_ms));
    assert_true(isnan(account_speeds(account).mean) && isnan(account_speeds(account).uncertainty));
    assert_true(isnan(totals_loss(&account->state.training)));
    assert_true(isnan(totals_accuracy(&account->state.phases[PHASE_EVALUATE])));
    assert_int_equal(account->first_step_ns, 0);
    account_close(account);
    account_close(NULL);
}

TEST(the_order_hash_is_the_same_for_any_number_of_towers)
{
    uint64_t hash = 0;
    for (uint32_t towers = 1; towers <= TOWERS_MAX; towers++) {
        const struct schedule schedule = schedule_of(towers);
        struct account *account = account_run(&schedule);
        if (towers == 1)
            hash = account->state.order_hash;
        assert_true(account->state.order_hash == hash);
        account_close(account);
    }
    struct schedule other = schedule_of(1);
    other.epochs = 2;
    struct account *account = account_run(&other);
    assert_true(account->state.order_hash != hash);
    account_close(account);
}

TEST(the_order_hash_does_not_depend_on_evaluation)
{
    const struct schedule with = schedule_of(3);
    struct schedule without = with;
    without.records[PHASE_EVALUATE] = 0;
    struct account *first = account_run(&with), *second = account_run(&without);
    assert_true(first->state.order_hash == second->state.order_hash);
    account_close(first);
    account_close(second);
}

/* The batch from which a run goes on that was ended before batch `cut`: an evaluation begins again. */
static uint64_t resumed_from(const struct schedule *schedule, uint64_t cut)
{
    struct position position = schedule_position(schedule, cut);
    if (position.evaluated < schedule_batches_per_evaluation(schedule))
        position.evaluated = 0;
    assert_int_equal(schedule_seek(schedule, position, &cut), 0);
    return cut;
}

TEST(the_measures_by_class_are_those_of_all_samples_for_any_number_of_towers)
{
    struct class_counts counts[CLASSES] = { { 0 } };
    for (uint64_t position = 0; position < schedule_of(1).records[PHASE_EVALUATE]; position++) {
        const struct answer answer = answer_of(position);
        if (answer.label < 0)
            continue;
        counts[answer.label].samples++;
        counts[answer.predicted].predicted++;
        counts[answer.label].correct += answer.predicted == (uint32_t)answer.label;
    }
    const struct mean_measures expected = mean_measures_of(counts, CLASSES);
    assert_true(expected.balanced_accuracy > 0 && expected.balanced_accuracy != expected.macro.recall);
    for (uint32_t towers = 1; towers <= TOWERS_MAX; towers++) {
        const struct schedule schedule = schedule_of(towers);
        struct account *account = account_run(&schedule);
        assert_true(account_has_measures(account));
        assert_memory_equal(&account->state.measures, &expected, sizeof(expected));
        account_close(account);
    }
}

TEST(an_incomplete_evaluation_has_no_measures_by_class)
{
    const struct schedule schedule = schedule_of(2);
    const uint64_t evaluated = schedule_steps_per_epoch(&schedule) + schedule_batches_per_evaluation(&schedule);
    const struct { uint64_t end; bool has; } cases[] = {
        { evaluated - 1, false }, { evaluated, true }, { evaluated + 1, true },
        { 2 * evaluated - 1, false }, { 2 * evaluated, true },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct account *account = account_run_part(&schedule, cases[i].end, NULL);
        assert_int_equal(account_has_measures(account), cases[i].has);
        account_close(account);
    }
}

TEST(two_parts_of_a_run_add_up_to_the_whole)
{
    const struct schedule schedule = schedule_of(3);
    struct account *whole = account_run(&schedule);
    struct account_state expected, between, last;
    expected = whole->state;
    for (uint64_t cut = 0; cut <= schedule_batch_count(&schedule); cut++) {
        struct schedule late = schedule;
        late.first = resumed_from(&schedule, cut);
        struct account *begun = account_run_part(&schedule, cut, NULL);
        between = begun->state;
        struct account *resumed = account_run_part(&late, schedule_batch_count(&late), &between);
        last = resumed->state;
        assert_memory_equal(&last, &expected, sizeof(last));
        assert_int_equal(resumed->step, schedule_step_count(&schedule));
        assert_int_equal(begun->step + resumed->process.steps, schedule_step_count(&schedule));
        assert_int_equal(resumed->state.training.steps, schedule_step_count(&schedule));
        account_close(begun);
        account_close(resumed);
    }
    account_close(whole);
}

TEST(the_order_hashes_of_two_parts_add_up)
{
    const struct schedule schedule = schedule_of(2);
    struct account *whole = account_run(&schedule);
    const uint64_t trained = schedule_batch_count(&schedule) - schedule_batches_per_evaluation(&schedule);
    for (uint64_t cut = 1; cut < trained; cut += 5) {
        struct schedule late = schedule;
        late.first = cut;
        struct account *begun = account_run_part(&schedule, cut, NULL);
        struct account *rest = account_run_part(&late, schedule_batch_count(&late), NULL);
        assert_true(begun->state.order_hash != whole->state.order_hash);
        assert_true(begun->state.order_hash + rest->state.order_hash == whole->state.order_hash);
        account_close(begun);
        account_close(rest);
    }
    account_close(whole);
}

TEST(the_order_hashes_of_towers_in_two_processes_add_up)
{
    static struct round round;
    const struct schedule schedule = schedule_of(5);
    struct account *whole = account_run(&schedule), *first, *second;
    uint64_t now_ns = 0;
    assert_int_equal(account_open(&first, &schedule, CLASSES), 0);
    assert_int_equal(account_open(&second, &schedule, CLASSES), 0);
    for (uint64_t number = 0; number < schedule_batch_count(&schedule); number++) {
        round_fill(&round, &schedule, number, &now_ns);
        account_add(first, round.pointers, 2);
        account_add(second, round.pointers + 2, 3);
    }
    assert_true(first->state.order_hash + second->state.order_hash == whole->state.order_hash);
    account_close(whole);
    account_close(first);
    account_close(second);
}

TEST(the_interval_begins_again_at_every_reset)
{
    static struct round round;
    const struct schedule schedule = schedule_of(1);
    struct account *account;
    uint64_t now_ns = 0;
    assert_int_equal(account_open(&account, &schedule, CLASSES), 0);
    account_begin(account, now_ns);
    for (uint64_t number = 0; number < 9; number++) {
        round_fill(&round, &schedule, number, &now_ns);
        account_add(account, round.pointers, 1);
        assert_int_equal(account->state.interval.steps, number % 3 + 1);
        assert_int_equal(account->state.interval.images, (number % 3 + 1) * 48);
        assert_int_equal(account->interval_fills.ring.takes, number % 3 + 1);
        assert_int_equal(account->interval_fills.ring.found[number % 7], 1);
        if (number % 3 == 2)
            account_interval_reset(account);
    }
    assert_int_equal(account->state.training.steps, 9);
    account_close(account);
}

TEST(queues_are_reported_of_training_after_warm_up_over_all_towers)
{
    const struct schedule schedule = schedule_of(2);
    struct account *account = account_run(&schedule);
    const uint64_t steps = schedule_step_count(&schedule), warmup = steps / 10 < 10 ? steps / 10 : 10;
    const struct queue_fills *const fills = &account->fills;
    uint64_t odd = 0, zero = 0;
    for (uint64_t step = warmup; step < steps; step++) {
        odd += step % 2;
        zero += step % 7 == 0;
    }
    assert_in_range(warmup, 1, steps - 1);
    assert_int_equal(fills->ring.takes, 2 * (steps - warmup));
    assert_int_equal(fills->slots.takes, 2 * (steps - warmup));
    assert_int_equal(fills->slots.found[1], 2 * odd);
    assert_int_equal(fills->ring.found[0], 2 * zero);
    account_close(account);
}

/* Of 4 and 4 ms that passed for two towers, in one step each. */
TEST(steps_explain_the_time_that_passed)
{
    static struct round round;
    const struct schedule schedule = schedule_of(2);
    struct account *account;
    uint64_t now_ns = 1000;
    assert_int_equal(account_open(&account, &schedule, CLASSES), 0);
    account_begin(account, now_ns);
    assert_true(isnan(account_explained(account)));
    round_fill(&round, &schedule, 0, &now_ns);
    for (uint32_t d = 0; d < 2; d++) {
        const uint64_t ns = 1000000 + 2000000 * d;
        round.reports[d].times = (struct step_times){ .forward = ns, .total = ns };
        round.reports[d].seen_ns = 1000 + 4000000;
    }
    account_add(account, round.pointers, 2);
    assert_true(fabs(account_explained(account) - 0.5) < 1e-12);
    for (uint32_t d = 0; d < 2; d++)
        round.reports[d].seen_ns += 4000000;    /* and the same again */
    account_add(account, round.pointers, 2);
    assert_true(fabs(account_explained(account) - 0.5) < 1e-12);
    account_close(account);
}

/* A run of one tower whose step n takes ms(n). */
static struct account *account_run_timed(const struct schedule *schedule, uint64_t steps, uint64_t (*ms)(uint64_t step))
{
    static struct round round;
    struct account *account;
    uint64_t end_ns = 1000;
    assert_int_equal(account_open(&account, schedule, CLASSES), 0);
    account_begin(account, end_ns);
    for (uint64_t number = 0; number < steps; number++) {
        uint64_t ignored = 0;
        round_fill(&round, schedule, schedule->first + number, &ignored);
        end_ns += ms(number) * 1000000;
        round.reports[0].ended_ns = end_ns;
        account_add(account, round.pointers, 1);
    }
    return account;
}

static uint64_t longer_and_longer(uint64_t step)
{
    return step + 1;
}

/* Every step takes longer than the one before, so the test knows which steps the percentiles are. */
static struct account *account_run_slower_and_slower(const struct schedule *schedule, uint64_t steps)
{
    return account_run_timed(schedule, steps, longer_and_longer);
}

TEST(percentiles_leave_warmup_and_partial_batches_out)
{
    const struct schedule schedule = { .records = { 48 * 110 + 1, 0 }, .batch = 48, .towers = 1, .epochs = 1 };
    struct account *account = account_run_slower_and_slower(&schedule, schedule_batch_count(&schedule));
    const struct step_percentiles step = account_percentiles(account);     /* of 11 .. 110 ms */
    assert_true(fabs(step.p50_ms - 60.5) <= 1);
    assert_true(fabs(step.p90_ms - 100) <= 1);
    assert_true(fabs(step.p99_ms - 109) <= 1);
    account_close(account);
}

/* Input that is missing now and then: a batch is there at once, but for every 20th. */
static uint64_t waits_for_input(uint64_t step)
{
    return step % 20 == 19 ? 96 : 1;
}

TEST(the_speed_is_images_over_wall_time_however_short_most_steps_are)
{
    const struct schedule schedule = { .records = { 48 * 410, 0 }, .batch = 48, .towers = 1, .epochs = 1 };
    struct account *account = account_run_timed(&schedule, 410, waits_for_input);
    const struct speeds speed = account_speeds(account);        /* 400 steps: 20 of 96 ms, 380 of 1 ms */
    assert_true(account_percentiles(account).p50_ms == 1);
    assert_int_equal(account->warmup, 10);
    assert_true(fabs(speed.mean - 48.0 * 400 / 2.3) < 1e-6);
    assert_true(speed.uncertainty > 0.1 * speed.mean && speed.uncertainty < 0.25 * speed.mean);
    account_close(account);
}

static uint64_t starts_slowly(uint64_t step)
{
    return step < 10 ? 1000 : 4;
}

/* The last batch of the epoch, of one image, takes its time as well. */
TEST(the_speed_is_of_all_batches_after_warmup)
{
    const struct schedule schedule = { .records = { 48 * 110 + 1, 0 }, .batch = 48, .towers = 1, .epochs = 1 };
    struct account *account = account_run_timed(&schedule, 111, starts_slowly);
    assert_true(fabs(account_speeds(account).mean - (48.0 * 100 + 1) / (101 * 4e-3)) < 1e-6);
    assert_true(fabs(totals_images_per_second(&account->recent) - account_speeds(account).mean) < 1e-6);
    account_close(account);
}

/* The bounds of bins are powers of 10^0.01: between any two of them lie as many steps as there are whole numbers. */
TEST(the_histogram_counts_the_steps_of_the_percentiles)
{
    static struct step_histogram histogram;
    const struct schedule schedule = { .records = { 48 * 110 + 1, 0 }, .batch = 48, .towers = 1, .epochs = 1 };
    struct account *account = account_run_slower_and_slower(&schedule, schedule_batch_count(&schedule));
    uint64_t all = 0;
    account_histogram(account, &histogram);     /* of 11 .. 110 ms */
    for (int i = 0; i < STEP_HISTOGRAM_BINS; i++) {
        const int k = STEP_HISTOGRAM_FIRST + i;
        uint64_t expected = 0;
        for (int ms = 11; ms <= 110; ms++)
            expected += ms >= pow(10, k / 100.0) * (1 - 1e-12) && ms < pow(10, (k + 1) / 100.0) * (1 - 1e-12);
        assert_int_equal(histogram.counts[i], expected);
        all += expected;
    }
    assert_int_equal(all, 100);
    account_close(account);
}

static void expect_line(const struct step_histogram *histogram, const char *expected)
{
    struct json line;
    json_init(&line, false);
    step_histogram_write(histogram, &line);
    assert_string_equal(json_text(&line), expected);
    json_release(&line);
}

TEST(the_histogram_is_written_from_its_first_to_its_last_step)
{
    static struct step_histogram histogram;
    expect_line(&histogram, "{\"per_decade\":100,\"first\":0,\"counts\":[]}");
    step_histogram_add(&histogram, 0.95);
    step_histogram_add(&histogram, 1.001);
    step_histogram_add(&histogram, 1.002);
    expect_line(&histogram, "{\"per_decade\":100,\"first\":-3,\"counts\":[1,0,0,2]}");
    step_histogram_add(&histogram, 0);
    step_histogram_add(&histogram, 1e30);
    assert_int_equal(histogram.counts[0], 1);
    assert_int_equal(histogram.counts[STEP_HISTOGRAM_BINS - 1], 1);
}

TEST(a_process_that_begins_in_the_middle_warms_up_too)
{
    const struct schedule schedule = { .records = { 48 * 210 + 1, 0 }, .batch = 48, .towers = 1, .epochs = 1,
                                       .first = 100 };
    struct account *account = account_run_slower_and_slower(&schedule, 111);
    const struct step_percentiles step = account_percentiles(account);     /* of 11 .. 110 ms */
    assert_true(fabs(step.p50_ms - 60.5) <= 1);
    assert_true(fabs(step.p90_ms - 100) <= 1);
    assert_int_equal(account->step, 211);
    account_close(account);
}

TEST(a_run_of_one_step_has_a_speed)
{
    const struct schedule schedule = { .records = { 480, 0 }, .batch = 48, .towers = 1, .epochs = 1, .steps = 1 };
    struct account *account = account_run_slower_and_slower(&schedule, 1);
    assert_true(account_percentiles(account).p50_ms == 1);
    assert_true(account_speeds(account).mean == 48000);
    account_close(account);
}

TEST(a_batch_larger_than_the_set_is_as_fast_as_the_records_it_has)
{
    const struct schedule schedule = { .records = { 30, 0 }, .batch = 48, .towers = 1, .epochs = 1 };
    struct account *account = account_run_slower_and_slower(&schedule, 1);
    assert_true(account_percentiles(account).p50_ms == 1);
    assert_true(account_speeds(account).mean == 30000);
    account_close(account);
}

TEST(the_step_of_the_latest_evaluation_is_kept)
{
    const struct schedule schedule = schedule_of(2);
    const uint64_t steps = schedule_steps_per_epoch(&schedule);
    const uint64_t batches = steps + schedule_batches_per_evaluation(&schedule);
    const uint64_t ends[] = { steps, batches, batches + 2, 2 * batches };
    const uint64_t evaluated[] = { 0, steps, steps, 2 * steps };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct account *account = account_run_part(&schedule, ends[i], NULL);
        assert_int_equal(account->state.evaluated_step, evaluated[i]);
        account_close(account);
    }
}

/* A checkpoint whose hashes are right may still say anything. */
TEST(sums_that_no_run_has_are_refused)
{
    struct account_state sums = { .order_hash = UINT64_MAX, .evaluated_step = 3 }, again;
    char text[ACCOUNT_TEXT_BYTES];
    sums.training = sums.interval = (struct step_totals){ .images = 7, .correct = 7, .steps = 2, .lossless = 1,
                                                          .loss_sum = 1.5 };
    account_text_write(&sums, text);
    assert_int_equal(account_text_read(&again, text), 0);
    assert_int_equal(again.training.correct, 7);
    assert_true(again.measures.largest_share == 0);
    sums.interval.correct = UINT64_MAX;
    account_text_write(&sums, text);
    assert_int_equal(account_text_read(&again, text), -EINVAL);
    sums.interval.correct = 0;
    sums.training.lossless = 8;
    account_text_write(&sums, text);
    assert_int_equal(account_text_read(&again, text), -EINVAL);
    sums.training.lossless = 0;
    sums.training.loss_sum = INFINITY;
    account_text_write(&sums, text);
    assert_int_equal(account_text_read(&again, text), -EINVAL);
}

TEST(measures_by_class_are_kept_to_the_last_bit)
{
    struct account_state sums = { .order_hash = 1 }, again;
    char text[ACCOUNT_TEXT_BYTES];
    sums.measures = (struct mean_measures){ .macro = { 1.0 / 3, 2.0 / 3, 0.1 }, .weighted = { 0.7, 1.0 / 7, 1 },
                                            .balanced_accuracy = 2.0 / 3, .largest = 3, .largest_share = 1.0 / 9 };
    account_text_write(&sums, text);
    assert_int_equal(account_text_read(&again, text), 0);
    assert_memory_equal(&again, &sums, sizeof(sums));
    sums.measures.weighted.recall = 1.5;
    account_text_write(&sums, text);
    assert_int_equal(account_text_read(&again, text), -EINVAL);
    sums.measures = (struct mean_measures){ .largest = 0 };
    account_text_write(&sums, text);
    char *end = text + strlen(text);
    for (int numbers = 0; numbers < 9; numbers++)
        while (*--end != ' ')
            continue;
    *end = '\0';               /* as a version without measures wrote it */
    assert_int_equal(account_text_read(&again, text), 0);
    assert_memory_equal(&again, &sums, sizeof(sums));
}

TEST(times_of_exchanges_are_written_where_there_are_any)
{
    struct account_state sums = { .order_hash = 1 }, again;
    char text[ACCOUNT_TEXT_BYTES], longer[ACCOUNT_TEXT_BYTES];
    account_text_write(&sums, text);
    sums.interval.times = (struct step_times){ .exposed_exchange = 17, .total = 20 };
    sums.phases[PHASE_EVALUATE].times.exposed_exchange = UINT64_MAX;
    account_text_write(&sums, longer);
    assert_true(strlen(longer) > strlen(text));
    assert_int_equal(account_text_read(&again, longer), 0);
    assert_memory_equal(&again, &sums, sizeof(sums));
    *strrchr(longer, ' ') = '\0';       /* one is missing */
    assert_int_equal(account_text_read(&again, longer), -EINVAL);
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
