/* Tests of the reduction between processes of a host on the simulated CUDA. Here the processes are threads with
 * tests/helpers/fake_mpi.h; tests/e2e/sync/sim_ipc.sh has real ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/cuda/device_cuda.h"
#include "sync/ranks/ranks.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/fake_mpi.h"
#include "tests/helpers/reduce_bench.h"
#include "tests/helpers/test.h"
#include "tests/sim/sim.h"

enum { DEVICES = 3, SIZE = 3 };

static struct ranks *ranks[FAKE_RANKS_MAX];
static struct bench benches[FAKE_RANKS_MAX];
static char messages[8192];

/* Buckets consist of pieces. */
static bool has_pieces;

/* The ranks take turns with the devices, or share all. */
static void open_benches(uint32_t size, uint32_t towers, uint32_t devices, bool has_bf16_grads)
{
    fake_mpi_reset(size, 3, 1);
    fake_ranks_open(ranks, size, 60);
    for (uint32_t rank = 0; rank < size; rank++)
        bench_open(&benches[rank], &(struct bench_spec){ .reduction = &reduce_ipc_ops, .towers = towers,
                                                         .devices = towers > 1 ? devices : 1,
                                                         .first_device = towers > 1 ? 0 : rank % devices,
                                                         .has_bf16_grads = has_bf16_grads, .has_pieces = has_pieces,
                                                         .ranks = ranks[rank] });
}

static void start_benches(uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++)
        bench_start(&benches[rank]);
}

static void join_benches(uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++)
        bench_join(&benches[rank]);
}

static void close_benches(uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++)
        bench_close(&benches[rank]);
    fake_ranks_close(ranks, size);
}

/* A rank that is cancelled cancels all, as ranks do whose run fails. */
static void cancel_together(uint32_t size, uint32_t towers)
{
    bool is_over = false, is_cancelled = false;
    while (!is_over) {
        uint32_t away = 0;
        for (uint32_t rank = 0; rank < size; rank++) {
            is_cancelled = is_cancelled || atomic_load(&benches[rank].cancelled);
            for (uint32_t d = 0; d < towers; d++)
                away += atomic_load(&benches[rank].tower[d].away);
        }
        for (uint32_t rank = 0; rank < size && is_cancelled; rank++)
            bench_cancel(&benches[rank]);
        is_over = is_cancelled || away == size * towers;
        usleep(100);
    }
}

/* ---- sums ---- */

/* Whole subtrees of the order of additions, and towers that are none; ranks that share devices, and others. */
static const struct layout { uint32_t size, towers, devices; } layouts[] = {
    { 2, 1, 1 }, { 2, 1, 2 }, { 3, 1, 3 }, { 2, 3, 2 }, { 3, 2, 1 }, { 5, 1, 3 },
};
enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static void check_sums(const struct layout *layout, bool has_bf16_grads)
{
    open_benches(layout->size, layout->towers, layout->devices, has_bf16_grads);
    start_benches(layout->size);
    join_benches(layout->size);
    for (uint32_t rank = 0; rank < layout->size; rank++)
        for (uint32_t d = 0; d < layout->towers; d++) {
            const struct bench_tower *const tower = &benches[rank].tower[d];
            assert_int_equal(tower->result, 0);
            assert_int_equal(tower->done, BENCH_STEPS);
            assert_int_equal(tower->wrong, 0);
            assert_true(has_pieces || tower->bits == benches[0].tower[0].bits);
        }
    close_benches(layout->size);
}

TEST(sums_between_processes_have_the_bits_of_one)
{
    for (size_t i = 0; i < LAYOUTS; i++)
        check_sums(&layouts[i], false);
}

TEST(every_tower_gets_all_pieces_or_the_sum_of_its_own)
{
    has_pieces = true;
    for (size_t i = 0; i < LAYOUTS; i++)
        check_sums(&layouts[i], false);
    has_pieces = false;
}

TEST(sums_of_bf16_between_processes_are_rounded_once)
{
    for (size_t i = 0; i < LAYOUTS; i++)
        if (test_is_long() || i % 3 == 0)
            check_sums(&layouts[i], true);
}

TEST(no_thread_of_the_host_is_in_the_way_of_a_sum)
{
    sim_calls_clear();
    check_sums(&layouts[2], false);
    /* Only those by which the towers of the test nap now and then: less than one for each of their 7 buckets. */
    assert_at_most(sim_calls("cudaLaunchHostFunc"), SIZE * BENCH_STEPS * 2);
    assert_true(sim_calls("cuStreamWaitValue32") > SIZE * BENCH_STEPS);
    assert_int_equal(sim_calls("cudaIpcCloseMemHandle"), sim_calls("cudaIpcOpenMemHandle"));
    assert_int_equal(sim_calls("cudaHostUnregister"), sim_calls("cudaHostRegister"));
}

