/* The yardstick of the CPU backend: what the bare oneDNN primitives of a model take.
 *
 *     primitives [MODEL [BATCH [THREADS [REPEATS [COLD]]]]]
 *
 * For every convolution, dense, max-pool and batch normalisation layer and every direction a training step needs, all
 * of oneDNN's implementations, those by Winograd's algorithm too, are tried in its own choice of layouts, in nhwc, nchw
 * and the blocked layouts, in turns, so that a slow moment of the machine meets all of them. Printed are the fastest of
 * each (median and least of the repeats) and their sum, with the share of batch normalisation: a training step of
 * these primitives cannot be faster. ReLU is fused into forward, and behind batch normalisation into backward, too;
 * dropout, loss, update and what joins branches are not counted. A layer as another one before it is measured once.
 *
 * Repeats find in the caches what fits there. With COLD, so many MiB of other memory, more than the caches hold, are
 * written before each: in a step that works through its values the truth is between the two. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/norm_list.h"
#include "compute/model.h"
#include "compute/onednn/onednn_api.h"
#include "compute/team.h"
#include "stage/clock.h"

#define CANDIDATES_MAX 64

static const int arg_kinds[] = {
    DNNL_ARG_SRC, DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_BIAS,
    DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD,
    DNNL_ARG_MEAN, DNNL_ARG_VARIANCE, DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_SHIFT,
};
enum { ARG_KINDS = sizeof(arg_kinds) / sizeof(arg_kinds[0]) };

struct candidate {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    int arg_count;
    dnnl_exec_arg_t args[ARG_KINDS];
    int kinds[ARG_KINDS];        /* index into arg_kinds */
    char layouts[128];
    double *times_ms;           /* one per repeat */
};

struct bench {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const struct net *net;
    dnnl_dim_t batch;
    int repeats;
    size_t bytes[ARG_KINDS];    /* largest need of the candidates of one direction */
    void *memory[ARG_KINDS];    /* shared by them: only one runs at a time */
    char *others;               /* memory that is written between the runs; NULL: none is */
    size_t others_bytes;
    struct taken *taken;        /* what layers have taken so far: 3 directions each */
    double sum_ms, least_sum_ms;
    double norm_ms;             /* of sum_ms, batch normalisation */
};

/* By the fastest primitive of one direction; 0: not measured. */
struct taken { double median_ms, least_ms; };

static const char *const direction_names[] = { "forward", "backward data", "backward weights" };

