/* Tests of sums by NCCL between ranks, which are all in this process (tests/helpers/fake_mpi.h), on the simulated CUDA:
 * bits of one process, refusals, and failures. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <nccl.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/fake_mpi.h"
#include "tests/helpers/reduce_bench.h"
#include "tests/helpers/test.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_nccl.h"

enum { DEVICES = 8, WAITS_MAX = 100000 };       /* of 0.1 ms each */

static struct ranks *ranks[FAKE_RANKS_MAX];
static struct bench benches[FAKE_RANKS_MAX];
static char messages[8192];

struct sizes { uint32_t ranks, towers; };

/* Every tower has a device of its own. */
static void open_benches(struct sizes sizes, const struct bench_spec *wishes)
{
    fake_mpi_reset(sizes.ranks, 2, 1);
    fake_ranks_open(ranks, sizes.ranks, 60);
    for (uint32_t rank = 0; rank < sizes.ranks; rank++) {
        struct bench_spec spec = *wishes;
        spec.reduction = spec.reduction != NULL ? spec.reduction : &reduce_nccl_ops;
        spec.towers = spec.devices = sizes.towers;
        spec.first_device = rank * sizes.towers;
        spec.ranks = ranks[rank];
        bench_open(&benches[rank], &spec);
    }
}

static void start_benches(struct sizes sizes)
{
    for (uint32_t rank = 0; rank < sizes.ranks; rank++)
        bench_start(&benches[rank]);
}

static void join_benches(struct sizes sizes)
{
    for (uint32_t rank = 0; rank < sizes.ranks; rank++)
        bench_join(&benches[rank]);
}

static void close_benches(struct sizes sizes)
{
    for (uint32_t rank = 0; rank < sizes.ranks; rank++)
        bench_close(&benches[rank]);
    fake_ranks_close(ranks, sizes.ranks);
    assert_int_equal(sim_nccl_open_communicators(), 0);
}

static void check_sums(struct sizes sizes, const struct bench_spec *wishes)
{
    open_benches(sizes, wishes);
    start_benches(sizes);
    join_benches(sizes);
    for (uint32_t rank = 0; rank < sizes.ranks; rank++)
        for (uint32_t d = 0; d < sizes.towers; d++) {
            const struct bench_tower *const tower = &benches[rank].tower[d];
            assert_int_equal(tower->result, 0);
            assert_int_equal(tower->done, BENCH_STEPS);
            assert_int_equal(tower->wrong, 0);
            assert_true(wishes->has_owners || wishes->has_pieces || tower->bits == benches[0].tower[0].bits);
        }
    close_benches(sizes);
}

/* Whole subtrees of the order of additions, and towers that are none. */
static const struct sizes cases[] = { { 2, 1 }, { 2, 2 }, { 3, 1 }, { 2, 3 }, { 3, 2 }, { 8, 1 }, { 2, 4 } };
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

TEST(sums_have_the_bits_of_one_process)
{
    for (size_t i = 0; i < CASES; i++)
        check_sums(cases[i], &(struct bench_spec){ .ranks = NULL });
}

TEST(sums_of_bf16_are_rounded_once)
{
    for (size_t i = 0; i < CASES; i++)
        if (test_is_long() || i % 2 == 0)
            check_sums(cases[i], &(struct bench_spec){ .has_bf16_grads = true });
}

TEST(owners_get_sums_and_broadcast)
{
    for (size_t i = 0; i < CASES; i++)
        if (test_is_long() || i % 2 == 1)
            check_sums(cases[i], &(struct bench_spec){ .has_owners = true });
    check_sums((struct sizes){ 2, 2 }, &(struct bench_spec){ .has_owners = true, .has_bf16_grads = true });
}

TEST(every_tower_gets_all_pieces_or_the_sum_of_its_own)
{
    for (size_t i = 0; i < CASES; i++)
        check_sums(cases[i], &(struct bench_spec){ .has_pieces = true });
}

TEST(nccl_adds_itself_only_where_it_is_named)
{
    sim_calls_clear();
    check_sums((struct sizes){ 2, 2 }, &(struct bench_spec){ .ranks = NULL });
    assert_int_equal(sim_calls("ncclAllReduce"), 0);
    sim_calls_clear();
    check_sums((struct sizes){ 2, 2 }, &(struct bench_spec){ .reduction = &reduce_nccl_allreduce_ops });
    assert_int_equal(sim_calls("ncclSend"), 0);
    assert_in_range(sim_calls("ncclAllReduce"), BENCH_STEPS, UINT32_MAX);
}

/* ---- bytes ---- */

