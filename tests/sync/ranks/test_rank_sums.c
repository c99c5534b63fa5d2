/* Tests of the sums of ranks that are all in this process (tests/helpers/fake_mpi.h), by messages and in shared
 * memory. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stage/clock.h"
#include "sync/ranks/ranks.h"
#include "tests/helpers/fake_mpi.h"
#include "tests/helpers/reduce_bench.h"
#include "tests/helpers/test.h"

enum { SIZE = 3, WAITS_MAX = 100000 };  /* of 0.1 ms each */

static struct ranks *ranks[FAKE_RANKS_MAX];

/* How many of the ranks that next open a wakeup_flag, or the memory of sums, can share it. */
static atomic_int sharing;

int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    return atomic_fetch_sub(&sharing, 1) > 0 ? __real_memfd_create(name, flags) : -1;
}

/* Communication threads that a rank starts belong to it. */
struct thread_of_rank { struct fake_identity identity; void (*loop)(void *arg); void *arg; };
static atomic_int threads_of_ranks;

static void run_thread_of_rank(void *arg)
{
    const struct thread_of_rank thread = *(struct thread_of_rank *)arg;
    free(arg);
    fake_mpi_adopt(thread.identity);
    thread.loop(thread.arg);
}

int __wrap_thread_start(struct thread **thread_out, const char *name, void (*loop)(void *arg), void *arg);
int __real_thread_start(struct thread **thread_out, const char *name, void (*loop)(void *arg), void *arg);
int __wrap_thread_start(struct thread **thread_out, const char *name, void (*loop)(void *arg), void *arg)
{
    if (strcmp(name, "rank sums") != 0)
        return __real_thread_start(thread_out, name, loop, arg);
    struct thread_of_rank *const thread = malloc(sizeof(*thread));
    assert_non_null(thread);
    *thread = (struct thread_of_rank){ fake_mpi_identity(), loop, arg };
    atomic_fetch_add(&threads_of_ranks, 1);
    return __real_thread_start(thread_out, name, run_thread_of_rank, thread);
}

static struct bench benches[FAKE_RANKS_MAX];

/* How many ranks can share wakeup, and the memory of sums: the first ones that open them. */
struct shares { int wakeup, memory; };

/* Towers own the buckets; or buckets consist of pieces. */
static bool has_owners, has_pieces;

/* As with train.slices: every sum of bf16 gradients is rounded. */
static bool in_pairs;

/* So many neighbouring ranks are near each other. */
static uint32_t group;

/* Buckets have so many times as many numbers; then there are few steps. */
static uint32_t factor = 1;

/* Steps of a run: in each, naps come at other places, and few of them show all. */
static uint32_t steps_of_run(void)
{
    return factor > 1 ? 2 : test_is_long() ? BENCH_STEPS : 15;
}

/* Records the sums of rank 0. */
static struct trace *trace;

static void open_benches(uint32_t size, uint32_t towers, bool has_bf16_grads, struct shares shares)
{
    atomic_store(&sharing, shares.wakeup);
    fake_mpi_reset(size, 3, 1);
    fake_ranks_open(ranks, size, 60);
    atomic_store(&sharing, shares.memory);
    for (uint32_t rank = 0; rank < size; rank++) {
        const struct bench_spec spec = { .reduction = &reduce_ranks_ops, .towers = towers, .devices = 1,
                                         .has_bf16_grads = has_bf16_grads, .has_owners = has_owners, .has_pieces = has_pieces,
                                         .in_pairs = in_pairs, .ranks = ranks[rank], .group = group, .factor = factor,
                                         .trace = rank == 0 ? trace : NULL };
        bench_open(&benches[rank], &spec);
        for (uint32_t d = 0; d < towers; d++)
            benches[rank].tower[d].steps = steps_of_run();
    }
}

