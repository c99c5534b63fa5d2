/* Tests of the batch ring: places are written by decoders and read by the feeder, in
 * the order of batch numbers, whatever threads and depths do. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/queue.h"
#include "stage/ring.h"
#include "stage/thread.h"
#include "tests/helpers/test.h"

enum { HEIGHT = 3, WIDTH = 5, CHANNELS = 2, CAPACITY = 23, DEPTH_MAX = 4, THREADS_MAX = 3, CHUNKS = 32 };

struct blocks {
    struct batch_layout layout;
    void *block[DEPTH_MAX];
};

static struct ring *ring_make(struct blocks *blocks, uint32_t depth)
{
    struct ring *ring = NULL;
    assert_int_equal(batch_layout_init(&blocks->layout, HEIGHT, WIDTH, CHANNELS, CAPACITY), 0);
    for (uint32_t i = 0; i < depth; i++)
        blocks->block[i] = calloc(1, blocks->layout.block_bytes);
    assert_int_equal(ring_open(&ring, depth, &blocks->layout, blocks->block), 0);
    return ring;
}

static void ring_drop(struct blocks *blocks, struct ring *ring, uint32_t depth)
{
    ring_close(ring);
    for (uint32_t i = 0; i < depth; i++)
        free(blocks->block[i]);
}

static struct local_batch local_batch_make(uint64_t number, uint32_t count)
{
    return (struct local_batch){ .number = number, .step = number, .count = count, .global_count = CAPACITY };
}

/* What place `i` of batch `number` holds. */
static uint64_t id_of(uint64_t number, uint32_t i)
{
    return number * 1000 + i;
}

static void write_places(struct batch *batch, uint64_t number, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        const uint64_t id = id_of(number, i);
        memset(batch->pixels + i * HEIGHT * WIDTH * CHANNELS, (int)(id % 251), HEIGHT * WIDTH * CHANNELS);
        batch->labels[i] = (int32_t)(id % 10);
        batch->ids[i] = id;
    }
}

static bool places_hold(const struct batch *batch, uint64_t number)
{
    for (uint32_t i = 0; i < batch->local.count; i++) {
        const uint64_t id = id_of(number, i);
        for (size_t p = 0; p < HEIGHT * WIDTH * CHANNELS; p++)
            if (batch->pixels[i * HEIGHT * WIDTH * CHANNELS + p] != id % 251)
                return false;
        if (batch->labels[i] != (int32_t)(id % 10) || batch->ids[i] != id)
            return false;
    }
    return true;
}

TEST(a_layout_pads_the_labels_and_refuses_what_overflows)
{
    struct batch_layout layout;
    assert_int_equal(batch_layout_init(&layout, 28, 28, 1, 1), 0);
    assert_int_equal(layout.of[PHASE_TRAIN].sample_bytes, 784);
    assert_int_equal(layout.of[PHASE_TRAIN].labels_offset, 832);
    assert_int_equal(layout.block_bytes, 836);
    assert_int_equal(batch_layout_init(&layout, 8, 8, 1, 3), 0);
    assert_int_equal(layout.of[PHASE_TRAIN].labels_offset, 192);
    assert_int_equal(layout.capacity, 3);
    assert_int_equal(layout.of[PHASE_TRAIN].mixes_offset, 0);
    assert_int_equal(batch_layout_add_mixes(&layout), 0);
    assert_int_equal(layout.of[PHASE_TRAIN].mixes_offset, 192 + 3 * 4);
    assert_int_equal(layout.block_bytes, 192 + 3 * 4 + 3 * 20);
    assert_int_equal(batch_layout_init(&layout, UINT32_MAX, UINT32_MAX, 3, 5), -EOVERFLOW);
    assert_int_equal(batch_layout_init(&layout, UINT32_MAX, 3, UINT32_MAX, UINT32_MAX), -EOVERFLOW);
    layout.of[PHASE_TRAIN].bytes = SIZE_MAX - 59;
    assert_int_equal(batch_layout_add_mixes(&layout), -EOVERFLOW);
}

