/* Tests of the feed's model: against what can be counted by hand. */
#include <math.h>

#include "tests/helpers/test.h"
#include "tools/tune/feed_model.h"

static const double one[] = { 1.0 }, half[] = { 0.5 }, tenth[] = { 0.1 };

#define TIMES(array) { array, sizeof(array) / sizeof(*(array)) }

/* Two pieces a batch of 10 samples; as many cores as anybody wants. */
static struct feed_model plenty(void)
{
    return (struct feed_model){ .read = TIMES(tenth), .decode = TIMES(half), .step = { TIMES(one) },
                                .step_threads = { 1 }, .step_kinds = 1, .pieces = 2, .between = 4, .towers = 1,
                                .batch = 10, .cores = INFINITY, .decode_cores = 1,
                                .loader_weight = 1, .crowding = 1 };
}

static struct feed_prediction predicted(const struct feed_model *model, struct feed_setting setting)
{
    struct feed_prediction prediction;
    assert_int_equal(feed_predict(model, &setting, 400, &prediction), 0);
    return prediction;
}

TEST(the_slowest_stage_sets_the_pace)
{
    struct feed_model model = plenty();
    struct feed_prediction is = predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 2 });
    assert_float_equal(is.images_per_second, 10, 1e-6);         /* the tower: a step a second */
    assert_float_equal(is.input_wait, 0, 1e-9);
    assert_float_equal(is.decoders_busy, 0.5, 1e-2);
    assert_float_equal(is.readers_busy, 0.2, 1e-2);
    model.decode = (struct feed_times)TIMES(one);
    is = predicted(&model, (struct feed_setting){ 1, 1, 1, 4, 2 });
    assert_float_equal(is.images_per_second, 5, 1e-6);          /* one decoder: two pieces of a second */
    assert_float_equal(is.input_wait, 0.5, 1e-6);
    assert_float_equal(is.decoders_busy, 1, 1e-6);
    assert_float_equal(is.ring_empty, 1, 1e-6);
    model.read = (struct feed_times)TIMES(one);
    is = predicted(&model, (struct feed_setting){ 1, 8, 1, 8, 2 });
    assert_float_equal(is.images_per_second, 5, 1e-6);          /* one reader */
    is = predicted(&model, (struct feed_setting){ 4, 8, 1, 8, 2 });
    assert_float_equal(is.images_per_second, 10, 1e-6);         /* four: the tower again */
}

TEST(a_copy_hides_behind_a_step_where_there_are_two_slots)
{
    struct feed_model model = plenty();
    model.copy = (struct feed_times)TIMES(half);
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 2 }).input_wait, 0, 1e-9);
    const struct feed_prediction is = predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 1 });
    assert_float_equal(is.input_wait, 0.5 / 1.5, 1e-6);
    assert_float_equal(is.images_per_second, 10 / 1.5, 1e-6);
}

/* One slot: what is left of a step behind its forward pass is enough for a copy, or for a part of it. */
TEST(a_copy_hides_behind_what_no_longer_needs_its_slot)
{
    struct feed_model model = plenty();
    model.copy = (struct feed_times)TIMES(half);
    model.slot_free = 0.6;
    struct feed_prediction is = predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 1 });
    assert_float_equal(is.input_wait, 0, 1e-9);
    assert_float_equal(is.images_per_second, 10, 1e-6);
    model.slot_free = 0.3;
    is = predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 1 });
    assert_float_equal(is.input_wait, 0.2 / 1.2, 1e-6);
    model.slot_free = 1;        /* filled again as soon as the step begins */
    is = predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 1 });
    assert_float_equal(is.input_wait, 0, 1e-9);
    model.copy = (struct feed_times){ NULL, 0 };
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 2, 1, 1, 1 }).images_per_second, 10, 1e-6);
}

/* A place of the ring is free when its batch is copied: with one of each, decoding of the next batch begins behind the
 * forward pass and not behind the step. Every fourth batch takes longer than a step. */
TEST(a_slot_that_comes_back_early_is_depth)
{
    double bursts[32];
    for (size_t i = 0; i < 32; i++)
        bursts[i] = i % 8 == 0 ? 1.0 : 0.2;
    struct feed_model model = plenty();
    model.decode = (struct feed_times)TIMES(bursts);
    const double held = predicted(&model, (struct feed_setting){ 1, 1, 1, 1, 1 }).input_wait;
    model.slot_free = 0.6;
    const double early = predicted(&model, (struct feed_setting){ 1, 1, 1, 1, 1 }).input_wait;
    assert_true(held > 0.03 && early < held - 0.03);
}

