/* Tests of towers that have parts of the dense layers (model.parts): the weights do not depend on the number of towers,
 * on the kind of reduction, or on the number of ranks. */
#include <math.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_fixture.h"

enum { PARTS = 4 };

/* Epochs end with a batch of 5 samples, and evaluations with one of 1: slices, and so towers, have none. */
static struct fixture_spec spec_with(uint32_t towers)
{
    return (struct fixture_spec){
        .schedule = { .records = { 29, 13 }, .batch = 12, .towers = towers, .epochs = 2, .slices = PARTS },
        .mode = SYNC_REPLICATED, .normalizes = true, .parts = PARTS,
        .optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f } };
}

/* The weights at the end, each from the towers that have it. */
struct outcome { float weights[FIXTURE_FLOATS_MAX]; size_t count; };

static struct outcome outcome_of(const struct fixture_spec *spec)
{
    static struct trainer_fixture fixture;
    struct outcome outcome = { .count = 0 };
    trainer_fixture_open(&fixture, spec);
    fixture_run(&fixture);
    assert_int_equal(fixture.batches, schedule_batch_count(&spec->schedule));
    for (uint32_t d = 0; d < spec->schedule.towers; d++)
        fixture_read_weights(&fixture, d, outcome.weights);
    outcome.count = fixture_floats(&fixture);
    trainer_fixture_close(&fixture);
    return outcome;
}

/* Towers and ranks; ranks 0: one process. Where a run takes long only some are tried. */
static bool is_tried(const uint32_t shape[2])
{
    const bool is_host = strcmp(fixture_reduction, "host") == 0;
    if (shape[0] > fixture_towers_max || (shape[1] > 0 && !is_host))
        return false;
    return fixture_is_thorough() || shape[0] == (shape[1] > 0 ? 4 : 2);
}

static void check_shapes(const struct fixture_spec *first)
{
    static const uint32_t shapes[][2] = { { 2, 0 }, { 4, 0 }, { 2, 2 }, { 4, 2 }, { 4, 4 } };
    struct fixture_spec spec = *first;
    const struct outcome alone = outcome_of(&spec);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (!is_tried(shapes[i]))
            continue;
        spec.schedule.towers = shapes[i][0];
        spec.ranks = shapes[i][1];
        const struct outcome outcome = outcome_of(&spec);
        assert_memory_equal(outcome.weights, alone.weights, alone.count * sizeof(float));
    }
}

/* With a norm of all gradients weights are updated at once, after one more exchange; with class weights the parts after
 * the first sum, which contains that of the class weights. */
TEST(weights_depend_on_slices_and_parts_alone)
{
    static const float weights[] = { 0.5f, 2, 1, 0.25f };
    for (uint32_t how = 0; how < 4; how++) {
        struct fixture_spec spec = spec_with(1);
        spec.optimizer.clip_norm = how & 1 ? 0.1f : 0;
        spec.class_weights = how & 2 ? weights : NULL;
        if (fixture_is_thorough() || how % 3 == 0)
            check_shapes(&spec);
    }
}

/* No gradients are exchanged, and nothing is summed, or only class weights. */
TEST(weights_depend_on_slices_and_parts_alone_where_only_the_head_learns)
{
    static const float weights[] = { 0.5f, 2, 1, 0.25f };
    struct fixture_spec spec = spec_with(1);
    spec.normalizes = false;
    spec.freezes = "conv";
    if (fixture_is_thorough())
        check_shapes(&spec);
    spec.optimizer.clip_norm = 0.1f;
    check_shapes(&spec);
    spec.class_weights = weights;
    if (fixture_is_thorough())
        check_shapes(&spec);
}

static double loss_with(uint32_t towers, float auxiliary)
{
    static struct trainer_fixture fixture;
    struct fixture_spec spec = spec_with(towers);
    spec.auxiliary = auxiliary;
    spec.is_frozen = true;
    trainer_fixture_open(&fixture, &spec);
    fixture_run(&fixture);
    const double loss = fixture.loss_sum;
    trainer_fixture_close(&fixture);
    return loss;
}

/* The trunk computes them, and the head the others; so the loss is a linear function of their weight, whoever
 * exchanges. */
TEST(auxiliary_losses_are_part_of_the_training_loss)
{
    if (strcmp(fixture_reduction, "host") != 0)
        skip();
    const double low = loss_with(1, 0.25f), middle = loss_with(1, 0.5f), high = loss_with(1, 0.75f);
    assert_true(middle > 1.05 * low);
    assert_true(fabs(high - middle - (middle - low)) < 1e-6 * high);
    if (fixture_towers_max >= 2)
        assert_true(fabs(loss_with(2, 0.5f) - middle) < 1e-12 * middle);
}

static int run_all(void)
{
    return tests_run(NULL, NULL);
}

int main(void)
{
    return fixture_run_tests(run_all, 300, true);
}