TEST(a_block_has_room_for_batches_of_both_phases)
{
    static const struct { uint32_t side; size_t train_bytes; } rows[] = { { 6, 128 + 12 }, { 8, 192 + 12 }, { 9, 256 + 12 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct batch_layout layout;
        assert_int_equal(batch_layout_init(&layout, 8, 8, 1, 3), 0);
        assert_int_equal(batch_layout_resize_training(&layout, rows[i].side, rows[i].side), 0);
        assert_int_equal(layout.of[PHASE_TRAIN].bytes, rows[i].train_bytes);
        assert_int_equal(layout.of[PHASE_EVALUATE].bytes, 192 + 12);
        assert_int_equal(layout.block_bytes, rows[i].side > 8 ? rows[i].train_bytes : 192 + 12);
        assert_int_equal(batch_layout_add_mixes(&layout), 0);
        assert_int_equal(layout.of[PHASE_TRAIN].mixes_offset, rows[i].train_bytes);
        assert_int_equal(layout.of[PHASE_EVALUATE].mixes_offset, 0);
        assert_int_equal(batch_layout_resize_training(&layout, UINT32_MAX, UINT32_MAX), -EOVERFLOW);
    }
}

TEST(labels_are_where_batches_of_the_phase_have_them)
{
    struct batch_layout layout;
    uint64_t memory[64];
    void *const blocks[] = { memory };
    struct ring *ring;
    struct batch *batch;
    assert_int_equal(batch_layout_init(&layout, 8, 8, 1, 3), 0);
    assert_int_equal(batch_layout_resize_training(&layout, 6, 6), 0);
    assert_int_equal(batch_layout_add_mixes(&layout), 0);
    assert_in_range(layout.block_bytes, 1, sizeof(memory));
    assert_int_equal(ring_open(&ring, 1, &layout, blocks), 0);
    for (uint64_t number = 0; number < 4; number++) {
        const struct local_batch local = { .number = number, .phase = number % 2 == 0 ? PHASE_TRAIN : PHASE_EVALUATE,
                                           .count = 3, .global_count = 3 };
        const struct batch_image *const image = &layout.of[local.phase];
        assert_int_equal(ring_claim(ring, &local, &batch), 0);
        assert_ptr_equal(batch->labels, (uint8_t *)batch->block + image->labels_offset);
        assert_true((batch->mixes != NULL) == (local.phase == PHASE_TRAIN));
        ring_fill(ring, batch, 3);
        assert_int_equal(ring_take(ring, &batch), 0);
        ring_give_back(ring, batch);
    }
    ring_close(ring);
}

TEST(a_batch_is_taken_when_its_last_place_is_written)
{
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 2);
    const struct local_batch local = local_batch_make(0, 5);
    struct batch *batch, *again, *taken;
    struct ring_counts counts;
    assert_int_equal(ring_claim(ring, &local, &batch), 0);
    assert_int_equal(ring_claim(ring, &local, &again), 0);
    assert_ptr_equal(batch, again);
    ring_fill(ring, batch, 2);
    ring_fill(ring, batch, 0);
    ring_count(ring, &counts);
    assert_int_equal(counts.published, 0);
    ring_fill(ring, batch, 3);
    ring_count(ring, &counts);
    assert_int_equal(counts.published, 1);
    assert_int_equal(ring_take(ring, &taken), 0);
    assert_ptr_equal(taken, batch);
    assert_int_equal(taken->local.count, 5);
    assert_int_equal(taken->full_found, 1);
    ring_give_back(ring, taken);
    ring_count(ring, &counts);
    assert_int_equal(counts.taken, 1);
    assert_int_equal(counts.claim_waited_ns, 0);
    assert_int_equal(counts.take_waited_ns, 0);
    ring_drop(&blocks, ring, 2);
}

