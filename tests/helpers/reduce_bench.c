/* The threads of test_reduce.c and test_reduce_cuda.c. */
#include "tests/helpers/reduce_bench.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "compute/floats.h"
#include "stage/pairwise.h"
#include "sync/ranks/ranks.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

/* Smaller than a cache line, fewer lines than towers, odd ends, more than a block. */
static const size_t bucket_counts[] = { 7, 16, 48, 1, 1024, 5003, 33 };
enum { BUCKETS = sizeof(bucket_counts) / sizeof(bucket_counts[0]) };

/* Buckets lie in gradients and statistics by turns. */
static enum region region_of(uint32_t bucket)
{
    return bucket % 2 ? REGION_STATISTICS : REGION_GRADIENTS;
}

uint32_t bench_devices(const struct reduce_ops *reduction, uint32_t towers)
{
    const struct device_ops *ops = test_device_ops();
    char why[256];
    uint32_t devices = ops->count(why, sizeof(why));
    if (devices > towers)
        devices = towers;
    for (uint32_t i = 0; i < devices && strcmp(reduction->name, "peer") == 0; i++)
        for (uint32_t j = 0; j < devices; j++)
            if (!ops->reaches(i, j))
                return 1;
    return devices;
}

static void tower_open(struct bench_tower *tower, uint32_t device_index)
{
    const struct bench *bench = tower->bench;
    const struct device_ops *ops = bench->ops;
    const struct device_spec spec = { .index = device_index, .name = "device" };
    const size_t bytes = bench->floats * sizeof(float);
    void *memory;
    assert_int_equal(ops->open(&tower->device, &spec), 0);
    assert_int_equal(ops->stream_open(tower->device, STREAM_COMPUTE, "compute", &tower->compute), 0);
    assert_int_equal(ops->stream_open(tower->device, STREAM_COMMUNICATION, "reduce", &tower->communication), 0);
    assert_int_equal(ops->stream_open(tower->device, STREAM_COMMUNICATION, "results", &tower->results), 0);
    for (uint32_t b = 0; b < 2; b++) {
        assert_int_equal(ops->alloc(tower->device, bytes, &memory), 0);
        tower->arenas[region_of(b)] = memory;
    }
    if (bench->has_bf16_grads) {
        assert_int_equal(ops->alloc(tower->device, bench->floats * sizeof(uint16_t), &memory), 0);
        tower->bf16_grads = memory;
    }
    assert_int_equal(ops->alloc_pinned(tower->device, bench->depth * bytes, &memory), 0);
    tower->values = memory;
    assert_int_equal(ops->alloc_pinned(tower->device, bench->depth * bytes, &memory), 0);
    tower->sums = memory;
    for (uint32_t i = 0; i < bench->depth; i++)
        assert_int_equal(ops->event_open(tower->device, EVENT_ORDER, &tower->ends[i]), 0);
}

/* An owner has a bucket of gradients that is reduced to it, and the next one, which it broadcasts. The last bucket has
 * none. */
static void set_owners(struct bench *bench)
{
    for (uint32_t b = 0; b + 1 < BUCKETS; b++) {
        struct bucket *const bucket = &bench->buckets.bucket[b];
        bucket->use = bucket->region == REGION_GRADIENTS ? BUCKET_REDUCE : BUCKET_BROADCAST;
        bucket->owner = (b / 2 + 1) % bench->run;
    }
}

static struct bucket bucket_with(const struct bench *bench, const struct bench_spec *spec, uint32_t b)
{
    const size_t count = bucket_counts[b] * (spec->factor > 0 ? spec->factor : 1);
    struct bucket bucket = { .region = region_of(b), .offset = bench->floats, .count = count };
    if (!spec->has_pieces)
        return bucket;
    bucket.use = bucket.region == REGION_GRADIENTS ? BUCKET_REDUCE_SCATTER : BUCKET_ALL_GATHER;
    bucket.piece = count;
    bucket.count = count * bench->run;
    return bucket;
}

