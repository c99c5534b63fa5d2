/* Tests of which rank is last, by the waits of all towers. */
#include "tests/helpers/test.h"
#include "tools/lib/run/ranks/rank_waits.h"

enum { MS = 1000000, TOWERS_MAX = 64, STEPS = 200 };

static struct step_report reports[TOWERS_MAX], *pointers[TOWERS_MAX];
static struct rank_waits *waits;

static void open_waits(uint32_t ranks, uint32_t towers_each)
{
    const struct schedule schedule = { .towers = ranks * towers_each, .here = { 0, towers_each } };
    assert_true(schedule.towers <= TOWERS_MAX);
    for (uint32_t d = 0; d < TOWERS_MAX; d++)
        pointers[d] = &reports[d];
    assert_int_equal(rank_waits_open(&waits, &schedule), 0);
}

static void wait_for_sums(uint32_t tower, uint64_t reduction_ns, uint64_t input_ns)
{
    reports[tower].times = (struct step_times){ .exposed_reduction = reduction_ns, .input_wait = input_ns };
}

static struct last_rank close_waits(void)
{
    const struct last_rank last = rank_waits_find(waits);
    rank_waits_close(waits);
    return last;
}

/* The same in every run. */
static uint64_t random_ns(uint64_t most)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % most;
}

TEST(nothing_is_known_without_steps)
{
    assert_int_equal(rank_waits_find(NULL).steps, 0);
    open_waits(4, 1);
    const struct last_rank last = close_waits();
    assert_int_equal(last.steps, 0);
    assert_false(last_rank_is_slow(&last, 10));
}

TEST(the_rank_that_waits_least_is_last)
{
    for (uint32_t ranks = 2; ranks <= 5; ranks++)
        for (uint32_t late = 0; late < ranks; late++) {
            open_waits(ranks, 1);
            for (uint32_t step = 0; step < STEPS; step++) {
                for (uint32_t rank = 0; rank < ranks; rank++)
                    wait_for_sums(rank, (rank == late ? 2 : 16) * MS, 0);
                rank_waits_add(waits, pointers);
            }
            const struct last_rank last = close_waits();
            assert_int_equal(last.steps, STEPS);
            assert_int_equal(last.rank, late);
            assert_true(last.share == 1 && last.behind_ms == 14 && last.input_ms == 0);
            assert_true(last_rank_is_slow(&last, 100));
            assert_true(last_rank_is_slow(&last, 14 / LAST_STEP_SHARE));
            assert_false(last_rank_is_slow(&last, 14 / LAST_STEP_SHARE + 1));
        }
}

/* Towers of a rank wait for each other, too: the rank is as late as its last tower. */
TEST(a_rank_is_as_late_as_its_last_tower)
{
    open_waits(3, 2);
    for (uint32_t d = 0; d < 6; d++)
        wait_for_sums(d, (d == 3 ? 1 : 9) * MS, (d == 3 ? 7 : 0) * MS);
    for (uint32_t step = 0; step < STEPS; step++)
        rank_waits_add(waits, pointers);
    const struct last_rank last = close_waits();
    assert_int_equal(last.rank, 1);
    assert_true(last.behind_ms == 8 && last.input_ms == 7);
}

TEST(equal_ranks_are_not_named)
{
    for (uint32_t ranks = 2; ranks <= TOWERS_MAX; ranks *= 2) {
        open_waits(ranks, 1);
        for (uint32_t step = 0; step < STEPS; step++) {
            for (uint32_t rank = 0; rank < ranks; rank++)
                wait_for_sums(rank, random_ns(20 * MS), 0);
            rank_waits_add(waits, pointers);
        }
        const struct last_rank last = close_waits();
        assert_int_equal(last.steps, STEPS);
        assert_false(last_rank_is_slow(&last, 20));
    }
}

TEST(a_rank_that_is_slow_among_noise_is_named)
{
    for (uint32_t ranks = 2; ranks <= TOWERS_MAX; ranks *= 2) {
        open_waits(ranks, 1);
        for (uint32_t step = 0; step < STEPS; step++) {
            for (uint32_t rank = 0; rank < ranks; rank++)
                wait_for_sums(rank, (rank == 1 ? 0 : 15 * MS) + random_ns(20 * MS), 0);
            rank_waits_add(waits, pointers);
        }
        const struct last_rank last = close_waits();
        assert_int_equal(last.rank, 1);
        assert_true(last.share > 0.6 && last.behind_ms > 12 && last.behind_ms < 18);
        assert_true(last_rank_is_slow(&last, 100));
    }
}

TEST(steps_in_which_nobody_waits_are_left_out)
{
    open_waits(4, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t rank = 0; rank < 4; rank++)
            wait_for_sums(rank, step % 8 == 7 && rank != 2 ? 5 * MS : 0, 0);
        rank_waits_add(waits, pointers);
    }
    const struct last_rank last = close_waits();
    assert_int_equal(last.steps, STEPS / 8);
    assert_int_equal(last.rank, 2);
    assert_true(last.behind_ms == 5);
    assert_false(last_rank_is_slow(&last, 20));         /* these are too few */
}

TESTS_MAIN(NULL, NULL)
