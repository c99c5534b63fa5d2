/* Tests of the reductions that the kind of device knows: every tower ends up with the same
 * sums (but for NCCL's, bit for bit those of adding in pairs), and no wait outlives a
 * cancel. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/schedule.h"
#include "sync/term.h"
#include "tests/helpers/reduce_bench.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

/* Of 0.1 ms each: time enough on the busiest machine. */
enum { WAITS_MAX = 300000 };

/* The tests are run for each. */
static const struct reduce_ops *reduction;

static struct bench bench;

/* As many of `wanted` towers as there can be: NCCL takes one a device. */
static uint32_t possible_towers(uint32_t wanted)
{
    return strcmp(reduction->name, "nccl") == 0 ? bench_devices(reduction, wanted) : wanted;
}

/* Buckets consist of pieces. */
static bool has_pieces;

static void open_towers_with(uint32_t towers, bool has_bf16_grads, bool in_pairs)
{
    bench_open(&bench, &(struct bench_spec){ .reduction = reduction, .towers = towers, .has_bf16_grads = has_bf16_grads,
                                             .has_pieces = has_pieces, .in_pairs = in_pairs,
                                             .devices = bench_devices(reduction, towers) });
}

static void open_towers(uint32_t towers)
{
    open_towers_with(towers, false, false);
}

static void check_sums(bool has_bf16_grads, bool in_pairs)
{
    for (uint32_t towers = 1; towers <= 5 && towers == possible_towers(towers); towers++) {
        open_towers_with(towers, has_bf16_grads, in_pairs);
        bench_start(&bench);
        bench_join(&bench);
        for (uint32_t d = 0; d < towers; d++) {
            assert_int_equal(bench.tower[d].result, 0);
            assert_int_equal(bench.tower[d].done, BENCH_STEPS);
            assert_int_equal(bench.tower[d].wrong, 0);
            assert_true(has_pieces || bench.tower[d].bits == bench.tower[0].bits);
        }
        bench_close(&bench);
    }
}

static void every_tower_gets_the_same_sums_in_every_step(void **state)
{
    (void)state;
    check_sums(false, false);
}

/* All but NCCL add in no other way. */
static void every_tower_gets_sums_in_pairs_where_they_are_asked_for(void **state)
{
    (void)state;
    check_sums(false, true);
}

static void sums_of_bf16_are_of_fp32_and_rounded_once(void **state)
{
    (void)state;
    check_sums(true, false);
}

static void every_tower_gets_all_pieces_or_the_sum_of_its_own(void **state)
{
    (void)state;
    has_pieces = true;
    check_sums(false, false);
    has_pieces = false;
}

enum { TRACED_TOWERS = 3, BUCKETS_MOST = 16 };

/* Of all tracks: how often each bucket of each batch is there. */
static void count_sums(const struct trace *trace, uint64_t begun_ns, uint32_t counts[BENCH_STEPS][BUCKETS_MOST])
{
    const uint64_t late_ns = clock_now_ns() + 1000000000u;
    struct trace_look look;
    for (uint32_t i = 0; trace_look(trace, i, &look); i++) {
        bool is_there[BENCH_STEPS][BUCKETS_MOST] = { { false } };
        uint64_t ended_ns = begun_ns;
        assert_int_equal(look.kind, TRACE_REDUCTION);
        assert_int_equal(look.lost, 0);
        for (uint64_t n = 0; n < look.count; n++) {
            const struct trace_entry *const entry = trace_entry_at(trace, i, &look, n);
            assert_int_equal(entry->name, TRACE_REDUCE);
            assert_int_equal(entry->tower, look.index);
            assert_true(entry->begin_ns >= ended_ns && entry->end_ns >= entry->begin_ns && entry->end_ns < late_ns);
            assert_true(entry->batch < BENCH_STEPS && entry->argument < bench.buckets.count);
            assert_false(is_there[entry->batch][entry->argument]);
            is_there[entry->batch][entry->argument] = true;
            counts[entry->batch][entry->argument]++;
            ended_ns = entry->end_ns;
        }
    }
}

