/* Tests of the reductions between GPUs on the simulated CUDA: what is refused and how, and
 * that a tower that is missing, an error of any call and an abort that hangs all end the run. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl.h>

#include "compute/cuda/kernels.h"
#include "stage/clock.h"
#include "stage/cuda/device_cuda.h"
#include "stage/stop.h"
#include "stage/watchdog.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/reduce_bench.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_long.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_nccl.h"

enum { DEVICES = 3, SHORT_MS = 150 };

static struct bench bench;
static struct stop *stop;               /* of the next two, NULL while towers are not watched */
static struct watchdog *watchdog;
static char messages[8192];         /* of the last run */

static void open_towers(const struct reduce_ops *reduction, uint32_t towers, uint32_t devices)
{
    bench_open(&bench, &(struct bench_spec){ .reduction = reduction, .towers = towers, .devices = devices,
                                             .watchdog = watchdog });
}

static void cancel_towers(void *arg)
{
    bench_cancel(arg);
}

/* The towers that are opened from here on are watched. */
static void watch(uint32_t deadline_ms)
{
    assert_int_equal(stop_open(&stop), 0);
    assert_int_equal(stop_on_failure(stop, cancel_towers, &bench), 0);
    assert_int_equal(watchdog_open(&watchdog, stop, deadline_ms, DEVICES), 0);
    for (uint32_t d = 0; d < DEVICES; d++)
        watchdog_name(watchdog, d, "tower %u", d);
}

/* The towers are closed, and none hung. */
static void unwatch(void)
{
    assert_string_equal(stop_message(stop), "");
    watchdog_close(watchdog);
    stop_close(stop);
    watchdog = NULL;
}

/* Run the towers that are open to their end. */
static void run_towers(void)
{
    struct capture capture;
    capture_begin(&capture);
    bench_start(&bench);
    bench_join(&bench);
    capture_end(&capture, messages, sizeof(messages));
    for (uint32_t d = 0; d < bench.towers; d++)
        assert_int_equal(bench.tower[d].wrong, 0);
}

static void close_towers(void)
{
    bench_close(&bench);
    assert_int_equal(sim_nccl_open_communicators(), 0);
}

/* One tower has the error, the others were cancelled. */
static void assert_failed_once(int error)
{
    uint32_t failed = 0;
    for (uint32_t d = 0; d < bench.towers; d++) {
        failed += bench.tower[d].result == error;
        if (bench.tower[d].result != error)
            assert_int_equal(bench.tower[d].result, -ECANCELED);
    }
    assert_int_equal(failed, 1);
}

/* Some tower has the error; others may have it too. */
static void assert_failed(int error)
{
    bool failed = false;
    for (uint32_t d = 0; d < bench.towers; d++) {
        failed = failed || bench.tower[d].result == error;
        assert_true(bench.tower[d].result == error || bench.tower[d].result == -ECANCELED);
    }
    assert_true(failed);
}

static void assert_said(const char *text)
{
    if (strstr(messages, text) == NULL)
        fail_msg("no \"%s\" in: %s", text, messages);
}

/* Refusals. */

TEST(nccl_refuses_two_towers_on_one_device_before_it_is_touched)
{
    open_towers(&reduce_nccl_ops, 3, 2);
    sim_calls_clear();
    run_towers();
    assert_failed_once(-EINVAL);
    assert_said("towers 0 and 2 are both on cuda0");
    assert_said("use sync.reduce = peer");
    assert_int_equal(sim_calls("ncclGetUniqueId") + sim_calls("ncclCommInitRankConfig"), 0);
    close_towers();
}

TEST(nccl_refuses_launches_that_block)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    open_towers(&reduce_nccl_ops, 2, 2);
    sim_calls_clear();
    run_towers();
    assert_failed_once(-EINVAL);
    assert_said("CUDA_LAUNCH_BLOCKING=1");
    assert_int_equal(sim_calls("ncclGetUniqueId"), 0);
    close_towers();
    setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
    open_towers(&reduce_nccl_ops, 2, 2);
    run_towers();
    assert_int_equal(bench.tower[0].result, 0);
    close_towers();
    unsetenv("CUDA_LAUNCH_BLOCKING");
}

