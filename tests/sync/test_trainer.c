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
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_rig.h"

/* How towers that train together sum their gradients. */
static const char *reduction = "host";

static const struct optimizer momentum = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };

static void rig_make_with(struct rig *rig, const struct schedule *schedule, enum sync_mode mode,
                          const struct optimizer *optimizer)
{
    const struct rig_spec spec = { .schedule = *schedule, .mode = mode, .reduction = reduction, .every = 2,
                                   .optimizer = *optimizer };
    rig_open(rig, &spec);
}

static void rig_make(struct rig *rig, const struct schedule *schedule, enum sync_mode mode)
{
    rig_make_with(rig, schedule, mode, &momentum);
}

static struct schedule schedule_of(uint32_t towers)
{
    return (struct schedule){ .records = { 53, 17 }, .batch = 12, .towers = towers, .epochs = 3 };
}

static void check_towers(const struct optimizer *optimizer, size_t begin)
{
    static float expected[4096], weights[4096], first[4096];
    double expected_loss = 0;
    static const uint32_t counts[] = { 1, 2, 3, 5 };
    for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
        if (n > 0 && n < begin)
            continue;
        static struct rig rig;
        const struct schedule schedule = schedule_of(counts[n]);
        rig_make_with(&rig, &schedule, SYNC_REPLICATED, optimizer);
        rig_start_all(&rig);
        assert_int_equal(rig_ready_all(&rig), 0);
        rig_go_all(&rig);
        while (rig_next_batch(&rig) == 0)
            ;
        assert_false(stop_failed(rig.stop));
        assert_int_equal(rig.batches, schedule_batch_count(&schedule));
        assert_int_equal(rig.images, 3 * (53 + 17));
        const size_t total = rig.net->trainable_count;
        assert_in_range(total, 1, 4096);
        rig_read_weights(&rig, 0, first);
        for (uint32_t d = 1; d < counts[n]; d++) {
            rig_read_weights(&rig, d, weights);
            assert_memory_equal(weights, first, total * sizeof(float));
        }
        if (n == 0) {
            memcpy(expected, first, sizeof(expected));
            expected_loss = rig.loss_sum;
        }
        for (size_t i = 0; i < total; i++)
            assert_true(fabsf(first[i] - expected[i]) < 1e-5f * (1 + fabsf(expected[i])));
        assert_true(fabs(rig.loss_sum - expected_loss) < 1e-5 * expected_loss);
        rig_close(&rig);
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
        check_towers(&others[i], rig_is_thorough() ? 0 : 3);
}

static void learn_in_pieces(uint32_t towers, uint32_t piece_max, float weights[RIG_FLOATS_MAX], double *loss_out,
                            size_t *floats_out)
{
    static struct rig rig;
    const struct rig_spec spec = { .schedule = schedule_of(towers), .mode = SYNC_REPLICATED, .reduction = reduction,
                                   .optimizer = momentum, .piece_max = piece_max };
    rig_open(&rig, &spec);
    rig_run(&rig);
    assert_int_equal(rig.batches, schedule_batch_count(&spec.schedule));
    rig_read_weights(&rig, 0, weights);
    *loss_out = rig.loss_sum;
    *floats_out = rig_floats(&rig);
    rig_close(&rig);
}

/* Evaluation is in pieces, too: the rig looks at the samples that are counted. */
TEST(slices_in_pieces_teach_what_they_teach_as_wholes)
{
    static const uint32_t towers[] = { 1, 2, 3 }, piece_counts[] = { 1, 2, 3, 5, 11, 12, 13 };
    static float expected[RIG_FLOATS_MAX], weights[RIG_FLOATS_MAX];
    double expected_loss, loss;
    size_t floats;
    learn_in_pieces(1, 0, expected, &expected_loss, &floats);
    for (size_t t = 0; t < sizeof(towers) / sizeof(*towers); t++)
        for (size_t p = 0; p < sizeof(piece_counts) / sizeof(*piece_counts); p++) {
            if (!rig_is_thorough() && p % (sizeof(towers) / sizeof(*towers)) != t)
                continue;
            learn_in_pieces(towers[t], piece_counts[p], weights, &loss, &floats);
            for (size_t i = 0; i < floats; i++)
                assert_true(fabsf(weights[i] - expected[i]) < 1e-5f * (1 + fabsf(expected[i])));
            assert_true(fabs(loss - expected_loss) < 1e-5 * expected_loss);
        }
}