static void check_sums(uint32_t size, uint32_t towers, bool has_bf16_grads, struct shares shares)
{
    open_benches(size, towers, has_bf16_grads, shares);
    for (uint32_t rank = 0; rank < size; rank++)
        bench_start(&benches[rank]);
    for (uint32_t rank = 0; rank < size; rank++)
        bench_join(&benches[rank]);
    for (uint32_t rank = 0; rank < size; rank++)
        for (uint32_t d = 0; d < towers; d++) {
            const struct bench_tower *const tower = &benches[rank].tower[d];
            assert_int_equal(tower->result, 0);
            assert_int_equal(tower->done, tower->steps);
            assert_int_equal(tower->wrong, 0);
            assert_true(has_owners || has_pieces || tower->bits == benches[0].tower[0].bits);
        }
    for (uint32_t rank = 0; rank < size; rank++)
        bench_close(&benches[rank]);
    fake_ranks_close(ranks, size);
}

/* Whole subtrees of the order of additions, and towers that are none. */
static const uint32_t shapes[][2] = { { 2, 1 }, { 3, 1 }, { 2, 3 }, { 3, 2 }, { 8, 1 } };
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void check_shapes(struct shares shares, bool has_bf16_grads)
{
    for (size_t i = 0; i < SHAPES; i++)
        check_sums(shapes[i][0], shapes[i][1], has_bf16_grads, shares);
}

static const struct shares none, all = { FAKE_RANKS_MAX, FAKE_RANKS_MAX };

TEST(sums_by_messages_have_the_bits_of_one_process)
{
    check_shapes(none, false);
}

TEST(sums_in_shared_memory_have_the_bits_of_one_process)
{
    check_shapes(all, false);
}

TEST(owners_get_the_sums_of_one_process_and_the_others_what_they_broadcast)
{
    static const struct shares some[] = { { 2, 2 }, { FAKE_RANKS_MAX, 2 }, { 2, FAKE_RANKS_MAX } };
    has_owners = true;
    check_shapes(none, false);
    check_shapes(all, false);
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        check_sums(3, 1 + (uint32_t)i % 2, i == 0, some[i]);
    check_sums(3, 2, true, none);
    check_sums(2, 3, true, all);
    has_owners = false;
}

/* Ranks send each other one message for all pieces of a bucket, whatever their number. */
TEST(every_tower_gets_all_pieces_or_the_sum_of_its_own_of_one_process)
{
    static const struct shares some[] = { { 2, 2 }, { FAKE_RANKS_MAX, 2 }, { 2, FAKE_RANKS_MAX } };
    has_pieces = true;
    check_shapes(none, false);
    check_shapes(all, false);
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        check_sums(3, 1 + (uint32_t)i % 2, false, some[i]);
    group = 2;
    check_sums(4, 1, false, some[0]);
    group = 0;
    has_pieces = false;
}

/* Parts of several megabytes: more messages than are in flight at once, the last of them shorter. */
TEST(sums_of_many_messages_have_the_bits_of_one_process)
{
    static const uint32_t sizes[][2] = { { 2, 1 }, { 3, 2 } };
    for (size_t i = 0; i < (test_is_long() ? 2 : 1); i++)
        for (int owned = 0; owned < 2; owned++) {
            factor = 501;
            has_owners = owned;
            check_sums(sizes[i][0], sizes[i][1], owned, none);
        }
    has_owners = false;
    factor = 1;
}

TEST(sums_by_several_threads_have_the_bits_of_one_process)
{
    fake_mpi_set_threads(true);
    check_sums(2, 1, false, none);
    check_sums(3, 2, true, (struct shares){ 2, 2 });
    has_owners = true;
    check_sums(3, 1, false, (struct shares){ FAKE_RANKS_MAX, FAKE_RANKS_MAX });
    has_owners = false;
    fake_mpi_set_threads(false);
    assert_in_range(atomic_load(&threads_of_ranks), 2 + 3 + 3, 3 * (2 + 3 + 3));
}

/* Every exchange has two rounds, one after the other; those of a bucket are on one track. */
static void check_exchanges(const struct trace_look *look, uint32_t track)
{
    uint64_t ended_ns = trace_origin_ns(trace);
    assert_int_equal(look->count, 2 * steps_of_run());
    for (uint64_t n = 0; n < look->count; n++) {
        const struct trace_entry *const entry = trace_entry_at(trace, track, look, n);
        assert_int_equal(entry->name, n % 2 == 0 ? TRACE_REDUCE_SCATTER : TRACE_ALL_GATHER);
        assert_int_equal(entry->batch, n / 2);
        assert_int_equal(entry->argument, look->index);
        assert_true(entry->begin_ns >= ended_ns && entry->end_ns >= entry->begin_ns);
        ended_ns = entry->end_ns;
    }
}

