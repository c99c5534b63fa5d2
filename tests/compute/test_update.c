/* Tests of a tower's updates on every backend: they are the optimizer over the arenas, in
 * any pieces, and training learns. */
#include <math.h>
#include <stdlib.h>

#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

/* ---- updates ---- */

static const struct optimizer optimizers[] = {
    { .kind = OPTIMIZER_SGD, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f },
    { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f },
    { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-8f },
    { .kind = OPTIMIZER_RMSPROP, .rho = 0.9, .momentum = 0.9f, .epsilon = 1e-2f, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_RMSPROP_KERAS, .rho = 0.9, .epsilon = 1e-2f },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-2f },
    { .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-2f, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.1, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_LARS, .momentum = 0.5f, .trust = 0.1 },
    { .kind = OPTIMIZER_RMSPROP_PYTORCH, .rho = 0.9, .momentum = 0.5f, .epsilon = 1e-2f },
};
static const float rates[OPTIMIZER_KIND_COUNT] = {
    [OPTIMIZER_SGD] = 0.05f, [OPTIMIZER_MOMENTUM] = 0.05f, [OPTIMIZER_NESTEROV] = 0.05f, [OPTIMIZER_ADADELTA] = 1.0f,
    [OPTIMIZER_RMSPROP] = 0.02f, [OPTIMIZER_RMSPROP_KERAS] = 0.01f, [OPTIMIZER_ADAM] = 0.02f,
    [OPTIMIZER_ADAMW] = 0.02f, [OPTIMIZER_LARS] = 0.05f, [OPTIMIZER_RMSPROP_PYTORCH] = 0.005f,
};
enum { OPTIMIZERS = sizeof(optimizers) / sizeof(optimizers[0]) };

static void tower_fixture_open_with(struct tower_fixture *fixture, const char *backend, const struct net *net,
                                    int optimizer)
{
    tower_fixture_open_device(fixture, backend);
    struct tower_spec spec = tower_fixture_spec(fixture, backend, net);
    spec.optimizer = optimizers[optimizer];
    tower_fixture_open_tower(fixture, &spec);
}

/* In the reference backend a stored parameter is the plain one. */
TEST(an_update_is_the_optimizer_over_the_arenas)
{
    if (!test_device_is_inline())
        skip();
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (int o = 0; o < OPTIMIZERS; o++) {
        struct tower_fixture fixture;
        if (optimizer_adapts(optimizers[o].kind))
            continue;
        tower_fixture_open_with(&fixture, "reference", net, o);
        const struct arena *arena = tower_arena(fixture.tower);
        float *arenas = calloc(3 * arena->count, sizeof(*arenas));
        assert_non_null(arenas);
        for (size_t i = 0; i < 2 * arena->count; i++)
            arenas[arena->count + i] = optimizer_state_start(optimizers[o].kind, i >= arena->count);
        for (uint32_t p = 0; p < net->parameter_count; p++)
            assert_int_equal(tower_read(fixture.tower, p, arenas + arena->ranges[p].offset), 0);
        tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
        for (int step = 0; step < 3; step++) {
            tower_fixture_train(&fixture);
            tower_fixture_update(&fixture);
            optimizer_update(&optimizers[o], &tower_fixture_step,
                             &(struct optimizer_range){
                                 .weights = arenas, .gradients = tower_gradients(fixture.tower),
                                 .states = { arenas + arena->count, arenas + 2 * arena->count },
                                 .count = arena->count, .decays = true });
        }
        float *weights = tower_fixture_weights(&fixture, net), *next = weights;
        for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count)
            assert_memory_equal(next, arenas + arena->ranges[p].offset, net->parameters[p].count * sizeof(*next));
        free(weights);
        free(arenas);
        tower_fixture_close(&fixture);
    }
    network_input_release(&input);
    net_close(net);
}

/* A stored parameter after a step from weights and buffer as they are, in double. */
static void lars_in_double(const struct optimizer *o, bool adapts, size_t count, const float *g, double *w, double *v)
{
    double rate = tower_fixture_step.learning_rate, w_squares = 0, g_squares = 0;
    for (size_t i = 0; i < count; i++) {
        w_squares += w[i] * w[i];
        g_squares += (double)g[i] * g[i] / FIXTURE_BATCH / FIXTURE_BATCH;
    }
    if (adapts)
        rate *= o->trust * sqrt(w_squares) / (sqrt(g_squares) + o->weight_decay * sqrt(w_squares));
    for (size_t i = 0; i < count; i++) {
        v[i] = o->momentum * v[i] + rate * ((double)g[i] / FIXTURE_BATCH + o->weight_decay * w[i]);
        w[i] -= v[i];
    }
}