TEST(independent_towers_learn_from_their_own_slices)
{
    static float first[4096], second[4096];
    static struct rig rig;
    const struct schedule schedule = schedule_of(2);
    rig_make(&rig, &schedule, SYNC_INDEPENDENT);
    rig_start_all(&rig);
    assert_int_equal(rig_ready_all(&rig), 0);
    rig_read_weights(&rig, 0, first);
    rig_read_weights(&rig, 1, second);
    assert_memory_equal(first, second, rig.net->trainable_count * sizeof(float));
    rig_go_all(&rig);
    while (rig_next_batch(&rig) == 0)
        ;
    rig_read_weights(&rig, 0, first);
    rig_read_weights(&rig, 1, second);
    assert_memory_not_equal(first, second, rig.net->trainable_count * sizeof(float));
    rig_close(&rig);
}

TEST(towers_without_samples_take_part)
{
    static float first[4096], last[4096];
    static struct rig rig;
    const struct schedule schedule = { .records = { 7, 2 }, .batch = 5, .towers = 5, .epochs = 4 };
    rig_make(&rig, &schedule, SYNC_REPLICATED);
    rig_start_all(&rig);
    assert_int_equal(rig_ready_all(&rig), 0);
    rig_go_all(&rig);
    while (rig_next_batch(&rig) == 0)
        ;
    assert_false(stop_failed(rig.stop));
    assert_int_equal(rig.images, 4 * (7 + 2));
    rig_read_weights(&rig, 0, first);
    rig_read_weights(&rig, 4, last);
    assert_memory_equal(first, last, rig.net->trainable_count * sizeof(float));
    rig_close(&rig);
}

/* The next report of one tower. */
static const struct step_report *next_report(struct rig *rig)
{
    struct step_report *report;
    if (trainer_report(rig->lanes[0].trainer, &report) != 0)
        return NULL;
    static struct step_report last;
    last = *report;
    trainer_give_back(rig->lanes[0].trainer, report);
    return &last;
}

/* Five steps an epoch: the third, and the last of an epoch; and where the loss shows it. The rate is 0, so what is
 * there stays. */
TEST(weights_that_are_not_finite_are_reported_where_they_are_looked_for)
{
    static float values[4096];
    static struct rig rig;
    const struct rig_spec spec = { .schedule = { .records = { 53, 17 }, .batch = 12, .towers = 1, .epochs = 2 },
                                   .mode = SYNC_REPLICATED, .reduction = reduction,
                                   .optimizer = { .kind = OPTIMIZER_SGD }, .is_frozen = true };
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        rig_open(&rig, &spec);
        struct trainer_spec trainer = rig_trainer(&rig, 0);
        trainer.inspect_every = 3;
        rig_start(&rig, 0, &trainer);
        assert_int_equal(rig_ready_all(&rig), 0);
        struct tower *const tower = trainer_tower(rig.lanes[0].trainer);
        assert_int_equal(tower_read(tower, 0, values), 0);
        values[0] = is_broken ? INFINITY : values[0];
        assert_int_equal(tower_write(tower, 0, values), 0);
        rig_go_all(&rig);
        int found = 0;
        for (const struct step_report *report = next_report(&rig); report != NULL; report = next_report(&rig)) {
            const bool is_due = report->slice.phase == PHASE_TRAIN &&
                                ((report->slice.step + 1) % 3 == 0 || report->slice.last_of_phase);
            const bool is_lost = !isfinite(report->result.loss_sum);
            assert_int_equal(report->broken != NULL, is_broken && (is_due || is_lost));
            found += report->broken != NULL && is_due;
        }
        assert_int_equal(found, is_broken ? 5 : 0);    /* behind steps 3, 5, 6, 9 and 10 */
        rig_close(&rig);
    }
}