TEST(peer_refuses_devices_that_do_not_reach_each_other)
{
    sim_set_peer_access(false);
    open_towers(&reduce_peer_ops, 3, 2);
    run_towers();
    assert_failed_once(-ENOTSUP);
    assert_said("cuda0 cannot use the memory of cuda1: use sync.reduce = host");
    close_towers();
    open_towers(&reduce_peer_ops, 3, 1);
    run_towers();
    assert_int_equal(bench.tower[2].result, 0);
    close_towers();
    sim_set_peer_access(true);
}

TEST(peer_refuses_more_towers_than_its_kernel_takes)
{
    struct reduce *reduce = NULL;
    const int rc = CAPTURE(messages,
                           reduce_peer_ops.open(&reduce, &(struct reduce_spec){ .towers = KERNEL_TOWERS_MAX + 1 }));
    assert_int_equal(rc, -ENOTSUP);
    assert_null(reduce);
    assert_said("at most 64");
    assert_int_equal(reduce_peer_ops.open(&reduce, &(struct reduce_spec){ .towers = KERNEL_TOWERS_MAX }), 0);
    reduce->ops->close(reduce);
}

/* Of the devices of the first DEVICES towers. */
static void assert_access_is_enabled(uint32_t tower, uint32_t other)
{
    assert_int_equal(cuda_enter(bench.tower[tower].device), 0);
    assert_int_equal(cudaDeviceEnablePeerAccess(cuda_ordinal(bench.tower[other].device), 0),
                     cudaErrorPeerAccessAlreadyEnabled);
    cudaGetLastError();
}

TEST(peer_gives_every_device_access_to_every_other)
{
    /* Twice: what is enabled already is as good. */
    for (uint32_t i = 0; i < 2; i++) {
        open_towers(&reduce_peer_ops, DEVICES + 1, DEVICES);
        run_towers();
        for (uint32_t d = 0; d < bench.towers; d++)
            assert_int_equal(bench.tower[d].result, 0);
        for (uint32_t d = 0; d < DEVICES; d++)
            for (uint32_t other = 0; other < DEVICES && i == 0; other++)
                if (d != other)
                    assert_access_is_enabled(d, other);
        close_towers();
    }
}

/* What comes back from a device's memory is another number in one place. */
static int copy_wrongly(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction)
{
    const int rc = device_cuda_ops.copy(stream, to, from, bytes, direction);
    if (rc == 0 && direction == COPY_FROM_DEVICE) {
        assert_int_equal(cudaStreamSynchronize(cuda_stream_of(stream)), cudaSuccess);
        ((float *)to)[bytes / sizeof(float) / 2] += 1;
    }
    return rc;
}

TEST(peer_finds_links_that_change_numbers)
{
    struct device_ops wrong = device_cuda_ops;
    wrong.copy = copy_wrongly;
    open_towers(&reduce_peer_ops, DEVICES, DEVICES);
    bench.tower[1].device->ops = &wrong;
    run_towers();
    assert_failed_once(-EIO);
    assert_said("works on memory of cuda1 and other numbers arrive");
    assert_said("use sync.reduce = host");
    bench.tower[1].device->ops = &device_cuda_ops;
    close_towers();
}

/* What a reduction says when it is asked before the run. */
static const struct reduce_ops *ask(const char *name, uint32_t towers, uint32_t devices, int *rc_out,
                                    struct unsupported_reason *reason)
{
    static const uint32_t index[] = { 0, 1, 2 };
    const struct reduce_towers question = { .run = towers, .here = { 0, towers }, .devices = &device_cuda_ops,
                                            .index = index, .device_count = devices };
    const struct reduce_ops *chosen = NULL;
    *rc_out = reduce_choose(name, &question, &chosen, reason);
    return chosen;
}

