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

static void open_run(uint64_t first, bool waits_for_main)
{
    fake_mpi_reset(RANKS, 3, 1);
    fake_ranks_open(ranks, RANKS, 60);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        schedules[rank] = (struct schedule){ .records = { 40, 20 }, .batch = 10, .towers = RANKS, .epochs = 3,
                                             .here = { rank, 1 }, .first = first };
        assert_int_equal(gate_open(&gates[rank]), 0);
        const struct remote_towers_spec spec = { .ranks = ranks[rank], .schedule = &schedules[rank], .gate = gates[rank],
                                       .waits_for_main = waits_for_main, .max_staleness = max_staleness };
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

/* Main of both ranks gets a batch's reports. */
static void report(uint64_t number)
{
    struct answer answers[EPOCH];
    struct step_report own = { .answers = answers }, *reports[RANKS] = { &own };
    assert_int_equal(schedule_find(&schedules[1], number, 1, &own.local), 0);
    assert_in_range(own.local.count, 1, EPOCH);
    for (uint32_t i = 0; i < own.local.count; i++)
        answers[i] = (struct answer){ (int32_t)(number + i), (uint32_t)(2 * number + i) };
    assert_int_equal(remote_towers_send(remote[1], reports), 0);
    assert_int_equal(remote_towers_receive(remote[0], number, reports), 0);
    assert_int_equal(reports[1]->local.number, number);
    if (own.local.phase == PHASE_EVALUATE)
        assert_memory_equal(reports[1]->answers, answers, own.local.count * sizeof(*answers));
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

TESTS_MAIN(NULL, NULL)
