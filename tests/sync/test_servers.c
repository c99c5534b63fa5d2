/* Tests of parameter servers with whole towers: they do what replicated towers do, to the bit where sums are in the
 * same order, whatever the rule, and what is saved is all of it. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_rig.h"

/* The tests are run for each. */
static const char *reduction = "host";
static enum sync_mode server;

static struct rig rig;

/* Epochs end with a partial batch; slices are uneven. */
static const struct schedule uneven = { .records = { 53, 17 }, .batch = 12, .epochs = 2 };
/* Batches of 4 and, last in an epoch, of 2: towers from the fifth on never have a sample. */
static const struct schedule sparse = { .records = { 14, 3 }, .batch = 4, .epochs = 3 };

static const struct optimizer rules[] = {
    { .kind = OPTIMIZER_SGD },
    { .kind = OPTIMIZER_SGD, .weight_decay = 1e-3f, .clip_value = 1e-3 },
    { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f, .weight_decay = 1e-3f },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .clip_norm = 0.05 },
    { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-6f },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f },
    { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.01, .weight_decay = 1e-3f },
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

/* Towers on a simulated device take long under a sanitizer: the kernels of each rule have tests of their own. */
static int rules_here(void)
{
    return test_device_ops()->host_memory ? RULES : 4;
}

/* What every tower has at the end, and what would be saved of it. */
struct outcome {
    float weights[RIG_TOWERS_MAX][RIG_FLOATS_MAX], saved[RIG_TOWERS_MAX][RIG_STATE_MAX];
    size_t count, saved_count;
};

static void run(struct outcome *outcome, struct rig_spec spec)
{
    memset(outcome, 0, sizeof(*outcome));
    spec.reduction = reduction;
    spec.saves = true;
    rig_open(&rig, &spec);
    rig_run(&rig);
    assert_int_equal(rig.batches, schedule_batch_count(&rig.schedule));
    outcome->count = rig_floats(&rig);
    for (uint32_t d = 0; d < rig.schedule.towers; d++) {
        rig_read_weights(&rig, d, outcome->weights[d]);
        outcome->saved_count = rig_read_last(&rig, d, outcome->saved[d]);
    }
    rig_close(&rig);
}

static void assert_as(const struct outcome *outcome, uint32_t tower, const struct outcome *expected)
{
    assert_memory_equal(outcome->weights[tower], expected->weights[tower], expected->count * sizeof(float));
    assert_memory_equal(outcome->saved[tower], expected->saved[tower], expected->saved_count * sizeof(float));
}

static void check(struct rig_spec spec)
{
    static struct outcome served, replicated;
    spec.mode = server;
    run(&served, spec);
    spec.mode = SYNC_REPLICATED;
    run(&replicated, spec);
    assert_true(served.saved_count >= served.count);
    for (uint32_t d = 0; d < spec.schedule.towers; d++)
        assert_as(&served, d, &replicated);
}

static struct schedule with_towers(const struct schedule *schedule, uint32_t towers)
{
    struct schedule all = *schedule;
    all.towers = towers;
    return all;
}

static void towers_that_are_served_do_what_replicated_ones_do(void **state)
{
    (void)state;
    const uint32_t *towers;
    const size_t counts = rig_tower_counts(&towers);
    for (size_t n = counts; n-- > 0;)
        for (int i = 0; i < rules_here(); i++)
            if (rig_is_thorough() || ((size_t)i + server) % counts == n)
                check((struct rig_spec){ .schedule = with_towers(&uneven, towers[n]), .optimizer = rules[i] });
}

static void towers_without_samples_get_what_the_others_learn(void **state)
{
    (void)state;
    const uint32_t *towers;
    const size_t most = rig_tower_counts(&towers) - 1;
    for (int i = 0; i < rules_here(); i++)
        if (rig_is_thorough() || i == (server == SYNC_SERVER_HOST))
            check((struct rig_spec){ .schedule = with_towers(&sparse, towers[most]), .optimizer = rules[i] });
}

