/* Tests of the life of a step: towers in step give what one tower gives, end together, and
 * say where their time went. A tiny net on the reference backend or on CUDA, fed by threads of
 * the test. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/trainer_fixture.h"

static const struct optimizer momentum = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };

static void fixture_make_with(struct trainer_fixture *fixture, const struct schedule *schedule, enum sync_mode mode,
                          const struct optimizer *optimizer)
{
    const struct fixture_spec spec = { .schedule = *schedule, .mode = mode, .every = 2, .optimizer = *optimizer };
    trainer_fixture_open(fixture, &spec);
}

static void fixture_make(struct trainer_fixture *fixture, const struct schedule *schedule, enum sync_mode mode)
{
    fixture_make_with(fixture, schedule, mode, &momentum);
}

static struct schedule schedule_of(uint32_t towers)
{
    return (struct schedule){ .records = { 53, 17 }, .batch = 12, .towers = towers, .epochs = 3 };
}

static void check_towers(const struct optimizer *optimizer, size_t begin)
{
    static struct trainer_fixture fixture;
    static struct fixture_result one, many;
    double expected_loss = 0;
    static const uint32_t counts[] = { 1, 2, 3, 5 };
    for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
        if (n > 0 && n < begin)
            continue;
        const struct schedule schedule = schedule_of(counts[n]);
        fixture_make_with(&fixture, &schedule, SYNC_REPLICATED, optimizer);
        fixture_run(&fixture);
        assert_int_equal(fixture.batches, schedule_batch_count(&schedule));
        assert_int_equal(fixture.images, 3 * (53 + 17));
        trainer_fixture_read(&fixture, n == 0 ? &one : &many);
        if (n == 0)
            expected_loss = fixture.loss_sum;
        else {
            assert_one_model(&many, counts[n]);
            assert_near(many.weights[0], one.weights[0], one.count, 1e-5f);
        }
        assert_true(fabs(fixture.loss_sum - expected_loss) < 1e-5 * expected_loss);
        trainer_fixture_close(&fixture);
    }
}

TEST(any_number_of_towers_learns_what_one_learns)
{
    static const struct optimizer others[] = {
        { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .clip_norm = 0.05 },
        { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.1, .weight_decay = 1e-3f },
        { .kind = OPTIMIZER_RMSPROP, .momentum = 0.5f, .rho = 0.9, .epsilon = 1.0f },
    };
    check_towers(&momentum, 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        check_towers(&others[i], fixture_is_thorough() ? 0 : 3);
}

static double learn_in_microbatches(uint32_t towers, uint32_t microbatch_max, struct fixture_result *result)
{
    static struct trainer_fixture fixture;
    const struct fixture_spec spec = { .schedule = schedule_of(towers), .mode = SYNC_REPLICATED, .optimizer = momentum,
                                       .microbatch_max = microbatch_max };
    trainer_fixture_open(&fixture, &spec);
    fixture_run(&fixture);
    assert_int_equal(fixture.batches, schedule_batch_count(&spec.schedule));
    trainer_fixture_read(&fixture, result);
    const double loss = fixture.loss_sum;
    trainer_fixture_close(&fixture);
    return loss;
}

/* Evaluation is in microbatches, too: the fixture looks at the samples that are counted. */
TEST(batches_in_microbatches_teach_what_they_teach_as_wholes)
{
    static const uint32_t towers[] = { 1, 2, 3 }, microbatch_counts[] = { 1, 2, 3, 5, 11, 12, 13 };
    static struct fixture_result whole, divided;
    const double expected_loss = learn_in_microbatches(1, 0, &whole);
    for (size_t t = 0; t < sizeof(towers) / sizeof(*towers); t++)
        for (size_t p = 0; p < sizeof(microbatch_counts) / sizeof(*microbatch_counts); p++) {
            if (!fixture_is_thorough() && p % (sizeof(towers) / sizeof(*towers)) != t)
                continue;
            const double loss = learn_in_microbatches(towers[t], microbatch_counts[p], &divided);
            assert_near(divided.weights[0], whole.weights[0], whole.count, 1e-5f);
            assert_true(fabs(loss - expected_loss) < 1e-5 * expected_loss);
        }
}