/* In the reference backend a stored parameter is the plain one. */
TEST(lars_gives_every_weight_but_no_bias_a_rate_of_its_own)
{
    if (!test_device_is_inline())
        skip();
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture;
    tower_fixture_open_with(&fixture, "reference", net, OPTIMIZERS - 2);
    const struct arena *arena = tower_arena(fixture.tower);
    double *w = calloc(2 * arena->count, sizeof(*w));
    assert_non_null(w);
    for (size_t i = 0; i < arena->count; i++)
        w[i] = tower_weights(fixture.tower)[i];
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    for (int step = 0; step < 3; step++) {
        tower_fixture_train(&fixture);
        for (uint32_t p = 0; p < net->parameter_count; p++) {
            const size_t at = arena->ranges[p].offset;
            lars_in_double(&optimizers[OPTIMIZERS - 2], net->parameters[p].kind == PARAMETER_WEIGHT,
                           arena->ranges[p].count, tower_gradients(fixture.tower) + at, w + at, w + arena->count + at);
        }
        tower_fixture_update(&fixture);
    }
    for (size_t i = 0; i < arena->count; i++)
        assert_true(fabs(tower_weights(fixture.tower)[i] - w[i]) <= 1e-6);
    free(w);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

/* Arenas of floats that are 0 behind every parameter, as they are. */
static double norm_of(const float *floats, size_t count)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)floats[i] * floats[i];
    return sqrt(squares) / FIXTURE_BATCH;
}

static void clip(const char *backend, const struct net *net, const struct backend_input *input, double limit)
{
    struct tower_fixture clipped, scaled;
    const struct optimizer rule = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };
    struct optimizer_step step = tower_fixture_step;
    struct tower_fixture *const fixtures[] = { &clipped, &scaled };
    for (int i = 0; i < 2; i++) {
        tower_fixture_open_device(fixtures[i], backend);
        struct tower_spec spec = tower_fixture_spec(fixtures[i], backend, net);
        spec.optimizer = rule;
        spec.optimizer.clip_norm = i == 0 ? limit : 0;
        tower_fixture_open_tower(fixtures[i], &spec);
        tower_fixture_fill(fixtures[i], net, input, 0, FIXTURE_BATCH);
        tower_fixture_train(fixtures[i]);
    }
    assert_true(tower_updates_at_once(clipped.tower) && !tower_updates_at_once(scaled.tower));
    float *const gradients = tower_fixture_gradients(&scaled);
    const double norm = norm_of(gradients, tower_fixture_floats(&scaled));
    assert_true(norm > 0);
    step.gradient_scale *= (float)(norm > limit ? limit / (norm + 1e-6) : 1);
    tower_fixture_check_and_update(&clipped);
    assert_int_equal(tower_update(scaled.tower, 0, tower_fixture_floats(&scaled), &step), 0);
    tower_fixture_assert_weights_near(&clipped, &scaled, net, norm > limit ? 1e-6 : 0);
    free(gradients);
    tower_fixture_close(&clipped);
    tower_fixture_close(&scaled);
}

TEST_ON_EACH_BACKEND(gradients_whose_norm_is_too_large_are_shortened_to_it)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    clip(backend, net, &input, 1e-3);
    clip(backend, net, &input, 0.1);
    clip(backend, net, &input, 1e6);
    network_input_release(&input);
    net_close(net);
}

/* As many numbers as lie beyond the limit become it, and no others change. */
TEST_ON_EACH_BACKEND(gradients_that_are_too_large_become_the_limit)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (double limit = 1e-4; limit < 10; limit *= 10) {
        struct tower_fixture limited, plain;
        const float most = (float)(limit / (double)(1.0f / FIXTURE_BATCH));
        tower_fixture_open(&plain, backend, net);
        tower_fixture_open_device(&limited, backend);
        struct tower_spec spec = tower_fixture_spec(&limited, backend, net);
        spec.optimizer.clip_value = limit;
        tower_fixture_open_tower(&limited, &spec);
        tower_fixture_fill(&plain, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_train(&plain);
        float *const gradients = tower_fixture_gradients(&plain);
        tower_fixture_set_gradients(&limited, gradients);
        for (size_t i = 0; i < tower_fixture_floats(&plain); i++)
            gradients[i] = gradients[i] > most ? most : gradients[i] < -most ? -most : gradients[i];
        tower_fixture_set_gradients(&plain, gradients);
        tower_fixture_update(&plain);
        tower_fixture_update(&limited);
        tower_fixture_assert_weights_near(&limited, &plain, net, 0);
        tower_fixture_assert_gradients_equal(&limited, &plain);
        free(gradients);
        tower_fixture_close(&plain);
        tower_fixture_close(&limited);
    }
    network_input_release(&input);
    net_close(net);
}

/* Of gradients that are the same: they themselves are summed by threads. */
TEST_ON_EACH_BACKEND(an_update_by_any_number_of_threads_gives_the_same_bits)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (int o = 0; o < OPTIMIZERS; o++) {
        struct tower_fixture one, three;
        tower_fixture_open_with(&one, backend, net, o);
        tower_fixture_open_device(&three, backend);
        struct tower_spec spec = tower_fixture_spec(&three, backend, net);
        spec.optimizer = optimizers[o];
        spec.backend_spec.threads = 3;
        tower_fixture_open_tower(&three, &spec);
        tower_fixture_fill(&one, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_train(&one);
        float *gradients = tower_fixture_gradients(&one);
        tower_fixture_set_gradients(&three, gradients);
        for (int step = 0; step < 3; step++) {
            tower_fixture_update(&one);
            tower_fixture_update(&three);
        }
        tower_fixture_assert_weights_near(&one, &three, net, 0);
        free(gradients);
        tower_fixture_close(&one);
        tower_fixture_close(&three);
    }
    network_input_release(&input);
    net_close(net);
}

