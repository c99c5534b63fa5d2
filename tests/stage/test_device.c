/* Tests of a device's table: what it says of devices, memory, and streams that keep their order and run beside the
 * thread that queues. On the kind of device that test_device_kind.h says, and on the null device. Device memory is only
 * touched by copies, as on any kind; what is true of inline compute streams alone is skipped on the others. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/stage/device_rig.h"

TEST(the_table_is_found_by_its_names)
{
    assert_ptr_equal(device_find("cpu"), &device_host_ops);
    assert_ptr_equal(device_find("null"), &device_null_ops);
    assert_null(device_find("gpu"));
    assert_null(device_find(""));
    assert_string_equal(device_host_ops.kind, "cpu");
    assert_string_equal(device_null_ops.kind, "null");
}

TEST(every_row_of_the_table_is_there)
{
    const size_t first = offsetof(struct device_ops, count);    /* rows from here on are functions */
    for (size_t k = 0; k < 2; k++) {
        const void *rows[(sizeof(struct device_ops) - offsetof(struct device_ops, count)) / sizeof(void *)];
        memcpy(rows, (const char *)device_rig_kind(k) + first, sizeof(rows));
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            assert_non_null(rows[i]);
        assert_true(device_rig_kind(k)->host_memory == (device_rig_kind(k)->steps_ahead == 0));
    }
}

TEST(there_is_a_device_and_no_reason_why_not)
{
    for (size_t k = 0; k < 2; k++) {
        char why[8] = "unknown";
        assert_true(device_rig_kind(k)->count(why, sizeof(why)) >= 1);
        assert_string_equal(why, "");
    }
}

TEST(a_device_reaches_its_own_memory)
{
    for (size_t k = 0; k < 2; k++)
        assert_true(device_rig_kind(k)->reaches(0, 0));
}

TEST(a_device_describes_itself)
{
    for (size_t k = 0; k < 2; k++) {
        struct device_description description = { .name = "" };
        struct device_rig rig;
        size_t free_bytes, total_bytes;
        assert_int_equal(device_rig_kind(k)->describe(0, &description), 0);
        assert_true(strlen(description.name) > 0 && strlen(description.more) > 0);
        device_rig_open(&rig, device_rig_kind(k));
        assert_int_equal(rig.ops->memory(rig.device, &free_bytes, &total_bytes), 0);
        assert_true(description.memory_bytes >= total_bytes);
        device_rig_close(&rig);
    }
}

TEST(a_device_knows_how_much_memory_is_left)
{
    for (size_t k = 0; k < 2; k++) {
        struct device_rig rig;
        size_t free_bytes = 0, total_bytes = 0;
        device_rig_open(&rig, device_rig_kind(k));
        assert_int_equal(rig.ops->memory(rig.device, &free_bytes, &total_bytes), 0);
        assert_true(free_bytes > 0 && free_bytes <= total_bytes);
        device_rig_close(&rig);
    }
}

TEST(binding_takes_no_cpu_the_thread_did_not_have)
{
    for (size_t k = 0; k < 2; k++) {
        struct device_rig rig;
        cpu_set_t before, after, both;
        device_rig_open(&rig, device_rig_kind(k));
        assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
        rig.ops->bind(rig.device);
        assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
        CPU_AND(&both, &before, &after);
        assert_true(CPU_EQUAL(&both, &after));
        assert_true(CPU_COUNT(&after) > 0);
        assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
        device_rig_close(&rig);
    }
}

static void assert_zero(const uint8_t *bytes, size_t count)
{
    uint8_t any = 0;
    for (size_t b = 0; b < count; b++)
        any |= bytes[b];
    assert_int_equal(any, 0);
}

static void check_memory(struct device_rig *rig, size_t bytes)
{
    void *memory = device_rig_memory(rig, bytes), *pinned = device_rig_pinned(rig, bytes);
    assert_int_equal((uintptr_t)memory % 64, 0);
    assert_int_equal((uintptr_t)pinned % 64, 0);
    assert_zero(pinned, bytes);
    memset(pinned, 0xFF, bytes);
    assert_int_equal(rig->ops->copy(rig->compute, pinned, memory, bytes, COPY_FROM_DEVICE), 0);
    device_rig_wait(rig);
    assert_zero(pinned, bytes);
    memset(pinned, 0xFF, bytes);        /* the next ones are zeroed all the same */
    assert_int_equal(rig->ops->copy(rig->compute, memory, pinned, bytes, COPY_TO_DEVICE), 0);
    device_rig_wait(rig);
    rig->ops->free_pinned(rig->device, pinned);
    rig->ops->free(rig->device, memory);
}

TEST(memory_is_aligned_and_zeroed_for_any_size)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 4096, 100000, (2 << 20) - 1, 2 << 20, (5 << 20) + 3 };
    struct device_rig rig;
    device_rig_open(&rig, test_device_ops());
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int again = 0; again < 2; again++)
            check_memory(&rig, sizes[i]);
    rig.ops->free(rig.device, NULL);
    rig.ops->free_pinned(rig.device, NULL);
    device_rig_close(&rig);
}

