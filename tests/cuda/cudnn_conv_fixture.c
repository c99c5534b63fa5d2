/* Fixture for tests of convolutions on the simulated cuDNN. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudnn_conv_fixture.h"
#include "tests/helpers/test.h"
#include "tests/sim/sim_values.h"

int conv_bench_open(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    assert_non_null(bench);
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaStreamCreateWithPriority(&bench->stream, cudaStreamNonBlocking, 0));
    assert_int_equal(cudnnCreate(&bench->handle), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetStream(bench->handle, bench->stream), CUDNN_STATUS_SUCCESS);
    for (int i = 0; i < TENSORS; i++)
        assert_cuda(cudaMalloc((void **)&bench->memory[i], MEMORY));
    assert_cuda(cudaMalloc((void **)&bench->workspace, WORKSPACE_MAX));
    assert_cuda(cudaMalloc((void **)&bench->scratch, TENSORS * MEMORY));
    bench->planner = (struct conv_planner){
        .name = "cuda0", .handle = bench->handle, .workspace_max = WORKSPACE_MAX, .stream = bench->stream,
    };
    *state = bench;
    return fixture_folder_make(state);
}

int conv_bench_close(void **state)
{
    struct bench *bench = *state;
    sim_fail_clear();
    sim_cudnn_refuse(0);
    fixture_folder_clear(folder);
    assert_cuda(cudaStreamSynchronize(bench->stream));
    for (int i = 0; i < TENSORS; i++)
        assert_cuda(cudaFree(bench->memory[i]));
    assert_cuda(cudaFree(bench->workspace));
    assert_cuda(cudaFree(bench->scratch));
    assert_int_equal(cudnnDestroy(bench->handle), CUDNN_STATUS_SUCCESS);
    assert_cuda(cudaStreamDestroy(bench->stream));
    free(bench);
    assert_int_equal(sim_cudnn_live(), 0);
    return 0;
}

/* ---- shapes and values ---- */

static uint32_t random_below(uint32_t bound)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % bound;
}

struct conv_shape random_shape(enum product_pass pass, enum precision precision)
{
    struct conv_shape shape = {
        .pass = pass,
        .precision = precision,
        .count = 1 + random_below(3),
        .in_channels = 8 * (1 + random_below(2)),
        .out_channels = 8 * (1 + random_below(3)),
        .in_h = 4 + random_below(5),
        .in_w = 4 + random_below(5),
        .kernel_h = 1 + random_below(4),
        .kernel_w = 1 + random_below(4),
        .stride_h = 1 + random_below(3),
        .stride_w = 1 + random_below(3),
        .groups = UINT32_C(1) << random_below(4),
    };
    shape.pad_top = random_below(shape.kernel_h);
    shape.pad_bottom = random_below(shape.kernel_h);
    shape.pad_left = random_below(shape.kernel_w);
    shape.pad_right = random_below(shape.kernel_w);
    shape.out_h = (shape.in_h + shape.pad_top + shape.pad_bottom - shape.kernel_h) / shape.stride_h + 1;
    shape.out_w = (shape.in_w + shape.pad_left + shape.pad_right - shape.kernel_w) / shape.stride_w + 1;
    if (pass == FPROP)
        shape.bias = random_below(2);
    shape.relu = pass == FPROP && random_below(2);
    return shape;
}

struct conv_shape fused_shape(enum precision precision)
{
    struct conv_shape shape = random_shape(FPROP, precision);
    shape.bias = shape.relu = true;
    return shape;
}

struct conv_shape after_shape(enum precision precision, enum conv_after after)
{
    struct conv_shape shape = random_shape(DGRAD, precision);
    shape.after = after;
    return shape;
}

struct conv_shape before_shape(enum product_pass pass, enum precision precision)
{
    struct conv_shape shape = random_shape(pass, precision);
    shape.before = CONV_BEFORE_SCALE_RELU;
    shape.pad_bottom = shape.pad_top;
    shape.pad_right = shape.pad_left;
    shape.out_h = (shape.in_h + 2 * shape.pad_top - shape.kernel_h) / shape.stride_h + 1;
    shape.out_w = (shape.in_w + 2 * shape.pad_left - shape.kernel_w) / shape.stride_w + 1;
    return shape;
}

struct conv_shape statistics_shape(enum precision precision)
{
    struct conv_shape shape = random_shape(FPROP, precision);
    shape.bias = shape.relu = false;
    shape.after = CONV_AFTER_STATISTICS;
    return shape;
}

cudaDataType_t value_type(const struct conv_shape *shape)
{
    static const cudaDataType_t types[VALUE_TYPE_COUNT] = { CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF };
    return types[precision_type(shape->precision)];
}