/* A tower that has no share of a bucket sums nothing of it. */
static void every_sum_is_recorded_once_on_a_track(void **state)
{
    (void)state;
    const uint32_t towers = possible_towers(TRACED_TOWERS);
    const struct trace_spec spec = { .tracks = towers, .entries = BENCH_STEPS * BUCKETS_MOST, .end = UINT64_MAX };
    uint32_t counts[BENCH_STEPS][BUCKETS_MOST] = { { 0 } };
    struct trace *trace;
    assert_int_equal(trace_open(&trace, &spec), 0);
    const uint64_t begun_ns = clock_now_ns();
    bench_open(&bench, &(struct bench_spec){ .reduction = reduction, .towers = towers, .trace = trace,
                                             .devices = bench_devices(reduction, towers) });
    assert_true(bench.buckets.count <= BUCKETS_MOST);
    bench_start(&bench);
    bench_join(&bench);
    count_sums(trace, begun_ns, counts);
    for (uint32_t step = 0; step < BENCH_STEPS; step++)
        for (uint32_t b = 0; b < bench.buckets.count; b++)
            assert_in_range(counts[step][b], strcmp(reduction->name, "nccl") == 0 ? towers : 1, towers);
    bench_close(&bench);
    trace_close(trace);
}

/* Every tower has queued all it can before the sums of step `steps`, and has the results that go with it. */
static bool have_all_come(uint32_t steps)
{
    bool have = true;
    for (uint32_t d = 0; d < bench.towers; d++)
        have = have && atomic_load(&bench.tower[d].done) + bench.depth > steps;
    return have;
}

static void check_cancels_with_a_tower_away(void)
{
    const uint32_t towers = possible_towers(3);
    if (towers < 2)
        skip();
    for (uint32_t steps = 0; steps < 6; steps++) {
        open_towers(towers);
        struct bench_tower *away = &bench.tower[steps % towers];
        away->steps = steps;
        away->step_buckets = steps % 3;
        bench_start(&bench);
        for (int waits = 0; waits < WAITS_MAX && !(atomic_load(&away->away) && have_all_come(steps)); waits++)
            usleep(100);
        usleep(2000);
        bench_cancel(&bench);
        bench_join(&bench);
        for (uint32_t d = 0; d < towers; d++) {
            assert_int_equal(bench.tower[d].result, &bench.tower[d] == away ? 0 : -ECANCELED);
            assert_true(bench.tower[d].done <= steps && bench.tower[d].done + bench.depth > steps);
            assert_int_equal(bench.tower[d].wrong, 0);
        }
        bench_close(&bench);
    }
}

static void a_cancel_ends_the_waits_for_a_tower_that_stays_away(void **state)
{
    (void)state;
    check_cancels_with_a_tower_away();
}

static void a_cancel_ends_the_waits_for_pieces(void **state)
{
    (void)state;
    has_pieces = true;
    check_cancels_with_a_tower_away();
    has_pieces = false;
}

static void a_cancel_at_any_time_ends_every_tower(void **state)
{
    (void)state;
    const uint32_t towers = possible_towers(4);
    for (useconds_t delay = 0; delay < 12000; delay = delay * 5 / 4 + 100) {
        open_towers(towers);
        bench_start(&bench);
        usleep(delay);
        bench_cancel(&bench);
        bench_join(&bench);
        for (uint32_t d = 0; d < towers; d++) {
            assert_true(bench.tower[d].result == 0 || bench.tower[d].result == -ECANCELED);
            assert_int_equal(bench.tower[d].wrong, 0);
        }
        bench_close(&bench);
    }
}

static void a_cancel_ends_the_wait_for_a_tower_that_never_joins(void **state)
{
    (void)state;
    const uint32_t towers = possible_towers(3);
    if (towers < 2)
        skip();
    open_towers(towers);
    bench.tower[1].stays_out = true;
    bench_start(&bench);
    usleep(2000);
    bench_cancel(&bench);
    bench_join(&bench);
    for (uint32_t d = 0; d < towers; d++)
        assert_int_equal(bench.tower[d].result, d == 1 ? 0 : -ECANCELED);
    bench_close(&bench);
}

static void the_absent_reduction_never_waits(void **state)
{
    (void)state;
    struct reduce *reduce;
    const struct buckets buckets = { .count = 1 };
    assert_int_equal(reduce_none_ops.open(&reduce, &(struct reduce_spec){ .towers = 3 }), 0);
    assert_int_equal(reduce->ops->join(reduce, 2, &(struct reduce_member){ 0 }, &buckets), 0);
    assert_int_equal(reduce->ops->start(reduce, 2, 0, 7), 0);
    assert_int_equal(reduce->ops->wait(reduce, 2, 0), 0);
    reduce_cancel(reduce);
    reduce->ops->close(reduce);
}