TEST(exchanges_of_a_rank_are_recorded)
{
    const struct trace_spec spec = { .tracks = 1 + REDUCE_TRACKS_MAX, .entries = 8 * BENCH_STEPS, .end = UINT64_MAX };
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        uint32_t exchanges = 0;
        struct trace_look look;
        assert_int_equal(trace_open(&trace, &spec), 0);
        check_sums(3, 1, false, is_shared ? all : none);
        for (uint32_t i = 0; trace_look(trace, i, &look); i++)
            if (look.kind == TRACE_EXCHANGE && look.count > 0) {
                check_exchanges(&look, i);
                exchanges++;
            }
        assert_int_equal(exchanges, benches[0].buckets.count);
        trace_close(trace);
        trace = NULL;
    }
}

/* Without being woken a rank would look for the others' sums after 20 ms. A busy machine may need some tries. */
TEST(sums_wake_ranks_that_share_memory)
{
#if defined(__SANITIZE_THREAD__)
    skip();         /* which is too slow to tell */
#endif
    enum { TRIES = 30, STEP_MS = 10 };          /* in which there are several sums */
    bool is_fast = false;
    for (int try = 0; try < TRIES && !is_fast; try++) {
        const uint64_t begun_ns = clock_now_ns();
        check_sums(2, 1, false, all);
        is_fast = clock_now_ns() - begun_ns < steps_of_run() * STEP_MS * 1000000ull;
    }
    assert_true(is_fast);
}

TEST(sums_over_ranks_of_which_some_share_memory_have_the_bits_of_one_process)
{
    static const struct shares some[] = { { 2, 2 }, { FAKE_RANKS_MAX, 2 }, { 2, FAKE_RANKS_MAX } };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        if (test_is_long())
            check_shapes(some[i], false);
        else
            check_sums(3, 1 + (uint32_t)i % 2, false, some[i]);
}

TEST(sums_of_bf16_over_ranks_are_rounded_once)
{
    for (size_t i = 0; i < SHAPES; i++)
        for (size_t is_shared = 0; is_shared < 2; is_shared++)
            if (test_is_long() || i % 2 != is_shared)
                check_sums(shapes[i][0], shapes[i][1], true, is_shared ? all : none);
}

TEST(sums_of_bf16_are_rounded_after_every_addition_with_slices)
{
    in_pairs = true;
    for (size_t i = 0; i < SHAPES; i++)
        for (size_t is_shared = 0; is_shared < 2; is_shared++)
            if (test_is_long() || i % 2 == is_shared)
                check_sums(shapes[i][0], shapes[i][1], true, is_shared ? all : none);
    has_owners = true;
    check_sums(2, 2, true, none);
    has_owners = in_pairs = false;
}

/* In groups of 2 and 4, whose number is a power of two or not, of ranks that share memory with all, with a part of
 * their group, or with none. */
TEST(sums_of_groups_have_the_bits_of_one_process)
{
    static const struct { uint32_t ranks, towers, group; } sizes[] = {
        { 4, 1, 2 }, { 8, 1, 4 }, { 6, 2, 2 }, { 8, 1, 2 }, { 4, 2, 4 } };
    static const struct shares some[] = {
        { 0, 0 }, { FAKE_RANKS_MAX, FAKE_RANKS_MAX }, { 2, 2 }, { 3, FAKE_RANKS_MAX } };
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), SOME = sizeof(some) / sizeof(some[0]) };
    for (size_t i = 0; i < SIZES * SOME; i++) {
        const bool is_bf16 = i / 2 % 2 == 1;
        if (!test_is_long() && (i % SIZES > 2 || i % 3 == 2))
            continue;
        group = sizes[i % SIZES].group;
        in_pairs = is_bf16 && i % 3 == 0;
        has_owners = i % 7 == 6;
        check_sums(sizes[i % SIZES].ranks, sizes[i % SIZES].towers, is_bf16, some[i % SOME]);
    }
    has_owners = in_pairs = false;
    group = 0;
}

