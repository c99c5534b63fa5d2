/* Tests of relaxed modes: what they do, stated a second time as plainly as can be, and towers of any number
 * that do the same. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_fixture.h"

/* Epochs end with a partial batch and an evaluation; local batches are uneven. */
static const struct schedule uneven = { .records = { 53, 17 }, .batch = 12, .towers = 1, .epochs = 3 };
/* Batches of 4 and, last in an epoch, of 2: towers from the fifth on never have a sample. */
static const struct schedule sparse = { .records = { 14, 3 }, .batch = 4, .towers = 1, .epochs = 3 };

static const struct optimizer rules[] = {
    { .kind = OPTIMIZER_SGD },
    { .kind = OPTIMIZER_SGD, .weight_decay = 1e-3f, .clip_value = 1e-3 },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .clip_norm = 0.05 },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f },
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

/* Towers on a simulated device take long under a sanitizer: the kernels of each rule have tests of their own. */
static int next_rule(int rule)
{
    return rule + (test_device_ops()->host_memory ? 1 : 2);
}

static struct trainer_fixture fixture;

/* ---- one tower that holds its gradients back itself ---- */

static void *held[2];           /* gradients of the step before, and room for those of this one */
static struct local_batch held_of;

static int copy(struct sync *sync, void *to, const void *from)
{
    const size_t bytes = tower_arena(sync->spec.tower)->updated * sizeof(float);
    return sync->spec.device->ops->copy(sync->spec.compute, to, from, bytes, COPY_ON_DEVICE);
}

static int plain_apply(struct sync *sync, const struct local_batch *local)
{
    float *const gradients = tower_gradients(sync->spec.tower);
    int rc = copy(sync, held[1], gradients);
    if (rc == 0 && local->step > 0)
        rc = copy(sync, gradients, held[0]);
    if (rc == 0 && local->step > 0)
        rc = sync_update(sync, &held_of, held_of.count);
    held_of = *local;
    return rc == 0 ? copy(sync, held[0], held[1]) : rc;
}

static const struct sync_ops plain_ops = { .name = "plain", .apply = plain_apply };

static void run_plainly(struct fixture_result *result, struct fixture_spec spec)
{
    spec.mode = SYNC_INDEPENDENT;
    spec.schedule.towers = 1;
    spec.saves = false;
    trainer_fixture_open(&fixture, &spec);
    struct trainer_spec trainer = fixture_trainer(&fixture, 0);
    struct device *const device = fixture.towers[0].device;
    trainer.sync.ops = &plain_ops;
    for (int i = 0; i < 2; i++)
        assert_int_equal(device->ops->alloc(device, FIXTURE_FLOATS_MAX * sizeof(float), &held[i]), 0);
    fixture_start(&fixture, 0, &trainer);
    assert_int_equal(fixture_ready_all(&fixture), 0);
    fixture_go_all(&fixture);
    fixture_drain(&fixture);
    for (int i = 0; i < 2; i++)
        device->ops->free(device, held[i]);
    trainer_fixture_read(&fixture, result);
    trainer_fixture_close(&fixture);
}

/* The tests are run for each. */
static enum sync_mode relaxed_mode;

static void run_relaxed(struct fixture_result *result, struct fixture_spec spec, uint32_t towers)
{
    spec.mode = relaxed_mode;
    spec.schedule.towers = towers;
    spec.saves = true;
    fixture_result_of(result, &spec);
}

TEST(one_tower_applies_the_gradients_of_the_step_before)
{
    static struct fixture_result relaxed, plain;
    for (int i = 0; i < RULES; i = next_rule(i)) {
        const struct fixture_spec spec = { .schedule = uneven, .optimizer = rules[i], .normalizes = i >= 2 };
        run_plainly(&plain, spec);
        run_relaxed(&relaxed, spec, 1);
        assert_memory_equal(relaxed.weights[0], plain.weights[0], plain.count * sizeof(float));
    }
}