void bench_open(struct bench *bench, const struct bench_spec *spec)
{
    *bench = (struct bench){ .ops = test_device_ops(), .towers = spec->towers, .buckets.count = BUCKETS,
                             .has_bf16_grads = spec->has_bf16_grads,
                             .rounds_sums = spec->has_bf16_grads && spec->in_pairs, .watchdog = spec->watchdog };
    const bool adds_in_pairs = spec->in_pairs || (spec->ranks != NULL && spec->reduction->knows_owners);
    bench->exact = adds_in_pairs || spec->has_pieces || strncmp(spec->reduction->name, "nccl", 4) != 0;
    bench->depth = bench->ops->steps_ahead + 1;
    assert_true(bench->depth <= BENCH_DEPTH_MAX);
    const uint32_t first = ranks_rank(spec->ranks) * spec->towers;
    bench->run = ranks_size(spec->ranks) * spec->towers;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        bench->buckets.bucket[b] = bucket_with(bench, spec, b);
        bench->floats += (bench->buckets.bucket[b].count + 15) / 16 * 16;
    }
    if (spec->has_owners)
        set_owners(bench);
    const struct reduce_spec reduce_spec = { .towers = bench->run, .here = { first, spec->towers },
                                             .in_pairs = spec->in_pairs, .ranks = spec->ranks,
                                             .trace = spec->trace, .group = spec->group };
    assert_int_equal(spec->reduction->open(&bench->reduce, &reduce_spec), 0);
    for (uint32_t d = 0; d < spec->towers; d++) {
        struct bench_tower *tower = &bench->tower[d];
        tower->bench = bench;
        tower->index = first + d;
        tower->steps = BENCH_STEPS;
        tower->track = trace_track_add(spec->trace, TRACE_REDUCTION, d);
        tower_open(tower, spec->first_device + d % spec->devices);
    }
}

static void tower_close(struct bench_tower *tower)
{
    const struct device_ops *ops = tower->bench->ops;
    ops->stream_close(tower->compute);
    for (uint32_t i = 0; i < tower->bench->depth; i++)
        ops->event_close(tower->ends[i]);
    ops->free_pinned(tower->device, tower->sums);
    ops->free_pinned(tower->device, tower->values);
    for (uint32_t b = 0; b < 2; b++)
        ops->free(tower->device, tower->arenas[region_of(b)]);
    if (tower->bf16_grads != NULL)
        ops->free(tower->device, tower->bf16_grads);
}

/* The order of pipeline_close: streams that sum, then the reduction, then the rest. */
void bench_close(struct bench *bench)
{
    for (uint32_t d = 0; d < bench->towers; d++) {
        bench->ops->stream_close(bench->tower[d].communication);
        bench->ops->stream_close(bench->tower[d].results);
    }
    bench->reduce->ops->close(bench->reduce);
    for (uint32_t d = 0; d < bench->towers; d++)
        tower_close(&bench->tower[d]);
    for (uint32_t d = 0; d < bench->towers; d++)
        bench->ops->close(bench->tower[d].device);
}

/* Gradients of very different sizes, so that the order of adding shows in the bits. */
static float gradient_at(uint32_t tower, uint32_t step, size_t at)
{
    const uint32_t place = (uint32_t)at * 2654435761u + step * 40503u + tower * 977u;
    const float value = (float)(place >> 8) - 8388608.0f;
    return place % 3 == 0 ? value * 1e-6f : value;
}

static bool is_halved(const struct bench *bench, const struct bucket *bucket)
{
    return bench->has_bf16_grads && bucket->region == REGION_GRADIENTS;
}

static float rounded(float number)
{
    return bf16_to_float(bf16_from_float(number));
}