/* Bytes that rank 0 sends for the sums of a run with groups of this size, in which only ranks 0 and 1 share memory. */
static uint64_t bytes_of_sums(uint32_t size, uint32_t of)
{
    group = of;
    factor = 101;
    check_sums(size, 1, false, (struct shares){ 2, FAKE_RANKS_MAX });
    group = 0;
    factor = 1;
    return fake_mpi_counts(0).sent[FAKE_JOBS].bytes;
}

/* Of n numbers, a rank of R sends 2 n (R - K) / R to R - K others. In groups of K it sends them 2 n / K (G - 1) / G,
 * where there are G = R / K groups: K times fewer. */
TEST(groups_send_each_other_as_much_as_single_ranks)
{
    enum { RANKS = 4, GROUP = 2, STEPS = 2, NUMBERS = 101 * (7 + 16 + 48 + 1 + 1024 + 5003 + 33) };
    const double bytes = STEPS * NUMBERS * sizeof(float);
    const uint64_t alone = bytes_of_sums(RANKS, 1), grouped = bytes_of_sums(RANKS, GROUP);
    assert_in_range(alone, (uint64_t)(bytes * 0.99), (uint64_t)(bytes * 1.01));
    assert_in_range(grouped, (uint64_t)(bytes * 0.49), (uint64_t)(bytes * 0.51));
}

/* Messages that rank 0 of two sends in a run of so many towers in each. */
static uint64_t messages_of_pieces(uint32_t towers)
{
    has_pieces = true;
    check_sums(2, towers, false, none);
    has_pieces = false;
    return fake_mpi_counts(0).sent[FAKE_JOBS].messages;
}

/* The buckets are short: each is one message, whatever the number of pieces in it. */
TEST(a_bucket_of_pieces_is_one_message_between_two_ranks)
{
    enum { BUCKETS = 7, CONNECTING = 8 };       /* CONNECTING: at most */
    const uint64_t messages = messages_of_pieces(1);
    assert_in_range(messages, BUCKETS * steps_of_run(), BUCKETS * steps_of_run() + CONNECTING);
    assert_int_equal(messages_of_pieces(2), messages);
    assert_int_equal(messages_of_pieces(4), messages);
}

/* A tower that stays away keeps all ranks in their sums. */
static void check_cancels(void)
{
    for (uint32_t steps = 0; steps < 6; steps++) {
        open_benches(SIZE, 2, false, steps % 2 ? all : none);
        struct bench_tower *const away = &benches[steps % SIZE].tower[steps % 2];
        away->steps = steps;
        away->step_buckets = steps % 3;
        for (uint32_t rank = 0; rank < SIZE; rank++)
            bench_start(&benches[rank]);
        for (int waits = 0; waits < WAITS_MAX && !atomic_load(&away->away); waits++)
            usleep(100);
        usleep(2000);
        for (uint32_t rank = 0; rank < SIZE; rank++)
            bench_cancel(&benches[rank]);
        for (uint32_t rank = 0; rank < SIZE; rank++) {
            bench_join(&benches[rank]);
            for (uint32_t d = 0; d < 2; d++) {
                const struct bench_tower *const tower = &benches[rank].tower[d];
                assert_int_equal(tower->result, tower == away ? 0 : -ECANCELED);
                assert_true(tower->done <= steps);
                assert_int_equal(tower->wrong, 0);
            }
        }
        for (uint32_t rank = 0; rank < SIZE; rank++)
            bench_close(&benches[rank]);
        fake_ranks_close(ranks, SIZE);
    }
}

TEST(a_cancel_ends_the_sums_of_a_rank_at_any_time)
{
    check_cancels();
}

TEST(a_cancel_ends_the_sums_of_several_threads_at_any_time)
{
    fake_mpi_set_threads(true);
    check_cancels();
    fake_mpi_set_threads(false);
}

TEST(a_cancel_ends_what_is_reduced_and_broadcast_at_any_time)
{
    has_owners = true;
    check_cancels();
    has_owners = false;
}

TEST(a_cancel_ends_exchanges_of_pieces_at_any_time)
{
    has_pieces = true;
    check_cancels();
    has_pieces = false;
}

TESTS_MAIN(NULL, NULL)