TEST(batches_claimed_in_any_order_are_taken_in_theirs)
{
    static const uint64_t order[] = { 2, 0, 3, 1 };
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 4);
    struct batch *batches[4], *taken;
    for (size_t i = 0; i < 4; i++) {
        const struct local_batch local = local_batch_make(order[i], 1);
        assert_int_equal(ring_claim(ring, &local, &batches[order[i]]), 0);
        ring_fill(ring, batches[order[i]], 1);
    }
    for (uint64_t number = 0; number < 4; number++) {
        assert_int_equal(ring_take(ring, &taken), 0);
        assert_ptr_equal(taken, batches[number]);
        assert_int_equal(taken->local.number, number);
        assert_int_equal(taken->full_found, 4 - number);
        ring_give_back(ring, taken);
    }
    ring_drop(&blocks, ring, 4);
}

TEST(an_empty_local_batch_is_published_at_once)
{
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 1);
    struct batch *batch, *taken;
    for (uint64_t number = 0; number < 3; number++) {
        const struct local_batch local = local_batch_make(number, 0);
        assert_int_equal(ring_claim(ring, &local, &batch), 0);
        assert_int_equal(ring_take(ring, &taken), 0);
        assert_ptr_equal(taken, batch);
        ring_give_back(ring, taken);
    }
    ring_drop(&blocks, ring, 1);
}

TEST(taking_ends_after_as_many_batches_as_the_run_has)
{
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 2);
    struct batch *batch;
    ring_range(ring, 0, 2);
    for (uint64_t number = 0; number < 2; number++) {
        const struct local_batch local = local_batch_make(number, 0);
        assert_int_equal(ring_claim(ring, &local, &batch), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ring_take(ring, &batch), 0);
        ring_give_back(ring, batch);
    }
    assert_int_equal(ring_take(ring, &batch), -ENODATA);
    assert_int_equal(ring_take(ring, &batch), -ENODATA);
    ring_drop(&blocks, ring, 2);
}

TEST(a_batch_may_end_before_it_is_full)
{
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 2);
    struct batch *batch, *taken;
    for (uint32_t count = 1; count < CAPACITY; count++) {
        const uint64_t number = count - 1;
        const struct local_batch local = local_batch_make(number, CAPACITY);
        assert_int_equal(ring_claim(ring, &local, &batch), 0);
        write_places(batch, number, 0, count);
        if (count % 2 == 0)
            ring_fill(ring, batch, count);
        batch->local.count = count;
        ring_fill(ring, batch, CAPACITY - count);
        if (count % 2 != 0)
            ring_fill(ring, batch, count);
        assert_int_equal(ring_take(ring, &taken), 0);
        assert_true(taken->local.count == count && places_hold(taken, number));
        ring_give_back(ring, taken);
    }
    ring_drop(&blocks, ring, 2);
}

static void take_until_the_end(void *arg)
{
    struct batch *batch;
    assert_int_equal(ring_take(arg, &batch), 0);
    ring_give_back(arg, batch);
    assert_int_equal(ring_take(arg, &batch), -ENODATA);
}

TEST(an_end_that_becomes_known_later_ends_taking)
{
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 2);
    struct thread *thread;
    struct batch *batch;
    assert_int_equal(thread_start(&thread, "taker", take_until_the_end, ring), 0);
    const struct local_batch local = local_batch_make(0, 0);
    assert_int_equal(ring_claim(ring, &local, &batch), 0);
    ring_finish(ring, 1);
    thread_join(thread);
    assert_int_equal(ring_take(ring, &batch), -ENODATA);
    ring_drop(&blocks, ring, 2);
}