TEST(a_request_ends_all_towers_at_the_same_batch)
{
    for (uint64_t when = 0; when < (rig_is_thorough() ? 9 : 4); when++) {
        static struct rig rig;
        struct schedule schedule = schedule_of(3);
        schedule.epochs = 1000000;
        rig_make(&rig, &schedule, when % 2 ? SYNC_INDEPENDENT : SYNC_REPLICATED);
        rig_start_all(&rig);
        assert_int_equal(rig_ready_all(&rig), 0);
        if (when == 0)
            gate_request(rig.gate);
        rig_go_all(&rig);
        int rc;
        while ((rc = rig_next_batch(&rig)) == 0)
            if (rig.batches == when)
                gate_request(rig.gate);
        assert_int_equal(rc, -ENODATA);
        for (uint32_t d = 0; d < 3; d++)        /* nobody went further */
            assert_int_equal(trainer_report(rig.lanes[d].trainer, &rig.lanes[d].report), -ENODATA);
        assert_in_range(rig.batches, when, when + 20);
        assert_false(stop_failed(rig.stop));
        rig_close(&rig);
    }
}

static int open_nothing(struct backend **backend_out, const struct backend_spec *spec)
{
    (void)backend_out, (void)spec;
    return -ENODEV;
}

TEST(a_tower_that_cannot_be_set_up_ends_the_others)
{
    for (uint32_t bad = 0; bad < 3; bad++) {
        static struct rig rig;
        struct backend_ops broken;
        struct capture capture;
        char text[512];
        const struct schedule schedule = schedule_of(3);
        rig_make(&rig, &schedule, SYNC_REPLICATED);
        broken = *rig_trainer(&rig, bad).tower.backend;
        broken.open = open_nothing;
        capture_begin(&capture);
        for (uint32_t d = 0; d < 3; d++) {
            struct trainer_spec spec = rig_trainer(&rig, d);
            if (d == bad)
                spec.tower.backend = &broken;
            rig_start(&rig, d, &spec);
        }
        assert_true(rig_ready_all(&rig) < 0);
        capture_end(&capture, text, sizeof(text));
        assert_true(stop_failed(rig.stop));
        assert_int_equal(stop_code(rig.stop), EXIT_CODE_DEVICE);
        assert_non_null(strstr(text, "tower"));
        rig_close(&rig);
    }
}

TEST(a_cancel_at_any_time_ends_everything)
{
    for (uint64_t after = 0; after < 16; after += rig_is_thorough() ? 1 : 5) {
        static struct rig rig;
        struct capture capture;
        char text[512];
        struct schedule schedule = schedule_of(3);
        schedule.epochs = 1000000;
        rig_make(&rig, &schedule, SYNC_REPLICATED);
        rig_start_all(&rig);
        assert_int_equal(rig_ready_all(&rig), 0);
        rig_go_all(&rig);
        capture_begin(&capture);
        while (rig.batches < after && rig_next_batch(&rig) == 0)
            ;
        stop_fail(rig.stop, EXIT_CODE_DATA, "a test ends the run");
        while (rig_next_batch(&rig) == 0)
            ;
        capture_end(&capture, text, sizeof(text));
        assert_string_equal(text, "pipetrain: a test ends the run\n");
        rig_close(&rig);
    }
}

TEST(a_run_that_failed_before_it_began_ends_even_when_told_to_go)
{
    static struct rig rig;
    struct capture capture;
    char text[512];
    const struct schedule schedule = schedule_of(2);
    rig_make(&rig, &schedule, SYNC_REPLICATED);
    rig_start_all(&rig);
    assert_int_equal(rig_ready_all(&rig), 0);
    capture_begin(&capture);
    stop_fail(rig.stop, EXIT_CODE_DATA, "damage in the first batch");
    capture_end(&capture, text, sizeof(text));
    trainer_settle(rig.lanes[0].trainer);
    rig_go_all(&rig);
    assert_int_equal(rig_next_batch(&rig), -ECANCELED);
    rig_close(&rig);
}

TEST(towers_that_never_begin_end_by_a_cancel)
{
    static struct rig rig;
    const struct schedule schedule = schedule_of(2);
    rig_make(&rig, &schedule, SYNC_REPLICATED);
    rig_start_all(&rig);
    assert_int_equal(rig_ready_all(&rig), 0);
    for (uint32_t d = 0; d < 2; d++)
        trainer_cancel(rig.lanes[d].trainer);
    rig_close(&rig);
}

