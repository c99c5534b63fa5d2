/* Tests of the search: what is short is found, and what is enough is left as it is. */
#include <math.h>

#include "tests/helpers/test.h"
#include "tools/tune/search.h"

static const double step[] = { 1.0 }, slow_read[] = { 0.9 }, slow_decode[] = { 1.4 }, quick[] = { 0.01 };

#define TIMES(array) { array, sizeof(array) / sizeof(*(array)) }

/* A GPU: steps of a second, two pieces a batch, and time to spare. */
static struct feed_model fed(void)
{
    return (struct feed_model){ .read = TIMES(quick), .decode = TIMES(quick), .step = { TIMES(step) },
                                .step_threads = { 1 }, .step_kinds = 1, .pieces = 2, .between = 4, .towers = 1,
                                .batch = 10, .cores = 8, .decode_cores = 1,
                                .loader_weight = 1, .crowding = 1 };
}

static struct search_space space(void)
{
    const struct feed_setting usual = { 1, 1, 1, 4, 2 };
    return (struct search_space){ .now = usual, .usual = usual, .readers_most = 16, .decoders_most = 8,
                                  .threads_most = 1, .ring_batch_bytes = 100, .slot_bytes = 100,
                                  .spare_bytes = SIZE_MAX };
}

static struct search_result searched(const struct feed_model *model, const struct search_space *where)
{
    struct search_result result;
    assert_int_equal(search_feed(model, where, &result), 0);
    assert_true(search_is_same(&result.now.setting, &where->now));
    for (uint32_t i = 0; i < result.count; i++)
        assert_false(search_is_same(&result.found[i].setting, &where->now));
    return result;
}

static double best_speed(const struct search_result *result)
{
    double best = result->now.prediction.images_per_second;
    for (uint32_t i = 0; i < result->count; i++)
        best = fmax(best, result->found[i].prediction.images_per_second);
    return best;
}

TEST(a_feed_that_keeps_up_stays_as_it_is)
{
    const struct feed_model model = fed();
    const struct search_space where = space();
    const struct search_result result = searched(&model, &where);
    assert_float_equal(result.now.prediction.images_per_second, 10, 1e-3);
    assert_float_equal(best_speed(&result), 10, 1e-3);
    for (uint32_t i = 0; i < result.count; i++) /* other numbers of decoders, for a trial; never more depth */
        assert_true(result.found[i].setting.ring == 4 && result.found[i].setting.slots == 2);
}

TEST(a_slow_reader_gets_company_and_no_more_than_it_needs)
{
    static const double slow[] = { 0.8 };
    struct feed_model model = fed();
    const struct search_space where = space();
    model.read = (struct feed_times)TIMES(slow);                /* 1.6 s a batch by one */
    const struct search_result result = searched(&model, &where);
    assert_float_equal(result.now.prediction.images_per_second, 10 / 1.6, 0.1);
    assert_true(result.count > 0);
    assert_int_equal(result.found[0].setting.readers, 2);
    assert_int_equal(result.found[0].setting.decoders, 1);
    assert_int_equal(result.found[0].setting.ring, 4);
    assert_float_equal(result.found[0].prediction.images_per_second, 10, 0.1);
}

/* Two would do for steps as long as they were measured, but not for shorter ones. */
TEST(readers_that_just_suffice_are_too_few)
{
    struct feed_model model = fed();
    const struct search_space where = space();
    model.read = (struct feed_times)TIMES(slow_read);           /* 1.8 s a batch by one */
    const struct search_result result = searched(&model, &where);
    assert_true(result.count > 0);
    assert_int_equal(result.found[0].setting.readers, 4);
    assert_float_equal(result.found[0].prediction.images_per_second, 10, 0.1);      /* of steps as measured */
}

TEST(slow_decoders_get_company)
{
    struct feed_model model = fed();
    const struct search_space where = space();
    model.decode = (struct feed_times)TIMES(slow_decode);       /* 2.8 s a batch by one */
    const struct search_result result = searched(&model, &where);
    assert_true(result.count > 0);
    assert_int_equal(result.found[0].setting.decoders, 3);
    assert_int_equal(result.found[0].setting.readers, 1);
}

/* 16 batches at a quarter of the time, then 16 that take twice that of a step; on average 0.9 s. */
static double bursts[64];

static struct feed_model bursty(void)
{
    struct feed_model model = fed();
    for (size_t i = 0; i < 64; i++)
        bursts[i] = i < 32 ? 0.05 : 0.85;
    model.decode = (struct feed_times)TIMES(bursts);
    model.cores = 1;            /* and no core for another decoder */
    return model;
}

TEST(bursts_get_depth_within_the_memory_there_is)
{
    const struct feed_model model = bursty();
    struct search_space where = space();
    where.decoders_most = 1;
    struct search_result result = searched(&model, &where);
    assert_true(result.count > 0);
    assert_true(result.found[0].setting.ring > 4);
    assert_true(result.found[0].prediction.input_wait < result.now.prediction.input_wait - 0.05);
    assert_true(search_more_bytes(&where, &result.found[0].setting) > 0);
    where.spare_bytes = 299;    /* two batches more, not three */
    result = searched(&model, &where);
    assert_true(result.count > 0);
    for (uint32_t i = 0; i < result.count; i++)
        assert_true(search_more_bytes(&where, &result.found[i].setting) <= 299);
    where.spare_bytes = 0;
    result = searched(&model, &where);
    for (uint32_t i = 0; i < result.count; i++)
        assert_int_equal(search_more_bytes(&where, &result.found[i].setting), 0);
}

TEST(depth_that_does_nothing_goes_back_to_the_usual)
{
    struct feed_model model = fed();
    struct search_space where = space();
    model.read = (struct feed_times)TIMES(slow_read);
    where.now.ring = 16;
    where.now.slots = 4;
    const struct search_result result = searched(&model, &where);
    assert_true(result.count > 0);
    assert_int_equal(result.found[0].setting.ring, 4);
    assert_int_equal(result.found[0].setting.slots, 2);
}

TEST(cores_are_shared_with_towers_on_the_cpu)
{
    static const double two[] = { 2.0 };
    struct feed_model model = fed();
    struct search_space where = space();
    model.steps_on_cores = true;
    model.cores = 2;
    model.crowding = 2;         /* a team that is disturbed waits */
    model.decode = (struct feed_times)TIMES(step);      /* 2 s a batch */
    model.step[0] = (struct feed_times)TIMES(two);
    model.step[1] = (struct feed_times)TIMES(step);
    model.step_threads[1] = 2;
    model.step_kinds = 2;
    where.now.threads = 2;
    where.threads_most = 2;
    where.decoders_most = 2;
    const struct search_result result = searched(&model, &where);
    assert_true(result.count > 0);
    assert_int_equal(result.found[0].setting.threads, 1);       /* one core decodes, one computes */
    assert_true(result.found[0].prediction.images_per_second > result.now.prediction.images_per_second * 1.1);
}

TESTS_MAIN(NULL, NULL)