size_t conv_count_of(const struct conv_shape *shape, int tensor)
{
    const size_t counts[TENSORS] = {
        [IN] = (size_t)shape->count * shape->in_h * shape->in_w * shape->in_channels,
        [WEIGHT] = (size_t)shape->out_channels * shape->kernel_h * shape->kernel_w *
                   (shape->in_channels / shape->groups),
        [BIAS] = shape->out_channels,
        [OUT] = (size_t)shape->count * shape->out_h * shape->out_w * shape->out_channels,
        [SCALE] = shape->in_channels,
        [SHIFT] = shape->in_channels,
        [STATISTICS] = 2 * shape->in_channels,
        [GAMMA] = shape->in_channels,
        [BETA] = shape->in_channels,
        [SUMS] = shape->after == CONV_AFTER_NORM ? CONV_NORM_SUMS * shape->in_channels : 2 * shape->out_channels,
    };
    return tensor == ADDEND || tensor == RELU_OUT || tensor == VALUES ? counts[result_of(shape)] : counts[tensor];
}

static cudaDataType_t tensor_type(const struct conv_shape *shape, int tensor)
{
    return tensor >= STATISTICS ? CUDA_R_32F : value_type(shape);
}

size_t bytes_of(const struct conv_shape *shape, int tensor)
{
    return conv_count_of(shape, tensor) * sim_value_bytes(tensor_type(shape, tensor));
}

int result_of(const struct conv_shape *shape)
{
    return shape->pass == FPROP ? OUT : shape->pass == DGRAD ? IN : WEIGHT;
}

void conv_fill(struct bench *bench, const struct conv_shape *shape, bool fine)
{
    for (int tensor = 0; tensor < TENSORS; tensor++)
        for (size_t i = 0; i < conv_count_of(shape, tensor); i++) {
            const float size = 1 + (float)random_below(8) / 8 + (fine ? 0x1p-12f : 0);
            const bool is_positive = random_below(2) == 1 || (tensor == STATISTICS && i >= shape->in_channels);
            sim_value_write(tensor_type(shape, tensor), bench->memory[tensor], i, is_positive ? size : -size);
        }
}

double conv_value(const struct bench *bench, const struct conv_shape *shape, int tensor, size_t i, bool tf32)
{
    const float number = sim_value_read(tensor_type(shape, tensor), bench->memory[tensor], i);
    return tf32 ? sim_tf32_round(number) : number;
}

static float rounded(const struct conv_shape *shape, double number)
{
    float room;
    sim_value_write(value_type(shape), &room, 0, (float)number);
    return sim_value_read(value_type(shape), &room, 0);
}

/* A factor of the products, after what the shape computes before them, which is rounded at every step. */
static double factor_of(const struct bench *bench, const struct conv_shape *shape, int tensor, size_t i, bool tf32)
{
    const double number = conv_value(bench, shape, tensor, i, tf32);
    if (tensor != IN || shape->before == CONV_BEFORE_NOTHING)
        return number;
    const size_t channel = i % shape->in_channels;
    const double scaled = rounded(shape, number * conv_value(bench, shape, SCALE, channel, false));
    const double line = rounded(shape, scaled + conv_value(bench, shape, SHIFT, channel, false));
    return line > 0 ? line : 0;
}

/* One product for every output element, tap and input channel of its group. */
static double *sums_of(const struct bench *bench, const struct conv_shape *shape, bool tf32)
{
    const struct conv_shape *s = shape;
    const size_t channels = s->in_channels / s->groups, taps = s->kernel_h * s->kernel_w * channels;
    const int result = result_of(shape);
    double *sums = calloc(conv_count_of(shape, result), sizeof(*sums));
    assert_non_null(sums);
    for (size_t out = 0; out < conv_count_of(shape, OUT); out++) {
        const size_t k = out % s->out_channels, pixel = out / s->out_channels;
        const size_t q = pixel % s->out_w, p = pixel / s->out_w % s->out_h, n = pixel / s->out_w / s->out_h;
        for (size_t tap = 0; tap < taps; tap++) {
            const size_t c = k / (s->out_channels / s->groups) * channels + tap % channels;
            const size_t x = q * s->stride_w + tap / channels % s->kernel_w - s->pad_left;
            const size_t y = p * s->stride_h + tap / channels / s->kernel_w - s->pad_top;
            if (x >= s->in_w || y >= s->in_h)           /* above or left wraps around */
                continue;
            const size_t at[TENSORS] = {
                [IN] = ((n * s->in_h + y) * s->in_w + x) * s->in_channels + c,
                [WEIGHT] = k * taps + tap,
                [OUT] = out,
            };
            double product = 1;
            for (int tensor = 0; tensor < TENSORS; tensor++)
                if (tensor != result && (tensor == IN || tensor == WEIGHT || tensor == OUT))
                    product *= factor_of(bench, shape, tensor, at[tensor], tf32);
            sums[at[result]] += product;
        }
    }
    return sums;
}

