/* Steps whose gradients are not finite are left out: the tower is as if they had never been, on every backend. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/snapshot.h"
#include "tests/helpers/network/tower_stand.h"
#include "tests/helpers/test.h"

/* A convolution whose numbers the batch normalisation behind it sees, so that statistics break as well. */
static struct net *open_net(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "normalised", (struct shape){ 1, 9, 7 }, 4), 0);
    net_conv2d(net, "conv", NET_INPUT, 5, window_square(3, 1, PADDING_VALID), false);
    net_batch_norm(net, "norm", 0, (struct batch_norm){ 0.9f, 1e-3f, true });
    net_relu(net, "relu", 1);
    net_dense(net, "fc", 2, 4, true);
    net_softmax_loss(net, "loss", 3);
    assert_int_equal(net_finish(net), 0);
    return net;
}

static void open_stand(struct stand *stand, const char *backend, const struct net *net, bool skips)
{
    stand_open_device(stand, backend);
    struct tower_spec spec = stand_spec(stand, backend, net);
    spec.optimizer = (struct optimizer){ .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8f };
    spec.backend_spec.skips_nonfinite = skips;
    spec.average_decay = 0.75;
    stand_open_tower(stand, &spec);
}

/* One step as sync makes it: was it left out? */
static bool step(struct stand *stand, uint64_t number)
{
    struct optimizer_step step = stand_step;
    step.number = number;
    step.learning_rate = 0.01f;
    stand->ready_count = 0;
    stand_forward(stand, true);
    assert_int_equal(tower_backward(stand->tower, stand_note_ready, stand), 0);
    if (tower_updates_at_once(stand->tower)) {
        assert_int_equal(tower_check(stand->tower, 0, stand_floats(stand) / 2), 0);
        assert_int_equal(tower_check(stand->tower, stand_floats(stand) / 2,
                                     stand_floats(stand) - stand_floats(stand) / 2), 0);
    }
    assert_int_equal(tower_update(stand->tower, 0, stand_floats(stand), &step), 0);
    assert_int_equal(tower_update_average(stand->tower, number), 0);
    return stand_result(stand).is_skipped != 0;
}

/* All values, averages and buffers of the tower, to be freed. */
static float *numbers_of(const struct stand *stand, const struct net *net, size_t *count_out)
{
    size_t count = 0, at = 0;
    struct snapshot *snapshot;
    for (uint32_t p = 0; p < net->parameter_count; p++)
        count += net->parameters[p].count * (net->parameters[p].is_trained ? 4 : 2);
    float *const numbers = calloc(count, sizeof(*numbers));
    assert_non_null(numbers);
    assert_int_equal(snapshot_open(&snapshot, stand->tower, SNAPSHOT_STATE), 0);
    assert_int_equal(snapshot_queue(snapshot), 0);
    assert_int_equal(event_wait(snapshot_end(snapshot)), 0);
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

static void assert_same(const struct stand *a, const struct stand *b, const struct net *net)
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
static bool broken_step(struct stand *stand, const struct net *net, uint32_t parameter, float number)
{
    float *const values = malloc(net->parameters[parameter].count * sizeof(*values));
    assert_non_null(values);
    assert_int_equal(tower_read(stand->tower, parameter, values), 0);
    const float before = values[1];
    values[1] = number;
    assert_int_equal(tower_write(stand->tower, parameter, values), 0);
    const bool was_skipped = step(stand, 2);
    values[1] = before;
    assert_int_equal(tower_write(stand->tower, parameter, values), 0);
    free(values);
    return was_skipped;
}

static void check_left_out(const char *backend)
{
    struct net *net = open_net();
    struct backend_input input = network_input(net, STAND_BATCH, 5);
    struct stand stand, other;
    open_stand(&stand, backend, net, true);
    open_stand(&other, backend, net, false);
    stand_fill(&stand, net, &input, 0, STAND_BATCH);
    stand_fill(&other, net, &input, 0, STAND_BATCH);
    for (uint64_t number = 0; number < 2; number++) {
        assert_false(step(&stand, number));
        assert_false(step(&other, number));
    }
    assert_same(&stand, &other, net);
    assert_true(broken_step(&stand, net, 0, NAN));
    assert_same(&stand, &other, net);
    assert_true(broken_step(&stand, net, net->parameter_count - 1, INFINITY));
    assert_same(&stand, &other, net);
    assert_false(step(&stand, 3));
    assert_false(step(&other, 3));
    assert_same(&stand, &other, net);
    stand_close(&other);
    stand_close(&stand);
    network_input_release(&input);
    net_close(net);
}

TEST(a_step_that_is_left_out_changes_nothing)
{
    network_for_each_backend(check_left_out);
}

/* A logit of -infinity makes the loss infinite, and each gradient of a softmax finite. */
static void check_infinite_loss(const char *backend)
{
    struct net *net;
    assert_int_equal(net_open(&net, "dense", (struct shape){ 1, 2, 2 }, 4), 0);
    net_dense(net, "fc", NET_INPUT, 4, true);
    net_softmax_loss(net, "loss", 0);
    assert_int_equal(net_finish(net), 0);
    struct backend_input input = network_input(net, STAND_BATCH, 5);
    static const int32_t labels[STAND_BATCH] = { 1, 1, 1, 1, 1, 1 };
    const struct backend_input ones = { .pixels = input.pixels, .labels = labels };
    struct stand stand, other;
    float biases[4];
    open_stand(&stand, backend, net, true);
    open_stand(&other, backend, net, true);
    stand_fill(&stand, net, &ones, 0, STAND_BATCH);
    stand_fill(&other, net, &ones, 0, STAND_BATCH);
    assert_false(step(&stand, 0));
    assert_false(step(&other, 0));
    assert_int_equal(tower_read(stand.tower, 1, biases), 0);
    biases[1] = -INFINITY;
    assert_int_equal(tower_write(stand.tower, 1, biases), 0);
    assert_true(step(&stand, 1));
    assert_true(stand_result(&stand).loss_sum > 1e300);
    assert_int_equal(tower_read(other.tower, 1, biases), 0);
    assert_int_equal(tower_write(stand.tower, 1, biases), 0);
    assert_same(&stand, &other, net);
    stand_close(&other);
    stand_close(&stand);
    network_input_release(&input);
    net_close(net);
}

TEST(a_loss_that_is_not_finite_is_found_in_the_gradients)
{
    network_for_each_backend(check_infinite_loss);
}

TESTS_MAIN(NULL, NULL)
