/* Tests of the rule that says behind which batches there is a snapshot, and of snapshots in
 * circulation between a tower and whoever saves them. */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "stage/thread.h"
#include "sync/snapshot_pool.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

static const struct schedule schedule = { .records = { 95, 23 }, .batch = 10, .towers = 3, .epochs = 3, .steps = 27 };

/* Steps behind which the rule names a snapshot, as bits. */
static uint64_t named_steps(const struct snapshot_rule *rule, uint32_t tower)
{
    uint64_t steps = 0;
    struct local_batch local;
    for (uint64_t number = 0; schedule_find(&schedule, number, tower, &local) == 0; number++) {
        const bool is_due = snapshot_due(rule, &local);
        assert_true(!is_due || local.phase == PHASE_TRAIN);
        steps |= (uint64_t)is_due << (is_due ? local.step + 1 : 0);
    }
    return steps;
}

TEST(a_rule_names_the_same_steps_for_all_towers)
{
    const struct snapshot_rule every = { .count = 1, .every = 6 }, epochs = { .count = 2, .each_epoch = true };
    const struct snapshot_rule both = { .count = 1, .every = 6, .each_epoch = true };
    const uint64_t sixth = 1 << 6 | 1 << 12 | 1 << 18 | 1 << 24, ends = 1 << 10 | 1 << 20 | 1 << 27;
    for (uint32_t tower = 0; tower < schedule.towers; tower++) {
        assert_int_equal(named_steps(&every, tower), sixth);
        assert_int_equal(named_steps(&epochs, tower), ends);
        assert_int_equal(named_steps(&both, tower), sixth | ends);
    }
}

/* 23 records are three batches of evaluation, behind each of three epochs. */
TEST(a_rule_may_name_the_last_batch_of_every_evaluation)
{
    const struct snapshot_rule rule = { .count = 1, .each_evaluation = true };
    uint32_t named = 0;
    struct local_batch local;
    for (uint64_t number = 0; schedule_find(&schedule, number, 0, &local) == 0; number++) {
        const bool is_due = snapshot_due(&rule, &local);
        assert_true(!is_due || (local.phase == PHASE_EVALUATE && local.last_of_phase));
        named += is_due;
    }
    assert_int_equal(named, 3);
}

TEST(without_snapshots_a_marked_batch_gets_none)
{
    struct gate *gate;
    const struct local_batch local = { .number = 0, .phase = PHASE_TRAIN };
    assert_int_equal(gate_open(&gate), 0);
    gate_mark_batch(gate, 0);
    assert_true(gate_pass(gate, 0));
    assert_true(snapshot_wanted(&(struct snapshot_rule){ .count = 1 }, gate, &local));
    assert_false(snapshot_wanted(&(struct snapshot_rule){ .count = 0 }, gate, &local));
    gate_close(gate);
}

/* Else the pool would wait for ever for what was never lent. */
TEST(without_a_last_snapshot_none_is_lent)
{
    struct snapshot_pool pool;
    assert_int_equal(snapshot_pool_init(&pool, &(struct snapshot_rule){ .count = 0 }), 0);
    assert_null(snapshot_pool_last(&pool));
    assert_int_equal(atomic_load(&pool.lent), 0);
    snapshot_pool_close(&pool);
    snapshot_pool_release(&pool);
}

TEST(without_snapshots_no_step_is_named)
{
    const struct snapshot_rule none = { .every = 1, .each_epoch = true }, never = { .count = 1 };
    assert_int_equal(named_steps(&none, 0), 0);
    assert_int_equal(named_steps(&never, 0), 0);
    struct snapshot_pool pool;
    assert_int_equal(snapshot_pool_init(&pool, &none), 0);
    assert_int_equal(snapshot_pool_open(&pool, NULL), 0);
    snapshot_pool_cancel(&pool);
    snapshot_pool_close(&pool);
    snapshot_pool_release(&pool);
}

struct rig {
    struct net *net;
    struct tower_fixture fixture;
    struct snapshot_pool pool;
    struct snapshot *taken;
    int result;
};

