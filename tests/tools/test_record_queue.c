/* Tests of the order in which records are made and written: here one thread plays all of them. */
#include <stdbool.h>

#include "stage/stop.h"
#include "tests/helpers/test.h"
#include "tools/convert/record_queue.h"

#define THREADS 2u
#define GROUPS_MAX 4u           /* of two threads */
#define FILES 3u

static struct record_queue queue;
static struct stop *stop;
static atomic_bool interrupted;
/* Records of 100 KiB: two in a group. */
static const struct sample_source source = { .record_count = 100, .bytes = 100 * (100 << 10) };
static struct shard_file files[FILES];

static int open_stop(void **state)
{
    (void)state;
    atomic_store(&interrupted, false);
    return stop_open(&stop);
}

static int close_queue(void **state)
{
    (void)state;
    record_queue_release(&queue);
    stop_close(stop);
    return 0;
}

static void open_queue(size_t file_count, uint64_t record_count)
{
    const struct shard_set set = { .files = files, .file_count = file_count, .stop = stop };
    for (size_t i = 0; i < file_count; i++)
        files[i] = (struct shard_file){ .source = &source, .record_count = record_count };
    assert_int_equal(record_queue_init(&queue, THREADS, &set, &interrupted), 0);
}

static struct record_group *take(size_t file)
{
    struct record_group *const group = record_queue_take(&queue);
    assert_non_null(group);
    assert_ptr_equal(group->file, &files[file]);
    return group;
}

TEST_WITH(groups_of_a_shard_are_written_in_their_order_by_one_thread_at_a_time, open_stop, close_queue)
{
    open_queue(1, 7);
    struct record_group *const first = take(0), *const second = take(0), *const third = take(0), *const last = take(0);
    assert_int_equal(second->first, 2);
    assert_int_equal(second->count, 2);
    assert_int_equal(last->first, 6);
    assert_int_equal(last->count, 1);
    assert_true(last->is_last && !third->is_last);
    assert_null(record_queue_put(&queue, third));
    assert_null(record_queue_put(&queue, second));
    assert_ptr_equal(record_queue_put(&queue, first), first);
    assert_null(record_queue_put(&queue, last));        /* the shard is being written */
    assert_ptr_equal(record_queue_written(&queue, first), second);
    assert_ptr_equal(record_queue_written(&queue, second), third);
    assert_ptr_equal(record_queue_written(&queue, third), last);
    assert_null(record_queue_written(&queue, last));
    assert_null(record_queue_take(&queue));
}

TEST_WITH(no_more_groups_are_about_than_the_pool_has, open_stop, close_queue)
{
    open_queue(1, 100);
    struct record_group *groups[GROUPS_MAX];
    for (size_t i = 0; i < GROUPS_MAX; i++)
        groups[i] = take(0);
    assert_null(queue.free);
    assert_ptr_equal(record_queue_put(&queue, groups[0]), groups[0]);
    assert_null(record_queue_written(&queue, groups[0]));
    struct record_group *const next = take(0);
    assert_ptr_equal(next, groups[0]);
    assert_int_equal(next->first, 2 * GROUPS_MAX);
    assert_null(record_queue_put(&queue, next));
}

TEST_WITH(each_thread_has_a_shard_of_its_own_as_long_as_there_are_some, open_stop, close_queue)
{
    open_queue(FILES, 4);
    struct record_group *const mine = take(0), *const others = take(1);
    assert_ptr_equal(record_queue_put(&queue, mine), mine);
    assert_null(record_queue_written(&queue, mine));
    struct record_group *const last = take(0);
    assert_true(last->is_last);
    assert_ptr_equal(record_queue_put(&queue, last), last);
    assert_null(record_queue_written(&queue, last));
    struct record_group *const next = take(2);
    assert_int_equal(record_queue_place(&queue, next), record_queue_place(&queue, last));
    assert_int_not_equal(record_queue_place(&queue, next), record_queue_place(&queue, others));
}

TEST_WITH(without_a_shard_of_its_own_a_thread_helps_the_one_with_the_fewest_groups_ahead, open_stop, close_queue)
{
    open_queue(2, 100);
    struct record_group *const first = take(0);
    take(1);
    assert_ptr_equal(record_queue_put(&queue, first), first);
    take(0);
    assert_null(record_queue_written(&queue, first));
    take(0);
    take(1);
}

TEST_WITH(nobody_waits_and_nothing_is_written_when_the_work_is_given_up, open_stop, close_queue)
{
    open_queue(1, 100);
    struct record_group *groups[GROUPS_MAX];
    for (size_t i = 0; i < GROUPS_MAX; i++)
        groups[i] = take(0);
    assert_null(record_queue_put(&queue, groups[1]));
    assert_ptr_equal(record_queue_put(&queue, groups[0]), groups[0]);
    atomic_store(&interrupted, true);
    assert_null(record_queue_take(&queue));
    assert_null(record_queue_written(&queue, groups[0]));
    assert_null(record_queue_put(&queue, groups[2]));
}

TESTS_MAIN(NULL, NULL)
