/* Tests of training with whole towers where a part of the network is frozen: with every rule, mode and number of
 * towers it keeps its bits, and the rest learns. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_fixture.h"

static struct trainer_fixture fixture;

static struct fixture_spec spec_of(uint32_t towers, enum sync_mode mode, const struct optimizer *optimizer)
{
    return (struct fixture_spec){
        .schedule = { .records = { 53, 17 }, .batch = 12, .towers = towers, .epochs = 2 },
        .mode = mode, .reduction = "host", .every = 2, .optimizer = *optimizer, .freezes = "conv." };
}

static struct optimizer optimizer_of(enum optimizer_kind kind, bool clips)
{
    return (struct optimizer){ .kind = kind, .momentum = 0.9f, .rho = 0.9, .beta1 = 0.9, .beta2 = 0.99, .trust = 0.01,
                               .epsilon = 1e-6f, .decay_scope = DECAY_ALL, .weight_decay = 0.01f,
                               .clip_norm = clips ? 0.1 : 0 };
}

/* The weights of all towers behind a run, or before it. */
static void read_all(float weights[][FIXTURE_FLOATS_MAX])
{
    for (uint32_t d = 0; d < fixture.schedule.towers; d++)
        fixture_read_weights(&fixture, d, weights[d]);
}

/* fixture_read_weights has the parameters one after the other: conv.weight, conv.bias, fc.weight, fc.bias. */
static void check_run(const struct fixture_spec *spec)
{
    static float before[FIXTURE_TOWERS_MAX][FIXTURE_FLOATS_MAX], after[FIXTURE_TOWERS_MAX][FIXTURE_FLOATS_MAX];
    trainer_fixture_open(&fixture, spec);
    fixture_start_all(&fixture);
    assert_int_equal(fixture_ready_all(&fixture), 0);
    read_all(before);
    fixture_go_all(&fixture);
    fixture_drain(&fixture);
    read_all(after);
    const size_t frozen = fixture.net->frozen_count, all = fixture_floats(&fixture);
    assert_int_equal(frozen, 3 * 9 + 3);
    for (uint32_t d = 0; d < spec->schedule.towers; d++) {
        assert_memory_equal(after[d], before[d], frozen * sizeof(float));
        assert_memory_not_equal(after[d] + frozen, before[d] + frozen, (all - frozen) * sizeof(float));
        if (sync_table[spec->mode]->is_one_model)
            assert_memory_equal(after[d], after[0], all * sizeof(float));
    }
    trainer_fixture_close(&fixture);
}

TEST(what_is_frozen_keeps_its_bits_with_every_rule)
{
    for (enum optimizer_kind kind = 0; kind < OPTIMIZER_KIND_COUNT; kind++)
        for (uint32_t clips = 0; clips < 2; clips++) {
            const struct optimizer optimizer = optimizer_of(kind, clips != 0);
            const struct fixture_spec spec = spec_of(1, SYNC_REPLICATED, &optimizer);
            check_run(&spec);
        }
}

TEST(what_is_frozen_keeps_its_bits_in_every_mode)
{
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++)
        for (uint32_t towers = 2; towers <= 3; towers++) {
            const struct optimizer adam = optimizer_of(OPTIMIZER_ADAM, true);
            const struct fixture_spec spec = spec_of(towers, (enum sync_mode)mode, &adam);
            check_run(&spec);
        }
}

/* The norm is that of what learns: with another number of towers the sums are others, the steps are not. */
TEST(any_number_of_towers_learns_what_one_learns)
{
    static float expected[FIXTURE_FLOATS_MAX], weights[FIXTURE_FLOATS_MAX];
    for (uint32_t towers = 1; towers <= 3; towers++) {
        const struct optimizer momentum = optimizer_of(OPTIMIZER_MOMENTUM, true);
        const struct fixture_spec spec = spec_of(towers, SYNC_REPLICATED, &momentum);
        trainer_fixture_open(&fixture, &spec);
        fixture_run(&fixture);
        fixture_read_weights(&fixture, 0, towers == 1 ? expected : weights);
        for (size_t i = 0; i < fixture_floats(&fixture) && towers > 1; i++)
            assert_true(fabsf(weights[i] - expected[i]) < 1e-5f * (1 + fabsf(expected[i])));
        trainer_fixture_close(&fixture);
    }
}

int main(void)
{
    test_device_ops();
    alarm(120);
    return tests_run(NULL, NULL);
}
