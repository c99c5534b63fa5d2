/* Tests of what towers show: weights and gradients behind a step, which are those that its update had to do with, in
 * every mode; and a run that shows is the same as one that does not. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/trainer_fixture.h"

enum { RATE_DIVISOR = 20 };     /* of the fixture: 0.05 */

/* What was shown behind a step, parameter after parameter. */
struct seen { float weights[FIXTURE_FLOATS_MAX], gradients[FIXTURE_FLOATS_MAX]; };

static struct schedule schedule_of(uint32_t towers)
{
    return (struct schedule){ .records = { 53, 17 }, .batch = 12, .towers = towers, .epochs = 2 };
}

static void open_rig(struct trainer_fixture *fixture, enum sync_mode mode, uint32_t towers, double clip_norm)
{
    const struct fixture_spec spec = { .schedule = schedule_of(towers), .mode = mode, .reduction = "host", .every = 2,
                                   .max_staleness = 1,
                                   .optimizer = { .kind = OPTIMIZER_SGD, .clip_norm = clip_norm } };
    trainer_fixture_open(fixture, &spec);
}

static void start(struct trainer_fixture *fixture, const struct snapshot_rule *shown)
{
    for (uint32_t d = 0; d < fixture->schedule.towers; d++) {
        struct trainer_spec spec = fixture_trainer(fixture, d);
        spec.inspect_every = 1;
        spec.shown = *shown;
        fixture_start(fixture, d, &spec);
    }
    assert_int_equal(fixture_ready_all(fixture), 0);
    fixture_go_all(fixture);
}

/* Gradients as means over what they are said to be sums over; NaN where tower 0 does not have those that the update was
 * made of. */
static void look(struct trainer_fixture *fixture, const struct step_report *report, uint32_t update_samples,
                 struct seen *seen)
{
    size_t at = 0;
    for (uint32_t p = 0; p < fixture->net->parameter_count; p++) {
        const size_t count = fixture->net->parameters[p].count;
        const size_t offset = tower_arena(report->sync->spec.tower)->ranges[p].offset;
        const uint32_t samples = sync_gradient_samples(report->sync, &report->local, offset);
        assert_int_equal(snapshot_value(report->shown, p, seen->weights + at), 0);
        assert_int_equal(snapshot_gradient(report->shown, p, seen->gradients + at), 0);
        for (size_t i = at; i < at + count; i++)
            seen->gradients[i] = samples == update_samples ? seen->gradients[i] / (float)samples : NAN;
        at += count;
    }
}

/* With plain descent each step goes from the weights before along the gradient. Returns how many floats said so. */
static size_t follow_steps(enum sync_mode mode, uint32_t towers)
{
    static struct trainer_fixture fixture;
    static struct seen seen, before;
    const struct snapshot_rule rule = { .count = 1, .every = 1, .kind = SNAPSHOT_SHOWN };
    size_t checked = 0;
    uint64_t steps = 0;
    open_rig(&fixture, mode, towers, 0);
    const size_t floats = fixture_floats(&fixture);
    start(&fixture, &rule);
    for (int rc = 0; rc == 0;) {
        struct step_report *reports[FIXTURE_TOWERS_MAX];
        for (uint32_t d = 0; d < towers; d++) {
            reports[d] = NULL;
            const int reported = trainer_report(fixture.towers[d].trainer, &reports[d]);
            rc = rc == 0 ? reported : rc;
        }
        const struct local_batch *const local = rc == 0 ? &reports[0]->local : NULL;
        assert_true(local == NULL || (reports[0]->shown != NULL) == (local->phase == PHASE_TRAIN));
        if (local != NULL && local->phase == PHASE_TRAIN) {
            look(&fixture, reports[0], mode == SYNC_INDEPENDENT ? local->count : local->global_count, &seen);
            for (size_t i = 0; i < floats && steps > 0; i++) {
                const float expected = before.weights[i] - seen.gradients[i] / RATE_DIVISOR;
                checked += !isnan(expected);
                assert_true(isnan(expected) || fabsf(seen.weights[i] - expected) < 1e-5f * (1 + fabsf(expected)));
            }
            before = seen;
            steps++;
        }
        for (uint32_t d = 0; d < towers; d++)
            if (reports[d] != NULL)
                trainer_give_back(fixture.towers[d].trainer, reports[d]);
    }
    assert_false(stop_failed(fixture.stop));
    assert_int_equal(steps, schedule_step_count(&fixture.schedule));
    checked = checked * 100 / (floats * (steps - 1));
    trainer_fixture_close(&fixture);
    return checked;
}

/* An owner has its buckets; where a server sums, and where gradients are applied later, a tower has only its own. */
TEST(shown_gradients_are_those_of_the_update)
{
    assert_int_equal(follow_steps(SYNC_REPLICATED, 1), 100);
    assert_int_equal(follow_steps(SYNC_REPLICATED, 3), 100);
    assert_int_equal(follow_steps(SYNC_INDEPENDENT, 3), 100);
    assert_in_range(follow_steps(SYNC_SERVER_DEVICE, 2), 20, 80);
    assert_int_equal(follow_steps(SYNC_SERVER_HOST, 3), 0);
    assert_int_equal(follow_steps(SYNC_RELAXED, 3), 0);
    assert_int_equal(follow_steps(SYNC_ASYNC, 3), 0);
}

