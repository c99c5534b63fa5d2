/* Tests of the reductions between GPUs on the simulated CUDA: refusals; and a missing tower, a failing call and a
 * hanging abort all end the run. */
#include <errno.h>
#include <malloc.h>
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
#include "tests/sim/sim.h"
#include "tests/sim/sim_nccl.h"

enum { DEVICES = 3, SHORT_MS = 150 };

static struct bench bench;
static struct stop *stop;               /* stop and watchdog are NULL while towers are not watched */
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

/* For towers opened later. */
static void watch(uint32_t deadline_ms)
{
    assert_int_equal(stop_open(&stop), 0);
    assert_int_equal(stop_on_failure(stop, cancel_towers, &bench), 0);
    assert_int_equal(watchdog_open(&watchdog, stop, deadline_ms, DEVICES), 0);
    for (uint32_t d = 0; d < DEVICES; d++)
        watchdog_name(watchdog, d, "tower %u", d);
}

/* After the towers are closed: none hung. */
static void unwatch(void)
{
    assert_string_equal(stop_message(stop), "");
    watchdog_close(watchdog);
    stop_close(stop);
    watchdog = NULL;
}

/* Run the open towers to the end. */
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

/* One tower has the error, the others are cancelled. */
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

/* At least one tower has the error. */
static void assert_failed(int error)
{
    bool failed = false;
    for (uint32_t d = 0; d < bench.towers; d++) {
        failed = failed || bench.tower[d].result == error;
        assert_true(bench.tower[d].result == error || bench.tower[d].result == -ECANCELED);
    }
    assert_true(failed);
}

static void assert_results(int result)
{
    for (uint32_t d = 0; d < bench.towers; d++)
        assert_int_equal(bench.tower[d].result, result);
}

static void assert_message(const char *text)
{
    if (strstr(messages, text) == NULL)
        fail_msg("no \"%s\" in: %s", text, messages);
}

/* ---- refusals ---- */

TEST(nccl_refuses_two_towers_on_one_device)
{
    open_towers(&reduce_nccl_ops, 3, 2);
    sim_calls_clear();
    run_towers();
    assert_failed_once(-EINVAL);
    assert_message("towers 0 and 2 are both on cuda0");
    assert_message("use sync.reduce = peer");
    assert_int_equal(sim_calls("ncclGetUniqueId") + sim_calls("ncclCommInitRankConfig"), 0);
    close_towers();
}

TEST(nccl_refuses_blocking_launches)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    open_towers(&reduce_nccl_ops, 2, 2);
    sim_calls_clear();
    run_towers();
    assert_failed_once(-EINVAL);
    assert_message("CUDA_LAUNCH_BLOCKING=1");
    assert_int_equal(sim_calls("ncclGetUniqueId"), 0);
    close_towers();
    setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
    open_towers(&reduce_nccl_ops, 2, 2);
    run_towers();
    assert_int_equal(bench.tower[0].result, 0);
    close_towers();
    unsetenv("CUDA_LAUNCH_BLOCKING");
}

TEST(peer_refuses_devices_without_peer_access)
{
    sim_set_peer_access(false);
    open_towers(&reduce_peer_ops, 3, 2);
    run_towers();
    assert_failed_once(-ENOTSUP);
    assert_message("cuda0 cannot use the memory of cuda1: use sync.reduce = host");
    close_towers();
    open_towers(&reduce_peer_ops, 3, 1);
    run_towers();
    assert_int_equal(bench.tower[2].result, 0);
    close_towers();
    sim_set_peer_access(true);
}

