/* How fast a model evaluates on the CPU, images in memory.
 *
 *     inference MODEL [BATCH [THREADS [SECONDS [bf16]]]]
 *
 * One tower with an evaluation plan, its weights as they begin: passes over the same batch for so many
 * seconds. Prints a JSON line with the median pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/model.h"
#include "compute/tower.h"
#include "stage/clock.h"

enum { PASSES_MAX = 100000 };

struct bench {
    struct device *device;
    struct stream *compute;
    struct tower *tower;
    struct slot slot;
    uint32_t batch;
};

static int by_time(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static int open_tower(struct bench *bench, const struct net *net, uint32_t threads, enum precision precision)
{
    const struct tower_spec spec = {
        .net = net, .device = bench->device, .compute = bench->compute, .backend = backend_choose(NULL, "cpu"),
        .backend_spec = { .threads = threads, .local_max = bench->batch, .precision = precision }, .seed = 1,
        .optimizer = { .kind = OPTIMIZER_SGD }, .evaluate_counts = { bench->batch },
    };
    const int rc = tower_open(&bench->tower, &spec);
    return rc == 0 ? tower_allocate(bench->tower) : rc;
}

static int open_slot(struct bench *bench, const struct net *net)
{
    const size_t bytes = bench->batch * shape_count(net->input);
    bench->slot.pixels = malloc(bytes);
    bench->slot.labels = calloc(bench->batch, sizeof(*bench->slot.labels));
    bench->slot.local.count = bench->batch;
    if (bench->slot.pixels == NULL || bench->slot.labels == NULL)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        bench->slot.pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    return bench->device->ops->event_open(bench->device, EVENT_ORDER, &bench->slot.free);
}

static int open_all(struct bench *bench, const struct net *net, uint32_t threads, enum precision precision)
{
    const struct device_spec spec = { .name = "cpu0" };
    int rc = device_host_ops.open(&bench->device, &spec);
    if (rc == 0)
        rc = bench->device->ops->stream_open(bench->device, STREAM_COMPUTE, "compute", &bench->compute);
    if (rc == 0)
        rc = open_slot(bench, net);
    return rc == 0 ? open_tower(bench, net, threads, precision) : rc;
}

/* Milliseconds of the median pass, or 0 when one fails. */
static double run_passes(struct bench *bench, double seconds)
{
    static double passes_ms[PASSES_MAX];
    const uint64_t begin = clock_now_ns();
    size_t count = 0;
    for (int warm = 0; warm < 2; warm++)
        if (tower_forward(bench->tower, &bench->slot, 0, false) != 0)
            return 0;
    while (count < 5 || (count < PASSES_MAX && (double)(clock_now_ns() - begin) * 1e-9 < seconds)) {
        const uint64_t pass = clock_now_ns();
        if (tower_forward(bench->tower, &bench->slot, 0, false) != 0)
            return 0;
        bench->device->ops->stream_drain(bench->compute);
        passes_ms[count++] = (double)(clock_now_ns() - pass) * 1e-6;
    }
    qsort(passes_ms, count, sizeof(*passes_ms), by_time);
    return passes_ms[count / 2];
}

int main(int argc, char **argv)
{
    const struct model_options options = { .classes = 0 };
    struct bench bench = { .batch = argc > 2 ? (uint32_t)atoi(argv[2]) : 32 };
    const uint32_t threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
    const double seconds = argc > 4 ? atof(argv[4]) : 5;
    const bool is_bf16 = argc > 5 && strcmp(argv[5], "bf16") == 0;
    struct net *net;
    if (argc < 2 || bench.batch == 0 || threads == 0 || model_open(&net, argv[1], &options) != 0) {
        fprintf(stderr, "usage: inference MODEL [BATCH [THREADS [SECONDS [bf16]]]]\n");
        return 2;
    }
    if (open_all(&bench, net, threads, is_bf16 ? PRECISION_BF16 : PRECISION_FP32) != 0) {
        fprintf(stderr, "inference: %s could not be planned\n", argv[1]);
        return 4;
    }
    const double pass_ms = run_passes(&bench, seconds);
    if (pass_ms > 0)
        printf("{\"model\": \"%s\", \"batch\": %u, \"threads\": %u, \"precision\": \"%s\", \"step_ms\": %.3f, "
               "\"images_per_second\": %.1f}\n", argv[1], bench.batch, threads, is_bf16 ? "bf16" : "fp32", pass_ms,
               bench.batch / pass_ms * 1e3);
    tower_close(bench.tower);
    bench.device->ops->event_close(bench.slot.free);
    bench.device->ops->stream_close(bench.compute);
    bench.device->ops->close(bench.device);
    free(bench.slot.pixels);
    free(bench.slot.labels);
    net_close(net);
    return pass_ms > 0 ? 0 : 1;
}