/* In pairs, of gradients that were rounded where they are bf16; with rounds_sums so are all sums. */
static float sum_of(uint32_t first, uint32_t count, uint32_t step, size_t at, bool is_bf16, bool rounds_sums)
{
    if (count == 1) {
        const float gradient = gradient_at(first, step, at);
        return is_bf16 ? rounded(gradient) : gradient;
    }
    const uint32_t left = pairwise_left(count);
    const float sum = sum_of(first, left, step, at, is_bf16, rounds_sums) +
                      sum_of(first + left, count - left, step, at, is_bf16, rounds_sums);
    return rounds_sums ? rounded(sum) : sum;
}

/* Rounded itself. */
static bool is_bf16_sum(const struct bench *bench, uint32_t step, size_t at, uint16_t reduced)
{
    return reduced == bf16_from_float(sum_of(0, bench->run, step, at, true, bench->rounds_sums));
}

static bool is_sum(const struct bench *bench, uint32_t step, size_t at, float reduced)
{
    const float sum = sum_of(0, bench->run, step, at, false, false);
    float size = 0;
    for (uint32_t d = 0; d < bench->run; d++)
        size += fabsf(gradient_at(d, step, at));
    if (!bench->exact)
        return fabsf(reduced - sum) <= size * 1e-6f;
    return memcmp(&reduced, &sum, sizeof(sum)) == 0;
}

static void nap(void *arg)
{
    (void)arg;
    usleep(150);
}

/* Towers and their streams come at different times, in changing order. */
static int maybe_nap(struct bench_tower *tower, uint32_t number)
{
    const struct device_ops *ops = tower->bench->ops;
    if ((number + tower->index) % 11 == 0)
        return ops->call(tower->compute, nap, NULL);
    if ((number + tower->index) % 13 == 0)
        return ops->call(tower->communication, nap, NULL);
    if ((number + tower->index) % 17 == 0)
        nap(NULL);
    return 0;
}

/* Where the step's numbers lie among those of all that may be queued. */
static size_t place_of(const struct bench *bench, uint32_t step)
{
    return step % bench->depth * bench->floats;
}

/* The halves of a bucket lie where its floats begin. */
static uint16_t *bf16_at(float *floats, const struct bucket *bucket)
{
    return (uint16_t *)(void *)(floats + bucket->offset);
}

/* Between pinned memory of a step and what is summed of the bucket. */
static int copy_bucket(const struct bench_tower *tower, const struct bucket *bucket, float *pinned,
                       enum copy_direction direction)
{
    const bool is_half = is_halved(tower->bench, bucket), is_back = direction == COPY_FROM_DEVICE;
    void *const device = is_half ? (void *)(tower->bf16_grads + bucket->offset)
                                 : (void *)(tower->arenas[bucket->region] + bucket->offset);
    const size_t bytes = bucket->count * (is_half ? sizeof(uint16_t) : sizeof(float));
    return tower->bench->ops->copy(tower->compute, is_back ? (void *)(pinned + bucket->offset) : device,
                                   is_back ? device : (void *)(pinned + bucket->offset), bytes, direction);
}

static int start_bucket(struct bench_tower *tower, uint32_t step, uint32_t b)
{
    const struct bench *bench = tower->bench;
    const struct bucket *bucket = &bench->buckets.bucket[b];
    float *values = tower->values + place_of(bench, step);
    for (size_t i = bucket->offset; i < bucket->offset + bucket->count; i++)
        values[i] = gradient_at(tower->index, step, i);
    if (is_halved(bench, bucket))
        floats_to_bf16(values + bucket->offset, bf16_at(values, bucket), bucket->count);
    int rc = maybe_nap(tower, step * 7 + b * 3);
    if (!rc)
        rc = copy_bucket(tower, bucket, values, COPY_TO_DEVICE);
    return rc ? rc : bench->reduce->ops->start(bench->reduce, tower->index, b, step);
}

static int start_buckets(struct bench_tower *tower, uint32_t step, uint32_t count)
{
    int rc = 0;
    for (uint32_t b = 0; b < count && !rc; b++)
        rc = start_bucket(tower, step, b);
    return rc;
}

/* Does the tower wait for the bucket? What is reduced to another tower is followed by what that one broadcasts. */
static bool awaits(const struct bench_tower *tower, const struct bucket *bucket)
{
    return bucket->use != BUCKET_REDUCE || bucket->owner == tower->index;
}