TEST(a_ring_may_begin_with_any_batch)
{
    for (uint32_t depth = 1; depth <= DEPTH_MAX; depth++)
        for (uint64_t first = 0; first < 12; first++) {
            struct blocks blocks;
            struct ring *ring = ring_make(&blocks, depth);
            struct batch *batches[DEPTH_MAX], *taken;
            ring_range(ring, first, first + depth + 1);
            for (uint64_t i = depth; i-- > 0;) {        /* all places, the last number first */
                const struct local_batch local = local_batch_make(first + i, 1);
                assert_int_equal(ring_claim(ring, &local, &batches[i]), 0);
                ring_fill(ring, batches[i], 1);
            }
            for (uint64_t i = 0; i <= depth; i++) {
                const struct local_batch last = local_batch_make(first + depth, 0);
                assert_int_equal(ring_take(ring, &taken), 0);
                assert_int_equal(taken->local.number, first + i);
                assert_true(i == depth || taken == batches[i]);
                ring_give_back(ring, taken);
                if (i == 0)
                    assert_int_equal(ring_claim(ring, &last, &taken), 0);
            }
            assert_int_equal(ring_take(ring, &taken), -ENODATA);
            ring_drop(&blocks, ring, depth);
        }
}

struct waiter {
    struct ring *ring;
    struct local_batch local;
    struct batch *batch;
    int result;
};

static void claim_loop(void *arg)
{
    struct waiter *waiter = arg;
    waiter->result = ring_claim(waiter->ring, &waiter->local, &waiter->batch);
}

static void take_loop(void *arg)
{
    struct waiter *waiter = arg;
    waiter->result = ring_take(waiter->ring, &waiter->batch);
}

/* Returns whether both sides were seen waiting before the cancel. */
static bool check_cancel(useconds_t delay_us)
{
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 2);
    struct waiter waiters[4] = {
        { .ring = ring }, { ring, local_batch_make(2, 1), NULL, 0 }, { ring, local_batch_make(3, 1), NULL, 0 },
        { ring, local_batch_make(9, 1), NULL, 0 },
    };
    struct thread *threads[4];
    struct batch *batch;
    for (int i = 0; i < 4; i++)
        assert_int_equal(thread_start(&threads[i], "waiter", i ? claim_loop : take_loop, &waiters[i]), 0);
    usleep(delay_us);
    ring_cancel(ring);
    for (int i = 0; i < 4; i++) {
        thread_join(threads[i]);
        assert_int_equal(waiters[i].result, -ECANCELED);
    }
    assert_int_equal(ring_take(ring, &batch), -ECANCELED);
    const struct local_batch first = local_batch_make(0, 1);
    assert_int_equal(ring_claim(ring, &first, &batch), -ECANCELED);
    struct ring_counts counts;
    ring_count(ring, &counts);
    ring_drop(&blocks, ring, 2);
    return counts.claim_waited_ns > 0 && counts.take_waited_ns > 0;
}

TEST(cancelling_ends_every_wait)
{
    useconds_t delay_us = 1000;
    while (!check_cancel(delay_us)) {       /* until threads really were waiting */
        assert_true(delay_us < 1000000);
        delay_us *= 4;
    }
}

TEST(a_claim_waits_until_the_batch_before_it_in_its_place_is_given_back)
{
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 1);
    struct waiter waiter = { ring, local_batch_make(1, 1), NULL, 1 };
    struct thread *thread;
    struct batch *batch;
    const struct local_batch first = local_batch_make(0, 1);
    assert_int_equal(ring_claim(ring, &first, &batch), 0);
    assert_int_equal(thread_start(&thread, "waiter", claim_loop, &waiter), 0);
    ring_fill(ring, batch, 1);
    assert_int_equal(ring_take(ring, &batch), 0);
    usleep(3000);
    assert_int_equal(batch->local.number, 0);        /* not touched by the waiting claim */
    ring_give_back(ring, batch);
    thread_join(thread);
    assert_int_equal(waiter.result, 0);
    assert_ptr_equal(waiter.batch, batch);
    assert_int_equal(batch->local.number, 1);
    ring_drop(&blocks, ring, 1);
}

/* Claim a batch without samples, which is full at once. */
static void publish(struct ring *ring, uint64_t number)
{
    struct batch *batch;
    const struct local_batch local = local_batch_make(number, 0);
    assert_int_equal(ring_claim(ring, &local, &batch), 0);
}