TEST(independent_towers_learn_from_their_own_samples)
{
    static float first[4096], second[4096];
    static struct trainer_fixture fixture;
    const struct schedule schedule = schedule_of(2);
    fixture_make(&fixture, &schedule, SYNC_INDEPENDENT);
    fixture_start_all(&fixture);
    assert_int_equal(fixture_ready_all(&fixture), 0);
    fixture_read_weights(&fixture, 0, first);
    fixture_read_weights(&fixture, 1, second);
    assert_memory_equal(first, second, fixture.net->trainable_count * sizeof(float));
    fixture_go_all(&fixture);
    while (fixture_next_batch(&fixture) == 0)
        ;
    fixture_read_weights(&fixture, 0, first);
    fixture_read_weights(&fixture, 1, second);
    assert_memory_not_equal(first, second, fixture.net->trainable_count * sizeof(float));
    trainer_fixture_close(&fixture);
}

TEST(towers_without_samples_take_part)
{
    static float first[4096], last[4096];
    static struct trainer_fixture fixture;
    const struct schedule schedule = { .records = { 7, 2 }, .batch = 5, .towers = 5, .epochs = 4 };
    fixture_make(&fixture, &schedule, SYNC_REPLICATED);
    fixture_run(&fixture);
    assert_int_equal(fixture.images, 4 * (7 + 2));
    fixture_read_weights(&fixture, 0, first);
    fixture_read_weights(&fixture, 4, last);
    assert_memory_equal(first, last, fixture.net->trainable_count * sizeof(float));
    trainer_fixture_close(&fixture);
}

/* The next report of one tower. */
static const struct step_report *next_report(struct trainer_fixture *fixture)
{
    struct step_report *report;
    if (trainer_report(fixture->towers[0].trainer, &report) != 0)
        return NULL;
    static struct step_report last;
    last = *report;
    trainer_give_back(fixture->towers[0].trainer, report);
    return &last;
}

/* Five steps an epoch: the third, and the last of an epoch; and where the loss shows it. The rate is 0, so what is
 * there stays. */
TEST(weights_that_are_not_finite_are_reported_where_they_are_looked_for)
{
    static float values[4096];
    static struct trainer_fixture fixture;
    const struct fixture_spec spec = { .schedule = { .records = { 53, 17 }, .batch = 12, .towers = 1, .epochs = 2 },
                                   .mode = SYNC_REPLICATED,
                                       .optimizer = { .kind = OPTIMIZER_SGD }, .is_frozen = true };
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        trainer_fixture_open(&fixture, &spec);
        struct trainer_spec trainer = fixture_trainer(&fixture, 0);
        trainer.inspect_every = 3;
        fixture_start(&fixture, 0, &trainer);
        assert_int_equal(fixture_ready_all(&fixture), 0);
        struct tower *const tower = trainer_tower(fixture.towers[0].trainer);
        assert_int_equal(tower_read(tower, 0, values), 0);
        values[0] = is_broken ? INFINITY : values[0];
        assert_int_equal(tower_write(tower, 0, values), 0);
        fixture_go_all(&fixture);
        int found = 0;
        for (const struct step_report *report = next_report(&fixture); report != NULL; report = next_report(&fixture)) {
            const bool is_due = report->local.phase == PHASE_TRAIN &&
                                ((report->local.step + 1) % 3 == 0 || report->local.last_of_phase);
            const bool is_lost = !isfinite(report->result.loss_sum);
            assert_int_equal(report->broken != NULL, is_broken && (is_due || is_lost));
            found += report->broken != NULL && is_due;
        }
        assert_int_equal(found, is_broken ? 5 : 0);    /* behind steps 3, 5, 6, 9 and 10 */
        trainer_fixture_close(&fixture);
    }
}