TEST(the_best_reduction_that_can_do_it_is_chosen)
{
    struct unsupported_reason reason;
    int rc;
    assert_ptr_equal(ask(NULL, 3, 3, &rc, &reason), &reduce_nccl_ops);
    assert_ptr_equal(ask(NULL, 4, 3, &rc, &reason), &reduce_peer_ops);
    assert_ptr_equal(ask(NULL, KERNEL_TOWERS_MAX + 1, 3, &rc, &reason), &reduce_host_ops);
    assert_ptr_equal(ask("host", 3, 3, &rc, &reason), &reduce_host_ops);
    sim_set_peer_access(false);
    assert_ptr_equal(ask(NULL, 4, 3, &rc, &reason), &reduce_host_ops);
    assert_ptr_equal(ask(NULL, 4, 1, &rc, &reason), &reduce_peer_ops);
    sim_set_peer_access(true);
}

TEST(a_reduction_that_cannot_do_it_says_why)
{
    struct unsupported_reason reason;
    int rc;
    assert_null(ask("nccl", 4, 3, &rc, &reason));
    assert_int_equal(rc, -ENODEV);
    assert_non_null(strstr(reason.why, "NCCL takes one tower a device"));
    assert_null(ask("peer", KERNEL_TOWERS_MAX + 1, 3, &rc, &reason));
    assert_int_equal(rc, -EINVAL);
    assert_non_null(strstr(reason.why, "at most 64 towers"));
    sim_set_peer_access(false);
    assert_null(ask("peer", 4, 3, &rc, &reason));
    assert_int_equal(rc, -ENODEV);
    assert_non_null(strstr(reason.why, "cannot use each other's memory"));
    sim_set_peer_access(true);
}

TEST(several_devices_are_refused_where_launches_block)
{
    struct unsupported_reason reason;
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    assert_int_equal(device_cuda_ops.supports(1, &reason), 0);
    assert_int_equal(device_cuda_ops.supports(2, &reason), -ENODEV);
    assert_string_equal(reason.what, "CUDA_LAUNCH_BLOCKING");
    setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
    assert_int_equal(device_cuda_ops.supports(2, &reason), 0);
    unsetenv("CUDA_LAUNCH_BLOCKING");
    assert_int_equal(device_cuda_ops.supports(2, &reason), 0);
}

/* Towers that are missing. */

/* For longer than the deadline of those that wait for it. */
static void cancel_when_it_is_late(void)
{
    bench_start(&bench);
    usleep(SHORT_MS * 4000);
    bench_cancel(&bench);
    bench_join(&bench);
    for (uint32_t d = 0; d < DEVICES; d += 2)
        assert_int_equal(bench.tower[d].result, -ECANCELED);
    close_towers();
    unwatch();
}

TEST(waiting_for_a_tower_that_does_not_join_is_no_stall)
{
    watch(SHORT_MS);
    open_towers(&reduce_nccl_ops, DEVICES, DEVICES);
    bench.tower[1].stays_out = true;
    cancel_when_it_is_late();
}

TEST(waiting_for_a_tower_that_does_not_start_a_bucket_is_no_stall)
{
    watch(SHORT_MS);
    open_towers(&reduce_nccl_ops, DEVICES, DEVICES);
    bench.tower[1].steps = 5;
    bench.tower[1].step_buckets = 2;
    bench.tower[1].lingers = true;
    cancel_when_it_is_late();
}

TEST(slow_streams_are_not_late_as_long_as_buckets_finish)
{
    /* Of a bucket. All of them together take longer than the short one. */
    const uint32_t deadline_ms = test_is_long() ? 1000 : 120000;
    sim_delay_us(2000);
    watch(deadline_ms);
    open_towers(&reduce_nccl_ops, 2, 2);
    bench.tower[0].steps = bench.tower[1].steps = 40;
    const uint64_t begun_ns = clock_now_ns();
    run_towers();
    sim_delay_us(0);
    if (test_is_long())
        assert_true(clock_now_ns() - begun_ns > deadline_ms * UINT64_C(1000000));
    assert_int_equal(bench.tower[0].result, 0);
    assert_int_equal(bench.tower[1].result, 0);
    close_towers();
    unwatch();
}

/* Errors. */

