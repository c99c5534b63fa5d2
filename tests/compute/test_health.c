/* Tests of looking for numbers that are not finite: any of them, anywhere in a tower's weights and
 * statistics, on every backend. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/floats.h"
#include "compute/health.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"

static const float bad[] = { NAN, INFINITY, -INFINITY, 1e24f, -FLT_MAX, FINITE_BOUND };
enum { BAD = sizeof(bad) / sizeof(bad[0]) };

TEST(the_first_number_that_is_not_finite_is_found_in_any_place)
{
    enum { COUNT = 10000 };
    float *floats = calloc(COUNT, sizeof(*floats));
    floats[1] = 1e18f;
    floats[2] = -1e18f;
    floats[3] = 0x1p-149f;
    assert_int_equal(floats_find_nonfinite(floats, COUNT), COUNT);
    for (size_t i = 0; i < COUNT; i += i < 20 || i > COUNT - 20 ? 1 : 89) {
        const float kept = floats[i];
        floats[i] = bad[i % BAD];
        assert_int_equal(floats_find_nonfinite(floats, COUNT), i);
        assert_int_equal(floats_find_nonfinite(floats, i), i);
        assert_int_equal(floats_find_nonfinite(floats + i, COUNT - i), 0);
        floats[i] = kept;
    }
    floats[100] = floats[5000] = NAN;
    assert_int_equal(floats_find_nonfinite(floats, COUNT), 100);
    free(floats);
}

static struct health health_now(struct tower_fixture *fixture)
{
    const struct device_ops *const ops = fixture->device->ops;
    void *memory;
    assert_int_equal(ops->alloc_pinned(fixture->device, sizeof(struct health), &memory), 0);
    struct health *const health = memory;
    assert_int_equal(health_queue(fixture->tower, health), 0);
    ops->stream_drain(fixture->compute);
    const struct health now = *health;
    ops->free_pinned(fixture->device, memory);
    return now;
}

/* What is found now. */
static const char *broken(struct tower_fixture *fixture)
{
    const struct health health = health_now(fixture);
    return health_nonfinite(fixture->tower, &health);
}

static double norm_of(struct tower_fixture *fixture)
{
    const struct health health = health_now(fixture);
    return health_gradient_norm(&health, 1);
}

/* What a step whose loss is not finite names, also where nothing was queued behind it. */
static void check_step(struct tower_fixture *fixture, const char *name)
{
    struct health none = { .weights = UINT64_MAX, .statistics = UINT64_MAX };
    assert_null(health_of_step(fixture->tower, NULL, 1.5));
    assert_null(health_of_step(fixture->tower, &none, 1.5));
    const char *const found = health_of_step(fixture->tower, NULL, NAN);
    assert_true(name == NULL ? found == NULL : found != NULL && strcmp(found, name) == 0);
}

static void check_parameter(struct tower_fixture *fixture, const struct parameter *parameter, uint32_t index)
{
    float *good = malloc(parameter->count * sizeof(*good)), *changed = malloc(parameter->count * sizeof(*good));
    const size_t places[] = { 0, parameter->count / 2, parameter->count - 1 };
    assert_int_equal(tower_read(fixture->tower, index, good), 0);
    for (int i = 0; i < 3; i++) {
        memcpy(changed, good, parameter->count * sizeof(*good));
        changed[places[i]] = bad[i];
        assert_int_equal(tower_write(fixture->tower, index, changed), 0);
        assert_string_equal(broken(fixture), parameter->name);
        check_step(fixture, parameter->name);
        assert_int_equal(tower_write(fixture->tower, index, good), 0);
        assert_null(broken(fixture));
        check_step(fixture, NULL);
    }
    free(good);
    free(changed);
}

TEST_ON_EACH_BACKEND(a_parameter_that_is_not_finite_is_named)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_train(&fixture);
    tower_fixture_update(&fixture);
    assert_null(broken(&fixture));
    for (uint32_t i = 0; i < net->parameter_count; i++)
        check_parameter(&fixture, &net->parameters[i], i);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

/* What the update that limits it found, and nothing where it does not. */
TEST_ON_EACH_BACKEND(the_norm_of_the_gradient_is_told_where_it_is_limited)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (int clips = 0; clips < 2; clips++) {
        struct tower_fixture fixture;
        tower_fixture_open_device(&fixture, backend);
        struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
        spec.optimizer.clip_norm = clips;
        tower_fixture_open_tower(&fixture, &spec);
        tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
        assert_true(isnan(norm_of(&fixture)));
        tower_fixture_train(&fixture);
        float *const gradients = tower_fixture_gradients(&fixture);
        double squares = 0;
        for (size_t i = 0; i < tower_fixture_floats(&fixture); i++)
            squares += (double)gradients[i] * (double)gradients[i];
        free(gradients);
        tower_fixture_update(&fixture);
        const double norm = norm_of(&fixture), expected = sqrt(squares) * (double)tower_fixture_step.gradient_scale;
        assert_true(clips ? fabs(norm - expected) < 1e-6 * expected : isnan(norm));
        tower_fixture_close(&fixture);
    }
    network_input_release(&input);
    net_close(net);
}

int main(void)
{
    alarm(120);
    return tests_run(NULL, NULL);
}
