/* Tests of what rank 0 allows the towers of all ranks. The ranks are in this process (tests/helpers/fake_mpi.h). */
#include <stdlib.h>
#include <unistd.h>

#include "tests/helpers/fake_mpi.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/ranks/remote_towers.h"

/* An epoch is 4 batches of training and 2 of evaluation. */
enum { RANKS = 2, EPOCH = 6, WAITS_MAX = 100000 };      /* waits of 0.1 ms each */

static struct ranks *ranks[FAKE_RANKS_MAX];
static struct schedule schedules[RANKS];
static struct gate *gates[RANKS];
static struct remote_towers *remote[RANKS];

/* Of the runs that are opened next. */
static uint32_t max_staleness;
static uint32_t report_every;
static uint64_t interval_steps, snapshot_steps;

static void open_run(uint64_t first, bool waits_for_main)
{
    fake_mpi_reset(RANKS, 3, 1);
    fake_ranks_open(ranks, RANKS, 60);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        schedules[rank] = (struct schedule){ .records = { 40, 20 }, .batch = 10, .towers = RANKS, .epochs = 3,
                                             .here = { rank, 1 }, .first = first };
        assert_int_equal(gate_open(&gates[rank]), 0);
        const struct remote_towers_spec spec = { .ranks = ranks[rank], .schedule = &schedules[rank], .gate = gates[rank],
                                       .waits_for_main = waits_for_main, .max_staleness = max_staleness,
                                       .report_every = report_every, .interval_steps = interval_steps,
                                       .snapshots = { .count = 1, .every = snapshot_steps },
                                       .shown = { .count = 1, .each_epoch = true } };
        assert_int_equal(remote_towers_open(&remote[rank], &spec), 0);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        remote_towers_go(remote[rank]);
}

static void close_run(void)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        remote_towers_close(remote[rank]);
        gate_close(gates[rank]);
    }
    fake_ranks_close(ranks, RANKS);
}

/* Both ranks may begin this batch, soon. */
static void check_open(uint64_t number)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (int waits = 0; waits < WAITS_MAX && !gate_is_open(gates[rank], number); waits++)
            usleep(100);
        assert_true(gate_is_open(gates[rank], number));
    }
}

/* Numbers that depend on the batch. */
static struct step_report report_of(uint64_t number, struct answer answers[EPOCH])
{
    struct step_report own = { .answers = answers, .staleness = (uint32_t)number };
    assert_int_equal(schedule_find(&schedules[1], number, 1, &own.local), 0);
    assert_in_range(own.local.count, 1, EPOCH);
    own.result.loss_sum = (double)number / 3;
    for (uint32_t i = 0; i < own.local.count; i++)
        answers[i] = (struct answer){ (int32_t)(number + i), (uint32_t)(2 * number + i) };
    return own;
}

/* Main of rank 1 reports a batch. */
static void send(uint64_t number)
{
    struct answer answers[EPOCH];
    struct step_report own = report_of(number, answers), *reports[RANKS] = { &own };
    assert_int_equal(remote_towers_send(remote[1], reports), 0);
}

/* Main of rank 0 gets the reports of a batch. */
static void receive(uint64_t number)
{
    struct answer answers[EPOCH];
    struct step_report own = report_of(number, answers), *reports[RANKS] = { &own };
    assert_int_equal(remote_towers_receive(remote[0], number, reports), 0);
    assert_int_equal(reports[1]->local.number, number);
    assert_int_equal(reports[1]->staleness, number);
    assert_true(reports[1]->result.loss_sum == own.result.loss_sum);
    if (own.local.phase == PHASE_EVALUATE)
        assert_memory_equal(reports[1]->answers, answers, own.local.count * sizeof(*answers));
}

/* Main of both ranks gets a batch's reports. */
static void report(uint64_t number)
{
    send(number);
    receive(number);
}

TEST(the_first_batches_are_allowed_wherever_a_run_is_resumed)
{
    for (int waits = 0; waits < 2; waits++)
        for (uint64_t first = 0; first < 2 * EPOCH; first++) {
            open_run(first, waits == 1);
            check_open(first);
            close_run();
        }
}

TEST(towers_may_be_ahead_of_reports_by_their_staleness)
{
    max_staleness = 5;
    open_run(0, false);
    for (uint64_t number = 0; number < 2 * EPOCH; number++) {
        check_open(number + max_staleness);
        report(number);
    }
    close_run();
    max_staleness = 0;
}