TEST(an_error_of_another_rank_ends_all_towers)
{
    for (uint32_t number = 1; number < 40; number += 5) {
        sim_nccl_break_after(number);
        open_towers(&reduce_nccl_ops, 3, 3);
        run_towers();
        assert_failed(-EREMOTEIO);
        assert_said("remote process exited");
        close_towers();
        sim_nccl_break_after(0);
    }
}

static bool has_error(void)
{
    bool is_found = false;
    for (uint32_t d = 0; d < bench.towers; d++)
        is_found = is_found || (bench.tower[d].result != 0 && bench.tower[d].result != -ECANCELED);
    return is_found;
}

/* Calls 1, 2, 3, 5, 8, ... of the function fail, one a run. */
static void fail_calls(const struct reduce_ops *reduction, const char *function, int status, bool ends_the_run)
{
    const uint32_t towers = reduction == &reduce_nccl_ops ? DEVICES : DEVICES + 1;
    for (uint32_t number = 1, step = 1; number < 60; number += step, step = (step * 3 + 1) / 2) {
        open_towers(reduction, towers, DEVICES);
        sim_calls_clear();
        sim_fail(function, number, status);
        run_towers();
        sim_fail_clear();
        if (sim_calls(function) >= number)
            assert_said("pipetrain: cuda");
        if (ends_the_run && sim_calls(function) >= number && !has_error())
            fail_msg("%s: call %u failed, and no tower noticed", function, number);
        close_towers();
    }
}

/* The thread sanitizer sees that what such a call puts in order is in none when it fails: until the run has
 * ended, sums that nobody will use are written and read at the same time. */
static bool orders_streams(const char *function)
{
    return strcmp(function, "cudaEventRecord") == 0 || strcmp(function, "cudaStreamWaitEvent") == 0;
}

static bool looks_at_order(void)
{
    const char *const sanitizer = getenv("PIPETRAIN_SANITIZER");
    return sanitizer != NULL && strcmp(sanitizer, "thread") == 0;
}