TEST(batches_are_given_back_in_any_order)
{
    struct blocks blocks;
    struct ring *const ring = ring_make(&blocks, 3);
    struct batch *batches[3], *batch;
    for (uint64_t number = 0; number < 3; number++) {
        publish(ring, number);
        assert_int_equal(ring_take(ring, &batches[number]), 0);
    }
    ring_give_back(ring, batches[1]);
    for (uint64_t number = 3; number < 10; number++) {         /* all in the place of batch 1 */
        publish(ring, number);
        assert_int_equal(ring_take(ring, &batch), 0);
        assert_ptr_equal(batch, batches[1]);
        assert_int_equal(batch->local.number, number);
        ring_give_back(ring, batch);
    }
    assert_int_equal(batches[0]->local.number, 0);
    assert_int_equal(batches[2]->local.number, 2);
    ring_give_back(ring, batches[2]);
    ring_give_back(ring, batches[0]);
    for (uint64_t number = 10; number < 13; number++)
        publish(ring, number);
    for (uint64_t number = 10; number < 13; number++) {
        assert_int_equal(ring_take(ring, &batch), 0);
        assert_int_equal(batch->local.number, number);
        ring_give_back(ring, batch);
    }
    ring_drop(&blocks, ring, 3);
}

TEST(a_take_waits_until_its_time_and_says_whether_all_are_taken)
{
    struct blocks blocks;
    struct ring *const ring = ring_make(&blocks, 2);
    struct batch *batches[2], *batch;
    const uint64_t until_ns = clock_now_ns() + 2000000;
    assert_int_equal(ring_take_until(ring, 0, &batch), -ETIMEDOUT);
    assert_int_equal(ring_take_until(ring, until_ns, &batch), -ETIMEDOUT);
    assert_true(clock_now_ns() >= until_ns);
    for (uint64_t number = 0; number < 2; number++) {
        publish(ring, number);
        assert_int_equal(ring_take_until(ring, 0, &batches[number]), 0);
    }
    assert_int_equal(ring_take_until(ring, 0, &batch), -EBUSY);
    ring_give_back(ring, batches[1]);
    assert_int_equal(ring_take_until(ring, 0, &batch), -ETIMEDOUT);
    ring_finish(ring, 2);
    assert_int_equal(ring_take_until(ring, 0, &batch), -ENODATA);
    ring_give_back(ring, batches[0]);
    ring_drop(&blocks, ring, 2);
}

/* In a process of its own, since the end of the test is the end of the process. */
static void lose_a_batch(void)
{
    struct blocks blocks;
    struct ring *ring = ring_make(&blocks, 2);
    struct batch *batch;
    const struct local_batch local = local_batch_make(0, 0);
    signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    if (ring_claim(ring, &local, &batch) == 0 && ring_take(ring, &batch) == 0) {
        ring_cancel(ring);
        ring_close(ring);
    }
    _exit(0);
}

TEST(a_batch_that_never_came_back_is_noticed_even_after_a_cancel)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        lose_a_batch();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* A small loader: readers hand out chunks of places from one cursor, decoders write them. */

struct chunk {
    struct batch *batch;
    struct local_batch local;
    uint32_t first, count;
};

struct mill {
    struct ring *ring;
    struct queue *work, *spare;
    struct chunk chunks[CHUNKS];
    uint64_t batch_count;
    pthread_mutex_t lock;       /* of the cursor */
    uint64_t number;
    uint32_t first;
};

/* 0 to CAPACITY samples, empty ones now and then. */
static uint32_t count_of(uint64_t number)
{
    return number % 7 == 3 ? 0 : (uint32_t)(number * 13 % CAPACITY) + 1;
}

