/* Tests of towers that fail: whatever a tower was doing, and whatever the mode, the run ends within a second, with
 * the cause, and no tower waits for the one that failed. On the reference backend, whose functions fail at the call
 * that a test names. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_fixture.h"

/* What the tower that fails calls. */
enum call { CALL_INPUT, CALL_FORWARD, CALL_BACKWARD, CALL_RESULT, CALL_UPDATE, CALL_SCALE, CALL_COUNT };

static enum call failing;
static uint32_t calls_left;             /* of the tower that fails, whose thread alone counts */
static uint64_t failed_ns;

static bool fails(enum call call)
{
    if (call != failing || calls_left-- > 0)
        return false;
    failed_ns = clock_now_ns();
    calls_left = UINT32_MAX;
    return true;
}

static int input(struct plan *plan, const struct backend_input *input)
{
    return fails(CALL_INPUT) ? -EIO : backend_reference_ops.input(plan, input);
}

static int forward(struct plan *plan)
{
    return fails(CALL_FORWARD) ? -EIO : backend_reference_ops.forward(plan);
}

static int backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    return fails(CALL_BACKWARD) ? -EIO : backend_reference_ops.backward(plan, layer_done, arg);
}

static int result(struct plan *plan, struct backend_result *result_out)
{
    return fails(CALL_RESULT) ? -EIO : backend_reference_ops.result(plan, result_out);
}

static int part_result(struct plan *plan, uint32_t first, uint32_t count, struct backend_result *result_out)
{
    return fails(CALL_RESULT) ? -EIO : backend_reference_ops.part_result(plan, first, count, result_out);
}

static int update(struct backend *backend, const struct optimizer *optimizer, const struct optimizer_step *step,
                  const struct optimizer_range *ranges, uint32_t count)
{
    return fails(CALL_UPDATE) ? -EIO : backend_reference_ops.update(backend, optimizer, step, ranges, count);
}

static int scale(struct backend *backend, float *floats, size_t count, float factor)
{
    return fails(CALL_SCALE) ? -EIO : backend_reference_ops.scale(backend, floats, count, factor);
}

static struct backend_ops failing_ops(void)
{
    struct backend_ops ops = backend_reference_ops;
    ops.input = input;
    ops.forward = forward;
    ops.backward = backward;
    ops.result = result;
    ops.part_result = part_result;
    ops.update = update;
    ops.scale = scale;
    return ops;
}

/* Runs to its end: in the long tests within a second of the failure; else only the alarm ends a run that hangs. Did the
 * tower come to the call that fails? */
static bool run(const struct fixture_spec *spec, uint32_t bad, char *text, size_t bytes)
{
    const uint32_t towers = spec->schedule.towers;
    static struct trainer_fixture fixture;
    static struct backend_ops broken;
    struct capture capture;
    failed_ns = 0;
    broken = failing_ops();
    trainer_fixture_open(&fixture, spec);
    for (uint32_t d = 0; d < towers; d++) {
        struct trainer_spec trainer = fixture_trainer(&fixture, d);
        if (d == bad)
            trainer.tower.backend = &broken;
        fixture_start(&fixture, d, &trainer);
    }
    assert_int_equal(fixture_ready_all(&fixture), 0);
    capture_begin(&capture);
    fixture_go_all(&fixture);
    while (fixture_next_batch(&fixture) == 0)
        ;
    for (uint32_t d = 0; d < towers; d++)
        trainer_settle(fixture.towers[d].trainer);
    const uint64_t ended_ns = clock_now_ns();
    capture_end(&capture, text, bytes);
    assert_int_equal(stop_failed(fixture.stop), failed_ns > 0);
    if (failed_ns > 0 && test_is_long())
        assert_true(ended_ns - failed_ns < 1000000000);
    trainer_fixture_close(&fixture);
    return failed_ns > 0;
}

static struct fixture_spec spec_of(enum sync_mode mode, uint32_t towers)
{
    return (struct fixture_spec){
        .schedule = { .records = { 53, 17 }, .batch = 12, .towers = towers, .epochs = 2 }, .mode = mode,
        .reduction = "host", .every = 2, .max_staleness = 2, .normalizes = true, .saves = true,
        .optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f } };
}

/* After `step`, 2 * step, ... of the same calls. */
static void fail_everywhere(const struct fixture_spec *spec, uint32_t step)
{
    char text[1024];
    for (failing = 0; failing < CALL_COUNT; failing++) {
        bool came = true;
        uint32_t tries = 0;
        for (; came && tries < 14; tries += step) {
            calls_left = tries;
            came = run(spec, tries / step % spec->schedule.towers, text, sizeof(text));
            if (came)
                assert_non_null(strstr(text, "tower: a step failed: Input/output error"));
        }
        assert_true(tries > step || failing >= CALL_UPDATE);
    }
}

TEST(a_tower_that_fails_anywhere_ends_the_run)
{
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++)
        for (uint32_t towers = 2; towers <= 3; towers++) {
            if (!test_is_long() && (uint32_t)mode % 2 != towers % 2)
                continue;
            print_message("%s%s%s: %u towers\n", sync_table[mode]->name, sync_table[mode]->place != NULL ? " " : "",
                          sync_table[mode]->place != NULL ? sync_table[mode]->place : "", towers);
            const struct fixture_spec spec = spec_of((enum sync_mode)mode, towers);
            fail_everywhere(&spec, test_is_long() ? 1 : 3);
        }
}

/* A tower of two has two slices, and two parts of two layers: six calls of forward and of backward in a step, with the
 * exchanges in between. In one process, and in ranks. */
TEST(a_tower_that_fails_in_any_exchange_of_parts_ends_the_run)
{
    for (uint32_t ranks = 0; ranks <= 2; ranks += 2) {
        struct fixture_spec spec = spec_of(SYNC_REPLICATED, 2);
        spec.schedule.slices = spec.parts = 4;
        spec.ranks = ranks;
        fail_everywhere(&spec, test_is_long() || ranks == 0 ? 1 : 4);
    }
}

int main(void)
{
    alarm(300);
    if (!test_device_ops()->host_memory)
        return 77;
    return tests_run(NULL, NULL);
}
