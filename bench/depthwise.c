/* The loop for weight gradients of depthwise convolutions beside oneDNN's forward: one thread, 4 images, fp32.
 *
 *     depthwise [REPEATS [LAYER...]]
 *
 * For layers of the networks of today, in blocked layouts and in nhwc, the median CPU time of the thread, as a JSON
 * line each. LAYER (CHANNELS,SIZE,WINDOW,STRIDE) measures another one. bench/depthwise.py makes the table of
 * RESULTS.md of it, beside PyTorch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute/onednn/onednn_depthwise.h"

enum { IMAGES = 4, REPEATS_MAX = 1000 };

struct shape_row { uint32_t channels, size, window, stride; };

static const struct shape_row shape_rows[] = {
    { 16, 112, 3, 1 }, { 64, 112, 3, 2 }, { 72, 56, 5, 2 }, { 120, 28, 5, 1 }, { 480, 14, 3, 1 }, { 960, 7, 5, 1 },
    { 144, 56, 3, 1 }, { 240, 28, 5, 1 }, { 672, 14, 5, 1 }, { 1152, 7, 5, 1 }, { 96, 56, 7, 1 }, { 192, 28, 7, 1 },
    { 384, 14, 7, 1 }, { 768, 7, 7, 1 },
};

/* A layer in a layout, with the memory of its operands. */
struct measured {
    struct layer layer;
    struct tensor_layout in, out;
    struct weighted_mds mds;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t forward;
    int arg_count;
    dnnl_exec_arg_t args[4];
    struct depthwise *depthwise;
    struct depthwise_operands operands;
};

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int by_time(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void describe_layer(struct measured *of, const struct shape_row *row, bool is_nhwc)
{
    const uint32_t pad = row->window / 2, out = (row->size + 2 * pad - row->window) / row->stride + 1;
    const uint32_t block = is_nhwc ? row->channels : vector_is_wide() ? LANES_WIDE : LANES;
    struct layer *const layer = &of->layer;
    *layer = (struct layer){
        .kind = LAYER_CONV2D, .groups = row->channels, .kernel_h = row->window, .kernel_w = row->window,
        .stride_h = row->stride, .stride_w = row->stride, .pad_top = pad, .pad_left = pad,
        .pad_bottom = (out - 1) * row->stride + row->window - row->size - pad,
        .pad_right = (out - 1) * row->stride + row->window - row->size - pad,
        .in = { row->channels, row->size, row->size }, .out = { row->channels, out, out },
    };
    for (int i = 0; i < PARAMETER_KIND_COUNT; i++)
        layer->parameters[i] = NET_NO_PARAMETER;
    of->in = (struct tensor_layout){ VALUE_FP32, layer->in, block, is_nhwc, 0 };
    of->out = (struct tensor_layout){ VALUE_FP32, layer->out, block, is_nhwc, 0 };
}

static float *draw_numbers(size_t count)
{
    float *const numbers = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; numbers != NULL && i < count; i++)
        numbers[i] = (float)(i * 2654435761u % 2001) * 1e-3f - 1.0f;
    return numbers;
}

static int add_arg(struct measured *of, int arg, float *data)
{
    nn_md md = nn_md_of(of->pd, arg);
    if (data == NULL && nn_md_bytes(md) > 0)
        data = draw_numbers(nn_md_bytes(md) / sizeof(float) + 1);
    dnnl_exec_arg_t *const made = &of->args[of->arg_count++];
    made->arg = arg;
    const int rc = nn_memory_create(&made->memory, md, of->engine, data);
    nn_md_release(md);
    return rc;
}

static int open_forward(struct measured *of, float *values, float *results)
{
    struct nn_op op;
    int rc = conv_mds_open(&of->mds, &of->layer, &of->in, &of->out, IMAGES, VALUE_FP32);
    if (rc != 0)
        return rc;
    weighted_op(&op, &of->layer, &of->mds, (struct weighted_options){ .direction = NN_FORWARD, .training = true });
    if (pd_find(of->engine, &op, NULL, &of->pd) == PD_NONE)
        return -1;
    rc = nn_primitive_create(&of->forward, of->pd);
    if (rc == 0)
        rc = add_arg(of, DNNL_ARG_SRC, values);
    if (rc == 0)
        rc = add_arg(of, DNNL_ARG_WEIGHTS, NULL);
    if (rc == 0)
        rc = add_arg(of, DNNL_ARG_DST, results);
    return rc == 0 ? add_arg(of, DNNL_ARG_SCRATCHPAD, NULL) : rc;
}