TEST(a_call_that_fails_ends_the_run_of_every_reduction)
{
    static const struct { const struct reduce_ops *reduction; const char *function; int status; } calls[] = {
        { &reduce_nccl_ops, "ncclGetUniqueId", ncclSystemError },
        { &reduce_nccl_ops, "ncclCommInitRankConfig", ncclUnhandledCudaError },
        { &reduce_nccl_ops, "ncclAllReduce", ncclInternalError },
        { &reduce_nccl_ops, "ncclCommGetAsyncError", ncclInvalidArgument },
        { &reduce_nccl_ops, "cudaEventCreateWithFlags", cudaErrorMemoryAllocation },
        { &reduce_nccl_ops, "cudaEventRecord", cudaErrorUnknown },
        { &reduce_nccl_ops, "cudaStreamWaitEvent", cudaErrorUnknown },
        { &reduce_peer_ops, "cudaDeviceCanAccessPeer", cudaErrorInvalidDevice },
        { &reduce_peer_ops, "cudaDeviceEnablePeerAccess", cudaErrorInvalidDevice },
        { &reduce_peer_ops, "cudaLaunchKernelEx", cudaErrorInvalidValue },
        { &reduce_peer_ops, "cudaEventCreateWithFlags", cudaErrorMemoryAllocation },
        { &reduce_peer_ops, "cudaEventRecord", cudaErrorUnknown },
        { &reduce_peer_ops, "cudaStreamWaitEvent", cudaErrorUnknown },
        { &reduce_host_ops, "cudaHostAlloc", cudaErrorMemoryAllocation },
        { &reduce_host_ops, "cudaMemcpyAsync", cudaErrorInvalidValue },
        { &reduce_host_ops, "cudaLaunchHostFunc", cudaErrorUnknown },
        { &reduce_host_ops, "cudaEventCreateWithFlags", cudaErrorMemoryAllocation },
        { &reduce_host_ops, "cudaEventRecord", cudaErrorUnknown },
        { &reduce_host_ops, "cudaStreamWaitEvent", cudaErrorUnknown },
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (!looks_at_order() || !orders_streams(calls[i].function))
            fail_calls(calls[i].reduction, calls[i].function, calls[i].status, true);
}

TEST(an_end_that_fails_is_only_told)
{
    static const char *const functions[] = { "ncclCommDeregister", "ncclCommFinalize" };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        fail_calls(&reduce_nccl_ops, functions[i], ncclInternalError, false);
}

TEST(gradients_that_cannot_be_registered_are_reduced_all_the_same)
{
    sim_fail("ncclCommRegister", 0, ncclUnhandledCudaError);
    open_towers(&reduce_nccl_ops, 3, 3);
    sim_calls_clear();
    run_towers();
    sim_fail_clear();
    for (uint32_t d = 0; d < 3; d++)
        assert_int_equal(bench.tower[d].result, 0);
    assert_int_equal(sim_calls("ncclCommDeregister"), 0);
    close_towers();
}

TEST(a_run_that_ends_well_aborts_nothing)
{
    open_towers(&reduce_nccl_ops, 3, 3);
    sim_calls_clear();
    run_towers();
    assert_int_equal(sim_calls("ncclCommAbort"), 0);
    assert_int_equal(sim_calls("ncclCommDestroy"), 3);
    assert_int_equal(sim_calls("ncclCommDeregister"), 6);       /* two regions */
    assert_string_equal(messages, "");
    close_towers();
}

/* Cancels. */

TEST(a_cancel_ends_ranks_that_wait_for_others)
{
    sim_nccl_lose_rank(0);
    for (uint32_t i = 0; i < 5; i++) {
        open_towers(&reduce_nccl_ops, 3, 3);
        bench_start(&bench);
        usleep(i * 1500);
        bench_cancel(&bench);
        bench_join(&bench);
        for (uint32_t d = 0; d < 3; d++)
            assert_int_equal(bench.tower[d].result, -ECANCELED);
        close_towers();
    }
    sim_nccl_lose_rank(-1);
}

/* Hangs. Programs of their own: the watchdog that fails a run ends the program, too. */

static int run_apart(void (*body)(void))
{
    struct capture capture;
    int status;
    capture_begin(&capture);
    const pid_t child = fork();
    if (child == 0) {
        watch(SHORT_MS * 4);
        body();
        heartbeat_adopt(NULL);
        watchdog_close(watchdog);
        _exit(stop_code(stop));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    capture_end(&capture, messages, sizeof(messages));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void cancel_and_hang(void)
{
    sim_nccl_hang_abort(true);
    sim_nccl_lose_rank(0);
    open_towers(&reduce_nccl_ops, 3, 3);
    bench_start(&bench);
    while (sim_nccl_open_communicators() == 0)
        usleep(1000);
    bench_cancel(&bench);
    bench_join(&bench);
}

TEST(an_abort_that_hangs_does_not_hang_the_program)
{
    assert_int_equal(run_apart(cancel_and_hang), EXIT_CODE_STALL);
    assert_said(": no progress for 0.6 s (sync.deadline): ncclCommAbort");
    assert_said("still hangs: ncclCommAbort; the process ends here");
}

static void lose_a_rank(void)
{
    sim_nccl_lose_rank(2);
    open_towers(&reduce_nccl_ops, 3, 3);
    bench_start(&bench);
    bench_join(&bench);
}

TEST(ranks_that_do_not_come_fail_the_run)
{
    assert_int_equal(run_apart(lose_a_rank), EXIT_CODE_STALL);
    assert_said(": no progress for 0.6 s (sync.deadline): ncclCommInitRankConfig");
}

static void block_a_collective(void)
{
    sim_block("ncclAllReduce", 50);
    open_towers(&reduce_nccl_ops, 3, 3);
    bench_start(&bench);
    bench_join(&bench);
}

TEST(only_the_tower_whose_call_hangs_is_named)
{
    assert_int_equal(run_apart(block_a_collective), EXIT_CODE_STALL);
    assert_said("no progress for 0.6 s (sync.deadline): ncclAllReduce; the run ends\n");
}

int main(void)
{
    alarm(300);
    sim_setup(DEVICES, (size_t)64 << 20);
    return tests_run(NULL, NULL);
}