/* Sixteen quick pieces, then sixteen slow ones: eight batches of each, on average 0.8 s a batch. */
TEST(depth_takes_up_spread_and_no_deficit)
{
    double bursts[32];
    for (size_t i = 0; i < 32; i++)
        bursts[i] = i < 16 ? 0.1 : 0.7;
    struct feed_model model = plenty();
    model.decode = (struct feed_times)TIMES(bursts);
    const double shallow = predicted(&model, (struct feed_setting){ 1, 1, 1, 1, 1 }).input_wait;
    const double some = predicted(&model, (struct feed_setting){ 1, 1, 1, 2, 2 }).input_wait;
    const double deep = predicted(&model, (struct feed_setting){ 1, 1, 1, 8, 2 }).input_wait;
    assert_true(shallow > some + 0.02 && some > 0.02);
    assert_float_equal(deep, 0, 1e-6);
    for (size_t i = 0; i < 32; i++)
        bursts[i] *= 1.5;       /* 1.2 s a batch: slower than the tower */
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 1, 1, 16, 2 }).images_per_second, 10 / 1.2, 0.05);
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 1, 1, 64, 8 }).images_per_second, 10 / 1.2, 0.05);
}

TEST(what_computes_at_once_shares_the_cores)
{
    struct feed_model model = plenty();
    model.read = (struct feed_times){ NULL, 0 };
    model.steps_on_cores = true;
    model.cores = 1;            /* a second of decoding and a second of computing a batch */
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 1, 1, 4, 2 }).images_per_second, 5, 1e-3);
    model.cores = 2;
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 1, 1, 4, 2 }).images_per_second, 10, 1e-3);
    model.cores = 1;
    model.crowding = 2;         /* now a step is delayed twice as long */
    assert_true(predicted(&model, (struct feed_setting){ 1, 1, 1, 4, 2 }).images_per_second < 4.5);
    model.steps_on_cores = false;       /* a GPU: decoding has the core for itself */
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 1, 1, 4, 2 }).images_per_second, 10, 1e-3);
    model.read = (struct feed_times)TIMES(one); /* reads that wait for files take no core, those that compute do */
    assert_float_equal(predicted(&model, (struct feed_setting){ 4, 1, 1, 4, 2 }).images_per_second, 10, 1e-3);
    model.read_cores = 1;
    assert_float_equal(predicted(&model, (struct feed_setting){ 4, 1, 1, 4, 2 }).images_per_second, 10.0 / 3, 1e-2);
}

/* Two threads of a tower and a decoder on two cores: one core has two of them, a step takes twice as long, and the
 * decoder has half a core meanwhile; it has a whole one while the tower waits. */
TEST(a_decoder_beside_a_team_is_slowed_too)
{
    static const double long_decode[] = { 1.2 };
    struct feed_model model = plenty();
    model.read = (struct feed_times){ NULL, 0 };
    model.decode = (struct feed_times)TIMES(long_decode);
    model.steps_on_cores = true;
    model.step_threads[0] = 2;
    model.cores = 2;            /* of 2.4 s a batch the decoder does 1 during the step of 2 */
    struct feed_prediction is = predicted(&model, (struct feed_setting){ 1, 1, 2, 4, 2 });
    assert_float_equal(is.images_per_second, 10 / 3.4, 1e-2);
    assert_float_equal(is.input_wait, 1.4 / 3.4, 1e-2);
    assert_float_equal(is.cores_busy, (2 * 2 + 1 * 1.4) / 3.4, 1e-2);
    model.crowding = 2;         /* and 1.5 during one of 3: delayed by two seconds instead of one */
    is = predicted(&model, (struct feed_setting){ 1, 1, 2, 4, 2 });
    assert_float_equal(is.images_per_second, 10 / 3.9, 1e-2);
    assert_float_equal(is.input_wait, 0.9 / 3.9, 1e-2);
    model.crowding = 0;         /* and 0.5 during one that is not delayed */
    is = predicted(&model, (struct feed_setting){ 1, 1, 2, 4, 2 });
    assert_float_equal(is.images_per_second, 10 / 2.9, 1e-2);
    assert_float_equal(is.input_wait, 1.9 / 2.9, 1e-2);
    model.crowding = 1;
    model.cores = 3;            /* room for all */
    is = predicted(&model, (struct feed_setting){ 1, 1, 2, 4, 2 });
    assert_float_equal(is.input_wait, 1.4 / 2.4, 1e-2);
    model.cores = 2;
    model.decode_cores = 0;     /* decoding that waits shares nothing */
    is = predicted(&model, (struct feed_setting){ 1, 1, 2, 4, 2 });
    assert_float_equal(is.images_per_second, 10 / 2.4, 1e-2);
}

/* As before, but that on a core of both the decoder gets half of what the tower's thread gets, a third of it: a step
 * takes 1.5 s, and the decoder does 0.5 s of its work meanwhile. */
