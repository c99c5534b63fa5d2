/* Tests of parameter servers with whole towers: they do what replicated towers do, to the bit where sums are in the
 * same order, whatever the rule, and what is saved is all of it. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_fixture.h"

/* The tests are run for each, and with towers that are dealt to several ranks. */
static enum sync_mode server;
static bool has_ranks;

/* A tower or two each. */
static uint32_t ranks_of(uint32_t towers)
{
    return !has_ranks || towers == 1 ? 0 : towers > 5 ? towers / 2 : towers;
}

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

static void run(struct fixture_result *result, struct fixture_spec spec)
{
    spec.saves = true;
    fixture_result_of(result, &spec);
}

static void assert_as(const struct fixture_result *result, uint32_t tower, const struct fixture_result *expected)
{
    assert_memory_equal(result->weights[tower], expected->weights[tower], expected->count * sizeof(float));
    assert_memory_equal(result->saved[tower], expected->saved[tower], expected->saved_count * sizeof(float));
}

static void check(struct fixture_spec spec)
{
    static struct fixture_result served, replicated;
    spec.mode = server;
    spec.ranks = ranks_of(spec.schedule.towers);
    run(&served, spec);
    spec.mode = SYNC_REPLICATED;
    spec.ranks = 0;
    run(&replicated, spec);
    assert_true(served.saved_count >= served.count);
    for (uint32_t d = 0; d < spec.schedule.towers; d++)
        assert_as(&served, d, &replicated);
}

static void towers_that_are_served_do_what_replicated_ones_do(void **state)
{
    (void)state;
    const uint32_t *towers;
    const size_t counts = fixture_tower_counts(&towers);
    for (size_t n = counts; n-- > 0;)
        for (int i = 0; i < rules_here(); i++)
            if (fixture_is_thorough() || ((size_t)i + server) % counts == n)
                check((struct fixture_spec){ .schedule = fixture_uneven(towers[n]), .optimizer = rules[i] });
}

static void towers_without_samples_get_what_the_others_learn(void **state)
{
    (void)state;
    const uint32_t *towers;
    const size_t most = fixture_tower_counts(&towers) - 1;
    for (int i = 0; i < rules_here(); i++)
        if (fixture_is_thorough() || i == (server == SYNC_SERVER_HOST))
            check((struct fixture_spec){ .schedule = fixture_sparse(towers[most]), .optimizer = rules[i] });
}

static void statistics_averages_microbatches_and_frozen_layers_are_as_replicated(void **state)
{
    (void)state;
    for (uint32_t towers = fixture_is_thorough() ? 2 : 3; towers <= 3; towers++) {
        const struct schedule schedule = fixture_uneven(towers);
        check((struct fixture_spec){ .schedule = schedule, .optimizer = rules[2], .normalizes = true });
        check((struct fixture_spec){ .schedule = schedule, .optimizer = rules[2], .normalizes = true,
                                 .average_decay = 0.8 });
        check((struct fixture_spec){ .schedule = schedule, .optimizer = rules[2], .microbatch_max = 3 });
        check((struct fixture_spec){ .schedule = schedule, .optimizer = rules[2], .freezes = "conv" });
    }
}

/* Nothing is missing from any weights: every tower waits for all others, and their updates are made as one. */
static void asynchronous_towers_with_no_bound_to_spare_are_synchronous(void **state)
{
    (void)state;
    server = SYNC_ASYNC;
    const uint32_t *towers;
    for (size_t n = fixture_tower_counts(&towers); n-- > 0;)
        check((struct fixture_spec){ .schedule = fixture_uneven(towers[n]), .optimizer = rules[2],
                                 .max_staleness = 0 });
}

/* Batches of one sample: no other tower's updates come between, so each is made from the weights that it changes. */
static void asynchronous_towers_of_which_one_has_samples_do_what_replicated_ones_do(void **state)
{
    (void)state;
    const struct schedule schedule = { .records = { 30, 5 }, .batch = 1, .towers = 2, .epochs = 1 };
    for (int i = 0; i < rules_here(); i++)
        check((struct fixture_spec){ .schedule = schedule, .optimizer = rules[i], .max_staleness = 2 });
}