/* With two towers in each of two ranks, a rank sends the other a sum of its towers, not the numbers of each. */
static void check_bytes(bool has_pieces)
{
    sim_nccl_count_bytes(2);
    check_sums((struct sizes){ 2, 2 }, &(struct bench_spec){ .has_pieces = has_pieces });
    const uint64_t between = sim_nccl_bytes_between(), within = sim_nccl_bytes_within();
    sim_nccl_count_bytes(1);
    check_sums((struct sizes){ 4, 1 }, &(struct bench_spec){ .has_pieces = has_pieces });
    assert_int_equal(sim_nccl_bytes_within(), 0);
    const uint64_t all = sim_nccl_bytes_between();
    /* Each of n parties sends (n - 1) / n of a range twice: 2 ranks with 2 towers, and 4 towers. */
    assert_in_range(between, all / 3 - all / 20, all / 3 + all / 20);
    assert_in_range(within, all * 2 / 3 - all / 10, all * 2 / 3 + all / 10);
}

TEST(one_sum_of_all_towers_of_a_rank_is_sent_to_another)
{
    check_bytes(false);
}

TEST(a_rank_gets_each_piece_once_and_one_sum_of_its_own)
{
    check_bytes(true);
}

/* ---- memory ---- */

enum { MEMORY_STEPS = 3 };

static size_t free_bytes(struct device *device)
{
    size_t free_bytes, total_bytes;
    assert_int_equal(device->ops->memory(device, &free_bytes, &total_bytes), 0);
    return free_bytes;
}

/* Joining takes as much memory of each device as is planned, and the steps after it none; nothing if NCCL itself adds. */
static void check_memory(struct sizes sizes, const struct bench_spec *wishes, bool exchanges)
{
    size_t before[BENCH_TOWERS_MAX];
    open_benches(sizes, wishes);
    for (uint32_t rank = 0; rank < sizes.ranks; rank++)
        for (uint32_t d = 0; d < sizes.towers; d++) {
            before[rank * sizes.towers + d] = free_bytes(benches[rank].tower[d].device);
            benches[rank].tower[d].lingers = true;
            benches[rank].tower[d].steps = MEMORY_STEPS;
        }
    start_benches(sizes);
    for (uint32_t rank = 0; rank < sizes.ranks; rank++) {
        const struct bench *const bench = &benches[rank];
        const size_t planned =
            bench->reduce->ops->device_bytes(bench->reduce, &bench->buckets, wishes->has_bf16_grads);
        assert_true((planned > 0) == exchanges);
        for (uint32_t d = 0; d < sizes.towers; d++) {
            for (uint32_t i = 0; i < WAITS_MAX && atomic_load(&bench->tower[d].done) < MEMORY_STEPS; i++)
                usleep(100);
            assert_int_equal(atomic_load(&bench->tower[d].done), MEMORY_STEPS);
            assert_int_equal(before[rank * sizes.towers + d] - free_bytes(bench->tower[d].device), planned);
        }
    }
    for (uint32_t rank = 0; rank < sizes.ranks; rank++)
        bench_cancel(&benches[rank]);
    join_benches(sizes);
    close_benches(sizes);
}

TEST(memory_for_sums_in_pairs_is_planned)
{
    for (size_t i = 0; i < CASES; i++)
        check_memory(cases[i], &(struct bench_spec){ .ranks = NULL }, true);
    check_memory((struct sizes){ 2, 2 }, &(struct bench_spec){ .has_bf16_grads = true }, true);
    check_memory((struct sizes){ 2, 2 }, &(struct bench_spec){ .has_owners = true }, true);
    check_memory((struct sizes){ 2, 3 }, &(struct bench_spec){ .has_pieces = true }, true);
    check_memory((struct sizes){ 2, 2 }, &(struct bench_spec){ .reduction = &reduce_nccl_allreduce_ops }, false);
}

/* ---- refusals ---- */

/* Main of a rank. */
struct asking {
    struct ranks *ranks;
    struct reduce_towers towers;
    uint32_t index[2];
    struct unsupported_reason reason;
    const struct reduce_ops *chosen;
    int rc;
};

static void ask(void *arg)
{
    struct asking *const asking = arg;
    asking->rc = reduce_nccl_ops.agree(&asking->towers, asking->ranks, &asking->reason);
}

/* Three ranks with two towers each, on these devices. */
static void ask_all(struct asking askings[3], const uint32_t devices[6])
{
    struct thread *threads[3];
    fake_mpi_reset(3, 2, 1);
    fake_ranks_open(ranks, 3, 60);
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct asking *const asking = &askings[rank];
        *asking = (struct asking){ .ranks = ranks[rank], .index = { devices[2 * rank], devices[2 * rank + 1] } };
        asking->towers = (struct reduce_towers){ .run = 6, .here = { 2 * rank, 2 }, .devices = &device_cuda_ops,
                                                 .index = asking->index, .device_count = 2 };
        assert_int_equal(thread_start(&threads[rank], "main", ask, asking), 0);
    }
    for (uint32_t rank = 0; rank < 3; rank++)
        thread_join(threads[rank]);
    fake_ranks_close(ranks, 3);
}

