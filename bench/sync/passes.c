/* How much of the machine's copy bandwidth two passes over all parameters reach on the CPU: the update by momentum, and
 * the reduction of gradients by two towers.  make bench/sync/passes && bench/sync/passes [MILLIONS OF PARAMETERS]
 *
 * A pass is measured beside memcpy of as many floats by as many threads, in turns. Bytes are those that cannot be left
 * out: a copy reads 4 and writes 4 for a float; momentum reads weight, gradient and buffer and writes weight and
 * buffer, 20; a sum over two towers reads both gradients and writes both, 16. Prints medians and spreads as
 * Markdown. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/tower.h"
#include "stage/clock.h"
#include "sync/reduce.h"

enum { TOWERS = 2, ROUNDS = 15, COPY_BYTES = 8, UPDATE_BYTES = 20, SUM_BYTES = 16 };

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "passes: %s: %s\n", what, strerror(-rc));
    exit(1);
}

struct lane {
    uint32_t index;
    struct device *device;
    struct stream *compute, *communication;
    struct tower *tower;
    pthread_t thread;
};

static struct lane lanes[TOWERS];
static struct reduce *reduction;
static struct buckets buckets;
static pthread_barrier_t barrier;
static float *from, *to;
static size_t count;            /* floats of an arena */

/* ---- copies ---- */

static void *copy_half(void *arg)
{
    const size_t half = count / TOWERS, begin = *(const uint32_t *)arg * half;
    memcpy(to + begin, from + begin, half * sizeof(float));
    return NULL;
}

static double time_copy(uint32_t threads)
{
    static const uint32_t halves[TOWERS] = { 0, 1 };
    pthread_t other;
    const uint64_t begun_ns = clock_now_ns();
    if (threads == 1) {
        memcpy(to, from, count * sizeof(float));
    } else {
        must(pthread_create(&other, NULL, copy_half, (void *)(uintptr_t)&halves[1]), "a thread");
        copy_half((void *)(uintptr_t)&halves[0]);
        pthread_join(other, NULL);
    }
    return (double)(clock_now_ns() - begun_ns) * 1e-9;
}

/* ---- passes ---- */

static double time_update(uint64_t number)
{
    const struct optimizer_step step = { .number = number, .learning_rate = 1e-3f, .gradient_scale = 1 };
    const uint64_t begun_ns = clock_now_ns();
    must(tower_update(lanes[0].tower, 0, count, &step), "an update");
    return (double)(clock_now_ns() - begun_ns) * 1e-9;
}

static void reduce_once(const struct lane *lane, uint64_t batch)
{
    for (uint32_t b = 0; b < buckets.count; b++)
        must(reduction->ops->start(reduction, lane->index, b, batch), "a sum");
    for (uint32_t b = 0; b < buckets.count; b++)
        must(reduction->ops->wait(reduction, lane->index, b), "a sum");
    lane->device->ops->stream_drain(lane->compute);
}

static void join(const struct lane *lane)
{
    const struct reduce_region region = { tower_gradients(lane->tower), count };
    const struct reduce_member member = { .device = lane->device, .compute = lane->compute,
                                          .communication = lane->communication, .zeros = region,
                                          .regions = { [REGION_GRADIENTS] = region } };
    must(reduction->ops->join(reduction, lane->index, &member, &buckets), "joining");
}

static void *other_tower(void *arg)
{
    const struct lane *const lane = arg;
    join(lane);
    for (uint64_t batch = 0; batch < ROUNDS; batch++) {
        pthread_barrier_wait(&barrier);
        reduce_once(lane, batch);
    }
    return NULL;
}

static double time_reduction(uint64_t batch)
{
    pthread_barrier_wait(&barrier);
    const uint64_t begun_ns = clock_now_ns();
    reduce_once(&lanes[0], batch);
    return (double)(clock_now_ns() - begun_ns) * 1e-9;
}

/* ---- towers ---- */

/* One layer of side x side weights. */
static struct net *wide_net(uint32_t side)
{
    struct net *net;
    must(net_open(&net, "wide", (struct shape){ side, 1, 1 }, side), "a net");
    net_softmax_loss(net, "loss", (uint32_t)net_dense(net, "fc", NET_INPUT, side, true));
    must(net_finish(net), "a net");
    return net;
}