static void statistics_averages_pieces_and_frozen_layers_are_as_replicated(void **state)
{
    (void)state;
    for (uint32_t towers = rig_is_thorough() ? 2 : 3; towers <= 3; towers++) {
        const struct schedule schedule = with_towers(&uneven, towers);
        check((struct rig_spec){ .schedule = schedule, .optimizer = rules[2], .normalizes = true });
        check((struct rig_spec){ .schedule = schedule, .optimizer = rules[2], .normalizes = true,
                                 .average_decay = 0.8 });
        check((struct rig_spec){ .schedule = schedule, .optimizer = rules[2], .piece_max = 3 });
        check((struct rig_spec){ .schedule = schedule, .optimizer = rules[2], .freezes = "conv" });
    }
}

/* Nothing is missing from any weights: every tower waits for all others, and their updates are made as one. */
static void asynchronous_towers_with_no_bound_to_spare_are_synchronous(void **state)
{
    (void)state;
    server = SYNC_ASYNC;
    const uint32_t *towers;
    for (size_t n = rig_tower_counts(&towers); n-- > 0;)
        check((struct rig_spec){ .schedule = with_towers(&uneven, towers[n]), .optimizer = rules[2],
                                 .max_staleness = 0 });
}

/* The last tower's first samples come late: the others are ahead of it by as much as they may. */
static void asynchronous_towers_are_ahead_by_the_bound_and_never_more(void **state)
{
    (void)state;
    static struct outcome outcome;
    static const uint32_t bounds[] = { 1, 2, 4 };
    static const struct schedule longer = { .records = { 118, 5 }, .batch = 12, .towers = 3, .epochs = 2 };
    for (int i = 0; i < rules_here(); i++)
        for (size_t k = 0; k < sizeof(bounds) / sizeof(bounds[0]); k++) {
            if (!rig_is_thorough() && (size_t)i % (sizeof(bounds) / sizeof(bounds[0])) != k)
                continue;
            run(&outcome, (struct rig_spec){ .schedule = longer, .optimizer = rules[i],
                                             .mode = SYNC_ASYNC, .max_staleness = bounds[k], .is_late = true,
                                             .normalizes = i == 2 });
            assert_int_equal(rig.lanes[0].stalest, bounds[k]);
            assert_int_equal(rig.lanes[1].stalest, bounds[k]);
            assert_true(rig.lanes[2].stalest <= bounds[k]);
            for (uint32_t d = 1; d < 3; d++)
                assert_memory_equal(outcome.weights[d], outcome.weights[0], outcome.count * sizeof(float));
        }
}

/* What one tower with whole batches does, to rounding. */
static void towers_that_are_served_learn_as_one(void **state)
{
    (void)state;
    static struct outcome many, one;
    struct rig_spec spec = { .schedule = with_towers(&uneven, 1), .optimizer = rules[0], .mode = SYNC_REPLICATED };
    run(&one, spec);
    spec.mode = server;
    const uint32_t *towers;
    for (size_t n = rig_tower_counts(&towers); n-- > 0;) {
        spec.schedule.towers = towers[n];
        run(&many, spec);
        for (size_t i = 0; i < one.count; i++)
            assert_float_equal(many.weights[0][i], one.weights[0][i], 1e-5);
    }
}

static int test_server(const char *name, enum sync_mode mode)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers_that_are_served_do_what_replicated_ones_do),
        cmocka_unit_test(towers_without_samples_get_what_the_others_learn),
        cmocka_unit_test(statistics_averages_pieces_and_frozen_layers_are_as_replicated),
        cmocka_unit_test(towers_that_are_served_learn_as_one),
    };
    reduction = name;
    server = mode;
    print_message("%s, %s\n", sync_table[mode]->place, name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int test_async(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asynchronous_towers_with_no_bound_to_spare_are_synchronous),
        cmocka_unit_test(asynchronous_towers_are_ahead_by_the_bound_and_never_more),
    };
    reduction = "host";
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    alarm(300);
    const bool is_cuda = !test_device_ops()->host_memory;
    int failed = test_server("host", SYNC_SERVER_DEVICE);
    failed += test_server("host", SYNC_SERVER_HOST);
    failed += is_cuda ? test_server("peer", SYNC_SERVER_DEVICE) : 0;
    return failed + test_async();
}