TEST(all_ranks_refuse_a_gpu_of_two_towers)
{
    struct asking askings[3];
    ask_all(askings, (const uint32_t[]){ 0, 1, 2, 3, 4, 5 });
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(askings[rank].rc, 0);
    ask_all(askings, (const uint32_t[]){ 0, 1, 2, 3, 4, 2 });
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(askings[rank].rc, -EINVAL);
        assert_non_null(strstr(askings[rank].reason.why, "rank 1 and rank 2 both use the GPU 0000:03:00.0 of "));
    }
}

TEST(nccl_between_ranks_supports_what_kernels_can_add)
{
    static const uint32_t index[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    static const struct { uint32_t run, here; bool is_possible; } rows[] = {
        { 64, 1, true }, { 65, 1, false }, { 256, 4, true }, { 192, 3, false }, { 256, 8, true } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct reduce_towers towers = { .run = rows[i].run, .here = { 0, rows[i].here }, .index = index,
                                              .devices = &device_cuda_ops, .device_count = DEVICES };
        struct unsupported_reason reason;
        assert_int_equal(reduce_nccl_ops.supports(&towers, &reason), rows[i].is_possible ? 0 : -EINVAL);
        assert_int_equal(reduce_nccl_allreduce_ops.supports(&towers, &reason), 0);
    }
}

/* ---- failures ---- */

/* A rank that fails before it joins, while it joins, or in a step; nobody but NCCL's own messages tells the others. */
TEST(a_rank_that_is_cancelled_ends_the_others)
{
    static const struct sizes sizes = { 3, 2 };
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t failing = i % sizes.ranks;
        open_benches(sizes, &(struct bench_spec){ .ranks = NULL });
        benches[failing].tower[1].stays_out = i < 3;
        benches[failing].tower[1].steps = i;
        start_benches(sizes);
        usleep(i * 3000);
        bench_cancel(&benches[failing]);
        join_benches(sizes);
        for (uint32_t rank = 0; rank < sizes.ranks; rank++)
            for (uint32_t d = 0; d < sizes.towers; d++)
                if (rank != failing || d != 1)
                    assert_int_equal(benches[rank].tower[d].result, -ECANCELED);
        close_benches(sizes);
    }
}

TEST(a_failing_call_of_a_rank_ends_all_ranks)
{
    static const struct { const char *function; uint32_t number; int status; } calls[] = {
        { "ncclGetUniqueId", 1, ncclSystemError },   { "ncclCommInitRankConfig", 2, ncclSystemError },
        { "ncclGroupStart", 9, ncclInternalError },  { "ncclSend", 30, ncclInternalError },
        { "ncclRecv", 40, ncclInternalError },       { "ncclGroupEnd", 100, ncclRemoteError },
        { "cudaLaunchKernelEx", 20, cudaErrorInvalidValue },
    };
    static const struct sizes sizes = { 2, 2 };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct capture capture;
        capture_begin(&capture);
        open_benches(sizes, &(struct bench_spec){ .ranks = NULL });
        sim_fail(calls[i].function, calls[i].number, calls[i].status);
        start_benches(sizes);
        join_benches(sizes);
        sim_fail_clear();
        capture_end(&capture, messages, sizeof(messages));
        uint32_t failed = 0;
        for (uint32_t rank = 0; rank < sizes.ranks; rank++)
            for (uint32_t d = 0; d < sizes.towers; d++) {
                assert_true(benches[rank].tower[d].result < 0);
                failed += benches[rank].tower[d].result != -ECANCELED;
            }
        if (failed != 1)
            fail_msg("%s: %u towers have an error: %s", calls[i].function, failed, messages);
        close_benches(sizes);
    }
}

TEST(an_error_of_nccl_ends_all_ranks)
{
    static const struct sizes sizes = { 2, 1 };
    for (uint32_t number = 1; number < 60; number += 13) {
        struct capture capture;
        capture_begin(&capture);
        sim_nccl_break_after(number);
        open_benches(sizes, &(struct bench_spec){ .ranks = NULL });
        start_benches(sizes);
        join_benches(sizes);
        sim_nccl_break_after(0);
        capture_end(&capture, messages, sizeof(messages));
        assert_non_null(strstr(messages, "remote process exited"));
        for (uint32_t rank = 0; rank < sizes.ranks; rank++)
            assert_true(benches[rank].tower[0].result == -EREMOTEIO || benches[rank].tower[0].result == -ECANCELED);
        close_benches(sizes);
    }
}

int main(void)
{
    alarm(300);
    sim_setup(DEVICES, (size_t)64 << 20);
    return tests_run(NULL, NULL);
}