static void update_in_pieces(struct tower_fixture *fixture)
{
    const struct arena *arena = tower_arena(fixture->tower);
    for (uint32_t p = 0; p < arena->parameter_count; p++)
        assert_int_equal(tower_update(fixture->tower, arena->ranges[p].offset, (arena->ranges[p].count + 15) / 16 * 16,
                                      &tower_fixture_step), 0);
}

TEST_ON_EACH_BACKEND(updating_bucket_by_bucket_gives_the_same_bits)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (int o = 0; o < OPTIMIZERS; o++) {
        struct tower_fixture whole, pieces;
        tower_fixture_open_with(&whole, backend, net, o);
        tower_fixture_open_with(&pieces, backend, net, o);
        tower_fixture_fill(&whole, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_fill(&pieces, net, &input, 0, FIXTURE_BATCH);
        for (int step = 0; step < 3; step++) {
            tower_fixture_train(&whole);
            tower_fixture_train(&pieces);
            tower_fixture_update(&whole);
            update_in_pieces(&pieces);
        }
        tower_fixture_assert_weights_near(&whole, &pieces, net, 0);
        tower_fixture_close(&whole);
        tower_fixture_close(&pieces);
    }
    network_input_release(&input);
    net_close(net);
}

/* A simulated device is slow: it tries all optimizers only when tests are long. */
TEST_ON_EACH_BACKEND(every_optimizer_learns_a_small_batch)
{
    const int apart = test_device_is_inline() || test_is_long() ? 1 : 4;
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (int o = 0; o < OPTIMIZERS; o += apart) {
        struct tower_fixture fixture;
        tower_fixture_open_with(&fixture, backend, net, o);
        tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
        const double first = tower_fixture_train(&fixture).loss_sum;
        const size_t count = tower_fixture_floats(&fixture);
        struct optimizer_step step = tower_fixture_step;
        step.learning_rate = rates[optimizers[o].kind];
        for (; step.number < 150; step.number++) {
            assert_int_equal(tower_update(fixture.tower, 0, count, &step), 0);
            tower_fixture_train(&fixture);
        }
        const struct backend_result last = tower_fixture_evaluate(&fixture);
        assert_true(last.loss_sum < 0.5 * first);
        assert_in_range(last.correct, FIXTURE_BATCH - 1, FIXTURE_BATCH);
        tower_fixture_close(&fixture);
    }
    network_input_release(&input);
    net_close(net);
}

/* ---- weights from elsewhere ---- */

static void halve_in_place(struct tower_fixture *fixture)
{
    const size_t count = tower_fixture_floats(fixture), half = count / 32 * 16;
    assert_int_equal(tower_scale(fixture->tower, tower_weights(fixture->tower), half, 0.5f), 0);
    assert_int_equal(tower_scale(fixture->tower, tower_weights(fixture->tower) + half, count - half, 0.5f), 0);
    assert_int_equal(tower_weights_changed(fixture->tower, 0, half), 0);
    assert_int_equal(tower_weights_changed(fixture->tower, half, count - half), 0);
}

static void halve_by_hand(struct tower_fixture *fixture, const struct net *net)
{
    float *weights = tower_fixture_weights(fixture, net);
    for (size_t i = 0; i < net->trainable_count; i++)
        weights[i] *= 0.5f;
    tower_fixture_set_weights(fixture, net, weights);
    free(weights);
}

static void check_adopted(const char *backend, const struct net *net, const struct backend_input *input,
                          enum precision precision)
{
    struct tower_fixture scaled, written;
    struct tower_fixture *const fixtures[] = { &scaled, &written };
    for (int i = 0; i < 2; i++) {
        tower_fixture_open_device(fixtures[i], backend);
        struct tower_spec spec = tower_fixture_spec(fixtures[i], backend, net);
        spec.backend_spec.precision = precision;
        tower_fixture_open_tower(fixtures[i], &spec);
        tower_fixture_fill(fixtures[i], net, input, 0, FIXTURE_BATCH);
    }
    const double before = tower_fixture_evaluate(&scaled).loss_sum;
    halve_in_place(&scaled);
    halve_by_hand(&written, net);
    const double after = tower_fixture_evaluate(&scaled).loss_sum;
    assert_true(after != before);
    assert_true(after == tower_fixture_evaluate(&written).loss_sum);
    tower_fixture_assert_weights_near(&scaled, &written, net, 0);
    tower_fixture_close(&scaled);
    tower_fixture_close(&written);
}

TEST_ON_EACH_BACKEND(weights_scaled_in_place_are_those_the_tower_computes_with)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    const bool is_wide_only = backend_find(backend)->host_memory;
    check_adopted(backend, net, &input, PRECISION_FP32);
    for (enum precision precision = PRECISION_BF16; precision <= PRECISION_FP16 && !is_wide_only; precision++)
        check_adopted(backend, net, &input, precision);
    network_input_release(&input);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