static void sums_between_processes_have_their_own_reduction(void **state)
{
    (void)state;
    const uint32_t index[] = { 0, 1 };
    struct reduce_towers towers = { .run = 2, .here = { 0, 2 }, .devices = &device_host_ops, .index = index,
                                    .device_count = 2 };
    const struct reduce_ops *chosen = NULL;
    struct unsupported_reason reason;
    assert_int_equal(reduce_choose(NULL, &towers, &chosen, &reason), 0);
    assert_ptr_equal(chosen, &reduce_host_ops);
    towers.run = 5;
    towers.here.first = 2;
    assert_int_equal(reduce_choose("host", &towers, &chosen, &reason), 0);
    assert_ptr_equal(chosen, &reduce_ranks_ops);
    chosen = NULL;
    assert_int_equal(reduce_choose("peer", &towers, &chosen, &reason), -EINVAL);
    assert_non_null(strstr(reason.why, "peer does not sum over several processes: use auto, nccl, ipc or host"));
    assert_string_equal(reason.what, "reduce");
    towers.has_owners = true;
    assert_int_equal(reduce_choose(NULL, &towers, &chosen, &reason), 0);
    assert_ptr_equal(chosen, &reduce_ranks_ops);
}

static void reductions_are_found_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(reduce_find("host"), &reduce_host_ops);
    assert_ptr_equal(reduce_find("none"), &reduce_none_ops);
    assert_null(reduce_find("hos"));
    assert_null(reduce_find(""));
}

/* The terms cover the towers in order, each in one rank, and are subtrees of the tree of all; where ranks have a power of
 * two of them, each rank is one term. */
static void terms_of_65536_towers(void **state)
{
    static const uint32_t per_rank[] = { 1, 2, 8, 64, 256, 3, 100 };
    static struct term terms[RUN_TOWERS_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof(per_rank) / sizeof(*per_rank); i++) {
        const uint32_t each = per_rank[i], run = RUN_TOWERS_MAX / each * each;
        const uint32_t count = terms_find(run, each, terms);
        uint32_t next = 0;
        assert_int_equal(terms_find(run, each, NULL), count);
        for (uint32_t t = 0; t < count; t++) {
            assert_int_equal(terms[t].first, next);
            assert_int_equal(terms[t].rank, terms[t].first / each);
            assert_int_equal((terms[t].first + terms[t].count - 1) / each, terms[t].rank);
            next += terms[t].count;
        }
        assert_int_equal(next, run);
        assert_true((each & (each - 1)) != 0 || count == run / each);
    }
}

int main(void)
{
    static const char *const names[] = { "host", "peer", "nccl" };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tower_gets_the_same_sums_in_every_step),
        cmocka_unit_test(every_tower_gets_sums_in_pairs_where_they_are_asked_for),
        cmocka_unit_test(sums_of_bf16_are_of_fp32_and_rounded_once),
        cmocka_unit_test(every_tower_gets_all_pieces_or_the_sum_of_its_own),
        cmocka_unit_test(every_sum_is_recorded_once_on_a_track),
        cmocka_unit_test(a_cancel_ends_the_waits_for_a_tower_that_stays_away),
        cmocka_unit_test(a_cancel_ends_the_waits_for_pieces),
        cmocka_unit_test(a_cancel_at_any_time_ends_every_tower),
        cmocka_unit_test(a_cancel_ends_the_wait_for_a_tower_that_never_joins),
    };
    const struct CMUnitTest plain_tests[] = {
        cmocka_unit_test(the_absent_reduction_never_waits),
        cmocka_unit_test(sums_between_processes_have_their_own_reduction),
        cmocka_unit_test(reductions_are_found_by_name),
        cmocka_unit_test(terms_of_65536_towers),
    };
    alarm(300);
    const bool is_host = test_device_ops()->host_memory;
    int failed = cmocka_run_group_tests(plain_tests, NULL, NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        reduction = is_host && strcmp(names[i], "host") != 0 ? NULL : reduce_find(names[i]);
        if (reduction != NULL)
            failed += cmocka_run_group_tests_name(names[i], tests, NULL, NULL);
    }
    return failed;
}
