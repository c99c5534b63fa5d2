/* Tests of a tower's state on the host, on every backend: it is what the tower has, it stays
 * what it was, and another tower goes on from it bit for bit. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

enum { STEPS = 4, CARRIED_MAX = 256 };

static const struct optimizer optimizers[] = {
    { .kind = OPTIMIZER_SGD, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f },
    { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-8f },
    { .kind = OPTIMIZER_RMSPROP, .rho = 0.9, .momentum = 0.9f, .epsilon = 1.0f },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f },
    { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.01, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_RMSPROP_PYTORCH, .rho = 0.9, .momentum = 0.9f, .epsilon = 1e-2f },
};
enum { OPTIMIZERS = sizeof(optimizers) / sizeof(optimizers[0]) };

/* A state as a file would hold it: plain, parameter after parameter. */
struct plain_state {
    size_t floats;              /* of the values, and of each buffer */
    uint32_t states;
    float *numbers;             /* values, then the buffers */
    uint8_t carried[CARRIED_MAX];
    size_t carried_bytes;
};

static struct plain_state state_make(const struct net *net, const struct optimizer *optimizer)
{
    struct plain_state state = { .states = optimizer_state_count(optimizer->kind) };
    for (uint32_t p = 0; p < net->parameter_count; p++)
        state.floats += net->parameters[p].count;
    state.numbers = calloc((1 + state.states) * state.floats, sizeof(*state.numbers));
    assert_non_null(state.numbers);
    return state;
}

static void state_read(struct plain_state *state, const struct net *net, const struct snapshot *snapshot)
{
    float *next = state->numbers;
    for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count)
        assert_int_equal(snapshot_value(snapshot, p, next), 0);
    for (uint32_t i = 0; i < state->states; i++)
        for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count)
            assert_true(!net->parameters[p].is_trained || snapshot_state(snapshot, i, p, next) == 0);
    const void *carried = snapshot_carried(snapshot, &state->carried_bytes);
    assert_in_range(state->carried_bytes, 0, CARRIED_MAX);
    memcpy(state->carried, carried, state->carried_bytes);
}

static void state_write(const struct plain_state *state, const struct net *net, struct tower_fixture *fixture)
{
    const float *next = state->numbers + state->floats;
    tower_fixture_set_weights(fixture, net, state->numbers);
    for (uint32_t i = 0; i < state->states; i++)
        for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count)
            assert_true(!net->parameters[p].is_trained || snapshot_write_state(fixture->tower, i, p, next) == 0);
    assert_int_equal(snapshot_write_carried(fixture->tower, state->carried, state->carried_bytes), 0);
}

static void assert_states_equal(const struct plain_state *a, const struct plain_state *b)
{
    assert_memory_equal(a->numbers, b->numbers, (1 + a->states) * a->floats * sizeof(*a->numbers));
    assert_int_equal(a->carried_bytes, b->carried_bytes);
    assert_memory_equal(a->carried, b->carried, a->carried_bytes);
}

static struct net *net_make(void)
{
    return tower_fixture_norm_net(5, 0.4f);
}

/* Take the tower's state now. */
static struct plain_state tower_fixture_state(struct tower_fixture *fixture, const struct net *net,
                                              const struct optimizer *optimizer)
{
    struct plain_state state = state_make(net, optimizer);
    struct snapshot *const snapshot = tower_fixture_snapshot(fixture, SNAPSHOT_STATE);
    state_read(&state, net, snapshot);
    snapshot_close(snapshot);
    return state;
}

/* A tower whose first weights are those of `seed`. */
static void tower_fixture_begin(struct tower_fixture *fixture, const char *backend, const struct net *net,
                                const struct optimizer *optimizer, enum precision precision, uint64_t seed)
{
    tower_fixture_open_device(fixture, backend);
    struct tower_spec spec = tower_fixture_spec(fixture, backend, net);
    spec.optimizer = *optimizer;
    spec.backend_spec.precision = precision;
    spec.seed = seed;
    tower_fixture_open_tower(fixture, &spec);
}

