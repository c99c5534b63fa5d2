/* Tests of averages of weights and statistics, on every backend: they are where PyTorch's are, evaluation sees them,
 * training does not, and a state holds both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/peers/average_trajectory.h"

static struct net *net_make(void)
{
    return tower_fixture_norm_net(AVERAGED_NUMBERS, 0);
}

static void open_averaging(struct tower_fixture *fixture, const char *backend, const struct net *net, double decay,
                           enum precision precision)
{
    tower_fixture_open_device(fixture, backend);
    struct tower_spec spec = tower_fixture_spec(fixture, backend, net);
    spec.average_decay = decay;
    spec.backend_spec.precision = precision;
    tower_fixture_open_tower(fixture, &spec);
}

static void show(struct tower_fixture *fixture, bool is_shown)
{
    assert_int_equal(tower_show_average(fixture->tower, is_shown), 0);
}

/* ---- where they are ---- */

static float number_at(uint32_t step, uint32_t i)
{
    return ((float)((step * 29 + i * 13 + step * i * 5) % 43) - 17) / 16;
}

static void write_numbers(struct tower_fixture *fixture, const struct net *net, uint32_t parameter, uint32_t step,
                          uint32_t first)
{
    float *plain = calloc(net->parameters[parameter].count, sizeof(*plain));
    assert_non_null(plain);
    for (uint32_t i = 0; i < AVERAGED_NUMBERS; i++)
        plain[i] = number_at(step, first + i);
    assert_int_equal(tower_write(fixture->tower, parameter, plain), 0);
    free(plain);
}

static void assert_numbers(struct tower_fixture *fixture, const struct net *net, uint32_t parameter,
                           const double *expected)
{
    float *plain = malloc(net->parameters[parameter].count * sizeof(*plain));
    assert_non_null(plain);
    assert_int_equal(tower_read(fixture->tower, parameter, plain), 0);
    for (uint32_t i = 0; i < AVERAGED_NUMBERS; i++)
        assert_true(fabs((double)plain[i] - expected[i]) < 1e-5);
    for (uint64_t i = AVERAGED_NUMBERS; i < net->parameters[parameter].count; i++)
        assert_true(plain[i] == 0);
    free(plain);
}

TEST_ON_EACH_BACKEND(averages_are_where_pytorch_s_are_in_100_steps)
{
    struct net *net = net_make();
    struct tower_fixture fixture;
    uint32_t mean = 0, point = 0;
    while (net->parameters[mean].is_trained)
        mean++;
    open_averaging(&fixture, backend, net, AVERAGED_DECAY, PRECISION_FP32);
    for (uint32_t step = 0; step < AVERAGED_STEPS; step++) {
        write_numbers(&fixture, net, 0, step, 0);
        write_numbers(&fixture, net, mean, step, AVERAGED_NUMBERS);
        assert_int_equal(tower_update_average(fixture.tower, step), 0);
        if (step + 1 != averaged_trajectory[point].steps)
            continue;
        show(&fixture, true);
        assert_numbers(&fixture, net, 0, averaged_trajectory[point].weights);
        assert_numbers(&fixture, net, mean, averaged_trajectory[point].statistics);
        show(&fixture, false);
        point++;
    }
    assert_int_equal(point, sizeof(averaged_trajectory) / sizeof(averaged_trajectory[0]));
    tower_fixture_close(&fixture);
    net_close(net);
}

/* ---- who sees them ---- */

static void train_step(struct tower_fixture *fixture, uint64_t step)
{
    tower_fixture_train(fixture);
    tower_fixture_check_and_update(fixture);
    assert_int_equal(tower_update_average(fixture->tower, step), 0);
}

