/* Tests of the queue: nothing lost, nothing twice, order kept, every wait ends. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "stage/queue.h"
#include "stage/thread.h"
#include "tests/helpers/test.h"

enum { ITEMS = 600, THREADS_MAX = 4 };

static char things[THREADS_MAX * ITEMS];        /* items are addresses in here */

TEST(gives_items_in_the_order_they_came_for_any_capacity)
{
    for (size_t capacity = 1; capacity <= 9; capacity++) {
        struct queue *queue;
        void *item = NULL;
        size_t put = 0, got = 0;
        assert_int_equal(queue_open(&queue, capacity), 0);
        for (size_t round = 0; round < 50; round++) {
            for (size_t i = 0; i <= round % capacity; i++)
                assert_int_equal(queue_put(queue, &things[put++]), 0);
            while (got < put) {
                assert_int_equal(queue_get(queue, &item), 0);
                assert_ptr_equal(item, &things[got++]);
            }
            assert_int_equal(queue_try_get(queue, &item), -EAGAIN);
        }
        struct queue_counts counts;
        queue_count(queue, &counts);
        assert_int_equal(counts.put, put);
        assert_int_equal(counts.got, got);
        assert_int_equal(counts.depth_max, capacity);
        assert_int_equal(counts.put_waited_ns, 0);
        assert_int_equal(counts.get_waited_ns, 0);
        queue_close(queue);
    }
    queue_close(NULL);
}

TEST(refuses_a_capacity_that_cannot_be)
{
    struct queue *queue = NULL;
    assert_int_equal(queue_open(&queue, SIZE_MAX / 2), -ENOMEM);
    assert_null(queue);
}

TEST(a_finished_queue_is_drained_and_takes_no_more)
{
    struct queue *queue;
    void *item = NULL;
    assert_int_equal(queue_open(&queue, 4), 0);
    assert_int_equal(queue_put(queue, &things[0]), 0);
    assert_int_equal(queue_put(queue, &things[1]), 0);
    queue_finish(queue);
    assert_int_equal(queue_put(queue, &things[2]), -ECANCELED);
    assert_int_equal(queue_get(queue, &item), 0);
    assert_ptr_equal(item, &things[0]);
    assert_int_equal(queue_try_get(queue, &item), 0);
    assert_ptr_equal(item, &things[1]);
    assert_int_equal(queue_get(queue, &item), -ENODATA);
    assert_int_equal(queue_try_get(queue, &item), -ENODATA);
    queue_close(queue);
}

TEST(a_cancelled_queue_gives_nothing_even_when_it_holds_items)
{
    struct queue *queue;
    void *item = &things[5];
    assert_int_equal(queue_open(&queue, 4), 0);
    assert_int_equal(queue_put(queue, &things[0]), 0);
    queue_cancel(queue);
    assert_int_equal(queue_put(queue, &things[1]), -ECANCELED);
    assert_int_equal(queue_get(queue, &item), -ECANCELED);
    assert_int_equal(queue_try_get(queue, &item), -ECANCELED);
    assert_ptr_equal(item, &things[5]);
    queue_close(queue);
}

struct queue_user {
    struct queue *queue;
    int number;                         /* of the putter */
    size_t got;
    size_t last[THREADS_MAX];           /* of each putter's items, the one got last, from 1 */
    unsigned char seen[THREADS_MAX * ITEMS];
    bool disordered;
    int result;
};

static void put_loop(void *arg)
{
    struct queue_user *putter = arg;
    for (int i = 0; i < ITEMS && putter->result == 0; i++)
        putter->result = queue_put(putter->queue, &things[putter->number * ITEMS + i]);
}

static void get_loop(void *arg)
{
    struct queue_user *getter = arg;
    void *item;
    while ((getter->result = queue_get(getter->queue, &item)) == 0) {
        const size_t index = (size_t)((char *)item - things);
        const size_t putter = index / ITEMS, place = index % ITEMS + 1;
        getter->disordered |= place <= getter->last[putter];
        getter->last[putter] = place;
        getter->seen[index]++;
        getter->got++;
    }
}