TEST(peer_refuses_too_many_towers)
{
    struct reduce *reduce = NULL;
    const int rc = CAPTURE(messages,
                           reduce_peer_ops.open(&reduce, &(struct reduce_spec){ .towers = KERNEL_TOWERS_MAX + 1 }));
    assert_int_equal(rc, -ENOTSUP);
    assert_null(reduce);
    assert_message("at most 64");
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

TEST(peer_enables_access_between_all_devices)
{
    /* The second time access is enabled already. */
    for (uint32_t i = 0; i < 2; i++) {
        open_towers(&reduce_peer_ops, DEVICES + 1, DEVICES);
        run_towers();
        assert_results(0);
        for (uint32_t d = 0; d < DEVICES; d++)
            for (uint32_t other = 0; other < DEVICES && i == 0; other++)
                if (d != other)
                    assert_access_is_enabled(d, other);
        close_towers();
    }
}

/* Copies from a device change one number. */
static int copy_wrongly(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction)
{
    const int rc = device_cuda_ops.copy(stream, to, from, bytes, direction);
    if (rc == 0 && direction == COPY_FROM_DEVICE) {
        assert_int_equal(cudaStreamSynchronize(cuda_stream_of(stream)), cudaSuccess);
        ((float *)to)[bytes / sizeof(float) / 2] += 1;
    }
    return rc;
}

TEST(peer_detects_links_that_corrupt_data)
{
    struct device_ops wrong = device_cuda_ops;
    wrong.copy = copy_wrongly;
    open_towers(&reduce_peer_ops, DEVICES, DEVICES);
    bench.tower[1].device->ops = &wrong;
    run_towers();
    assert_failed_once(-EIO);
    assert_message("works on memory of cuda1 and other numbers arrive");
    assert_message("use sync.reduce = host");
    bench.tower[1].device->ops = &device_cuda_ops;
    close_towers();
}

/* The choice before the run; `wishes` has no towers and devices. */
static const struct reduce_ops *ask_for(const char *name, struct reduce_towers wishes, uint32_t towers,
                                        uint32_t devices, int *rc_out, struct unsupported_reason *reason)
{
    static const uint32_t index[] = { 0, 1, 2 };
    const struct reduce_ops *chosen = NULL;
    wishes.run = wishes.here.count = towers;
    wishes.devices = &device_cuda_ops;
    wishes.index = index;
    wishes.device_count = devices;
    *rc_out = reduce_choose(name, &wishes, &chosen, reason);
    return chosen;
}

static const struct reduce_ops *ask(const char *name, uint32_t towers, uint32_t devices, int *rc_out,
                                    struct unsupported_reason *reason)
{
    return ask_for(name, (struct reduce_towers){ .run = 0 }, towers, devices, rc_out, reason);
}

TEST(the_best_supported_reduction_is_chosen)
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

TEST(what_needs_sums_in_pairs_reads_from_peers_if_it_can)
{
    static const struct reduce_towers wishes[] = { { .in_pairs = true }, { .has_owners = true },
                                                   { .has_bf16_grads = true } };
    struct unsupported_reason reason;
    int rc;
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        assert_ptr_equal(ask_for(NULL, wishes[i], 3, 3, &rc, &reason), &reduce_peer_ops);
        assert_ptr_equal(ask_for("nccl", wishes[i], 3, 3, &rc, &reason), &reduce_nccl_ops);
        sim_set_peer_access(false);
        assert_ptr_equal(ask_for(NULL, wishes[i], 3, 3, &rc, &reason), &reduce_nccl_ops);
        assert_ptr_equal(ask_for(NULL, wishes[i], 4, 3, &rc, &reason), &reduce_host_ops);
        sim_set_peer_access(true);
        assert_null(ask_for("nccl_allreduce", wishes[i], 3, 3, &rc, &reason));
        assert_int_equal(rc, -EINVAL);
    }
    assert_ptr_equal(ask("nccl_allreduce", 3, 3, &rc, &reason), &reduce_nccl_allreduce_ops);
}

