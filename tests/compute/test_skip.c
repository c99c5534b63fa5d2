/* Steps whose gradients are not finite are left out: the tower is as if they had never been, on every backend. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"

static void open_stand(struct tower_fixture *fixture, const char *backend, const struct net *net, bool skips)
{
    tower_fixture_open_device(fixture, backend);
    struct tower_spec spec = tower_fixture_spec(fixture, backend, net);
    spec.optimizer = (struct optimizer){ .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8f };
    spec.backend_spec.skips_nonfinite = skips;
    spec.average_decay = 0.75;
    tower_fixture_open_tower(fixture, &spec);
}

/* One step as sync makes it: was it left out? */
static bool step(struct tower_fixture *fixture, uint64_t number)
{
    struct optimizer_step step = tower_fixture_step;
    step.number = number;
    step.learning_rate = 0.01f;
    fixture->ready_count = 0;
    tower_fixture_forward(fixture, true);
    assert_int_equal(tower_backward(fixture->tower, tower_fixture_note_ready, fixture), 0);
    if (tower_updates_at_once(fixture->tower)) {
        assert_int_equal(tower_check(fixture->tower, 0, tower_fixture_floats(fixture) / 2), 0);
        assert_int_equal(tower_check(fixture->tower, tower_fixture_floats(fixture) / 2,
                                     tower_fixture_floats(fixture) - tower_fixture_floats(fixture) / 2), 0);
    }
    assert_int_equal(tower_update(fixture->tower, 0, tower_fixture_floats(fixture), &step), 0);
    assert_int_equal(tower_update_average(fixture->tower, number), 0);
    return tower_fixture_result(fixture).is_skipped != 0;
}

/* All values, averages and buffers of the tower, to be freed. */
static float *numbers_of(const struct tower_fixture *fixture, const struct net *net, size_t *count_out)
{
    size_t count = 0, at = 0;
    for (uint32_t p = 0; p < net->parameter_count; p++)
        count += net->parameters[p].count * (net->parameters[p].is_trained ? 4 : 2);
    float *const numbers = calloc(count, sizeof(*numbers));
    assert_non_null(numbers);
    struct snapshot *const snapshot = tower_fixture_snapshot(fixture, SNAPSHOT_STATE);
    for (uint32_t p = 0; p < net->parameter_count; at += net->parameters[p++].count) {
        assert_int_equal(snapshot_value(snapshot, p, numbers + at), 0);
        at += net->parameters[p].count;
        assert_int_equal(snapshot_average(snapshot, p, numbers + at), 0);
        for (uint32_t s = 0; s < 2 && net->parameters[p].is_trained; s++) {
            at += net->parameters[p].count;
            assert_int_equal(snapshot_state(snapshot, s, p, numbers + at), 0);
        }
    }
    snapshot_close(snapshot);
    *count_out = count;
    return numbers;
}

static void assert_same(const struct tower_fixture *a, const struct tower_fixture *b, const struct net *net)
{
    size_t count;
    float *const ours = numbers_of(a, net, &count), *const theirs = numbers_of(b, net, &count);
    for (size_t i = 0; i < count; i++)
        assert_true(isfinite(ours[i]));
    assert_memory_equal(ours, theirs, count * sizeof(*ours));
    free(ours);
    free(theirs);
}

/* A step with this number in a weight of the parameter, which then is as it was. */
static bool broken_step(struct tower_fixture *fixture, const struct net *net, uint32_t parameter, float number)
{
    float *const values = malloc(net->parameters[parameter].count * sizeof(*values));
    assert_non_null(values);
    assert_int_equal(tower_read(fixture->tower, parameter, values), 0);
    const float before = values[1];
    values[1] = number;
    assert_int_equal(tower_write(fixture->tower, parameter, values), 0);
    const bool was_skipped = step(fixture, 2);
    values[1] = before;
    assert_int_equal(tower_write(fixture->tower, parameter, values), 0);
    free(values);
    return was_skipped;
}

/* The batch normalisation sees the numbers of the convolution, so that statistics break as well. */
TEST_ON_EACH_BACKEND(a_step_that_is_left_out_changes_nothing)
{
    struct net *net = tower_fixture_norm_net(5, 0);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 5);
    struct tower_fixture fixture, other;
    open_stand(&fixture, backend, net, true);
    open_stand(&other, backend, net, false);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_fill(&other, net, &input, 0, FIXTURE_BATCH);
    for (uint64_t number = 0; number < 2; number++) {
        assert_false(step(&fixture, number));
        assert_false(step(&other, number));
    }
    assert_same(&fixture, &other, net);
    assert_true(broken_step(&fixture, net, 0, NAN));
    assert_same(&fixture, &other, net);
    assert_true(broken_step(&fixture, net, net->parameter_count - 1, INFINITY));
    assert_same(&fixture, &other, net);
    assert_false(step(&fixture, 3));
    assert_false(step(&other, 3));
    assert_same(&fixture, &other, net);
    tower_fixture_close(&other);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

/* A logit of -infinity makes the loss infinite, and each gradient of a softmax finite. */
TEST_ON_EACH_BACKEND(a_loss_that_is_not_finite_is_found_in_the_gradients)
{
    struct net *net = network_net_end(network_net_begin("dense", (struct shape){ 1, 2, 2 }, 4), NET_INPUT);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 5);
    static const int32_t labels[FIXTURE_BATCH] = { 1, 1, 1, 1, 1, 1 };
    const struct backend_input ones = { .pixels = input.pixels, .labels = labels };
    struct tower_fixture fixture, other;
    float biases[4];
    open_stand(&fixture, backend, net, true);
    open_stand(&other, backend, net, true);
    tower_fixture_fill(&fixture, net, &ones, 0, FIXTURE_BATCH);
    tower_fixture_fill(&other, net, &ones, 0, FIXTURE_BATCH);
    assert_false(step(&fixture, 0));
    assert_false(step(&other, 0));
    assert_int_equal(tower_read(fixture.tower, 1, biases), 0);
    biases[1] = -INFINITY;
    assert_int_equal(tower_write(fixture.tower, 1, biases), 0);
    assert_true(step(&fixture, 1));
    assert_true(tower_fixture_result(&fixture).loss_sum > 1e300);
    assert_int_equal(tower_read(other.tower, 1, biases), 0);
    assert_int_equal(tower_write(fixture.tower, 1, biases), 0);
    assert_same(&fixture, &other, net);
    tower_fixture_close(&other);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
