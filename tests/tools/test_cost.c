/* Tests of what a run costs: sums over its processes, and the values made of them. */
#include <math.h>
#include <string.h>

#include "stage/clock.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/run/cost.h"

#define SECOND UINT64_C(1000000000)

static struct settings settings;
static struct cost cost;

/* A process that started `seconds` ago. */
static void open_cost(const char *price, uint64_t seconds)
{
    char assignment[64];
    struct problems problems;
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    snprintf(assignment, sizeof(assignment), "report.price=%s", price);
    assert_int_equal(config_set(&settings, assignment, &problems), 0);
    problems_release(&problems);
    cost_open(&cost, &settings, NULL, clock_now_ns() - seconds * SECOND);
}

static void close_cost(void)
{
    cost_release(&cost);
    settings_release(&settings);
}

static void assert_seconds(uint64_t ns, uint64_t seconds)
{
    assert_in_range(ns, seconds * SECOND, seconds * SECOND + 600 * SECOND);
}

TEST(time_counts_from_the_start_of_the_process)
{
    open_cost("3.6 EUR", 3600);
    const struct account_state sums = { .order_hash = 0 };
    cost_begin(&cost, &(struct run_spent){ 0, 0, 0, 0 }, &sums);
    const struct run_spent spent = cost_spent(&cost);
    assert_seconds(spent.wall_ns, 3600);
    assert_int_equal(spent.wall_ns, spent.machines_ns);
    assert_true(cost_money(&cost.price, &spent) >= 3.6);
    close_cost();
}

TEST(a_resumed_run_adds_up_and_a_rollback_does_not)
{
    const struct account_state sums = { .training = { .wall_ns = 7 * SECOND } };
    open_cost("3.6 EUR", 1000);
    cost_begin(&cost, &(struct run_spent){ 5000 * SECOND, 10000 * SECOND, 70, 0 }, &sums);
    cost_begin(&cost, &(struct run_spent){ 90000 * SECOND, 90000 * SECOND, 5, 0 }, &sums);
    const struct run_spent spent = cost_spent(&cost);
    assert_seconds(spent.wall_ns, 6000);
    assert_seconds(spent.machines_ns, 11000);
    assert_int_equal(spent.microjoules, 70 + energy_sum(&cost.energy));
    close_cost();
}

TEST(of_an_older_checkpoint_the_time_of_training_is_known)
{
    const struct account_state sums = { .training = { .wall_ns = 4000 * SECOND } };
    open_cost("", 1000);
    cost_begin(&cost, &(struct run_spent){ 0, 0, 0, 0 }, &sums);
    const struct run_spent spent = cost_spent(&cost);
    assert_seconds(spent.wall_ns, 5000);
    assert_int_equal(spent.is_partial, 1);
    close_cost();
}

TEST(several_machines_cost_as_many_times_the_price)
{
    const struct run_progress progress = { .spent = { 3600 * SECOND, 14400 * SECOND, 2000000, 0 },
                                           .best_spent = { 1800 * SECOND, 7200 * SECOND, 1000000, 0 } };
    struct metric_values values = { .has = 0 };
    open_cost("$2", 0);
    cost_measure(&cost, 1000, &progress, &values);
    const struct cost_values *const found = &values.run.cost;
    assert_int_equal(values.has, NEEDS_PRICE | NEEDS_ENERGY);
    assert_true(found->seconds == 3600 && found->machine_seconds == 14400);
    assert_true(found->money == 8 && found->images_per_money == 125);
    assert_true(found->joules == 2 && found->images_per_joule == 500 && found->is_whole_energy);
    assert_true(found->best.seconds == 1800 && found->best.money == 4 && found->best.joules == 1);
    close_cost();
}

TEST(what_is_unknown_is_left_out)
{
    const struct run_progress progress = { .spent = { 3600 * SECOND, 3600 * SECOND, 0, 1 } };
    struct metric_values values = { .has = 0 };
    open_cost("", 0);
    cost_measure(&cost, 1000, &progress, &values);
    assert_int_equal(values.has, 0);
    assert_true(isnan(values.run.cost.money) && isnan(values.run.cost.images_per_money));
    assert_true(isnan(values.run.cost.joules) && isnan(values.run.cost.best.seconds));
    close_cost();
}

TESTS_MAIN(NULL, NULL)