static void rig_open(struct rig *rig, uint32_t count)
{
    const char *backend = test_device_ops()->host_memory ? "reference" : "cuda";
    *rig = (struct rig){ .net = tower_fixture_net(0.0f), .result = 1 };
    tower_fixture_open(&rig->fixture, backend, rig->net);
    assert_int_equal(snapshot_pool_init(&rig->pool, &(struct snapshot_rule){ .count = count, .every = 1 }), 0);
    assert_int_equal(snapshot_pool_open(&rig->pool, rig->fixture.tower), 0);
}

static void rig_close(struct rig *rig)
{
    tower_fixture_result(&rig->fixture);  /* the compute stream is through */
    snapshot_pool_close(&rig->pool);
    snapshot_pool_release(&rig->pool);
    tower_fixture_close(&rig->fixture);
    net_close(rig->net);
}

TEST(as_many_are_lent_as_there_are_and_they_come_round)
{
    for (uint32_t count = 1; count <= SNAPSHOTS_MAX; count++) {
        struct rig rig;
        struct snapshot *taken[SNAPSHOTS_MAX];
        rig_open(&rig, count);
        for (int round = 0; round < 3; round++) {
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(snapshot_pool_take(&rig.pool, &taken[i]), 0);
                assert_int_equal(event_wait(snapshot_end(taken[i])), 0);
                snapshot_pool_lend(&rig.pool);
                assert_true(i == 0 || taken[i] != taken[0]);
            }
            for (uint32_t i = 0; i < count; i++)
                snapshot_pool_give_back(&rig.pool, taken[i]);
        }
        rig_close(&rig);
    }
}

/* What an allocator has given out; 0 where a sanitizer's does not say. */
static size_t allocated_bytes(void)
{
    return mallinfo2().uordblks;
}

TEST(one_that_comes_round_allocates_nothing)
{
    if (!test_device_is_inline())
        skip();                 /* the simulation allocates for itself */
    struct rig rig;
    struct snapshot *taken;
    rig_open(&rig, 1);
    const size_t before = allocated_bytes();
    for (int round = 0; round < 50; round++) {
        assert_int_equal(snapshot_pool_take(&rig.pool, &taken), 0);
        assert_int_equal(event_wait(snapshot_end(taken)), 0);
        snapshot_pool_lend(&rig.pool);
        snapshot_pool_give_back(&rig.pool, taken);
        assert_int_equal(allocated_bytes(), before);
    }
    rig_close(&rig);
}

static void take_loop(void *arg)
{
    struct rig *rig = arg;
    rig->result = snapshot_pool_take(&rig->pool, &rig->taken);
}

/* Take the only one, begin to wait for it, and end the wait by `end`. */
static void check_wait(void (*end)(struct rig *rig, struct snapshot *first), int expected)
{
    struct rig rig;
    struct snapshot *first;
    struct thread *thread;
    rig_open(&rig, 1);
    assert_int_equal(snapshot_pool_take(&rig.pool, &first), 0);
    snapshot_pool_lend(&rig.pool);
    assert_int_equal(thread_start(&thread, "tower", take_loop, &rig), 0);
    usleep(20000);
    end(&rig, first);
    thread_join(thread);
    assert_int_equal(rig.result, expected);
    assert_ptr_equal(rig.taken, expected == 0 ? first : NULL);
    rig_close(&rig);
}

static void end_by_giving_back(struct rig *rig, struct snapshot *first)
{
    snapshot_pool_give_back(&rig->pool, first);
}

static void end_by_cancelling(struct rig *rig, struct snapshot *first)
{
    snapshot_pool_cancel(&rig->pool);
    snapshot_pool_give_back(&rig->pool, first);
}

TEST(a_tower_waits_for_one_to_come_back)
{
    check_wait(end_by_giving_back, 0);
}

TEST(a_cancel_ends_the_wait_and_what_is_lent_still_comes_back)
{
    check_wait(end_by_cancelling, -ECANCELED);
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
