/* Tests of which rank is last, by the times of all towers, on runs that are simulated: ranks compute, wait for the last
 * one, and are stopped at times, whatever they are doing then. */
#include <math.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/lib/run/ranks/rank_waits.h"

enum { US = 1000, MS = 1000000, TOWERS_MAX = 64, STEPS = 200 };

static struct step_report reports[TOWERS_MAX], *pointers[TOWERS_MAX];
static struct rank_waits *waits;

static void open_waits(uint32_t ranks, uint32_t towers_each, const uint32_t *hosts)
{
    const struct schedule schedule = { .towers = ranks * towers_each, .here = { 0, towers_each } };
    assert_true(schedule.towers <= TOWERS_MAX);
    for (uint32_t d = 0; d < TOWERS_MAX; d++)
        pointers[d] = &reports[d];
    assert_int_equal(rank_waits_open(&waits, &schedule, hosts), 0);
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

/* ---- simulated runs ---- */

/* A rank computes for busy_ns, of which it waits input_ns for input, and random_ns at most more. Every stop_every_ns it is
 * stopped for stop_ns. */
struct pattern { uint64_t busy_ns, input_ns, noise_ns, stop_ns, stop_every_ns; };

/* When a rank that goes on at now_ns has run for run_ns. */
static uint64_t run_for(const struct pattern *pattern, uint64_t now_ns, uint64_t run_ns)
{
    while (pattern->stop_ns > 0) {
        const uint64_t period = pattern->stop_every_ns + pattern->stop_ns, at = now_ns % period;
        if (at >= pattern->stop_every_ns) {
            now_ns += period - at;
            continue;
        }
        if (at + run_ns < pattern->stop_every_ns)
            break;
        run_ns -= pattern->stop_every_ns - at;
        now_ns += pattern->stop_every_ns - at;
    }
    return now_ns + run_ns;
}

/* Run `steps` steps of ranks with one tower, whose sums take sum_ns of each after the last one has arrived. */
static double simulate(uint32_t ranks, const struct pattern *patterns, uint64_t sum_ns, uint32_t steps)
{
    uint64_t now[TOWERS_MAX] = { 0 }, arrived[TOWERS_MAX], began = 0;
    for (uint32_t step = 0; step < steps; step++) {
        uint64_t latest = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            const struct pattern *const pattern = &patterns[rank];
            const uint64_t noise_ns = pattern->noise_ns > 0 ? random_ns(pattern->noise_ns) : 0;
            arrived[rank] = run_for(pattern, now[rank], pattern->busy_ns + noise_ns);
            latest = arrived[rank] > latest ? arrived[rank] : latest;
        }
        for (uint32_t rank = 0; rank < ranks; rank++) {
            const uint64_t end = run_for(&patterns[rank], latest, sum_ns);
            reports[rank].times = (struct step_times){ .exposed_reduction = end - arrived[rank],
                                                       .input_wait = patterns[rank].input_ns,
                                                       .total = end - now[rank] };
            now[rank] = end;
        }
        rank_waits_add(waits, pointers);
        began = step == 0 ? now[0] : began;
    }
    return (double)(now[0] - began) / (steps - 1) / MS;
}

#define NOBODY UINT32_MAX
struct run { const char *what; uint32_t ranks, slow, together; bool rests; uint64_t busy_ns, noise_ns; struct pattern of_slow; };