/* Main may find that the plan does not fit. */
TEST(towers_that_are_planned_and_refused_end_by_a_cancel)
{
    static struct rig rig;
    const struct schedule schedule = schedule_of(3);
    rig_make(&rig, &schedule, SYNC_REPLICATED);
    rig_start_all(&rig);
    for (uint32_t d = 0; d < 3; d++) {
        struct trainer_needs needs;
        assert_int_equal(trainer_planned(rig.lanes[d].trainer, &needs), 0);
        assert_true(needs.tower.arenas >= 2 * rig.net->trainable_count * sizeof(float));
        assert_true(needs.tower.backend.values > 0);
        assert_in_range(needs.samples, 1, rig.layout.capacity);
        assert_null(tower_weights(trainer_tower(rig.lanes[d].trainer)));
    }
    for (uint32_t d = 0; d < 3; d++)
        trainer_cancel(rig.lanes[d].trainer);
    rig_close(&rig);
}

static int allocate_nothing(struct backend *backend)
{
    (void)backend;
    return -ENOMEM;
}

TEST(a_tower_that_gets_no_memory_ends_the_others)
{
    static struct rig rig;
    struct backend_ops broken;
    struct capture capture;
    char text[512];
    const struct schedule schedule = schedule_of(3);
    rig_make(&rig, &schedule, SYNC_REPLICATED);
    broken = *rig_trainer(&rig, 1).tower.backend;
    broken.allocate = allocate_nothing;
    capture_begin(&capture);
    for (uint32_t d = 0; d < 3; d++) {
        struct trainer_spec spec = rig_trainer(&rig, d);
        if (d == 1)
            spec.tower.backend = &broken;
        rig_start(&rig, d, &spec);
    }
    assert_true(rig_ready_all(&rig) < 0);
    capture_end(&capture, text, sizeof(text));
    assert_int_equal(stop_code(rig.stop), EXIT_CODE_MEMORY);
    rig_close(&rig);
}

/* Five steps and two batches of evaluation an epoch: the run ends behind the second evaluation, whatever the towers
 * could have begun meanwhile. */
TEST(towers_wait_for_a_word_behind_every_evaluation)
{
    static struct rig rig;
    const struct schedule schedule = schedule_of(2);
    rig_make(&rig, &schedule, SYNC_REPLICATED);
    for (uint32_t d = 0; d < 2; d++) {
        struct trainer_spec spec = rig_trainer(&rig, d);
        spec.waits_for_main = true;
        rig_start(&rig, d, &spec);
    }
    assert_int_equal(rig_ready_all(&rig), 0);
    rig_go_all(&rig);
    while (rig.batches < 7)
        assert_int_equal(rig_next_batch(&rig), 0);
    gate_allow(rig.gate, 7);
    while (rig.batches < 14)
        assert_int_equal(rig_next_batch(&rig), 0);
    usleep(20000);
    gate_request(rig.gate);
    gate_allow(rig.gate, 14);
    assert_int_equal(rig_next_batch(&rig), -ENODATA);
    assert_int_equal(rig.batches, 14);
    assert_false(stop_failed(rig.stop));
    rig_close(&rig);
}

/* On any device: the backend touches none of its memory. */
TEST(towers_of_the_null_backend_only_take_and_count_samples)
{
    static struct rig rig;
    const struct schedule schedule = schedule_of(2);
    rig_make(&rig, &schedule, SYNC_REPLICATED);
    for (uint32_t d = 0; d < 2; d++) {
        struct trainer_spec spec = rig_trainer(&rig, d);
        spec.tower.backend = &backend_null_ops;
        rig_start(&rig, d, &spec);
    }
    assert_int_equal(rig_ready_all(&rig), 0);
    assert_int_equal(tower_arena(trainer_tower(rig.lanes[0].trainer))->count, 0);
    rig_go_all(&rig);
    while (rig_next_batch(&rig) == 0)
        ;
    assert_int_equal(rig.batches, schedule_batch_count(&schedule));
    assert_int_equal(rig.images, 3 * (53 + 17));
    rig_close(&rig);
}

int main(void)
{
    alarm(200);
    int failed = tests_run(NULL, NULL);
    if (!test_device_ops()->host_memory) {
        reduction = "peer";
        failed += tests_run(NULL, NULL);
    }
    return failed;
}