/* Steps [first, first + count), each at positions of its own. */
static void tower_fixture_steps(struct tower_fixture *fixture, const struct net *net, uint32_t first, uint32_t count)
{
    for (uint32_t step = first; step < first + count; step++) {
        struct backend_input input = network_input(net, FIXTURE_BATCH, 100 + step);
        input.first_position = step * FIXTURE_BATCH;
        input.epoch = step / 3;
        tower_fixture_fill(fixture, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_train(fixture);
        tower_fixture_check_and_update(fixture);
        network_input_release(&input);
    }
}

static void check_resume(const char *backend, const struct optimizer *optimizer, enum precision precision)
{
    struct net *net = net_make();
    struct tower_fixture whole, part;
    tower_fixture_begin(&whole, backend, net, optimizer, precision, 1);
    tower_fixture_begin(&part, backend, net, optimizer, precision, 77);
    tower_fixture_steps(&whole, net, 0, STEPS);
    struct plain_state between = tower_fixture_state(&whole, net, optimizer);
    state_write(&between, net, &part);
    tower_fixture_steps(&whole, net, STEPS, STEPS);
    tower_fixture_steps(&part, net, STEPS, STEPS);
    struct plain_state expected = tower_fixture_state(&whole, net, optimizer);
    struct plain_state found = tower_fixture_state(&part, net, optimizer);
    assert_states_equal(&found, &expected);
    assert_memory_not_equal(between.numbers, expected.numbers, between.floats * sizeof(*between.numbers));
    free(between.numbers);
    free(expected.numbers);
    free(found.numbers);
    tower_fixture_close(&whole);
    tower_fixture_close(&part);
    net_close(net);
}

TEST_ON_EACH_BACKEND(a_tower_goes_on_from_a_state_bit_for_bit)
{
    for (int o = 0; o < OPTIMIZERS; o++)
        check_resume(backend, &optimizers[o], PRECISION_FP32);
}

TEST(a_tower_of_16_bits_goes_on_with_its_loss_scale)
{
    if (test_device_is_inline())
        skip();
    check_resume("cuda", &optimizers[1], PRECISION_BF16);
    check_resume("cuda", &optimizers[1], PRECISION_FP16);
    struct net *net = tower_fixture_net(0.0f);
    struct tower_fixture fixture;
    tower_fixture_begin(&fixture, "cuda", net, &optimizers[1], PRECISION_FP16, 1);
    struct plain_state before = tower_fixture_state(&fixture, net, &optimizers[1]);
    tower_fixture_steps(&fixture, net, 0, 1);
    struct plain_state after = tower_fixture_state(&fixture, net, &optimizers[1]);
    assert_true(before.carried_bytes > 0);
    assert_memory_not_equal(before.carried, after.carried, before.carried_bytes);
    assert_int_equal(snapshot_write_carried(fixture.tower, before.carried, before.carried_bytes - 1), -EINVAL);
    free(before.numbers);
    free(after.numbers);
    tower_fixture_close(&fixture);
    net_close(net);
}

/* Any shape of parameter, in whatever layout the backend stores it. */
TEST_ON_EACH_BACKEND(the_plain_form_is_the_one_the_tower_reads)
{
    for (uint32_t seed = 0; seed < 12; seed++) {
        struct net *net = network_random_net(seed, 0.2f);
        struct tower_fixture fixture;
        tower_fixture_begin(&fixture, backend, net, &optimizers[0], PRECISION_FP32, seed);
        struct plain_state state = tower_fixture_state(&fixture, net, &optimizers[0]);
        float *weights = tower_fixture_weights(&fixture, net);
        assert_memory_equal(state.numbers, weights, state.floats * sizeof(*weights));
        free(weights);
        free(state.numbers);
        tower_fixture_close(&fixture);
        net_close(net);
    }
}

TEST_ON_EACH_BACKEND(a_snapshot_is_of_the_moment_it_was_queued)
{
    const struct optimizer *optimizer = &optimizers[2];
    struct net *net = net_make();
    struct snapshot *snapshot = NULL;
    struct tower_fixture fixture;
    tower_fixture_begin(&fixture, backend, net, optimizer, PRECISION_FP32, 1);
    assert_int_equal(snapshot_open(&snapshot, fixture.tower, SNAPSHOT_STATE), 0);
    tower_fixture_steps(&fixture, net, 0, 1);
    struct plain_state expected = tower_fixture_state(&fixture, net, optimizer), found = state_make(net, optimizer);
    assert_int_equal(snapshot_queue(snapshot), 0);
    tower_fixture_check_and_update(&fixture); /* queued right behind */
    tower_fixture_steps(&fixture, net, 1, 2);
    state_read(&found, net, snapshot);
    assert_states_equal(&found, &expected);
    assert_int_equal(snapshot_queue(snapshot), 0);
    assert_int_equal(event_wait(snapshot_end(snapshot)), 0);
    state_read(&found, net, snapshot);
    assert_memory_not_equal(found.numbers, expected.numbers, found.floats * sizeof(*found.numbers));
    free(expected.numbers);
    free(found.numbers);
    snapshot_close(snapshot);
    tower_fixture_close(&fixture);
    net_close(net);
}

/* However a backend stores gradients, their sum tells that they are the right ones. */
TEST_ON_EACH_BACKEND(a_snapshot_that_shows_has_weights_and_gradients)
{
    struct net *net = net_make();
    struct snapshot *snapshot = NULL;
    struct tower_fixture fixture;
    tower_fixture_begin(&fixture, backend, net, &optimizers[1], PRECISION_FP32, 1);
    tower_fixture_steps(&fixture, net, 0, 1);
    assert_int_equal(snapshot_open(&snapshot, fixture.tower, SNAPSHOT_SHOWN), 0);
    assert_int_equal(snapshot_queue(snapshot), 0);
    struct plain_state state = tower_fixture_state(&fixture, net, &optimizers[1]);
    float *const arena = tower_fixture_gradients(&fixture);
    tower_fixture_steps(&fixture, net, 1, 2);   /* what is shown stays */
    assert_int_equal(event_wait(snapshot_end(snapshot)), 0);
    for (uint32_t p = 0, at = 0; p < net->parameter_count; at += net->parameters[p++].count) {
        const struct parameter *const parameter = &net->parameters[p];
        const struct arena_range *const range = &tower_arena(fixture.tower)->ranges[p];
        float *const plain = calloc(parameter->count, sizeof(*plain));
        double sum = 0, arena_sum = 0;
        if (parameter->is_trained) {
            assert_int_equal(snapshot_value(snapshot, p, plain), 0);
            assert_memory_equal(plain, state.numbers + at, parameter->count * sizeof(*plain));
            assert_int_equal(snapshot_gradient(snapshot, p, plain), 0);
            for (size_t i = 0; i < parameter->count; i++)
                sum += fabs((double)plain[i]);
            for (size_t i = 0; i < range->count; i++)
                arena_sum += fabs((double)arena[range->offset + i]);
            assert_true(sum > 0 && fabs(sum - arena_sum) <= 1e-9 * sum);
        }
        free(plain);
    }
    free(state.numbers);
    free(arena);
    snapshot_close(snapshot);
    tower_fixture_close(&fixture);
    net_close(net);
}

/* With averages they are evaluated, and the tower goes on as without the snapshot. */
static void check_evaluated(const char *backend, double decay)
{
    struct net *net = net_make();
    struct snapshot *snapshot = NULL;
    struct tower_fixture fixture;
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    spec.optimizer = optimizers[1];
    spec.average_decay = decay;
    tower_fixture_open_tower(&fixture, &spec);
    assert_int_equal(snapshot_open(&snapshot, fixture.tower, SNAPSHOT_EVALUATED), 0);
    assert_true(snapshot_kind(snapshot) == SNAPSHOT_EVALUATED);
    for (uint64_t step = 0; step < 3; step++) {
        tower_fixture_steps(&fixture, net, (uint32_t)step, 1);
        assert_int_equal(tower_update_average(fixture.tower, step), 0);
    }
    float *const trained = tower_fixture_weights(&fixture, net);
    assert_int_equal(tower_show_average(fixture.tower, true), 0);
    float *const evaluated = tower_fixture_weights(&fixture, net);
    assert_int_equal(snapshot_queue(snapshot), 0);
    assert_true(decay == 0 || tower_shows_average(fixture.tower));
    assert_int_equal(tower_show_average(fixture.tower, false), 0);
    tower_fixture_steps(&fixture, net, 3, 1);   /* what is copied stays */
    assert_int_equal(event_wait(snapshot_end(snapshot)), 0);
    size_t at = 0, differ = 0;
    for (uint32_t p = 0; p < net->parameter_count; at += net->parameters[p++].count) {
        const size_t bytes = net->parameters[p].count * sizeof(float);
        float *const between = malloc(bytes);
        const float *plain;
        assert_int_equal(snapshot_value_in_place(snapshot, p, between, &plain), 0);
        assert_memory_equal(plain, evaluated + at, bytes);
        differ += memcmp(plain, trained + at, bytes) != 0;
        free(between);
    }
    assert_true((differ > 0) == (decay > 0));
    free(evaluated);
    free(trained);
    snapshot_close(snapshot);
    tower_fixture_close(&fixture);
    net_close(net);
}

TEST_ON_EACH_BACKEND(what_an_evaluation_computes_with_is_copied)
{
    check_evaluated(backend, 0);
    check_evaluated(backend, 0.5);
}

/* Parameter by parameter, each plain form in the room there is for it. */
static void check_last_parameter(const struct snapshot *snapshot, const struct plain_state *expected, size_t at,
                                 uint32_t p, size_t count)
{
    float *const value = snapshot_value_room(snapshot, p);
    float *rooms[TOWER_STATES_MAX];
    assert_int_equal(snapshot_value(snapshot, p, value), 0);
    for (uint32_t i = 0; i < expected->states; i++) {
        rooms[i] = snapshot_state_room(snapshot, i, p);
        assert_int_equal(snapshot_state(snapshot, i, p, rooms[i]), 0);
    }
    assert_memory_equal(value, expected->numbers + at, count * sizeof(*value));
    for (uint32_t i = 0; i < expected->states; i++)
        assert_memory_equal(rooms[i], expected->numbers + (i + 1) * expected->floats + at, count * sizeof(*value));
}

static void check_last_of(const char *backend, const struct optimizer *optimizer)
{
    struct net *net = net_make();
    struct tower_fixture fixture;
    float plain[64];
    tower_fixture_begin(&fixture, backend, net, optimizer, PRECISION_FP32, 1);
    tower_fixture_steps(&fixture, net, 0, 2);
    struct plain_state expected = tower_fixture_state(&fixture, net, optimizer);
    assert_in_range(snapshot_bytes(fixture.tower, SNAPSHOT_LAST), 1,
                    tower_statistics_count(fixture.tower) * sizeof(float) + expected.carried_bytes + 2 * 64);
    struct snapshot *const snapshot = tower_fixture_snapshot(&fixture, SNAPSHOT_LAST);
    for (uint32_t p = 0, at = 0; p < net->parameter_count; at += net->parameters[p++].count) {
        const size_t count = net->parameters[p].count;
        if (net->parameters[p].is_trained) {
            check_last_parameter(snapshot, &expected, at, p, count);
            continue;
        }
        assert_null(snapshot_value_room(snapshot, p));
        assert_in_range(count, 1, 64);
        assert_int_equal(snapshot_value(snapshot, p, plain), 0);
        assert_memory_equal(plain, expected.numbers + at, count * sizeof(*plain));
    }
    free(expected.numbers);
    snapshot_close(snapshot);
    tower_fixture_close(&fixture);
    net_close(net);
}

TEST_ON_EACH_BACKEND(the_last_state_is_put_together_in_the_towers_own_memory)
{
    struct tower_fixture fixture;
    tower_fixture_open_device(&fixture, backend);
    const bool has_host_memory = fixture.device->ops->host_memory;
    tower_fixture_close(&fixture);
    for (size_t i = 0; i < OPTIMIZERS && has_host_memory; i++)
        check_last_of(backend, &optimizers[i]);
}

static const struct device_ops *whole_ops;
static size_t pinned_bytes;

static int alloc_none(struct device *device, size_t bytes, void **memory_out)
{
    (void)device, (void)memory_out;
    pinned_bytes = bytes;
    return -ENOMEM;
}

TEST_ON_EACH_BACKEND(its_memory_is_known_before_it_is_taken)
{
    struct net *net = tower_fixture_net(0.0f);
    struct snapshot *snapshot = NULL;
    struct tower_fixture fixture;
    tower_fixture_begin(&fixture, backend, net, &optimizers[2], PRECISION_FP32, 1);
    const size_t arena_bytes = tower_fixture_floats(&fixture) * sizeof(float);
    assert_in_range(snapshot_bytes(fixture.tower, SNAPSHOT_STATE), 3 * arena_bytes, 3 * arena_bytes + 4 * 64);
    whole_ops = fixture.device->ops;
    struct device_ops none = *whole_ops;
    none.alloc_pinned = alloc_none;
    fixture.device->ops = &none;
    assert_int_equal(snapshot_open(&snapshot, fixture.tower, SNAPSHOT_STATE), -ENOMEM);
    assert_null(snapshot);
    assert_int_equal(pinned_bytes, snapshot_bytes(fixture.tower, SNAPSHOT_STATE));
    assert_in_range(snapshot_bytes(fixture.tower, SNAPSHOT_SHOWN), 2 * arena_bytes, 2 * arena_bytes + 2 * 64);
    assert_int_equal(snapshot_open(&snapshot, fixture.tower, SNAPSHOT_SHOWN), -ENOMEM);
    assert_int_equal(pinned_bytes, snapshot_bytes(fixture.tower, SNAPSHOT_SHOWN));
    assert_in_range(snapshot_bytes(fixture.tower, SNAPSHOT_EVALUATED), arena_bytes, arena_bytes + 2 * 64);
    fixture.device->ops = whole_ops;
    snapshot_close(NULL);
    tower_fixture_close(&fixture);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
