/* Tests of the batch that is said to fit: planned itself it does, and one that is little larger does not. */
#include <errno.h>
#include <string.h>

#include "compute/model.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/memory_needs.h"
#include "tools/lib/run/run_plan.h"

#define MIB ((size_t)1 << 20)
#define RESULTS_BYTES (3 * MIB)

static const struct dataset *const no_datasets[PHASE_COUNT];

/* A run of synthetic input, as far as it is planned. */
struct planned {
    struct settings settings;
    struct net *net;
    struct run_plan plan;
    struct trainer_needs needs;
};

/* The tower's needs, on a device of its own. */
static void plan_tower(struct planned *planned)
{
    const struct device_spec spec = { .name = "cpu0" };
    struct tower_spec tower_spec = run_plan_tower(&planned->plan, &planned->settings, 0);
    struct tower *tower;
    tower_spec.net = planned->net;
    assert_int_equal(device_host_ops.open(&tower_spec.device, &spec), 0);
    assert_int_equal(tower_spec.device->ops->stream_open(tower_spec.device, STREAM_COMPUTE, "compute",
                                                         &tower_spec.compute), 0);
    assert_int_equal(tower_open(&tower, &tower_spec), 0);
    planned->needs = (struct trainer_needs){ .tower = tower_needs(tower), .samples = tower_spec.train_counts[0] };
    tower_close(tower);
    tower_spec.device->ops->stream_close(tower_spec.compute);
    tower_spec.device->ops->close(tower_spec.device);
}

/* model.parts, and as many slices. */
static uint32_t parts, classes;

static void plan_make(struct planned *planned, const char *model, uint32_t batch, uint32_t towers,
                      enum convolution convolution)
{
    const struct model_options options = { .dropout = true, .classes = classes };
    struct problems problems;
    problems_init(&problems);
    assert_int_equal(settings_init(&planned->settings), 0);
    planned->settings.input.source = INPUT_SYNTHETIC;
    planned->settings.devices.kind = DEVICE_CHOICE_CPU;
    planned->settings.devices.towers = towers;
    planned->settings.devices.threads_per_tower = 1;
    planned->settings.devices.convolution = convolution;
    planned->settings.train.batch = batch;
    planned->settings.train.slices = planned->settings.model.parts = parts;
    assert_int_equal(model_open(&planned->net, model, &options), 0);
    assert_int_equal(run_devices_init(&planned->plan.devices, &planned->settings, &problems), 0);
    assert_int_equal(run_plan_init(&planned->plan, &planned->settings, planned->net, no_datasets, &problems), 0);
    plan_tower(planned);
    for (uint32_t d = 0; d < towers; d++)
        memory_needs_add_tower(&planned->plan.memory, d, &planned->needs);
    memory_share_add(&planned->plan.memory.host, MEMORY_RESULTS, RESULTS_BYTES);
    problems_release(&problems);
}

static void plan_release(struct planned *planned)
{
    net_close(planned->net);
    settings_release(&planned->settings);
}

static size_t bytes_of(const char *model, uint32_t batch, uint32_t towers, enum convolution convolution)
{
    struct planned planned = { .net = NULL };
    plan_make(&planned, model, batch, towers, convolution);
    const size_t bytes = memory_needs_bytes(&planned.plan.memory);
    plan_release(&planned);
    return bytes;
}

static uint32_t fit_into(const char *model, uint32_t batch, uint32_t towers, enum convolution convolution, size_t there)
{
    struct planned planned = { .net = NULL };
    plan_make(&planned, model, batch, towers, convolution);
    const struct memory_fit fit = { &planned.settings, &planned.plan, planned.net, no_datasets, &planned.needs };
    const uint32_t found = memory_fit(&fit, there);
    plan_release(&planned);
    return found;
}