static int open_gradient(struct measured *of, const float *values, const float *gradients)
{
    nn_md weights = nn_md_of(of->pd, DNNL_ARG_WEIGHTS);
    const int rc = depthwise_open(&of->layer, &of->in, &of->out, IMAGES, weights, &of->depthwise);
    if (rc == 0)
        of->operands = (struct depthwise_operands){
            .values = values, .gradients = gradients, .count = IMAGES,
            .scratch = draw_numbers(depthwise_scratch_bytes(of->depthwise, 1) / sizeof(float)),
            .sums = draw_numbers(depthwise_sum_bytes(of->depthwise) / sizeof(float)),
            .weights = draw_numbers(nn_md_bytes(weights) / sizeof(float)),
        };
    nn_md_release(weights);
    return rc;
}

/* The median of the repeats, each after one of the other kind, whose operands it finds in the caches where they fit. */
static void race(struct measured *of, int repeats, double *gradient_ms_out, double *forward_ms_out)
{
    static double gradient_ms[REPEATS_MAX], forward_ms[REPEATS_MAX];
    for (int i = -1; i < repeats; i++) {
        const double begin = cpu_ms();
        dnnl_primitive_execute(of->forward, of->stream, of->arg_count, of->args);
        dnnl_stream_wait(of->stream);
        const double middle = cpu_ms();
        depthwise_compute(of->depthwise, &of->operands, 1);
        const double end = cpu_ms();
        if (i < 0)
            continue;
        forward_ms[i] = middle - begin;
        gradient_ms[i] = end - middle;
    }
    qsort(gradient_ms, (size_t)repeats, sizeof(double), by_time);
    qsort(forward_ms, (size_t)repeats, sizeof(double), by_time);
    *gradient_ms_out = gradient_ms[repeats / 2];
    *forward_ms_out = forward_ms[repeats / 2];
}

/* What is allocated here ends with the program. */
static int measure(dnnl_engine_t engine, dnnl_stream_t stream, const struct shape_row *row, bool is_nhwc, int repeats)
{
    struct measured of = { .engine = engine, .stream = stream };
    char layout[32] = "nhwc";
    double gradient_ms, forward_ms;
    describe_layer(&of, row, is_nhwc);
    float *const values = draw_numbers(IMAGES * tensor_count(&of.in));
    float *const results = draw_numbers(IMAGES * tensor_count(&of.out));
    if (values == NULL || results == NULL || open_forward(&of, values, results) != 0 ||
        open_gradient(&of, values, results) != 0)
        return -1;
    race(&of, repeats, &gradient_ms, &forward_ms);
    if (!is_nhwc)
        snprintf(layout, sizeof(layout), "blocks of %u", of.in.block);
    printf("{\"channels\": %u, \"size\": %u, \"window\": %u, \"stride\": %u, \"layout\": \"%s\", "
           "\"gradient_ms\": %.4f, \"forward_ms\": %.4f, \"forward\": \"%s\"}\n", row->channels, row->size, row->window,
           row->stride, layout, gradient_ms, forward_ms, nn_pd_name(of.pd));
    free(values);
    free(results);
    return 0;
}

static int measure_layer(dnnl_engine_t engine, dnnl_stream_t stream, const struct shape_row *row, int repeats)
{
    for (int nhwc = 0; nhwc <= 1; nhwc++)
        if (measure(engine, stream, row, nhwc == 1, repeats) != 0) {
            fprintf(stderr, "depthwise: C%u %u k%u s%u could not be measured\n", row->channels, row->size, row->window,
                    row->stride);
            return 4;
        }
    return 0;
}

int main(int argc, char **argv)
{
    const int repeats = argc > 1 ? atoi(argv[1]) : 9;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    if (repeats < 1 || repeats > REPEATS_MAX) {
        fprintf(stderr, "usage: depthwise [REPEATS (1 to %d) [CHANNELS,SIZE,WINDOW,STRIDE]...]\n", REPEATS_MAX);
        return 2;
    }
    team_size(1);
    if (NN_CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0)) ||
        NN_CHECK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags)))
        return 4;
    int rc = 0;
    for (size_t i = 0; argc <= 2 && i < sizeof(shape_rows) / sizeof(shape_rows[0]) && rc == 0; i++)
        rc = measure_layer(engine, stream, &shape_rows[i], repeats);
    for (int i = 2; i < argc && rc == 0; i++) {
        struct shape_row row;
        if (sscanf(argv[i], "%u,%u,%u,%u", &row.channels, &row.size, &row.window, &row.stride) != 4 ||
            row.channels == 0 || row.window == 0 || row.stride == 0 || row.size < row.window) {
            fprintf(stderr, "depthwise: %s is no CHANNELS,SIZE,WINDOW,STRIDE\n", argv[i]);
            return 2;
        }
        rc = measure_layer(engine, stream, &row, repeats);
    }
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    return rc;
}