static bool cursor_next(struct mill *mill, struct chunk *chunk)
{
    pthread_mutex_lock(&mill->lock);
    const bool has_chunk = mill->number < mill->batch_count;
    if (has_chunk) {
        const uint32_t count = count_of(mill->number), left = count - mill->first;
        chunk->local = local_batch_make(mill->number, count);
        chunk->first = mill->first;
        chunk->count = left < 6 ? left : 6;
        mill->first += chunk->count;
        if (mill->first == count) {
            mill->number++;
            mill->first = 0;
        }
    }
    pthread_mutex_unlock(&mill->lock);
    return has_chunk;
}

static void read_loop(void *arg)
{
    struct mill *mill = arg;
    void *spare;
    while (queue_get(mill->spare, &spare) == 0) {
        struct chunk *chunk = spare;
        if (!cursor_next(mill, chunk)) {
            queue_put(mill->spare, chunk);
            return;
        }
        if (chunk->local.number % 3 == 0)
            sched_yield();      /* let others claim later batches first */
        ring_claim(mill->ring, &chunk->local, &chunk->batch);
        queue_put(chunk->count ? mill->work : mill->spare, chunk);
    }
}

static void decode_loop(void *arg)
{
    struct mill *mill = arg;
    void *work;
    while (queue_get(mill->work, &work) == 0) {
        struct chunk *chunk = work;
        write_places(chunk->batch, chunk->local.number, chunk->first, chunk->count);
        ring_fill(mill->ring, chunk->batch, chunk->count);
        queue_put(mill->spare, chunk);
    }
}

static void check_taken(struct mill *mill, const struct blocks *blocks)
{
    struct batch *batch;
    uint64_t number = 0;
    while (ring_take(mill->ring, &batch) == 0) {
        assert_int_equal(batch->local.number, number);
        assert_int_equal(batch->local.count, count_of(number));
        assert_true(places_hold(batch, number));
        memset(batch->block, 0xEE, blocks->layout.block_bytes);
        memset(batch->ids, 0xEE, CAPACITY * sizeof(batch->ids[0]));
        ring_give_back(mill->ring, batch);
        number++;
    }
    assert_int_equal(number, mill->batch_count);
}

static void check_mill(int readers, int decoders, uint32_t depth)
{
    struct blocks blocks;
    struct mill mill = { .ring = ring_make(&blocks, depth), .batch_count = 60 };
    struct thread *reading[THREADS_MAX], *decoding[THREADS_MAX];
    pthread_mutex_init(&mill.lock, NULL);
    ring_range(mill.ring, 0, mill.batch_count);
    assert_int_equal(queue_open(&mill.work, CHUNKS), 0);
    assert_int_equal(queue_open(&mill.spare, CHUNKS), 0);
    for (int i = 0; i < CHUNKS; i++)
        queue_put(mill.spare, &mill.chunks[i]);
    for (int i = 0; i < readers; i++)
        assert_int_equal(thread_start(&reading[i], "reader", read_loop, &mill), 0);
    for (int i = 0; i < decoders; i++)
        assert_int_equal(thread_start(&decoding[i], "decoder", decode_loop, &mill), 0);
    check_taken(&mill, &blocks);
    for (int i = 0; i < readers; i++)
        thread_join(reading[i]);
    queue_finish(mill.work);
    for (int i = 0; i < decoders; i++)
        thread_join(decoding[i]);
    struct ring_counts counts;
    ring_count(mill.ring, &counts);
    assert_int_equal(counts.published, mill.batch_count);
    assert_int_equal(counts.taken, mill.batch_count);
    queue_close(mill.work);
    queue_close(mill.spare);
    pthread_mutex_destroy(&mill.lock);
    ring_drop(&blocks, mill.ring, depth);
}

TEST(every_place_is_right_for_any_readers_decoders_and_depth)
{
    for (int readers = 1; readers <= THREADS_MAX; readers++)
        for (int decoders = 1; decoders <= THREADS_MAX; decoders++)
            for (uint32_t depth = 1; depth <= DEPTH_MAX; depth++)
                check_mill(readers, decoders, depth);
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
