/* Tests of the reduction in host memory: every tower ends up with the same sums, bit for
 * bit those of adding in tower order, and no wait outlives a cancel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/random.h"
#include "stage/thread.h"
#include "sync/reduce.h"

enum { TOWERS_MAX = 5, STEPS = 40 };

/* Smaller than a cache line, fewer lines than towers, odd ends, more than a block. */
static const size_t bucket_counts[] = { 7, 16, 48, 1, 1024, 5003, 33 };
enum { BUCKETS = sizeof bucket_counts / sizeof bucket_counts[0] };

struct bench;

struct bench_tower {
    struct bench *bench;
    uint32_t index;
    struct device *device;
    struct stream *compute, *communication;
    float *gradients;
    struct thread *thread;
    uint32_t steps;             /* it takes part in, then it stays away */
    bool stays_out;             /* does not even join */
    atomic_uint wrong;          /* sums that differ from what they should be */
    uint32_t done;              /* steps done */
    int result;                 /* of the last call */
};

struct bench {
    uint32_t towers;
    struct reduce *reduce;
    struct buckets buckets;
    struct bench_tower tower[TOWERS_MAX];
};

static void bench_open(struct bench *bench, uint32_t towers)
{
    const struct device_ops *ops = &device_host_ops;
    size_t offset = 0;
    *bench = (struct bench){ .towers = towers, .buckets.count = BUCKETS };
    for (uint32_t b = 0; b < BUCKETS; b++) {
        bench->buckets.bucket[b] = (struct bucket){ .offset = offset, .count = bucket_counts[b] };
        offset += (bucket_counts[b] + 15) / 16 * 16;
    }
    assert_int_equal(reduce_host_ops.open(&bench->reduce, towers), 0);
    for (uint32_t d = 0; d < towers; d++) {
        struct bench_tower *tower = &bench->tower[d];
        const struct device_spec spec = { .index = d, .name = "cpu" };
        void *memory;
        tower->bench = bench;
        tower->index = d;
        tower->steps = STEPS;
        assert_int_equal(ops->open(&tower->device, &spec), 0);
        assert_int_equal(ops->stream_open(tower->device, STREAM_COMPUTE, "compute", &tower->compute), 0);
        assert_int_equal(ops->stream_open(tower->device, STREAM_COMMUNICATION, "reduce", &tower->communication), 0);
        assert_int_equal(ops->alloc(tower->device, offset * sizeof(float), &memory), 0);
        tower->gradients = memory;
    }
}

/* The order of pipeline_close: streams that sum, then the reduction, then the rest. */
static void bench_close(struct bench *bench)
{
    const struct device_ops *ops = &device_host_ops;
    for (uint32_t d = 0; d < bench->towers; d++)
        ops->stream_close(bench->tower[d].communication);
    reduce_host_ops.close(bench->reduce);
    for (uint32_t d = 0; d < bench->towers; d++) {
        ops->stream_close(bench->tower[d].compute);
        ops->free(bench->tower[d].device, bench->tower[d].gradients);
        ops->close(bench->tower[d].device);
    }
}

/* Gradients of very different sizes, so that the order of adding shows in the bits. */
static float gradient_at(uint32_t tower, uint32_t step, size_t at)
{
    const uint32_t place = (uint32_t)at * 2654435761u + step * 40503u + tower * 977u;
    const float value = (float)(place >> 8) - 8388608.0f;
    return place % 3 == 0 ? value * 1e-6f : value;
}

static float sum_at(uint32_t towers, uint32_t step, size_t at)
{
    float sum = gradient_at(0, step, at);
    for (uint32_t d = 1; d < towers; d++)
        sum += gradient_at(d, step, at);
    return sum;
}

static int step_start(struct bench_tower *tower, uint32_t step)
{
    struct bench *bench = tower->bench;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        const struct bucket *bucket = &bench->buckets.bucket[b];
        for (size_t i = bucket->offset; i < bucket->offset + bucket->count; i++)
            tower->gradients[i] = gradient_at(tower->index, step, i);
        if ((step * 7 + b * 3 + tower->index) % 11 == 0)
            usleep(100);        /* towers come at different times, in changing order */
        const int error = bench->reduce->ops->start(bench->reduce, tower->index, b);
        if (error)
            return error;
    }
    return 0;
}

static int step_finish(struct bench_tower *tower, uint32_t step)
{
    struct bench *bench = tower->bench;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        const struct bucket *bucket = &bench->buckets.bucket[b];
        const int error = bench->reduce->ops->wait(bench->reduce, tower->index, b);
        if (error)
            return error;
        for (size_t i = bucket->offset; i < bucket->offset + bucket->count; i++) {
            const float sum = sum_at(bench->towers, step, i);
            if (memcmp(&tower->gradients[i], &sum, sizeof sum) != 0)
                atomic_fetch_add(&tower->wrong, 1);
        }
    }
    return 0;
}