static int queue_step(struct bench_tower *tower)
{
    const struct bench *bench = tower->bench;
    const uint32_t step = tower->queued;
    float *sums = tower->sums + place_of(bench, step);
    int rc = start_buckets(tower, step, BUCKETS);
    for (uint32_t b = 0; b < BUCKETS && !rc; b++) {
        const struct bucket *bucket = &bench->buckets.bucket[b];
        if (awaits(tower, bucket))
            rc = bench->reduce->ops->wait(bench->reduce, tower->index, b);
        if (!rc)
            rc = copy_bucket(tower, bucket, sums, COPY_FROM_DEVICE);
    }
    if (!rc)
        rc = bench->ops->record(tower->compute, tower->ends[step % bench->depth]);
    tower->queued += rc == 0;
    return rc;
}

static int await_end(struct bench_tower *tower, struct event *end)
{
    struct bench *bench = tower->bench;
    const struct reduce_ops *reduction = bench->reduce->ops;
    int rc = 0;
    heartbeat_begin_wait("waiting for its results");
    while (reduction->poll != NULL && !bench->ops->event_passed(end) && !rc) {
        usleep(20);
        rc = reduction->poll(bench->reduce, tower->index);
    }
    if (!rc)
        rc = bench->ops->event_wait(end);
    heartbeat_end_wait();
    return rc;
}

/* The bits of number i of the bucket as that tower has filled it. */
static uint32_t bits_of(const struct bench *bench, const struct bucket *bucket, uint32_t tower, uint32_t step, size_t i)
{
    const float number = gradient_at(tower, step, i);
    uint32_t bits = bf16_from_float(number);
    if (!is_halved(bench, bucket))
        memcpy(&bits, &number, sizeof(bits));
    return bits;
}

/* The tower whose number the bucket is to have unchanged at `i`; BENCH_SUM: the sum of all. */
#define BENCH_SUM UINT32_MAX
static uint32_t source_of(const struct bench_tower *tower, const struct bucket *bucket, size_t i)
{
    const uint32_t piece = bucket->piece > 0 ? (uint32_t)((i - bucket->offset) / bucket->piece) : tower->index;
    if (bucket->use == BUCKET_ALL_GATHER || piece != tower->index)
        return bucket->use == BUCKET_ALL_GATHER ? piece : tower->index;
    if (bucket->use == BUCKET_BROADCAST)
        return bucket->owner;
    return awaits(tower, bucket) ? BENCH_SUM : tower->index;
}

static void look_at_sums(struct bench_tower *tower, uint32_t step)
{
    const struct bench *bench = tower->bench;
    float *sums = tower->sums + place_of(bench, step);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        const struct bucket *bucket = &bench->buckets.bucket[b];
        const uint16_t *halves = bf16_at(sums, bucket);
        for (size_t i = bucket->offset; i < bucket->offset + bucket->count; i++) {
            uint32_t bits = halves[i - bucket->offset];
            if (!is_halved(bench, bucket))
                memcpy(&bits, &sums[i], sizeof(bits));
            if (source_of(tower, bucket, i) != BENCH_SUM) {
                tower->wrong += bits != bits_of(bench, bucket, source_of(tower, bucket, i), step, i);
                continue;
            }
            tower->bits = (tower->bits ^ bits) * 1099511628211u;
            tower->wrong += is_halved(bench, bucket) ? !is_bf16_sum(bench, step, i, (uint16_t)bits)
                                                     : !is_sum(bench, step, i, sums[i]);
        }
    }
}

static int finish_step(struct bench_tower *tower)
{
    const uint32_t step = atomic_load(&tower->done);
    const int rc = await_end(tower, tower->ends[step % tower->bench->depth]);
    if (rc)
        return rc;
    if (tower->bench->reduce->ops->record != NULL)
        tower->bench->reduce->ops->record(tower->bench->reduce, tower->index);
    look_at_sums(tower, step);
    atomic_fetch_add(&tower->done, 1);
    return 0;
}