/* A step of 1.3 ms or 100 ms; the slow rank, and its neighbour if two are late together, run as of_slow. */
static const struct run runs[] = {
    { "a small delay in every step", 4, 2, 1, false, 100 * MS, 10 * MS, { 109 * MS, 0, 10 * MS, 0, 0 } },
    { "of two ranks", 2, 1, 1, false, 100 * MS, 10 * MS, { 109 * MS, 0, 10 * MS, 0, 0 } },
    { "of two ranks, rank 0", 2, 0, 1, false, 100 * MS, 10 * MS, { 109 * MS, 0, 10 * MS, 0, 0 } },
    { "long pulses, short steps", 4, 2, 1, true, 1100 * US, 200 * US, { 1100 * US, 0, 200 * US, 50 * MS, 100 * MS } },
    { "long pulses, two ranks", 2, 1, 1, true, 1100 * US, 200 * US, { 1100 * US, 0, 200 * US, 50 * MS, 100 * MS } },
    { "rare pulses", 4, 0, 1, true, 1100 * US, 200 * US, { 1100 * US, 0, 200 * US, 30 * MS, 120 * MS } },
    { "a slow host of two ranks", 8, 4, 2, false, 100 * MS, 10 * MS, { 112 * MS, 0, 10 * MS, 0, 0 } },
    { "one rank waits for input", 4, 1, 1, false, 100 * MS, 10 * MS, { 130 * MS, 28 * MS, 10 * MS, 0, 0 } },
    { "equal ranks", 2, NOBODY, 0, false, 100 * MS, 50 * MS, { 0 } },
    { "equal ranks, short steps", 2, NOBODY, 0, false, 1100 * US, 900 * US, { 0 } },
    { "many equal ranks", 64, NOBODY, 0, false, 100 * MS, 50 * MS, { 0 } },
    { "equal ranks on all hosts", 8, NOBODY, 0, false, 20 * MS, 20 * MS, { 0 } },
    { "a delay that costs hardly anything", 4, NOBODY, 0, false, 100 * MS, MS, { 103 * MS, 0, MS, 0, 0 } },
};

TEST(the_rank_that_costs_the_run_most_is_named)
{
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        const struct run *const run = &runs[i];
        struct pattern patterns[TOWERS_MAX];
        uint32_t hosts[TOWERS_MAX];
        for (uint32_t rank = 0; rank < run->ranks; rank++) {
            const bool is_slow = rank - run->slow < run->together;
            patterns[rank] = is_slow ? run->of_slow : (struct pattern){ .busy_ns = run->busy_ns,
                                                                        .noise_ns = run->noise_ns };
            hosts[rank] = rank / 2;
        }
        open_waits(run->ranks, 1, run->together == 1 ? NULL : hosts);
        const double step_ms = simulate(run->ranks, patterns, run->busy_ns / 10, 4000);
        const struct last_rank last = close_waits();
        const bool is_slow = last_rank_is_slow(&last, step_ms);
        const bool is_right = is_slow ? last.rank - run->slow < run->together && last.together == run->together &&
                                            last_rank_rests(&last) == run->rests
                                      : run->slow == NOBODY;
        if (!is_right)
            fail_msg("%s: rank %u (%u together), %.3f ms of %.3f, last in %.2f, most %.1f ms, certainty %.1f: %s", run->what,
                     last.rank, last.together, last.behind_ms, step_ms, last.share, last.most_ms, last.certainty,
                     is_slow ? "named" : "not named");
        assert_true(run->of_slow.input_ns == 0 || last.input_ms == (double)run->of_slow.input_ns / MS);
    }
}

/* Delays of ranks that other programs stop for longer than any step takes. */
TEST(a_delay_in_most_steps_of_a_disturbed_run_is_named)
{
    for (uint32_t ranks = 2; ranks <= TOWERS_MAX; ranks *= 2) {
        open_waits(ranks, 1, NULL);
        for (uint32_t step = 0; step < STEPS; step++) {
            for (uint32_t rank = 0; rank < ranks; rank++) {
                const uint64_t stop_ns = random_ns(10 * ranks) == 0 ? 300 * MS : 0;
                reports[rank].times = (struct step_times){ .exposed_reduction = 40 * MS, .total = 60 * MS + stop_ns };
            }
            reports[1].times.total += 30 * MS;
            rank_waits_add(waits, pointers);
        }
        const struct last_rank last = close_waits();
        assert_int_equal(last.rank, 1);
        assert_true(last.clear_share > 0.8 && last.clear_share <= last.share);
        assert_true(last_rank_is_slow(&last, 100));
    }
}

/* Something that happened once is no property of a rank, however long it took. */
TEST(what_has_happened_once_names_nobody)
{
    for (uint32_t steps = 60; steps < 3000; steps *= 3) {
        const struct pattern plain = { .busy_ns = 10 * MS, .noise_ns = MS };
        struct pattern patterns[4] = { plain, plain, plain, plain };
        open_waits(4, 1, NULL);
        simulate(4, patterns, MS, steps / 2);
        patterns[2].busy_ns = UINT64_C(10) * MS * steps;
        simulate(4, patterns, MS, 2);
        patterns[2].busy_ns = 10 * MS;
        const double step_ms = simulate(4, patterns, MS, steps / 2);
        const struct last_rank last = close_waits();
        assert_int_equal(last.rank, 2);
        assert_true(last.behind_ms > 10);
        assert_false(last_rank_is_slow(&last, step_ms));
    }
}