static void tower_loop(void *arg)
{
    struct bench_tower *tower = arg;
    struct bench *bench = tower->bench;
    const struct reduce_member member = { .device = tower->device, .compute = tower->compute,
                                          .communication = tower->communication, .gradients = tower->gradients };
    if (tower->stays_out)
        return;
    int error = bench->reduce->ops->join(bench->reduce, tower->index, &member, &bench->buckets);
    for (uint32_t step = 0; step < tower->steps && !error; step++) {
        error = step_start(tower, step);
        if (!error)
            error = step_finish(tower, step);
        tower->done += error == 0;
    }
    tower->result = error;
}

static void bench_start(struct bench *bench)
{
    for (uint32_t d = 0; d < bench->towers; d++)
        assert_int_equal(thread_start(&bench->tower[d].thread, "tower", tower_loop, &bench->tower[d]), 0);
}

static void bench_join(struct bench *bench)
{
    for (uint32_t d = 0; d < bench->towers; d++)
        thread_join(bench->tower[d].thread);
}

/* What stop_fail does to a run's towers. */
static void bench_cancel(struct bench *bench)
{
    for (uint32_t d = 0; d < bench->towers; d++)
        device_cancel(bench->tower[d].device);
    reduce_cancel(bench->reduce);
}

static void every_tower_gets_the_sum_in_tower_order_in_every_step(void **state)
{
    (void)state;
    static const uint32_t counts[] = { 1, 2, 3, 5 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        static struct bench bench;
        bench_open(&bench, counts[i]);
        bench_start(&bench);
        bench_join(&bench);
        for (uint32_t d = 0; d < bench.towers; d++) {
            assert_int_equal(bench.tower[d].result, 0);
            assert_int_equal(bench.tower[d].done, STEPS);
            assert_int_equal(atomic_load(&bench.tower[d].wrong), 0);
        }
        bench_close(&bench);
    }
}

static void a_cancel_ends_the_waits_for_a_tower_that_stays_away(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 6; steps++) {
        static struct bench bench;
        bench_open(&bench, 3);
        bench.tower[steps % 3].steps = steps;
        bench_start(&bench);
        thread_join(bench.tower[steps % 3].thread);
        bench.tower[steps % 3].thread = NULL;
        usleep(2000);
        bench_cancel(&bench);
        bench_join(&bench);
        for (uint32_t d = 0; d < bench.towers; d++) {
            assert_int_equal(bench.tower[d].result, d == steps % 3 ? 0 : -ECANCELED);
            assert_int_equal(bench.tower[d].done, steps);
            assert_int_equal(atomic_load(&bench.tower[d].wrong), 0);
        }
        bench_close(&bench);
    }
}

static void a_cancel_at_any_time_ends_every_tower(void **state)
{
    (void)state;
    for (useconds_t delay = 0; delay < 6000; delay += 300) {
        static struct bench bench;
        bench_open(&bench, 4);
        bench_start(&bench);
        usleep(delay);
        bench_cancel(&bench);
        bench_join(&bench);
        for (uint32_t d = 0; d < bench.towers; d++)
            assert_true(bench.tower[d].result == 0 || bench.tower[d].result == -ECANCELED);
        bench_close(&bench);
    }
}

static void a_cancel_ends_the_wait_for_a_tower_that_never_joins(void **state)
{
    (void)state;
    static struct bench bench;
    bench_open(&bench, 3);
    bench.tower[1].stays_out = true;
    bench_start(&bench);
    usleep(2000);
    bench_cancel(&bench);
    bench_join(&bench);
    assert_int_equal(bench.tower[0].result, -ECANCELED);
    assert_int_equal(bench.tower[2].result, -ECANCELED);
    bench_close(&bench);
}

static void the_absent_reduction_never_waits(void **state)
{
    (void)state;
    struct reduce *reduce;
    const struct buckets buckets = { .count = 1 };
    assert_int_equal(reduce_none_ops.open(&reduce, 3), 0);
    assert_int_equal(reduce->ops->join(reduce, 2, &(struct reduce_member){ 0 }, &buckets), 0);
    assert_int_equal(reduce->ops->start(reduce, 2, 0), 0);
    assert_int_equal(reduce->ops->wait(reduce, 2, 0), 0);
    reduce_cancel(reduce);
    reduce->ops->close(reduce);
}

int main(void)
{
    alarm(120);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tower_gets_the_sum_in_tower_order_in_every_step),
        cmocka_unit_test(a_cancel_ends_the_waits_for_a_tower_that_stays_away),
        cmocka_unit_test(a_cancel_at_any_time_ends_every_tower),
        cmocka_unit_test(a_cancel_ends_the_wait_for_a_tower_that_never_joins),
        cmocka_unit_test(the_absent_reduction_never_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