/* ---- ends ---- */

TEST(a_cancel_ends_the_sums_of_all_ranks_at_any_time)
{
    for (uint32_t steps = 0; steps < 6; steps++) {
        open_benches(SIZE, 2, 1 + steps % 3, false);
        struct bench_tower *const away = &benches[steps % SIZE].tower[steps % 2];
        away->steps = steps;
        away->step_buckets = steps % 3;
        start_benches(SIZE);
        while (!atomic_load(&away->away))
            usleep(100);
        usleep(steps % 2 * 2000);
        for (uint32_t rank = 0; rank < SIZE; rank++)
            bench_cancel(&benches[rank]);
        join_benches(SIZE);
        for (uint32_t rank = 0; rank < SIZE; rank++)
            for (uint32_t d = 0; d < 2; d++) {
                const struct bench_tower *const tower = &benches[rank].tower[d];
                assert_int_equal(tower->result, tower == away ? 0 : -ECANCELED);
                assert_true(tower->done <= steps);
                assert_int_equal(tower->wrong, 0);
            }
        close_benches(SIZE);
    }
}

/* The first towers cancel some time before the last: nothing that ended meanwhile is wrong. */
TEST(what_a_rank_reports_is_right_while_another_is_cancelled_already)
{
    for (uint32_t i = 0; i < 4; i++) {
        open_benches(2, 1, 1, false);
        start_benches(2);
        while (atomic_load(&benches[1].tower[0].done) < i)
            usleep(100);
        bench_cancel(&benches[0]);
        usleep(i * 1000);
        bench_cancel(&benches[1]);
        join_benches(2);
        for (uint32_t rank = 0; rank < 2; rank++)
            assert_int_equal(benches[rank].tower[0].wrong, 0);
        close_benches(2);
    }
}

static bool has_error(void)
{
    bool is_found = false;
    for (uint32_t rank = 0; rank < 2; rank++) {
        const int result = benches[rank].tower[0].result;
        is_found = is_found || (result != 0 && result != -ECANCELED);
    }
    return is_found;
}

/* Calls 1, 2, 3, 5, 8, ... of the function fail, one per run. */
static void fail_calls(const char *function, int status)
{
    for (uint32_t number = 1, step = 1; number < 40; number += step, step = (step * 3 + 1) / 2) {
        struct capture capture;
        open_benches(2, 1, 2, false);
        sim_calls_clear();
        sim_fail(function, number, status);
        capture_begin(&capture);
        start_benches(2);
        cancel_together(2, 1);
        join_benches(2);
        capture_end(&capture, messages, sizeof(messages));
        sim_fail_clear();
        if (sim_calls(function) >= number && !has_error())
            fail_msg("%s: call %u failed, and no tower noticed", function, number);
        close_benches(2);
    }
}