static struct queue_user putters[THREADS_MAX], getters[THREADS_MAX];

static void users_start(struct queue_user *users, struct thread **threads, int count, struct queue *queue,
                          void (*loop)(void *arg))
{
    for (int i = 0; i < count; i++) {
        memset(&users[i], 0, sizeof(users[i]));
        users[i].queue = queue;
        users[i].number = i;
        assert_int_equal(thread_start(&threads[i], "user", loop, &users[i]), 0);
    }
}

static void check_exchange(int putter_count, int getter_count, size_t capacity)
{
    struct thread *putting[THREADS_MAX], *getting[THREADS_MAX];
    struct queue *queue;
    assert_int_equal(queue_open(&queue, capacity), 0);
    users_start(getters, getting, getter_count, queue, get_loop);
    users_start(putters, putting, putter_count, queue, put_loop);
    for (int i = 0; i < putter_count; i++) {
        thread_join(putting[i]);
        assert_int_equal(putters[i].result, 0);
    }
    queue_finish(queue);
    size_t got = 0;
    for (int i = 0; i < getter_count; i++) {
        thread_join(getting[i]);
        assert_int_equal(getters[i].result, -ENODATA);
        assert_false(getters[i].disordered);
        got += getters[i].got;
    }
    assert_int_equal(got, putter_count * ITEMS);
    for (int item = 0; item < putter_count * ITEMS; item++) {
        int seen = 0;
        for (int i = 0; i < getter_count; i++)
            seen += getters[i].seen[item];
        assert_int_equal(seen, 1);
    }
    struct queue_counts counts;
    queue_count(queue, &counts);
    assert_int_equal(counts.put, got);
    assert_int_equal(counts.got, got);
    assert_true(counts.depth_max >= 1 && counts.depth_max <= capacity);
    queue_close(queue);
}

TEST(every_item_arrives_once_and_in_order_for_any_number_of_threads)
{
    static const size_t capacities[] = { 1, 2, 7, 64 };
    for (int putting = 1; putting <= THREADS_MAX; putting++)
        for (int getting = 1; getting <= THREADS_MAX; getting++)
            check_exchange(putting, getting, capacities[(putting + getting) % 4]);
}

/* Returns how long the threads waited, together: 0 when the end came first. */
static uint64_t check_end(void (*loop)(void *arg), bool is_full, void (*end)(struct queue *), int result,
                          useconds_t delay_us)
{
    struct thread *threads[THREADS_MAX];
    struct queue *queue;
    assert_int_equal(queue_open(&queue, 1), 0);
    if (is_full)
        assert_int_equal(queue_put(queue, &things[0]), 0);
    users_start(putters, threads, THREADS_MAX, queue, loop);
    usleep(delay_us);
    end(queue);
    for (int i = 0; i < THREADS_MAX; i++) {
        thread_join(threads[i]);
        assert_int_equal(putters[i].result, result);
    }
    struct queue_counts counts;
    queue_count(queue, &counts);
    queue_close(queue);
    assert_true((is_full ? counts.get_waited_ns : counts.put_waited_ns) == 0);
    return is_full ? counts.put_waited_ns : counts.get_waited_ns;
}

/* Until threads really were waiting, which a busy machine may put off. */
static void check_ends_waits(void (*loop)(void *arg), bool is_full, void (*end)(struct queue *), int result)
{
    useconds_t delay_us = 1000;
    while (check_end(loop, is_full, end, result, delay_us) == 0) {
        assert_true(delay_us < 1000000);
        delay_us *= 4;
    }
}

static void cancel(struct queue *queue)
{
    queue_cancel(queue);
}

TEST(finishing_and_cancelling_end_every_wait_on_both_sides)
{
    check_ends_waits(put_loop, true, cancel, -ECANCELED);
    check_ends_waits(put_loop, true, queue_finish, -ECANCELED);
    check_ends_waits(get_loop, false, cancel, -ECANCELED);
    check_ends_waits(get_loop, false, queue_finish, -ENODATA);
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