TEST(a_stream_runs_more_commands_than_it_holds_in_their_order)
{
    static struct numbered_call calls[CALL_LOG_MAX];
    for (size_t k = 0; k < 2; k++) {
        struct device_rig rig;
        struct call_log log = { .count = 0 };
        device_rig_open(&rig, device_rig_kind(k));
        for (int i = 0; i < CALL_LOG_MAX; i++) {
            calls[i] = (struct numbered_call){ &log, i };
            assert_int_equal(rig.ops->call(rig.copy, call_log_note, &calls[i]), 0);
        }
        assert_int_equal(stream_record(rig.copy, rig.event), 0);
        assert_int_equal(rig.ops->event_wait(rig.event), 0);
        assert_int_equal(log.count, CALL_LOG_MAX);
        for (int i = 0; i < CALL_LOG_MAX; i++)
            assert_int_equal(log.order[i], i);
        assert_false(pthread_equal(log.thread, pthread_self()));
        device_rig_close(&rig);
    }
}

TEST(closing_a_stream_drains_it)
{
    static struct numbered_call calls[100];
    struct device_rig rig;
    struct call_log log = { .count = 0 };
    device_rig_open(&rig, test_device_ops());
    for (int i = 0; i < 100; i++) {
        calls[i] = (struct numbered_call){ &log, i };
        assert_int_equal(rig.ops->call(rig.communication, call_log_note, &calls[i]), 0);
    }
    device_rig_close(&rig);
    assert_int_equal(log.count, 100);
}

TEST(an_inline_compute_stream_runs_in_the_thread_that_queues)
{
    if (!test_device_is_inline())
        skip();
    struct device_rig rig;
    struct call_log log = { .count = 0 };
    struct numbered_call call = { &log, 1 };
    const int from = 7;
    int to = 0;
    device_rig_open(&rig, test_device_ops());
    assert_int_equal(rig.ops->call(rig.compute, call_log_note, &call), 0);
    assert_int_equal(log.count, 1);
    assert_true(pthread_equal(log.thread, pthread_self()));
    assert_int_equal(rig.ops->copy(rig.compute, &to, &from, sizeof(to), COPY_ON_DEVICE), 0);
    assert_int_equal(to, 7);
    assert_int_equal(stream_record(rig.compute, rig.event), 0);
    assert_true(rig.ops->event_passed(rig.event));
    device_rig_close(&rig);
}

TEST(the_compute_stream_keeps_its_order)
{
    static struct numbered_call calls[CALL_LOG_MAX];
    struct device_rig rig;
    struct call_log log = { .count = 0 };
    device_rig_open(&rig, test_device_ops());
    for (int i = 0; i < CALL_LOG_MAX; i++) {
        calls[i] = (struct numbered_call){ &log, i };
        assert_int_equal(rig.ops->call(rig.compute, call_log_note, &calls[i]), 0);
    }
    device_rig_wait(&rig);
    assert_int_equal(log.count, CALL_LOG_MAX);
    for (int i = 0; i < CALL_LOG_MAX; i++)
        assert_int_equal(log.order[i], i);
    device_rig_close(&rig);
}

/* Host to device, on the device, and back. */
TEST(copies_move_bytes_except_on_the_null_device)
{
    enum { BYTES = 5000 };
    for (size_t k = 0; k < 2; k++) {
        struct device_rig rig;
        device_rig_open(&rig, device_rig_kind(k));
        char *from = device_rig_pinned(&rig, BYTES), *to = device_rig_pinned(&rig, BYTES);
        void *first = device_rig_memory(&rig, BYTES), *second = device_rig_memory(&rig, BYTES);
        memset(from, 'f', BYTES);
        memset(to, 't', BYTES);
        assert_int_equal(rig.ops->copy(rig.copy, first, from, BYTES, COPY_TO_DEVICE), 0);
        assert_int_equal(rig.ops->copy(rig.copy, NULL, NULL, 0, COPY_FROM_DEVICE), 0);
        assert_int_equal(rig.ops->copy(rig.copy, second, first, BYTES, COPY_ON_DEVICE), 0);
        assert_int_equal(rig.ops->copy(rig.copy, to, second, BYTES, COPY_FROM_DEVICE), 0);
        assert_int_equal(stream_record(rig.copy, rig.event), 0);
        assert_int_equal(rig.ops->event_wait(rig.event), 0);
        for (size_t i = 0; i < BYTES; i++)
            assert_int_equal(to[i], k == 0 ? 'f' : 't');
        rig.ops->free(rig.device, first);
        rig.ops->free(rig.device, second);
        rig.ops->free_pinned(rig.device, from);
        rig.ops->free_pinned(rig.device, to);
        device_rig_close(&rig);
    }
}

int main(void)
{
    alarm(60);
    test_device_ops();
    return tests_run(NULL, NULL);
}