static const struct { const char *model; uint32_t batch, towers; size_t there; } cases[] = {
    { "mnist_cnn", 4096, 1, 64 * MIB },   { "mnist_cnn", 4096, 3, 200 * MIB },
    { "mnist_cnn", 60000, 2, 777 * MIB }, { "resnet20_v1", 2000, 1, 300 * MIB },
    { "resnet20_v1", 20000, 2, 999 * MIB },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* Directly computed: what convolutions by Winograd's algorithm need beside the values does not grow as the batch. */
TEST(what_is_said_to_fit_does_and_hardly_more)
{
    const enum convolution direct = CONVOLUTION_DIRECT;
    for (size_t i = 0; i < CASES; i++) {
        const uint32_t towers = cases[i].towers;
        const uint32_t batch = fit_into(cases[i].model, cases[i].batch, towers, direct, cases[i].there);
        assert_in_range(batch, 1, cases[i].batch - 1);
        assert_true(bytes_of(cases[i].model, batch, towers, direct) <= cases[i].there);
        assert_true(bytes_of(cases[i].model, batch + batch / 40 + towers, towers, direct) > cases[i].there);
    }
}

TEST(what_is_said_to_fit_does_however_it_is_computed)
{
    for (size_t i = 0; i < CASES; i++) {
        const uint32_t towers = cases[i].towers;
        const uint32_t batch = fit_into(cases[i].model, cases[i].batch, towers, CONVOLUTION_AUTO, cases[i].there);
        assert_in_range(batch, 1, cases[i].batch - 1);
        assert_in_range(bytes_of(cases[i].model, batch, towers, CONVOLUTION_AUTO), cases[i].there / 2, cases[i].there);
    }
}

TEST(where_no_batch_fits_there_is_none)
{
    assert_int_equal(fit_into("mnist_cnn", 512, 1, CONVOLUTION_AUTO, RESULTS_BYTES + 4 * MIB), 0);
}

/* ---- model.parts ---- */

static int without_parts(void **state)
{
    (void)state;
    parts = classes = 0;
    return 0;
}

TEST_WITH(what_is_said_to_fit_does_with_parts, NULL, without_parts)
{
    parts = 2;
    for (uint32_t towers = 1; towers <= 2; towers++) {
        const uint32_t batch = fit_into("mnist_cnn", 4096, towers, CONVOLUTION_DIRECT, 200 * MIB);
        assert_in_range(batch, 2, 4095);
        assert_true(bytes_of("mnist_cnn", batch, towers, CONVOLUTION_DIRECT) <= 200 * MIB);
        assert_true(bytes_of("mnist_cnn", batch + batch / 20 + 2, towers, CONVOLUTION_DIRECT) > 200 * MIB);
    }
}

/* 64 features, 200,000 classes, 4 towers. */
TEST_WITH(a_tower_has_a_quarter_of_what_is_divided_among_four, NULL, without_parts)
{
    classes = 200000;
    const size_t whole = bytes_of("resnet20_v1", 8, 4, CONVOLUTION_DIRECT);
    parts = 4;
    assert_true((double)bytes_of("resnet20_v1", 8, 4, CONVOLUTION_DIRECT) <= 0.35 * (double)whole);
    assert_true((double)bytes_of("resnet20_v1", 8, 2, CONVOLUTION_DIRECT) <= 0.35 * (double)whole);
}

static bool is_hinted(uint32_t towers, size_t there)
{
    const struct memory_there limit = { .host = there };
    struct planned planned = { .net = NULL };
    struct problems problems;
    plan_make(&planned, "resnet20_v1", 8, towers, CONVOLUTION_DIRECT);
    problems_init(&problems);
    const struct memory_fit fit = { &planned.settings, &planned.plan, planned.net, no_datasets, &planned.needs };
    assert_int_equal(memory_needs_check(&planned.plan.memory, &planned.settings, &limit, &fit, &problems), -ENOMEM);
    const bool is_hinted = strstr(problems.lines[0], "or use model.parts = 4 with train.slices = 4") != NULL;
    problems_release(&problems);
    plan_release(&planned);
    return is_hinted;
}

TEST_WITH(parts_are_named_where_they_save_enough, NULL, without_parts)
{
    classes = 200000;
    const size_t whole = bytes_of("resnet20_v1", 8, 4, CONVOLUTION_DIRECT);
    assert_true(is_hinted(4, whole / 2));
    assert_false(is_hinted(4, whole / 5));
    assert_false(is_hinted(1, whole / 8));
    parts = 4;
    assert_false(is_hinted(4, whole / 8));
}

TESTS_MAIN(NULL, NULL)
