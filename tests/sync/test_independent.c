/* Test of mode independent with whole towers: each does what one tower does that has its slices as a set of its own. */
#include <stdbool.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_rig.h"

enum { SLICE = 5, STEPS = 7 };

static struct rig rig;

/* Every tower's weights and buffers at the end of a run. */
struct outcome { float floats[RIG_TOWERS_MAX][RIG_STATE_MAX]; size_t count; };

static void run(struct outcome *outcome, uint32_t towers, enum sync_mode mode, const struct optimizer *optimizer)
{
    const struct rig_spec spec = {
        .schedule = { .records = { towers * SLICE * STEPS, towers * SLICE }, .batch = towers * SLICE,
                      .towers = towers, .epochs = 2 },
        .mode = mode, .reduction = "host", .optimizer = *optimizer, .has_same_slices = true, .normalizes = true,
        .saves = true,
    };
    rig_open(&rig, &spec);
    rig_run(&rig);
    for (uint32_t d = 0; d < towers; d++)
        outcome->count = rig_read_last(&rig, d, outcome->floats[d]);
    rig_close(&rig);
}

/* Two replicated ones too: the sum of two equal numbers is exact. */
TEST(towers_with_identical_slices_do_what_one_tower_does)
{
    static struct outcome one, many;
    static const struct optimizer rules[] = {
        { .kind = OPTIMIZER_SGD, .weight_decay = 1e-3f },
        { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f },
        { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f },
    };
    const uint32_t *towers;
    for (size_t n = rig_tower_counts(&towers); n-- > 0;)
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
            run(&one, 1, SYNC_INDEPENDENT, &rules[i]);
            run(&many, towers[n], SYNC_INDEPENDENT, &rules[i]);
            for (uint32_t d = 0; d < towers[n]; d++)
                assert_memory_equal(many.floats[d], one.floats[0], one.count * sizeof(float));
            if (towers[n] > 2)
                continue;
            run(&many, towers[n], SYNC_REPLICATED, &rules[i]);
            for (uint32_t d = 0; d < towers[n]; d++)
                assert_memory_equal(many.floats[d], one.floats[0], one.count * sizeof(float));
        }
}

int main(void)
{
    alarm(300);
    return tests_run(NULL, NULL);
}