/* The last tower's first samples come late: the others are ahead of it by as much as they may. */
static void asynchronous_towers_are_ahead_by_the_bound_and_never_more(void **state)
{
    (void)state;
    static struct fixture_result result;
    static const uint32_t bounds[] = { 1, 2, 4 };
    static const struct schedule longer = { .records = { 118, 5 }, .batch = 12, .towers = 3, .epochs = 2 };
    for (int i = 0; i < rules_here(); i++)
        for (size_t k = 0; k < sizeof(bounds) / sizeof(bounds[0]); k++) {
            if (!fixture_is_thorough() && (size_t)i % (sizeof(bounds) / sizeof(bounds[0])) != k)
                continue;
            run(&result, (struct fixture_spec){ .schedule = longer, .optimizer = rules[i],
                                             .mode = SYNC_ASYNC, .max_staleness = bounds[k], .is_late = true,
                                             .normalizes = i == 2, .ranks = ranks_of(3) });
            assert_int_equal(result.stalest[0], bounds[k]);
            assert_int_equal(result.stalest[1], bounds[k]);
            assert_true(result.stalest[2] <= bounds[k]);
            for (uint32_t d = 1; d < 3; d++)
                assert_memory_equal(result.weights[d], result.weights[0], result.count * sizeof(float));
        }
}

/* What one tower with whole batches does, to rounding. */
static void towers_that_are_served_learn_as_one(void **state)
{
    (void)state;
    static struct fixture_result many, one;
    struct fixture_spec spec = { .schedule = fixture_uneven(1), .optimizer = rules[0], .mode = SYNC_REPLICATED };
    run(&one, spec);
    spec.mode = server;
    const uint32_t *towers;
    for (size_t n = fixture_tower_counts(&towers); n-- > 0;) {
        spec.schedule.towers = towers[n];
        run(&many, spec);
        assert_near(many.weights[0], one.weights[0], one.count, 1e-5f);
    }
}

/* Ranks compute what one process computes, which is compared with one tower. */
static int test_ranks(enum sync_mode mode)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers_that_are_served_do_what_replicated_ones_do),
        cmocka_unit_test(towers_without_samples_get_what_the_others_learn),
        cmocka_unit_test(statistics_averages_microbatches_and_frozen_layers_are_as_replicated),
    };
    fixture_reduction = "host";
    server = mode;
    has_ranks = true;
    print_message("%s, ranks\n", sync_table[mode]->place);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    has_ranks = false;
    return failed;
}

static int test_server(const char *name, enum sync_mode mode)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers_that_are_served_do_what_replicated_ones_do),
        cmocka_unit_test(towers_without_samples_get_what_the_others_learn),
        cmocka_unit_test(statistics_averages_microbatches_and_frozen_layers_are_as_replicated),
        cmocka_unit_test(towers_that_are_served_learn_as_one),
    };
    fixture_reduction = name;
    server = mode;
    print_message("%s, %s\n", sync_table[mode]->place, name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static int test_async(bool is_dealt)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asynchronous_towers_with_no_bound_to_spare_are_synchronous),
        cmocka_unit_test(asynchronous_towers_of_which_one_has_samples_do_what_replicated_ones_do),
        cmocka_unit_test(asynchronous_towers_are_ahead_by_the_bound_and_never_more),
    };
    fixture_reduction = "host";
    has_ranks = is_dealt;
    print_message("asynchronous, %s\n", is_dealt ? "ranks" : "one process");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    alarm(300);
    const bool is_cuda = !test_device_ops()->host_memory;
    int failed = test_server("host", SYNC_SERVER_DEVICE);
    failed += test_server("host", SYNC_SERVER_HOST);
    failed += is_cuda ? test_server("peer", SYNC_SERVER_DEVICE) : 0;
    failed += test_ranks(SYNC_SERVER_DEVICE);
    return failed + test_async(false) + test_async(true);
}