static int run_steps(struct bench_tower *tower)
{
    int rc = 0;
    while (tower->queued < tower->steps && !rc) {
        rc = queue_step(tower);
        if (!rc && tower->queued - atomic_load(&tower->done) == tower->bench->depth)
            rc = finish_step(tower);
    }
    while (atomic_load(&tower->done) < tower->queued && !rc)
        rc = finish_step(tower);
    return rc ? rc : start_buckets(tower, tower->queued, tower->step_buckets);
}

/* Between the statistics and pinned memory, and wait for it. */
static int copy_statistics(const struct bench_tower *tower, bool back)
{
    const struct bench *bench = tower->bench;
    float *statistics = tower->arenas[REGION_STATISTICS];
    int rc = bench->ops->copy(tower->compute, back ? tower->sums : statistics, back ? statistics : tower->values,
                              bench->floats * sizeof(float), back ? COPY_FROM_DEVICE : COPY_TO_DEVICE);
    if (!rc)
        rc = bench->ops->record(tower->compute, tower->ends[0]);
    return rc ? rc : bench->ops->event_wait(tower->ends[0]);
}

/* Joining sums nothing but zeros, whatever else the tower brings. */
static int join(struct bench_tower *tower)
{
    const struct bench *bench = tower->bench;
    const struct reduce_region gradients = { tower->arenas[REGION_GRADIENTS], bench->floats };
    const struct reduce_region statistics = { tower->arenas[REGION_STATISTICS], bench->floats };
    const struct reduce_member member = {
        .device = tower->device,
        .compute = tower->compute,
        .communication = tower->communication,
        .results = tower->results,
        .zeros = gradients,
        .regions = { [REGION_GRADIENTS] = gradients, [REGION_STATISTICS] = statistics },
        .bf16_grads = tower->bf16_grads,
        .track = tower->track,
    };
    for (size_t i = 0; i < bench->floats; i++)
        tower->values[i] = (float)i;
    int rc = copy_statistics(tower, false);
    if (!rc)
        rc = bench->reduce->ops->join(bench->reduce, tower->index, &member, &bench->buckets);
    if (!rc && bench->reduce->ops->begin != NULL)
        rc = bench->reduce->ops->begin(bench->reduce, tower->index);
    if (!rc)
        rc = copy_statistics(tower, true);
    for (size_t i = 0; i < bench->floats && !rc; i++)
        tower->wrong += tower->sums[i] != (float)i;
    return rc;
}

static void tower_loop(void *arg)
{
    struct bench_tower *tower = arg;
    struct bench *bench = tower->bench;
    if (tower->stays_out)
        return;
    if (bench->watchdog != NULL)
        heartbeat_adopt(watchdog_heartbeat(bench->watchdog, tower->index));
    tower->result = join(tower);
    if (!tower->result)
        tower->result = run_steps(tower);
    if (tower->result)
        bench_cancel(bench);
    atomic_store(&tower->away, true);
    while (tower->lingers && !atomic_load(&bench->cancelled))
        usleep(100);
    if (bench->reduce->ops->leave != NULL)
        bench->reduce->ops->leave(bench->reduce, tower->index);
    heartbeat_adopt(NULL);
}

void bench_start(struct bench *bench)
{
    for (uint32_t d = 0; d < bench->towers; d++)
        assert_int_equal(thread_start(&bench->tower[d].thread, "tower", tower_loop, &bench->tower[d]), 0);
}

void bench_join(struct bench *bench)
{
    for (uint32_t d = 0; d < bench->towers; d++)
        thread_join(bench->tower[d].thread);
}

void bench_cancel(struct bench *bench)
{
    if (atomic_exchange(&bench->cancelled, true))
        return;
    for (uint32_t d = 0; d < bench->towers; d++)
        device_cancel(bench->tower[d].device);
    reduce_cancel(bench->reduce);
}