TEST(no_batch_after_an_evaluation_is_allowed_before_main_has_decided)
{
    open_run(0, true);
    for (uint64_t number = 0; number < EPOCH; number++) {
        check_open(number);
        report(number);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_false(gate_is_open(gates[rank], EPOCH));
    remote_towers_allow(remote[0], EPOCH);
    check_open(EPOCH);
    close_run();
}

/* Nothing is reported until a group is complete, so all its batches must be allowed. */
TEST(after_an_evaluation_a_whole_group_is_allowed)
{
    report_every = EPOCH;
    open_run(0, true);
    for (uint64_t number = 0; number < EPOCH; number++)
        send(number);
    for (uint64_t number = 0; number < EPOCH; number++)
        receive(number);
    remote_towers_allow(remote[0], EPOCH);
    check_open(EPOCH + report_every - 1);
    close_run();
    report_every = 0;
}

TEST(all_ranks_end_before_the_same_batch)
{
    open_run(0, false);
    check_open(0);
    report(0);
    remote_towers_request_stop(remote[0]);
    uint64_t end = 0;
    while (gate_pass(gates[0], end))
        end++;
    assert_true(end > 0);
    check_open(end);            /* nothing to wait for */
    check_open(UINT64_MAX);
    for (uint64_t number = 0; number < end; number++)
        assert_true(gate_pass(gates[1], number));
    assert_false(gate_pass(gates[1], end));
    close_run();
}

/* ---- reports of several batches in a message ---- */

enum { BATCHES = 3 * EPOCH };

/* The last batches of all groups; an epoch's are of phases. */
struct grouping {
    uint32_t report_every;
    uint64_t interval_steps, snapshot_steps;
    uint64_t ends[BATCHES + 1];         /* up to a 0, which is no end here */
};

static const struct grouping groupings[] = {
    { 4, 0, 0, { 3, 5, 7, 9, 11, 15, 17 } },
    { 5, 0, 0, { 3, 4, 5, 9, 11, 14, 15, 17 } },
    { 64, 0, 0, { 3, 5, 9, 11, 15, 17 } },
    { 64, 3, 0, { 2, 3, 5, 7, 9, 11, 12, 15, 17 } },
    { 64, 0, 7, { 3, 5, 8, 9, 11, 15, 17 } },
};

static void open_grouped(const struct grouping *grouping)
{
    report_every = grouping->report_every;
    interval_steps = grouping->interval_steps;
    snapshot_steps = grouping->snapshot_steps;
    open_run(0, false);
    report_every = 0;
    interval_steps = snapshot_steps = 0;
}

static size_t receive_bytes(void)
{
    struct message *message;
    assert_int_equal(ranks_receive(ranks[0], 1, MESSAGE_REPORT, &message), 0);
    const size_t bytes = message->bytes;
    free(message);
    return bytes;
}

TEST(groups_of_reports_end_at_fixed_batches_and_where_main_needs_them)
{
    size_t bytes[BATCHES];
    open_run(0, false);
    for (uint64_t number = 0; number < BATCHES; number++) {
        send(number);
        bytes[number] = receive_bytes();
    }
    close_run();
    for (size_t i = 0; i < sizeof(groupings) / sizeof(groupings[0]); i++) {
        open_grouped(&groupings[i]);
        for (uint64_t number = 0; number < BATCHES; number++)
            send(number);
        uint64_t next = 0;
        for (const uint64_t *end = groupings[i].ends; *end != 0; end++) {
            size_t expected = 0;
            while (next <= *end)
                expected += bytes[next++];
            assert_int_equal(receive_bytes(), expected);
        }
        assert_int_equal(next, BATCHES);
        close_run();
    }
}

/* Rank 0 waits for whole groups, so all of their batches are allowed before it has any report of them. */
TEST(batches_of_a_group_are_allowed_before_it_is_reported)
{
    for (size_t i = 0; i < sizeof(groupings) / sizeof(groupings[0]); i++) {
        open_grouped(&groupings[i]);
        uint64_t sent = 0, received = 0;
        for (const uint64_t *end = groupings[i].ends; *end != 0; end++) {
            check_open(*end);
            while (sent <= *end)
                send(sent++);
            while (received <= *end)
                receive(received++);
        }
        close_run();
    }
}

TEST(a_group_ends_with_a_batch_that_main_has_marked)
{
    open_grouped(&groupings[2]);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        gate_mark_batch(gates[rank], 1);
    for (uint64_t number = 0; number < 2; number++)
        send(number);
    for (uint64_t number = 0; number < 2; number++)
        receive(number);
    close_run();
}

TEST(reports_of_a_group_that_a_stop_has_cut_arrive)
{
    open_grouped(&groupings[2]);
    for (uint64_t number = 0; number < 3; number++)
        send(number);
    remote_towers_flush(remote[1]);
    remote_towers_flush(remote[1]);     /* nothing more */
    for (uint64_t number = 0; number < 3; number++)
        receive(number);
    assert_int_equal(ranks_flush(ranks[1]), 0);
    assert_null(ranks_try_receive(ranks[0], 1, MESSAGE_REPORT));
    close_run();
}

TESTS_MAIN(NULL, NULL)
