/* Tests of the update rules against 100 steps of the optimizers of others (optimizer_trajectories.py). */
#include "compute/floats.h"
#include "compute/optimizer.h"
#include "tests/helpers/test.h"
#include "tests/peers/optimizer_trajectories.h"
#include "tests/peers/trajectory_numbers.h"

enum { TRAJECTORIES = sizeof(trajectories) / sizeof(trajectories[0]) };

struct numbers { float w[NUMBERS], g[NUMBERS], states[OPTIMIZER_STATES_MAX][NUMBERS]; };

static void numbers_init(struct numbers *numbers, enum optimizer_kind kind)
{
    *numbers = (struct numbers){ 0 };
    for (uint32_t i = 0; i < NUMBERS; i++)
        numbers->w[i] = start_at(i);
    for (uint32_t state = 0; state < optimizer_state_count(kind); state++)
        for (uint32_t i = 0; i < NUMBERS; i++)
            numbers->states[state][i] = optimizer_state_start(kind, state);
}

static const double *squares_of(const float *floats, double *sum)
{
    const struct squares squares = { floats, NUMBERS, sum };
    squares_sum_parts(&squares, 0, SQUARES_PARTS);
    squares_sum(&squares);
    return sum;
}

/* Gradients are sums over 4 samples. */
static void take_step(struct numbers *numbers, const struct trajectory *trajectory, uint32_t number)
{
    const struct optimizer_step step = { number, trajectory->rate, 1.0f / 4 };
    double weight_sum[SQUARES_ROOM], gradient_sum[SQUARES_ROOM];
    struct optimizer_range range = { .weights = numbers->w, .gradients = numbers->g,
                                     .states = { numbers->states[0], numbers->states[1] },
                                     .count = NUMBERS, .decays = true };
    for (uint32_t i = 0; i < NUMBERS; i++)
        numbers->g[i] = 4 * gradient_at(number, i);
    if (optimizer_adapts(trajectory->optimizer.kind)) {
        range.weight_squares = squares_of(numbers->w, weight_sum);
        range.gradient_squares = squares_of(numbers->g, gradient_sum);
    }
    optimizer_update(&trajectory->optimizer, &step, &range);
}

TEST(every_rule_goes_the_way_of_those_it_is_named_for)
{
    for (uint32_t t = 0; t < TRAJECTORIES; t++) {
        struct numbers numbers;
        uint32_t point = 0;
        numbers_init(&numbers, trajectories[t].optimizer.kind);
        for (uint32_t step = 0; step < STEPS; step++) {
            take_step(&numbers, &trajectories[t], step);
            if (points[point] == step + 1)
                trajectory_assert_at(&trajectories[t], point++, numbers.w);
        }
        assert_int_equal(point, POINTS);
    }
}

TEST(there_is_a_way_for_every_rule)
{
    bool is_there[OPTIMIZER_KIND_COUNT] = { false };
    for (uint32_t t = 0; t < TRAJECTORIES; t++)
        is_there[trajectories[t].optimizer.kind] = true;
    for (int kind = 0; kind < OPTIMIZER_KIND_COUNT; kind++)
        assert_true(is_there[kind]);
}

TESTS_MAIN(NULL, NULL)