TEST(an_unsupported_reduction_gives_the_reason)
{
    struct unsupported_reason reason;
    int rc;
    assert_null(ask("nccl", 4, 3, &rc, &reason));
    assert_int_equal(rc, -EINVAL);
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

TEST(blocking_launches_refuse_several_devices)
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

/* ---- missing towers ---- */

/* Cancels after longer than the deadline. */
static void cancel_late(void)
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

TEST(waiting_for_a_missing_tower_is_no_stall)
{
    watch(SHORT_MS);
    open_towers(&reduce_nccl_ops, DEVICES, DEVICES);
    bench.tower[1].stays_out = true;
    cancel_late();
}

TEST(waiting_for_a_missing_bucket_is_no_stall)
{
    watch(SHORT_MS);
    open_towers(&reduce_nccl_ops, DEVICES, DEVICES);
    bench.tower[1].steps = 5;
    bench.tower[1].step_buckets = 2;
    bench.tower[1].lingers = true;
    cancel_late();
}

TEST(slow_streams_are_no_stall_while_buckets_finish)
{
    /* The deadline of one bucket; the short one is less than all buckets take. */
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
    assert_results(0);
    close_towers();
    unwatch();
}

/* ---- errors ---- */

TEST(an_error_of_another_rank_ends_all_towers)
{
    for (uint32_t number = 1; number < 40; number += 5) {
        sim_nccl_break_after(number);
        open_towers(&reduce_nccl_ops, 3, 3);
        run_towers();
        assert_failed(-EREMOTEIO);
        assert_message("remote process exited");
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

/* Enough for call 60 of every function that is called in each step. */
enum { FAILING_STEPS = 10 };

/* Calls 1, 2, 3, 5, 8, ... of the function fail, one per run. */
static void fail_calls(const struct reduce_ops *reduction, const char *function, int status, bool ends_the_run)
{
    const uint32_t towers = reduction == &reduce_nccl_ops ? DEVICES : DEVICES + 1;
    for (uint32_t number = 1, step = 1; number < 60; number += step, step = (step * 3 + 1) / 2) {
        open_towers(reduction, towers, DEVICES);
        for (uint32_t d = 0; d < towers; d++)
            bench.tower[d].steps = FAILING_STEPS;
        sim_calls_clear();
        sim_fail(function, number, status);
        run_towers();
        sim_fail_clear();
        if (sim_calls(function) >= number)
            assert_message("pipetrain: cuda");
        if (ends_the_run && sim_calls(function) >= number && !has_error())
            fail_msg("%s: call %u failed, and no tower noticed", function, number);
        close_towers();
    }
}

/* When such a call fails, streams are unordered until the run has ended, and the thread sanitizer reports races on
 * sums that nobody uses. */
static bool orders_streams(const char *function)
{
    return strcmp(function, "cudaEventRecord") == 0 || strcmp(function, "cudaStreamWaitEvent") == 0;
}

static bool is_thread_sanitizer(void)
{
    const char *const sanitizer = getenv("PIPETRAIN_SANITIZER");
    return sanitizer != NULL && strcmp(sanitizer, "thread") == 0;
}

TEST(a_failing_call_ends_the_run_of_every_reduction)
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
        if (!is_thread_sanitizer() || !orders_streams(calls[i].function))
            fail_calls(calls[i].reduction, calls[i].function, calls[i].status, true);
}

TEST(a_failing_close_is_only_logged)
{
    static const char *const functions[] = { "ncclCommDeregister", "ncclCommFinalize" };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        fail_calls(&reduce_nccl_ops, functions[i], ncclInternalError, false);
}

TEST(unregistered_gradients_are_reduced_too)
{
    sim_fail("ncclCommRegister", 0, ncclUnhandledCudaError);
    open_towers(&reduce_nccl_ops, 3, 3);
    sim_calls_clear();
    run_towers();
    sim_fail_clear();
    assert_results(0);
    assert_int_equal(sim_calls("ncclCommDeregister"), 0);
    close_towers();
}

TEST(a_successful_run_aborts_nothing)
{
    open_towers(&reduce_nccl_ops, 3, 3);
    sim_calls_clear();
    run_towers();
    assert_int_equal(sim_calls("ncclCommAbort"), 0);
    assert_in_range(sim_calls("ncclCommInitRankConfig"), 1, 3);
    assert_int_equal(sim_calls("ncclCommDestroy"), sim_calls("ncclCommInitRankConfig"));
    assert_at_most(sim_calls("ncclCommRegister"), 6);           /* two regions */
    assert_int_equal(sim_calls("ncclCommDeregister"), sim_calls("ncclCommRegister"));
    assert_string_equal(messages, "");
    close_towers();
}

/* ---- cancels ---- */

TEST(a_cancel_ends_waiting_ranks)
{
    sim_nccl_lose_rank(0);
    for (uint32_t i = 0; i < 5; i++) {
        open_towers(&reduce_nccl_ops, 3, 3);
        bench_start(&bench);
        usleep(i * 1500);
        bench_cancel(&bench);
        bench_join(&bench);
        assert_results(-ECANCELED);
        close_towers();
    }
    sim_nccl_lose_rank(-1);
}

/* ---- hangs: in child processes, because the watchdog ends the process ---- */

static int run_in_child(void (*body)(void))
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
    assert_int_equal(run_in_child(cancel_and_hang), EXIT_CODE_STALL);
    assert_message(": no progress for 0.6 s (sync.deadline): ncclCommAbort");
    assert_message("still hangs: ncclCommAbort; the process ends here");
}

static void lose_a_rank(void)
{
    sim_nccl_lose_rank(2);
    open_towers(&reduce_nccl_ops, 3, 3);
    bench_start(&bench);
    bench_join(&bench);
}

TEST(missing_ranks_fail_the_run)
{
    assert_int_equal(run_in_child(lose_a_rank), EXIT_CODE_STALL);
    assert_message(": no progress for 0.6 s (sync.deadline): ncclCommInitRankConfig");
}

static void block_a_collective(void)
{
    sim_block("ncclAllReduce", 50);
    open_towers(&reduce_nccl_ops, 3, 3);
    bench_start(&bench);
    bench_join(&bench);
}

TEST(only_the_hanging_tower_is_named)
{
    assert_int_equal(run_in_child(block_a_collective), EXIT_CODE_STALL);
    assert_message("no progress for 0.6 s (sync.deadline): ncclAllReduce; the run ends\n");
}

/* A blocked copy goes on after all is closed, and with it what its stream has to do behind it. Freed memory is
 * overwritten. */
static void close_with_work_left(void)
{
    (void)mallopt(M_PERTURB, 0x55);
    sim_block("upload", 20);
    open_towers(&reduce_host_ops, 2, 2);
    bench_start(&bench);
    usleep(SHORT_MS * 1000);
    bench_cancel(&bench);
    bench_join(&bench);
    bench_close(&bench);
    sim_block_clear();
    usleep(SHORT_MS * 1000);
}

TEST(work_that_is_left_behind_finds_what_it_uses)
{
    assert_int_equal(run_in_child(close_with_work_left), 0);
    assert_message("does not end: it is left behind");
}

int main(void)
{
    alarm(300);
    sim_setup(DEVICES, (size_t)64 << 20);
    return tests_run(NULL, NULL);
}