TEST(a_failing_call_ends_all_ranks)
{
    static const struct { const char *function; int status; } calls[] = {
        { "cudaIpcGetMemHandle", cudaErrorNotSupported },
        { "cudaIpcOpenMemHandle", cudaErrorMapBufferObjectFailed },
        { "cuMemGetAddressRange", cudaErrorInvalidValue },
        { "cudaHostRegister", cudaErrorMemoryAllocation },
        { "cuStreamWriteValue32", cudaErrorNotSupported },
        { "cuStreamWaitValue32", cudaErrorNotSupported },
        { "cudaLaunchKernelEx", cudaErrorInvalidValue },
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        fail_calls(calls[i].function, calls[i].status);
}

/* ---- the choice ---- */

struct question {
    struct ranks *ranks;
    const char *name;
    struct thread *thread;
    int rc;
    const struct reduce_ops *chosen;
    struct unsupported_reason reason;
};

static void ask(void *arg)
{
    struct question *const question = arg;
    static const uint32_t index = 0;    /* which both ranks share, so that NCCL has no say */
    const struct reduce_towers towers = {
        .run = 2, .here = { ranks_rank(question->ranks), 1 }, .devices = &device_cuda_ops,
        .index = &index, .device_count = 1, .on_one_host = true };
    question->rc = reduce_agree(question->name, &towers, question->ranks, &question->chosen, &question->reason);
}

/* Both ranks have the same answer. */
static struct question agree(const char *name)
{
    struct question questions[2];
    struct capture capture;
    fake_mpi_reset(2, 3, 1);
    fake_ranks_open(ranks, 2, 60);
    capture_begin(&capture);
    for (uint32_t rank = 0; rank < 2; rank++) {
        questions[rank] = (struct question){ .ranks = ranks[rank], .name = name };
        assert_int_equal(thread_start(&questions[rank].thread, "rank", ask, &questions[rank]), 0);
    }
    for (uint32_t rank = 0; rank < 2; rank++)
        thread_join(questions[rank].thread);
    capture_end(&capture, messages, sizeof(messages));
    fake_ranks_close(ranks, 2);
    assert_int_equal(questions[0].rc, questions[1].rc);
    assert_ptr_equal(questions[0].chosen, questions[1].chosen);
    assert_string_equal(questions[0].reason.why, questions[1].reason.why);
    return questions[0];
}

static void assert_fallback(const char *reason)
{
    struct question answer = agree(NULL);
    assert_int_equal(answer.rc, 0);
    assert_ptr_equal(answer.chosen, &reduce_ranks_ops);
    if (strstr(answer.reason.why, reason) == NULL)
        fail_msg("no \"%s\" in: %s", reason, answer.reason.why);
    answer = agree("ipc");
    assert_int_equal(answer.rc, -ENODEV);
    if (strstr(answer.reason.why, reason) == NULL)
        fail_msg("no \"%s\" in: %s", reason, answer.reason.why);
}

TEST(ranks_of_a_host_use_each_others_memory)
{
    static const char *const names[] = { NULL, "ipc" };
    for (size_t i = 0; i < 2; i++) {
        const struct question answer = agree(names[i]);
        assert_int_equal(answer.rc, 0);
        assert_ptr_equal(answer.chosen, &reduce_ipc_ops);
        assert_string_equal(answer.reason.why, "");
        assert_string_equal(messages, "");
    }
    assert_ptr_equal(agree("host").chosen, &reduce_ranks_ops);
}

TEST(where_no_handle_can_be_opened_sums_are_computed_on_the_host)
{
    sim_set_ipc(false, true);
    assert_fallback("ipc does not work between these processes: rank 0: cudaIpcOpenMemHandle: mapping of buffer object "
                    "failed");
    sim_set_ipc(true, false);           /* as real CUDA has it within a process */
    assert_fallback("cudaIpcOpenMemHandle");
    sim_set_ipc(true, true);
}

TEST(a_rank_in_which_the_trial_fails_decides_for_all)
{
    static const struct { const char *function; int status; } calls[] = {
        { "cudaIpcGetMemHandle", cudaErrorNotSupported },
        { "cuStreamWaitValue32", cudaErrorNotSupported },
        { "cudaLaunchKernelEx", cudaErrorInvalidValue },
        { "cudaMalloc", cudaErrorMemoryAllocation },
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        for (uint32_t number = 1; number <= 2; number++) {
            sim_fail(calls[i].function, number, calls[i].status);
            const struct question answer = agree(NULL);
            assert_int_equal(answer.rc, 0);
            assert_ptr_equal(answer.chosen, &reduce_ranks_ops);
            assert_non_null(strstr(answer.reason.why, "ipc does not work between these processes"));
            sim_fail_clear();
        }
}

TEST(what_ipc_cannot_do_is_refused)
{
    static const uint32_t index[] = { 0, 1 };
    struct reduce_towers towers = { .run = 2, .here = { 0, 1 }, .devices = &device_cuda_ops, .index = index,
                                    .device_count = 1 };
    struct unsupported_reason reason;
    assert_int_equal(reduce_ipc_ops.supports(&towers, &reason), -EINVAL);
    assert_non_null(strstr(reason.why, "this run has several hosts"));
    towers.on_one_host = true;
    assert_int_equal(reduce_ipc_ops.supports(&towers, &reason), 0);
    towers.run = 65;
    assert_int_equal(reduce_ipc_ops.supports(&towers, &reason), -EINVAL);
    assert_non_null(strstr(reason.why, "at most 64 towers"));
    towers.run = 4;
    towers.here.count = towers.device_count = 2;
    sim_set_peer_access(false);
    assert_int_equal(reduce_ipc_ops.supports(&towers, &reason), -ENODEV);
    sim_set_peer_access(true);
}

int main(void)
{
    alarm(300);
    sim_setup(DEVICES, (size_t)64 << 20);
    sim_set_ipc(true, true);
    return tests_run(NULL, NULL);
}