static int by_time(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void candidate_close(struct candidate *candidate)
{
    for (int i = 0; i < candidate->arg_count; i++)
        dnnl_memory_destroy(candidate->args[i].memory);
    if (candidate->primitive != NULL)
        dnnl_primitive_destroy(candidate->primitive);
    dnnl_primitive_desc_destroy(candidate->pd);
    free(candidate->times_ms);
}

static void layout_append(struct candidate *candidate, int arg, nn_md md)
{
    char layout[32];
    const size_t used = strlen(candidate->layouts);
    const bool is_named = arg == DNNL_ARG_SRC || arg == DNNL_ARG_DIFF_SRC || arg == DNNL_ARG_DST ||
                          arg == DNNL_ARG_DIFF_DST || arg == DNNL_ARG_WEIGHTS || arg == DNNL_ARG_DIFF_WEIGHTS;
    if (!is_named)
        return;
    nn_md_describe(md, layout, sizeof(layout));
    snprintf(candidate->layouts + used, sizeof(candidate->layouts) - used, " %s", layout);
}

static int argument_open(struct bench *bench, struct candidate *candidate, int kind)
{
    nn_md md = nn_md_of(candidate->pd, arg_kinds[kind]);
    const size_t bytes = md != NULL ? nn_md_bytes(md) : 0;
    int rc = md != NULL ? 0 : -ENOMEM;
    if (bytes > 0) {
        const int i = candidate->arg_count;
        candidate->args[i].arg = arg_kinds[kind];
        candidate->kinds[i] = kind;
        rc = nn_memory_create(&candidate->args[i].memory, md, bench->engine, DNNL_MEMORY_NONE);
        if (rc == 0)
            candidate->arg_count++;
        if (bytes > bench->bytes[kind])
            bench->bytes[kind] = bytes;
        layout_append(candidate, arg_kinds[kind], md);
    }
    nn_md_release(md);
    return rc;
}

/* Takes over pd. */
static int candidate_open(struct bench *bench, dnnl_primitive_desc_t pd, struct candidate *candidate)
{
    *candidate = (struct candidate){ .pd = pd, .times_ms = calloc((size_t)bench->repeats, sizeof(double)) };
    int rc = candidate->times_ms != NULL ? NN_CHECK(dnnl_primitive_create(&candidate->primitive, pd)) : -ENOMEM;
    for (int kind = 0; kind < ARG_KINDS && rc == 0; kind++)
        rc = argument_open(bench, candidate, kind);
    return rc;
}

static int memory_open(struct bench *bench)
{
    for (int kind = 0; kind < ARG_KINDS; kind++) {
        if (posix_memalign(&bench->memory[kind], 64, bench->bytes[kind] + 64))
            return -ENOMEM;
        memset(bench->memory[kind], 0, bench->bytes[kind]);
    }
    return 0;
}

static void memory_close(struct bench *bench)
{
    for (int kind = 0; kind < ARG_KINDS; kind++) {
        free(bench->memory[kind]);
        bench->memory[kind] = NULL;
        bench->bytes[kind] = 0;
    }
}

static int memory_attach(const struct bench *bench, const struct candidate *candidate)
{
    int rc = 0;
    for (int i = 0; i < candidate->arg_count && rc == 0; i++)
        rc = NN_CHECK(dnnl_memory_set_data_handle(candidate->args[i].memory, bench->memory[candidate->kinds[i]]));
    return rc;
}

static double candidate_run(const struct bench *bench, const struct candidate *candidate)
{
    if (bench->others != NULL)
        memset(bench->others, bench->others[0] + 1, bench->others_bytes);
    const uint64_t begin = clock_now_ns();
    dnnl_primitive_execute(candidate->primitive, bench->stream, candidate->arg_count, candidate->args);
    dnnl_stream_wait(bench->stream);
    return (double)(clock_now_ns() - begin) * 1e-6;
}

/* A way to try a convolution. */
struct way { dnnl_format_tag_t tag; bool winograd; };

/* The four descriptors of a layer's primitives with pixels in the layout `tag`; dense
 * layers get their weights as oneDNN wants or in the order of the source. */
struct shapes { nn_md src, weights, bias, dst; };

static int shapes_open(const struct layer *layer, dnnl_dim_t batch, dnnl_format_tag_t tag, bool plain_weights,
                       struct shapes *shapes)
{
    const bool is_conv = layer->kind == LAYER_CONV2D, is_dense = layer->kind == LAYER_DENSE;
    const dnnl_dim_t src[] = { batch, layer->in.channels, layer->in.height, layer->in.width };
    const dnnl_dim_t dst[] = { batch, layer->out.channels, layer->out.height, layer->out.width };
    const dnnl_dim_t weights[] = { layer->out.channels, layer->in.channels,
                                   is_conv ? layer->kernel_h : layer->in.height,
                                   is_conv ? layer->kernel_w : layer->in.width };
    const uint32_t groups = is_conv ? layer->groups : 1;
    const dnnl_dim_t grouped[] = { groups, layer->out.channels / groups, layer->in.channels / groups, layer->kernel_h,
                                   layer->kernel_w };
    const int rank = is_dense && layer->in.height * layer->in.width == 1 ? 2 : 4;
    const dnnl_format_tag_t src_tag = rank == 2 ? dnnl_ab : is_conv && layer->in.channels < 8 &&
                                      tag != dnnl_format_tag_any && tag != dnnl_nhwc ? dnnl_nchw : tag;
    *shapes = (struct shapes){
        .src = nn_md_tag(rank, src, src_tag, dnnl_f32),
        .weights = groups > 1 ? nn_md_any(5, grouped, dnnl_f32)
                              : nn_md_tag(rank, weights, plain_weights ? src_tag : dnnl_format_tag_any, dnnl_f32),
        .bias = layer_has(layer, PARAMETER_BIAS) ? nn_md_any(1, dst + 1, dnnl_f32) : NULL,
        .dst = is_dense ? nn_md_any(2, dst, dnnl_f32) : nn_md_tag(4, dst, tag, dnnl_f32),
    };
    return shapes->src != NULL && shapes->weights != NULL && shapes->dst != NULL ? 0 : -ENOTSUP;
}

static void shapes_close(struct shapes *shapes)
{
    nn_md_release(shapes->src);
    nn_md_release(shapes->weights);
    nn_md_release(shapes->bias);
    nn_md_release(shapes->dst);
}

/* Layers lie behind their inputs, a ReLU right behind what it is applied to. */
static bool has_relu(const struct bench *bench, const struct layer *layer)
{
    const struct net *const net = bench->net;
    const uint32_t next = (uint32_t)(layer - net->layers) + 1;
    return next < net->layer_count && net->layers[next].kind == LAYER_RELU && net->layers[next].inputs[0] == next - 1;
}

static void op_init(struct nn_op *op, const struct bench *bench, const struct layer *layer,
                    const struct shapes *shapes, bool winograd, enum nn_direction direction)
{
    static const enum nn_kind kinds[] = {
        [LAYER_CONV2D] = NN_CONVOLUTION, [LAYER_DENSE] = NN_INNER_PRODUCT, [LAYER_MAX_POOL] = NN_MAX_POOL,
    };
    *op = (struct nn_op){
        .kind = kinds[layer->kind], .direction = direction, .winograd = winograd, .training = true,
        .relu = direction == NN_FORWARD && has_relu(bench, layer),
        .src = shapes->src, .weights = shapes->weights, .bias = shapes->bias, .dst = shapes->dst,
        .strides = { layer->stride_h, layer->stride_w }, .kernel = { layer->kernel_h, layer->kernel_w },
        .pad_before = { layer->pad_top, layer->pad_left }, .pad_after = { layer->pad_bottom, layer->pad_right },
    };
}

static int list(const struct bench *bench, const struct layer *layer, const struct shapes *shapes, bool winograd,
                enum nn_direction direction, const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *pds_out)
{
    struct nn_op op;
    if (layer->kind == LAYER_BATCH_NORM)
        return norm_list(bench->engine, shapes->dst, has_relu(bench, layer), direction == NN_FORWARD ? NULL : forward,
                         pds_out);
    op_init(&op, bench, layer, shapes, winograd, direction);
    return nn_op_list(&op, bench->engine, forward, pds_out);
}

/* Append all implementations but the "ref" ones for these layouts. */
static int candidates_add(struct bench *bench, const struct layer *layer, const struct shapes *shapes, bool winograd,
                          enum nn_direction direction, struct candidate *candidates, int *count)
{
    dnnl_primitive_desc_t forward[NN_IMPLEMENTATIONS_MAX], pds[NN_IMPLEMENTATIONS_MAX];
    const int forward_count = list(bench, layer, shapes, winograd, NN_FORWARD, NULL, forward);
    const int pd_count = forward_count > 0 ? list(bench, layer, shapes, winograd, direction, forward[0], pds) : 0;
    int rc = 0;
    for (int i = 0; i < pd_count; i++)
        if (rc || nn_pd_is_ref(pds[i]) || *count == CANDIDATES_MAX)
            dnnl_primitive_desc_destroy(pds[i]);
        else
            rc = candidate_open(bench, pds[i], &candidates[(*count)++]);
    for (int i = 0; i < forward_count; i++)
        dnnl_primitive_desc_destroy(forward[i]);
    return rc;
}

static int candidates_open(struct bench *bench, const struct layer *layer, enum nn_direction direction,
                           struct candidate *candidates, int *count)
{
    static const struct way ways[] = {
        { dnnl_format_tag_any, false }, { dnnl_nhwc, false }, { dnnl_nchw, false }, { dnnl_nChw8c, false },
        { dnnl_nChw16c, false }, { dnnl_nChw16c, true },
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && rc == 0; i++)
        for (int plain = 0; plain <= (layer->kind == LAYER_DENSE) && rc == 0; plain++) {
            struct shapes shapes;
            if (ways[i].winograd && layer->kind != LAYER_CONV2D)
                continue;
            if (shapes_open(layer, bench->batch, ways[i].tag, plain, &shapes) == 0)
                rc = candidates_add(bench, layer, &shapes, ways[i].winograd, direction, candidates, count);
            shapes_close(&shapes);
        }
    if (rc == 0)
        rc = memory_open(bench);
    for (int i = 0; i < *count && rc == 0; i++)
        rc = memory_attach(bench, &candidates[i]);
    return rc;
}

static const struct candidate *candidates_race(const struct bench *bench, struct candidate *candidates, int count)
{
    const struct candidate *best = NULL;
    for (int i = 0; i < count; i++)
        candidate_run(bench, &candidates[i]);
    for (int r = 0; r < bench->repeats; r++)
        for (int i = 0; i < count; i++)
            candidates[i].times_ms[r] = candidate_run(bench, &candidates[i]);
    for (int i = 0; i < count; i++) {
        qsort(candidates[i].times_ms, (size_t)bench->repeats, sizeof(double), by_time);
        if (best == NULL || candidates[i].times_ms[bench->repeats / 2] < best->times_ms[bench->repeats / 2])
            best = &candidates[i];
    }
    return best;
}

static bool are_alike(const struct bench *bench, const struct layer *a, const struct layer *b)
{
    return a->kind == b->kind && memcmp(&a->in, &b->in, sizeof(a->in)) == 0 &&
           memcmp(&a->out, &b->out, sizeof(a->out)) == 0 && a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w &&
           a->groups == b->groups && a->stride_h == b->stride_h && a->stride_w == b->stride_w &&
           a->pad_top == b->pad_top &&
           a->pad_bottom == b->pad_bottom && a->pad_left == b->pad_left && a->pad_right == b->pad_right &&
           layer_has(a, PARAMETER_BIAS) == layer_has(b, PARAMETER_BIAS) && has_relu(bench, a) == has_relu(bench, b);
}

/* Of a layer before this one that is as it is, measured in that direction; or NULL. */
static const struct taken *taken_before(const struct bench *bench, const struct layer *layer,
                                        enum nn_direction direction)
{
    for (const struct layer *before = bench->net->layers; before < layer; before++) {
        const struct taken *const taken = &bench->taken[(before - bench->net->layers) * 3 + direction];
        if (taken->median_ms > 0 && are_alike(bench, before, layer))
            return taken;
    }
    return NULL;
}

static void taken_add(struct bench *bench, const struct layer *layer, enum nn_direction direction, struct taken taken)
{
    bench->taken[(layer - bench->net->layers) * 3 + direction] = taken;
    bench->sum_ms += taken.median_ms;
    bench->least_sum_ms += taken.least_ms;
    if (layer->kind == LAYER_BATCH_NORM)
        bench->norm_ms += taken.median_ms;
}

static int direction_run(struct bench *bench, const struct layer *layer, enum nn_direction direction)
{
    struct candidate candidates[CANDIDATES_MAX];
    int count = 0;
    const struct taken *const before = taken_before(bench, layer, direction);
    if (before != NULL) {
        taken_add(bench, layer, direction, *before);
        return 0;
    }
    const int rc = candidates_open(bench, layer, direction, candidates, &count);
    const struct candidate *best = rc ? NULL : candidates_race(bench, candidates, count);
    if (best != NULL) {
        const struct taken taken = { best->times_ms[bench->repeats / 2], best->times_ms[0] };
        printf("%-10s %-17s %9.3f ms  (least %9.3f, of %2d)  %s%s\n", layer->name, direction_names[direction],
               taken.median_ms, taken.least_ms, count, nn_pd_name(best->pd), best->layouts);
        taken_add(bench, layer, direction, taken);
    }
    for (int i = 0; i < count; i++)
        candidate_close(&candidates[i]);
    memory_close(bench);
    return rc;
}

static int layers_run(struct bench *bench)
{
    const struct net *const net = bench->net;
    bool is_first = true;
    int rc = 0;
    for (uint32_t i = 0; i < net->layer_count && rc == 0; i++) {
        const struct layer *layer = &net->layers[i];
        const bool has_weights = layer->parameters[PARAMETER_WEIGHT] != NET_NO_PARAMETER;
        if (!has_weights && layer->kind != LAYER_MAX_POOL && layer->kind != LAYER_BATCH_NORM)
            continue;
        rc = direction_run(bench, layer, NN_FORWARD);
        if (rc == 0 && !is_first)
            rc = direction_run(bench, layer, NN_BACKWARD_DATA);
        if (rc == 0 && has_weights)
            rc = direction_run(bench, layer, NN_BACKWARD_WEIGHTS);
        is_first = is_first && !has_weights;
    }
    return rc;
}

static long number(int argc, char **argv, int i, long otherwise)
{
    return argc > i && atol(argv[i]) > 0 ? atol(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : "mnist_cnn";
    const struct model_options options = { .classes = 0, .dropout = false };
    const uint32_t threads = (uint32_t)number(argc, argv, 3, 1);
    struct bench bench = { .batch = number(argc, argv, 2, 128), .repeats = (int)number(argc, argv, 4, 15) };
    struct net *net = NULL;
    bench.others_bytes = (size_t)number(argc, argv, 5, 0) << 20;
    if (model_open(&net, model, &options)) {
        fprintf(stderr, "primitives: no model '%s'\n", model);
        return 2;
    }
    team_size(threads);
    int rc = NN_CHECK(dnnl_engine_create(&bench.engine, dnnl_cpu, 0));
    if (rc == 0)
        rc = NN_CHECK(dnnl_stream_create(&bench.stream, bench.engine, dnnl_stream_default_flags));
    if (rc == 0) {
        const dnnl_version_t *version = dnnl_version();
        printf("oneDNN %d.%d.%d, %s, batch %ld, %u threads, median of %d\n", version->major, version->minor,
               version->patch, model, (long)bench.batch, threads, bench.repeats);
        bench.net = net;
        bench.taken = calloc((size_t)net->layer_count * 3, sizeof(*bench.taken));
        bench.others = bench.others_bytes > 0 ? calloc(1, bench.others_bytes) : NULL;
        const bool is_made = bench.taken != NULL && (bench.others != NULL || bench.others_bytes == 0);
        rc = is_made ? layers_run(&bench) : -ENOMEM;
        free(bench.others);
        free(bench.taken);
    }
    if (rc == 0)
        printf("sum %.3f ms (%.0f images/s), least %.3f ms (%.0f images/s), batch normalisation %.3f ms of it\n",
               bench.sum_ms, (double)bench.batch / bench.sum_ms * 1e3, bench.least_sum_ms,
               (double)bench.batch / bench.least_sum_ms * 1e3, bench.norm_ms);
    if (bench.stream != NULL)
        dnnl_stream_destroy(bench.stream);
    if (bench.engine != NULL)
        dnnl_engine_destroy(bench.engine);
    net_close(net);
    return rc ? 1 : 0;
}