TEST(a_request_ends_all_towers_at_the_same_batch)
{
    for (uint64_t when = 0; when < (fixture_is_thorough() ? 9 : 4); when++) {
        static struct trainer_fixture fixture;
        struct schedule schedule = schedule_of(3);
        schedule.epochs = 1000000;
        fixture_make(&fixture, &schedule, when % 2 ? SYNC_INDEPENDENT : SYNC_REPLICATED);
        fixture_start_all(&fixture);
        assert_int_equal(fixture_ready_all(&fixture), 0);
        if (when == 0)
            gate_request(fixture.gate);
        fixture_go_all(&fixture);
        int rc;
        while ((rc = fixture_next_batch(&fixture)) == 0)
            if (fixture.batches == when)
                gate_request(fixture.gate);
        assert_int_equal(rc, -ENODATA);
        for (uint32_t d = 0; d < 3; d++)        /* nobody went further */
            assert_int_equal(trainer_report(fixture.towers[d].trainer, &fixture.towers[d].report), -ENODATA);
        assert_in_range(fixture.batches, when, when + 20);
        assert_false(stop_failed(fixture.stop));
        trainer_fixture_close(&fixture);
    }
}

static int open_nothing(struct backend **backend_out, const struct backend_spec *spec)
{
    (void)backend_out, (void)spec;
    return -ENODEV;
}

static int allocate_nothing(struct backend *backend)
{
    (void)backend;
    return -ENOMEM;
}

/* One tower of three has another backend: none of them gets ready. */
static void check_setup_failure(uint32_t bad, struct backend_ops *broken, enum exit_code code)
{
    static struct trainer_fixture fixture;
    struct capture capture;
    char text[512];
    const struct schedule schedule = schedule_of(3);
    fixture_make(&fixture, &schedule, SYNC_REPLICATED);
    capture_begin(&capture);
    for (uint32_t d = 0; d < 3; d++) {
        struct trainer_spec spec = fixture_trainer(&fixture, d);
        if (d == bad)
            spec.tower.backend = broken;
        fixture_start(&fixture, d, &spec);
    }
    assert_true(fixture_ready_all(&fixture) < 0);
    capture_end(&capture, text, sizeof(text));
    assert_true(stop_failed(fixture.stop));
    assert_int_equal(stop_code(fixture.stop), code);
    assert_non_null(strstr(text, "tower"));
    trainer_fixture_close(&fixture);
}

TEST(a_tower_that_cannot_be_set_up_ends_the_others)
{
    struct backend_ops broken = *fixture_backend(), hungry = broken;
    broken.open = open_nothing;
    hungry.allocate = allocate_nothing;
    for (uint32_t bad = 0; bad < 3; bad++)
        check_setup_failure(bad, &broken, EXIT_CODE_DEVICE);
    check_setup_failure(1, &hungry, EXIT_CODE_MEMORY);
}

TEST(a_cancel_at_any_time_ends_everything)
{
    for (uint64_t after = 0; after < 16; after += fixture_is_thorough() ? 1 : 5) {
        static struct trainer_fixture fixture;
        struct capture capture;
        char text[512];
        struct schedule schedule = schedule_of(3);
        schedule.epochs = 1000000;
        fixture_make(&fixture, &schedule, SYNC_REPLICATED);
        fixture_begin(&fixture);
        capture_begin(&capture);
        while (fixture.batches < after && fixture_next_batch(&fixture) == 0)
            ;
        stop_fail(fixture.stop, EXIT_CODE_DATA, "a test ends the run");
        while (fixture_next_batch(&fixture) == 0)
            ;
        capture_end(&capture, text, sizeof(text));
        assert_string_equal(text, "pipetrain: a test ends the run\n");
        trainer_fixture_close(&fixture);
    }
}

TEST(a_run_that_failed_before_it_began_ends_even_when_released)
{
    static struct trainer_fixture fixture;
    struct capture capture;
    char text[512];
    const struct schedule schedule = schedule_of(2);
    fixture_make(&fixture, &schedule, SYNC_REPLICATED);
    fixture_start_all(&fixture);
    assert_int_equal(fixture_ready_all(&fixture), 0);
    capture_begin(&capture);
    stop_fail(fixture.stop, EXIT_CODE_DATA, "damage in the first batch");
    capture_end(&capture, text, sizeof(text));
    trainer_settle(fixture.towers[0].trainer);
    fixture_go_all(&fixture);
    assert_int_equal(fixture_next_batch(&fixture), -ECANCELED);
    trainer_fixture_close(&fixture);
}