static void lane_open(struct lane *lane, const struct net *net)
{
    const struct device_ops *const ops = &device_host_ops;
    const struct device_spec spec = { .name = "device" };
    must(ops->open(&lane->device, &spec), "a device");
    must(ops->stream_open(lane->device, STREAM_COMPUTE, "compute", &lane->compute), "a stream");
    must(ops->stream_open(lane->device, STREAM_COMMUNICATION, "reduce", &lane->communication), "a stream");
    const struct tower_spec tower = {
        .index = lane->index, .net = net, .device = lane->device, .compute = lane->compute,
        .backend = backend_find("onednn"),
        .backend_spec = { .threads = 1, .local_max = 1 },
        .optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f }, .train_counts = { 1 },
    };
    must(tower_open(&lane->tower, &tower), "a tower");
    must(tower_allocate(lane->tower), "a tower's memory");
}

static void open_all(const struct net *net)
{
    const struct reduce_spec spec = { .towers = TOWERS };
    for (uint32_t i = 0; i < TOWERS; i++) {
        lanes[i].index = i;
        lane_open(&lanes[i], net);
    }
    const struct arena *const arena = tower_arena(lanes[0].tower);
    count = arena->updated;
    buckets_add(&buckets, REGION_GRADIENTS, arena, BUCKET_AUTO);
    must(reduce_host_ops.open(&reduction, &spec), "a reduction");
    from = calloc(count, sizeof(*from));
    to = calloc(count, sizeof(*to));
    must(from == NULL || to == NULL ? -12 : 0, "memory");
    memset(from, 1, count * sizeof(*from));
    must(pthread_barrier_init(&barrier, NULL, TOWERS), "a barrier");
    must(pthread_create(&lanes[1].thread, NULL, other_tower, &lanes[1]), "a thread");
    join(&lanes[0]);
}

/* ---- results ---- */

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_row(const char *pass, int bytes, double *seconds, double *copy_seconds)
{
    double share[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        share[i] = (bytes / seconds[i]) / (COPY_BYTES / copy_seconds[i]);
    qsort(seconds, ROUNDS, sizeof(*seconds), compare_doubles);
    qsort(copy_seconds, ROUNDS, sizeof(*copy_seconds), compare_doubles);
    qsort(share, ROUNDS, sizeof(*share), compare_doubles);
    const double floats = (double)count;
    printf("| %s | %.2f ms | %.1f GB/s | %.1f GB/s | %.3f (%.3f to %.3f) |\n", pass, 1e3 * seconds[ROUNDS / 2],
           1e-9 * floats * bytes / seconds[ROUNDS / 2], 1e-9 * floats * COPY_BYTES / copy_seconds[ROUNDS / 2],
           share[ROUNDS / 2], share[0], share[ROUNDS - 1]);
}

int main(int argc, char **argv)
{
    double update[ROUNDS], sum[ROUNDS], copy_by_one[ROUNDS], copy_by_two[ROUNDS];
    uint32_t side = 1;
    const double wanted = 1e6 * (argc > 1 ? strtod(argv[1], NULL) : 25);
    while ((double)side * side < wanted)
        side++;
    struct net *const net = wide_net(side);
    open_all(net);
    (void)time_copy(1), (void)time_update(0);           /* memory is there */
    for (uint64_t i = 0; i < ROUNDS; i++) {
        copy_by_one[i] = time_copy(1);
        update[i] = time_update(i);
        copy_by_two[i] = time_copy(2);
        sum[i] = time_reduction(i);
    }
    printf("%.1f million parameters, %.1f MB an arena, %u buckets, %d rounds\n\n", 1e-6 * (double)count,
           4e-6 * (double)count, buckets.count, ROUNDS);
    puts("| pass | time | of it | memcpy | share |\n|---|---|---|---|---|");
    print_row("update by momentum, 1 thread", UPDATE_BYTES, update, copy_by_one);
    print_row("sum over 2 towers, host", SUM_BYTES, sum, copy_by_two);
    pthread_join(lanes[1].thread, NULL);
    return 0;
}