/* Is the ReLU after the normalisation closed? */
static bool is_closed(const struct bench *bench, const struct conv_shape *shape, size_t i)
{
    const size_t channels = shape->in_channels, channel = i % channels;
    const double distance = conv_value(bench, shape, VALUES, i, false) -
                            conv_value(bench, shape, STATISTICS, channel, false);
    return distance * conv_value(bench, shape, STATISTICS, channels + channel, false) *
           conv_value(bench, shape, GAMMA, channel, false) + conv_value(bench, shape, BETA, channel, false) <= 0;
}

float *conv_expected(const struct bench *bench, const struct conv_shape *shape, bool tf32, bool apart)
{
    double *sums = sums_of(bench, shape, tf32);
    const size_t count = conv_count_of(shape, result_of(shape));
    float *results = malloc(count * sizeof(*results));
    assert_non_null(results);
    for (size_t i = 0; i < count; i++) {
        double sum = apart ? rounded(shape, sums[i]) : sums[i];
        if (shape->bias)
            sum += conv_value(bench, shape, BIAS, i % shape->out_channels, false);
        if (conv_adds(shape->after))
            sum += conv_value(bench, shape, ADDEND, i, false);
        const bool is_masked = conv_masks(shape->after)          ? conv_value(bench, shape, RELU_OUT, i, false) <= 0
                               : shape->after == CONV_AFTER_NORM ? !apart && is_closed(bench, shape, i)
                                                                 : false;
        results[i] = rounded(shape, (shape->relu && sum < 0) || is_masked ? 0 : sum);
    }
    free(sums);
    return results;
}

size_t conv_wrong(const struct bench *bench, const struct conv_shape *shape, const float *results)
{
    size_t count = 0;
    for (size_t i = 0; i < conv_count_of(shape, result_of(shape)); i++)
        count += sim_value_read(value_type(shape), bench->memory[result_of(shape)], i) != results[i];
    return count;
}

/* ---- runs ---- */

int conv_run(const struct bench *bench, struct conv_plan *plan, const struct conv_shape *shape)
{
    unsigned char *const *memory = bench->memory;
    struct conv_operands operands = {
        .in = memory[IN], .weight = memory[WEIGHT], .out = memory[OUT], .workspace = bench->workspace,
        .bias = shape->bias ? memory[BIAS] : NULL,
        .addend = conv_adds(shape->after) ? memory[ADDEND] : NULL,
        .relu_out = conv_masks(shape->after) ? memory[RELU_OUT] : NULL,
    };
    if (shape->after == CONV_AFTER_STATISTICS)
        operands.sums = (float *)(void *)memory[SUMS];
    if (shape->after == CONV_AFTER_NORM) {
        operands.values = memory[VALUES];
        operands.statistics = (const float *)(const void *)memory[STATISTICS];
        operands.gamma = (const float *)(const void *)memory[GAMMA];
        operands.beta = (const float *)(const void *)memory[BETA];
        operands.sums = (float *)(void *)memory[SUMS];
    }
    if (shape->before == CONV_BEFORE_SCALE_RELU) {
        operands.scale = memory[SCALE];
        operands.shift = memory[SHIFT];
    }
    return conv_plan_run(plan, bench->handle, &operands);
}

int open_and_run(const struct bench *bench, const struct conv_planner *planner, const struct conv_shape *shape,
                 char *description)
{
    struct conv_plan *plan = NULL;
    int rc = conv_plan_open(&plan, planner, shape, true);
    assert_true((rc == 0) == (plan != NULL));
    if (rc < 0)
        return rc;
    assert_true(conv_plan_workspace(plan) <= planner->workspace_max);
    conv_plan_describe(plan, description, DESCRIPTION);
    memset(bench->memory[result_of(shape)], 0xff, bytes_of(shape, result_of(shape)));
    rc = conv_run(bench, plan, shape);
    conv_plan_close(plan);
    assert_cuda(cudaStreamSynchronize(bench->stream));
    return rc;
}

void assert_computes(struct bench *bench, const struct conv_planner *planner, const struct conv_shape *shape,
                     bool apart, char *description)
{
    conv_fill(bench, shape, false);
    float *results = conv_expected(bench, shape, false, apart);
    assert_int_equal(open_and_run(bench, planner, shape, description), 0);
    assert_int_equal(conv_wrong(bench, shape, results), 0);
    free(results);
}

struct conv_planner timing_planner(const struct bench *bench)
{
    struct conv_planner planner = bench->planner;
    planner.scratch = bench->scratch;
    planner.workspace = bench->workspace;
    return planner;
}