TEST(towers_that_never_begin_end_by_a_cancel)
{
    static struct trainer_fixture fixture;
    const struct schedule schedule = schedule_of(2);
    fixture_make(&fixture, &schedule, SYNC_REPLICATED);
    fixture_start_all(&fixture);
    assert_int_equal(fixture_ready_all(&fixture), 0);
    for (uint32_t d = 0; d < 2; d++)
        trainer_cancel(fixture.towers[d].trainer);
    trainer_fixture_close(&fixture);
}

/* Main may find that the plan does not fit. */
TEST(towers_that_are_planned_and_refused_end_by_a_cancel)
{
    static struct trainer_fixture fixture;
    const struct schedule schedule = schedule_of(3);
    fixture_make(&fixture, &schedule, SYNC_REPLICATED);
    fixture_start_all(&fixture);
    for (uint32_t d = 0; d < 3; d++) {
        struct trainer_needs needs;
        assert_int_equal(trainer_planned(fixture.towers[d].trainer, &needs), 0);
        assert_true(needs.tower.arenas >= 2 * fixture.net->trainable_count * sizeof(float));
        assert_true(needs.tower.backend.values > 0);
        assert_in_range(needs.samples, 1, fixture.layout.capacity);
        assert_null(tower_weights(trainer_tower(fixture.towers[d].trainer)));
    }
    for (uint32_t d = 0; d < 3; d++)
        trainer_cancel(fixture.towers[d].trainer);
    trainer_fixture_close(&fixture);
}

/* Five steps and two batches of evaluation an epoch: the run ends behind the second evaluation, whatever the towers
 * could have begun meanwhile. */
TEST(towers_wait_for_main_after_every_evaluation)
{
    static struct trainer_fixture fixture;
    const struct schedule schedule = schedule_of(2);
    fixture_make(&fixture, &schedule, SYNC_REPLICATED);
    for (uint32_t d = 0; d < 2; d++) {
        struct trainer_spec spec = fixture_trainer(&fixture, d);
        spec.waits = WAITS_AFTER_EVALUATION;
        fixture_start(&fixture, d, &spec);
    }
    assert_int_equal(fixture_ready_all(&fixture), 0);
    fixture_go_all(&fixture);
    while (fixture.batches < 7)
        assert_int_equal(fixture_next_batch(&fixture), 0);
    gate_allow(fixture.gate, 7);
    while (fixture.batches < 14)
        assert_int_equal(fixture_next_batch(&fixture), 0);
    usleep(20000);
    gate_request(fixture.gate);
    gate_allow(fixture.gate, 14);
    assert_int_equal(fixture_next_batch(&fixture), -ENODATA);
    assert_int_equal(fixture.batches, 14);
    assert_false(stop_failed(fixture.stop));
    trainer_fixture_close(&fixture);
}

/* On any device: the backend touches none of its memory. */
TEST(towers_of_the_null_backend_only_take_and_count_samples)
{
    static struct trainer_fixture fixture;
    const struct schedule schedule = schedule_of(2);
    fixture_make(&fixture, &schedule, SYNC_REPLICATED);
    for (uint32_t d = 0; d < 2; d++) {
        struct trainer_spec spec = fixture_trainer(&fixture, d);
        spec.tower.backend = &backend_null_ops;
        fixture_start(&fixture, d, &spec);
    }
    assert_int_equal(fixture_ready_all(&fixture), 0);
    assert_int_equal(tower_arena(trainer_tower(fixture.towers[0].trainer))->count, 0);
    fixture_go_all(&fixture);
    while (fixture_next_batch(&fixture) == 0)
        ;
    assert_int_equal(fixture.batches, schedule_batch_count(&schedule));
    assert_int_equal(fixture.images, 3 * (53 + 17));
    trainer_fixture_close(&fixture);
}

static int run_all(void)
{
    return tests_run(NULL, NULL);
}

int main(void)
{
    return fixture_run_tests(run_all, 200, false);
}