/* The towers are one model, to the bit, and so are the sums they have not applied yet. */
static void check_as(const struct fixture_result *plain, struct fixture_spec spec, uint32_t towers)
{
    static struct fixture_result many;
    run_relaxed(&many, spec, towers);
    for (size_t i = 0; i < plain->count; i++)
        assert_true(fabs((double)many.weights[0][i] - (double)plain->weights[0][i]) <= 1e-5);
    for (uint32_t d = 1; d < towers; d++) {
        assert_memory_equal(many.weights[d], many.weights[0], many.count * sizeof(float));
        assert_memory_equal(many.saved[d], many.saved[0], many.saved_count * sizeof(float));
    }
}

static void check_towers(struct fixture_spec spec, uint32_t towers)
{
    static struct fixture_result plain;
    run_plainly(&plain, spec);
    check_as(&plain, spec, towers);
}

/* With every number of towers, or with each rule the most and one other number. */
static void check_rule(int rule, const struct schedule *schedule)
{
    static struct fixture_result plain;
    const struct fixture_spec spec = { .schedule = *schedule, .optimizer = rules[rule] };
    const uint32_t *towers;
    const size_t counts = fixture_tower_counts(&towers), other = (size_t)rule / 2 % (counts - 1);
    run_plainly(&plain, spec);
    for (size_t n = counts; n-- > 0;)
        if (fixture_is_thorough() || n == other || n == counts - 1)
            check_as(&plain, spec, towers[n]);
}

TEST(many_towers_do_what_one_does)
{
    for (int i = 0; i < RULES; i = next_rule(i)) {
        check_rule(i, &uneven);
        check_rule(i, &sparse);
    }
}

TEST(frozen_layers_microbatches_and_averages_are_as_ever)
{
    check_towers((struct fixture_spec){ .schedule = uneven, .optimizer = rules[2], .freezes = "conv" }, 3);
    check_towers((struct fixture_spec){ .schedule = uneven, .optimizer = rules[2], .microbatch_max = 3 }, 3);
    check_towers((struct fixture_spec){ .schedule = uneven, .optimizer = rules[2], .average_decay = 0.8 }, 3);
}

/* What is saved of sums that are not applied yet included, but for values over a limit: a server in host memory has
 * made those the limit already. */
TEST(every_mode_does_the_same)
{
    static struct fixture_result served, replicated;
    const enum sync_mode mode = relaxed_mode;
    const int most = mode == SYNC_RELAXED && !fixture_is_thorough() ? 1 : 2 * RULES;        /* with itself: once */
    for (uint32_t towers = 2; towers <= 3; towers++)
        for (int i = 0; i < most; i = next_rule(i)) {
            if (!fixture_is_thorough() && (uint32_t)i / 2 % 2 != towers % 2)
                continue;
            const struct fixture_spec spec = { .schedule = uneven, .optimizer = rules[i % RULES],
                                               .normalizes = i % 4 == 0, .has_bf16_grads = i >= RULES };
            run_relaxed(&served, spec, towers);
            relaxed_mode = SYNC_RELAXED;
            run_relaxed(&replicated, spec, towers);
            relaxed_mode = mode;
            for (uint32_t d = 0; d < towers; d++) {
                assert_memory_equal(served.weights[d], replicated.weights[d], served.count * sizeof(float));
                if (mode != SYNC_SERVER_HOST_RELAXED || spec.optimizer.clip_value == 0)
                    assert_memory_equal(served.saved[d], replicated.saved[d], served.saved_count * sizeof(float));
            }
        }
}

/* It is another course than that of the gradients at once. */
TEST(results_are_not_those_of_the_synchronous_mode)
{
    static struct fixture_result relaxed, strong;
    struct fixture_spec spec = { .schedule = uneven, .optimizer = rules[0] };
    run_relaxed(&relaxed, spec, 2);
    spec.mode = SYNC_REPLICATED;
    spec.schedule.towers = 2;
    fixture_result_of(&strong, &spec);
    assert_memory_not_equal(relaxed.weights[0], strong.weights[0], strong.count * sizeof(float));
}

int main(void)
{
    static const enum sync_mode modes[] = { SYNC_RELAXED, SYNC_SERVER_DEVICE_RELAXED, SYNC_SERVER_HOST_RELAXED };
    int failed = 0;
    alarm(300);
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        relaxed_mode = modes[m];
        print_message("%s\n", sync_table[relaxed_mode]->name);
        failed += tests_run(NULL, NULL);
    }
    return failed;
}