/* ---- steps of given times ---- */

static void spend(uint32_t tower, uint64_t busy_ns, uint64_t reduction_ns, uint64_t input_ns)
{
    reports[tower].times = (struct step_times){ .exposed_reduction = reduction_ns, .input_wait = input_ns,
                                                .total = busy_ns + reduction_ns };
}

TEST(nothing_is_known_without_steps_or_sums)
{
    assert_int_equal(rank_waits_find(NULL).steps, 0);
    for (uint32_t steps = 0; steps <= STEPS; steps += STEPS) {
        open_waits(4, 1, NULL);
        for (uint32_t step = 0; step < steps; step++) {
            for (uint32_t rank = 0; rank < 4; rank++)
                spend(rank, (rank == 2 ? 20 : 10) * MS, 0, 0);
            rank_waits_add(waits, pointers);
        }
        const struct last_rank last = close_waits();
        assert_int_equal(last.steps, 0);
        assert_false(last_rank_is_slow(&last, 10));
    }
}

TEST(the_rank_that_waits_least_is_last)
{
    for (uint32_t ranks = 2; ranks <= 5; ranks++)
        for (uint32_t late = 0; late < ranks; late++) {
            open_waits(ranks, 1, NULL);
            for (uint32_t step = 0; step < STEPS; step++) {
                for (uint32_t rank = 0; rank < ranks; rank++)
                    spend(rank, (rank == late ? 34 : 20) * MS, (rank == late ? 2 : 16) * MS, 0);
                rank_waits_add(waits, pointers);
            }
            const struct last_rank last = close_waits();
            assert_int_equal(last.steps, STEPS);
            assert_int_equal(last.rank, late);
            assert_true(last.share == 1 && last.behind_ms == 14 && last.most_ms == 14 && last.input_ms == 0);
            assert_true(isinf(last.certainty));
            assert_true(last_rank_is_slow(&last, 100));
            assert_true(last_rank_is_slow(&last, 14 / LAST_STEP_SHARE));
            assert_false(last_rank_is_slow(&last, 14 / LAST_STEP_SHARE + 1));
        }
}

/* Towers of a rank wait for each other, too: the rank is as late as its last tower. */
TEST(a_rank_is_as_late_as_its_last_tower)
{
    open_waits(3, 2, NULL);
    for (uint32_t d = 0; d < 6; d++)
        spend(d, (d == 3 ? 19 : 11) * MS, (d == 3 ? 1 : 9) * MS, (d == 3 ? 7 : 0) * MS);
    for (uint32_t step = 0; step < STEPS; step++)
        rank_waits_add(waits, pointers);
    const struct last_rank last = close_waits();
    assert_int_equal(last.rank, 1);
    assert_true(last.behind_ms == 8 && last.input_ms == 7);
}

/* With sums every few steps only: the delays of the steps between them add up. */
TEST(steps_without_sums_count)
{
    open_waits(4, 1, NULL);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t rank = 0; rank < 4; rank++)
            spend(rank, (rank == 2 ? 15 : 10) * MS, step % 4 == 3 && rank != 2 ? 20 * MS : 0, 0);
        rank_waits_add(waits, pointers);
    }
    const struct last_rank last = close_waits();
    assert_int_equal(last.steps, STEPS);
    assert_int_equal(last.rank, 2);
    assert_true(last.behind_ms == 5 && last.waited_ms == 5);
    assert_true(last_rank_is_slow(&last, 20));
}

TEST(few_steps_name_nobody)
{
    open_waits(2, 1, NULL);
    for (uint32_t step = 0; step < LAST_STEPS; step++) {
        const struct last_rank last = rank_waits_find(waits);
        assert_false(last_rank_is_slow(&last, 20));
        spend(0, 10 * MS, 10 * MS, 0);
        spend(1, 20 * MS, 0, 0);
        rank_waits_add(waits, pointers);
    }
    const struct last_rank last = close_waits();
    assert_true(last_rank_is_slow(&last, 20));
}

TESTS_MAIN(NULL, NULL)