TEST(a_loader_that_gives_way_holds_teams_up_less)
{
    static const double long_decode[] = { 1.2 }, longer_decode[] = { 1.7 };
    struct feed_model model = plenty();
    model.read = (struct feed_times){ NULL, 0 };
    model.decode = (struct feed_times)TIMES(long_decode);   /* 2.4 s a batch */
    model.steps_on_cores = true;
    model.step_threads[0] = 2;
    model.cores = 2;
    model.loader_weight = 0.5;
    struct feed_prediction is = predicted(&model, (struct feed_setting){ 1, 1, 2, 4, 2 });
    assert_float_equal(is.images_per_second, 10 / (1.5 + 1.9), 1e-2);
    assert_float_equal(is.input_wait, 1.9 / (1.5 + 1.9), 1e-2);
    model.step_threads[0] = 1;      /* two decoders on the other core weigh as much as it does */
    model.decode = (struct feed_times)TIMES(longer_decode);     /* 3.4 s a batch, of which 1 s during the step */
    is = predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 2 });
    assert_float_equal(is.images_per_second, 10 / (1 + 1.2), 1e-2);
    assert_float_equal(is.input_wait, 1.2 / (1 + 1.2), 1e-2);
}

/* Cores that the towers' threads share among them are in the steps that were measured with them. */
TEST(more_threads_than_cores_are_as_slow_as_they_were_measured)
{
    struct feed_model model = plenty();
    model.read = (struct feed_times){ NULL, 0 };
    model.steps_on_cores = true;
    model.step_threads[0] = 2;
    model.cores = 1.5;          /* a quota */
    model.pieces = 0;
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 1, 2, 4, 2 }).images_per_second, 10, 1e-3);
    model.pieces = 2;           /* a decoder on one of them, which gets half as much as each of 1.33 threads there */
    model.loader_weight = 0.5;
    const struct feed_prediction is = predicted(&model, (struct feed_setting){ 1, 1, 2, 4, 2 });
    assert_float_equal((1 - is.input_wait) * 10 / is.images_per_second, (4 / 3.0 + 0.5) / (4 / 3.0), 0.05);
}

TEST(records_in_memory_are_not_waited_for)
{
    double seconds;
    struct feed_model model = plenty();
    model.read = (struct feed_times)TIMES(one);
    model.read_cores = 0.1;
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 2 }).images_per_second, 5, 1e-6);
    const struct feed_model cached = feed_cached(&model, &seconds);
    const struct feed_prediction is = predicted(&cached, (struct feed_setting){ 1, 2, 1, 4, 2 });
    assert_float_equal(is.images_per_second, 10, 1e-6);
    assert_float_equal(is.readers_busy, 0.2, 1e-2);
}

TEST(towers_step_together)
{
    struct feed_model model = plenty();
    model.towers = 2;           /* four pieces of half a second a step */
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 1, 1, 4, 2 }).images_per_second, 5, 1e-6);
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 2, 1, 4, 2 }).images_per_second, 10, 1e-6);
}

TEST(steps_with_other_numbers_of_threads_lie_on_a_line)
{
    static const double two[] = { 2.0 }, four[] = { 4.0 };
    struct feed_model model = plenty();
    model.step[0] = (struct feed_times)TIMES(four);
    model.step[1] = (struct feed_times)TIMES(two);
    model.step_threads[0] = 1;
    model.step_threads[1] = 4;
    model.step_kinds = 2;
    assert_float_equal(feed_step_seconds(&model, 1), 4, 1e-12);
    assert_float_equal(feed_step_seconds(&model, 4), 2, 1e-12);
    assert_float_equal(feed_step_seconds(&model, 2), 4.0 / 3 + 8.0 / 3 / 2, 1e-12);
    assert_float_equal(feed_step_seconds(&model, 8), 4.0 / 3 + 8.0 / 3 / 8, 1e-12);
    assert_float_equal(predicted(&model, (struct feed_setting){ 1, 8, 2, 4, 2 }).images_per_second, 30.0 / 8, 1e-6);
}

TEST(without_a_loader_only_steps_take_time)
{
    struct feed_model model = plenty();
    model.pieces = 0;
    const struct feed_prediction is = predicted(&model, (struct feed_setting){ 1, 1, 1, 1, 1 });
    assert_float_equal(is.images_per_second, 10, 1e-9);
    assert_float_equal(is.input_wait, 0, 1e-9);
}

TEST(means_and_spreads)
{
    static const double times[] = { 1, 3 };
    const struct feed_times two = TIMES(times), none = { NULL, 0 };
    assert_float_equal(feed_mean(&two), 2, 1e-12);
    assert_float_equal(feed_spread(&two), 0.5, 1e-12);
    assert_float_equal(feed_mean(&none), 0, 0);
    assert_float_equal(feed_spread(&none), 0, 0);
    static const double some[] = { 5, 1, 9, 2, 2 }, four[] = { 4, 3, 1, 2 };
    const struct feed_times odd = TIMES(some), even = TIMES(four);
    assert_float_equal(feed_median(&odd), 2, 0);
    assert_float_equal(feed_median(&even), 2, 0);
    assert_float_equal(feed_median(&none), 0, 0);
}

TESTS_MAIN(NULL, NULL)