static void check_evaluation(const char *backend, const struct net *net, enum precision precision)
{
    const size_t bytes = (net->trainable_count + net->statistic_count) * sizeof(float);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture averaging, plain, other;
    struct tower_fixture *const fixtures[] = { &averaging, &plain, &other };
    for (int i = 0; i < 3; i++) {
        open_averaging(fixtures[i], backend, net, i == 0 ? 0.5 : 0, precision);
        tower_fixture_fill(fixtures[i], net, &input, 0, FIXTURE_BATCH);
    }
    for (uint64_t step = 0; step < 3; step++) {
        train_step(&averaging, step);
        train_step(&plain, step);
    }
    float *trained = tower_fixture_weights(&averaging, net);
    show(&averaging, true);
    float *averaged = tower_fixture_weights(&averaging, net);
    assert_memory_not_equal(averaged, trained, bytes);
    tower_fixture_set_weights(&other, net, averaged);
    assert_true(tower_fixture_evaluate(&averaging).loss_sum == tower_fixture_evaluate(&other).loss_sum);
    assert_true(tower_fixture_evaluate(&averaging).loss_sum != tower_fixture_evaluate(&plain).loss_sum);
    show(&averaging, false);
    float *back = tower_fixture_weights(&averaging, net), *expected = tower_fixture_weights(&plain, net);
    assert_memory_equal(back, trained, bytes);
    assert_memory_equal(expected, trained, bytes);
    assert_true(tower_fixture_train(&averaging).loss_sum == tower_fixture_train(&plain).loss_sum);
    tower_fixture_assert_gradients_equal(&averaging, &plain);
    float *const arrays[] = { trained, averaged, back, expected };
    for (int i = 0; i < 4; i++)
        free(arrays[i]);
    for (int i = 0; i < 3; i++)
        tower_fixture_close(fixtures[i]);
    network_input_release(&input);
}

TEST_ON_EACH_BACKEND(evaluation_sees_the_averages_and_training_does_not)
{
    struct net *net = net_make();
    const bool is_wide_only = backend_find(backend)->host_memory;
    check_evaluation(backend, net, PRECISION_FP32);
    for (enum precision precision = PRECISION_BF16; precision <= PRECISION_FP16 && !is_wide_only; precision++)
        check_evaluation(backend, net, precision);
    net_close(net);
}

/* ---- a state ---- */

static void take_state(struct tower_fixture *fixture, const struct net *net, float *values, float *averages)
{
    struct snapshot *const snapshot = tower_fixture_snapshot(fixture, SNAPSHOT_STATE);
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        assert_int_equal(snapshot_value(snapshot, p, values), 0);
        assert_int_equal(snapshot_average(snapshot, p, averages), 0);
        values += net->parameters[p].count;
        averages += net->parameters[p].count;
    }
    snapshot_close(snapshot);
}

/* Taken while the averages are shown, which ends then. */
TEST_ON_EACH_BACKEND(averages_go_on_from_a_state)
{
    struct net *net = net_make();
    const size_t count = net->trainable_count + net->statistic_count;
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture first, second;
    float *values = malloc(count * sizeof(float)), *averages = malloc(count * sizeof(float));
    assert_non_null(values);
    assert_non_null(averages);
    open_averaging(&first, backend, net, 0.75, PRECISION_FP32);
    open_averaging(&second, backend, net, 0.75, PRECISION_FP32);
    tower_fixture_fill(&first, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_fill(&second, net, &input, 0, FIXTURE_BATCH);
    for (uint64_t step = 0; step < 3; step++)
        train_step(&first, step);
    show(&first, true);
    take_state(&first, net, values, averages);
    assert_false(tower_shows_average(first.tower));
    const float *average = averages;
    tower_fixture_set_weights(&second, net, values);
    for (uint32_t p = 0; p < net->parameter_count; average += net->parameters[p++].count)
        assert_int_equal(snapshot_write_average(second.tower, p, average), 0);
    for (uint64_t step = 3; step < 6; step++) {
        train_step(&first, step);
        train_step(&second, step);
    }
    for (int shown = 0; shown < 2; shown++) {
        show(&first, shown);
        show(&second, shown);
        float *a = tower_fixture_weights(&first, net), *b = tower_fixture_weights(&second, net);
        assert_memory_equal(a, b, count * sizeof(float));
        free(a);
        free(b);
    }
    tower_fixture_close(&first);
    tower_fixture_close(&second);
    free(values);
    free(averages);
    network_input_release(&input);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
