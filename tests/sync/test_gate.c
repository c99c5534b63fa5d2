/* Tests of the gate: after a request no tower is left waiting for another. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "stage/thread.h"
#include "sync/gate.h"
#include "tests/helpers/test.h"

TEST(lets_everything_pass_without_a_request)
{
    struct gate *gate;
    assert_int_equal(gate_open(&gate), 0);
    for (uint64_t number = 0; number < 100; number++)
        for (int tower = 0; tower < 3; tower++)
            assert_true(gate_pass(gate, number));
    gate_close(gate);
    gate_close(NULL);
}

TEST(after_a_request_only_begun_batches_pass)
{
    struct gate *gate;
    assert_int_equal(gate_open(&gate), 0);
    assert_true(gate_pass(gate, 0));
    assert_true(gate_pass(gate, 1));
    assert_true(gate_pass(gate, 2));        /* the fastest tower */
    gate_request(gate);
    assert_true(gate_pass(gate, 1));        /* the others follow to where it is */
    assert_true(gate_pass(gate, 2));
    assert_false(gate_pass(gate, 3));
    assert_true(gate_pass(gate, 2));
    assert_false(gate_pass(gate, 3));
    gate_request(gate);
    assert_false(gate_pass(gate, 3));
    gate_close(gate);
}

TEST(a_request_before_the_first_batch_lets_none_pass)
{
    struct gate *gate;
    assert_int_equal(gate_open(&gate), 0);
    gate_request(gate);
    assert_false(gate_pass(gate, 0));
    gate_close(gate);
}

TEST(a_run_that_ends_before_a_batch_does_not_begin_it)
{
    struct gate *gate;
    assert_int_equal(gate_open(&gate), 0);
    gate_end_before(gate, 2);
    assert_true(gate_pass(gate, 0) && gate_pass(gate, 1));
    assert_false(gate_pass(gate, 2) || gate_pass(gate, 3));
    assert_false(gate_is_open(gate, 1));
    assert_true(gate_is_open(gate, 2) && gate_is_open(gate, 3));        /* nobody waits for what does not come */
    assert_true(gate_pass(gate, 1));
    gate_close(gate);
}

TEST(the_batch_that_is_named_is_marked)
{
    struct gate *gate;
    assert_int_equal(gate_open(&gate), 0);
    gate_mark_batch(gate, 0);
    assert_true(gate_pass(gate, 0) && gate_is_marked(gate, 0));
    gate_mark_batch(gate, 2);
    for (uint64_t number = 1; number < 4; number++)
        assert_true(gate_pass(gate, number) && gate_is_marked(gate, number) == (number == 2));
    gate_close(gate);
}

TEST(the_next_batch_that_no_tower_has_begun_is_marked)
{
    struct gate *gate;
    assert_int_equal(gate_open(&gate), 0);
    assert_true(gate_pass(gate, 0) && gate_pass(gate, 1));
    assert_false(gate_is_marked(gate, 0));
    gate_mark(gate);
    assert_false(gate_is_marked(gate, 0));
    assert_false(gate_is_marked(gate, 1));
    assert_true(gate_pass(gate, 2) && gate_is_marked(gate, 2));
    assert_true(gate_pass(gate, 3));
    assert_false(gate_is_marked(gate, 3));
    assert_true(gate_is_marked(gate, 2));       /* for a slower tower */
    gate_mark(gate);
    assert_true(gate_is_marked(gate, 4));
    gate_close(gate);
}

enum { TOWERS = 4 };

struct tower_walk {
    struct gate *gate;
    atomic_ullong *farthest;
    uint64_t passed;
};

static void tower_loop(void *arg)
{
    struct tower_walk *walk = arg;
    while (gate_pass(walk->gate, walk->passed)) {
        walk->passed++;
        atomic_fetch_add(walk->farthest, 1);
    }
}

TEST(all_towers_pass_the_same_batches_whenever_the_request_comes)
{
    for (unsigned round = 0; round < 20; round++) {
        struct tower_walk walks[TOWERS];
        struct thread *threads[TOWERS];
        struct gate *gate;
        atomic_ullong passed = 0;
        assert_int_equal(gate_open(&gate), 0);
        for (int i = 0; i < TOWERS; i++) {
            walks[i] = (struct tower_walk){ gate, &passed, 0 };
            assert_int_equal(thread_start(&threads[i], "tower", tower_loop, &walks[i]), 0);
        }
        while (atomic_load(&passed) < round * 100)
            usleep(50);
        gate_request(gate);
        for (int i = 0; i < TOWERS; i++)
            thread_join(threads[i]);
        for (int i = 1; i < TOWERS; i++)
            assert_int_equal(walks[i].passed, walks[0].passed);
        gate_close(gate);
    }
}

struct waiting_tower { struct gate *gate; uint64_t number; atomic_int result; };

static void wait_loop(void *arg)
{
    struct waiting_tower *tower = arg;
    atomic_store(&tower->result, gate_await(tower->gate, tower->number));
}

/* What ends the wait, and what it then returns. */
static void check_wait(void (*end)(struct gate *gate), int result)
{
    struct gate *gate;
    struct thread *thread;
    assert_int_equal(gate_open(&gate), 0);
    gate_allow(gate, 6);
    assert_int_equal(gate_await(gate, 6), 0);
    struct waiting_tower tower = { .gate = gate, .number = 7 };
    atomic_init(&tower.result, 1);
    assert_int_equal(thread_start(&thread, "tower", wait_loop, &tower), 0);
    usleep(2000);
    assert_int_equal(atomic_load(&tower.result), 1);
    end(gate);
    thread_join(thread);
    assert_int_equal(atomic_load(&tower.result), result);
    gate_close(gate);
}

static void allow_seven(struct gate *gate)
{
    gate_allow(gate, 7);
}

TEST(a_tower_waits_until_its_batch_is_allowed_or_the_run_ends)
{
    check_wait(allow_seven, 0);
    check_wait(gate_request, 0);
    check_wait(gate_cancel, -ECANCELED);
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