/* Shown gradients of one tower, and the norm that the update found. */
TEST(the_norm_is_that_of_the_shown_gradients)
{
    static struct trainer_fixture fixture;
    static struct seen seen;
    const struct snapshot_rule rule = { .count = 1, .every = 1, .kind = SNAPSHOT_SHOWN };
    struct step_report *report;
    uint64_t norms = 0;
    open_rig(&fixture, SYNC_REPLICATED, 1, 1e9);
    start(&fixture, &rule);
    while (trainer_report(fixture.towers[0].trainer, &report) == 0) {
        double squares = 0;
        if (report->shown == NULL) {
            assert_true(isnan(report->gradient_norm));
            trainer_give_back(fixture.towers[0].trainer, report);
            continue;
        }
        look(&fixture, report, report->local.global_count, &seen);
        for (size_t i = 0; i < fixture_floats(&fixture); i++)
            squares += (double)seen.gradients[i] * (double)seen.gradients[i];
        assert_true(fabs(report->gradient_norm - sqrt(squares)) < 1e-6 * sqrt(squares));
        norms += squares > 0;
        trainer_give_back(fixture.towers[0].trainer, report);
    }
    assert_int_equal(norms, schedule_step_count(&fixture.schedule));
    trainer_fixture_close(&fixture);
}

TEST(norms_that_nobody_computes_are_not_known)
{
    static struct trainer_fixture fixture;
    struct step_report *report;
    open_rig(&fixture, SYNC_REPLICATED, 1, 0);
    start(&fixture, &(struct snapshot_rule){ .count = 0 });
    while (trainer_report(fixture.towers[0].trainer, &report) == 0) {
        assert_true(isnan(report->gradient_norm) && report->shown == NULL);
        trainer_give_back(fixture.towers[0].trainer, report);
    }
    trainer_fixture_close(&fixture);
}

static void run(enum sync_mode mode, const struct snapshot_rule *rule, float *weights)
{
    static struct trainer_fixture fixture;
    open_rig(&fixture, mode, 3, 0);
    start(&fixture, rule);
    fixture_drain(&fixture);
    fixture_read_weights(&fixture, 0, weights);
    trainer_fixture_close(&fixture);
}

TEST(a_run_that_shows_is_the_same)
{
    static const enum sync_mode modes[] = { SYNC_REPLICATED, SYNC_RELAXED, SYNC_AVERAGING, SYNC_SERVER_DEVICE };
    static float shown[FIXTURE_FLOATS_MAX], plain[FIXTURE_FLOATS_MAX];
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        run(modes[i], &(struct snapshot_rule){ .count = 0 }, plain);
        for (uint64_t every = 1; every < 4; every++) {
            run(modes[i], &(struct snapshot_rule){ SNAPSHOT_SHOWN, .count = 1, .every = every, .each_epoch = true },
                shown);
            assert_memory_equal(shown, plain, sizeof(shown));
        }
    }
}

/* Tower 0 alone copies what an evaluation computed with, after its last batch, and the run is the same. */
static void follow_evaluations(enum sync_mode mode, float *weights)
{
    static struct trainer_fixture fixture;
    static float plain[FIXTURE_FLOATS_MAX];
    const uint32_t towers = 3;
    uint32_t seen = 0;
    open_rig(&fixture, mode, towers, 0);
    for (uint32_t d = 0; d < towers; d++) {
        struct trainer_spec spec = fixture_trainer(&fixture, d);
        spec.evaluated = (struct snapshot_rule){ SNAPSHOT_EVALUATED, .count = 1, .each_evaluation = true };
        fixture_start(&fixture, d, &spec);
    }
    assert_int_equal(fixture_ready_all(&fixture), 0);
    fixture_go_all(&fixture);
    for (int rc = 0; rc == 0;) {
        for (uint32_t d = 0; d < towers; d++) {
            struct step_report *report = NULL;
            const int reported = trainer_report(fixture.towers[d].trainer, &report);
            rc = rc == 0 ? reported : rc;
            if (report == NULL)
                continue;
            const bool is_due = d == 0 && report->local.phase == PHASE_EVALUATE && report->local.last_of_phase;
            assert_true((report->evaluated != NULL) == is_due);
            seen += is_due;
            for (uint32_t p = 0; is_due && p < fixture.net->parameter_count; p++)
                assert_int_equal(snapshot_value(report->evaluated, p, plain), 0);
            struct snapshot *const kept = is_due && seen % 2 == 0 ? report->evaluated : NULL;
            report->evaluated = kept != NULL ? NULL : report->evaluated;
            trainer_give_back(fixture.towers[d].trainer, report);
            if (kept != NULL)
                trainer_return(fixture.towers[d].trainer, kept);
        }
    }
    assert_false(stop_failed(fixture.stop));
    assert_int_equal(seen, fixture.schedule.epochs);
    fixture_read_weights(&fixture, 0, weights);
    trainer_fixture_close(&fixture);
}

TEST(what_was_evaluated_is_reported_by_tower_0_and_changes_nothing)
{
    static const enum sync_mode modes[] = { SYNC_REPLICATED, SYNC_RELAXED, SYNC_AVERAGING, SYNC_SERVER_HOST };
    static float followed[FIXTURE_FLOATS_MAX], plain[FIXTURE_FLOATS_MAX];
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        run(modes[i], &(struct snapshot_rule){ .count = 0 }, plain);
        follow_evaluations(modes[i], followed);
        assert_memory_equal(followed, plain, sizeof(plain));
    }
}

int main(void)
{
    alarm(120);
    return tests_run(NULL, NULL);
}
