/* Tests of the kernels of residual branches, with every type of values, against loops in double: layer normalisation,
 * and a factor per channel with stochastic depth and an addition. */
#include <math.h>
#include <string.h>

#include "compute/cuda/cuda_plan.h"
#include "compute/cuda/kernels.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

#define EPSILON 1e-3f

/* Pixels of a sample, samples, channels. */
struct residual_case { uint32_t pixels, samples, channels; };

static const struct residual_case cases[] = {
    { 1, 1, 1 }, { 1, 3, 8 }, { 5, 3, 7 }, { 6, 5, 24 }, { 49, 4, 96 }, { 1, 33, 130 }, { 9, 7, 256 }, { 4, 2, 768 },
    { 3, 2, 1000 }, { 2500, 3, 17 },
};

/* Relative error of a result rounded once. */
static const double steps[VALUE_TYPE_COUNT] = { [VALUE_FP32] = 4e-6, [VALUE_FP16] = 1e-3, [VALUE_BF16] = 8e-3 };

/* ---- data ---- */

struct numbers {
    struct residual_case shape;
    enum value_type type;
    uint32_t stored;
    size_t rows, count;         /* pixels of all samples; numbers with padding */
    float *in, *addend, *gradient, *before, *gamma, *beta;      /* host, zeros in the padding */
};

static float *draw_padded(enum value_type type, uint32_t what, size_t rows, uint32_t channels)
{
    const uint32_t stored = channels_stored(channels);
    float *const values = draw(type, what, rows * stored);
    for (size_t i = 0; i < rows * stored; i++)
        values[i] = i % stored < channels ? values[i] : 0;
    return values;
}

static struct numbers numbers_of(enum value_type type, const struct residual_case *shape)
{
    const size_t rows = (size_t)shape->pixels * shape->samples;
    const uint32_t channels = shape->channels, stored = channels_stored(channels);
    return (struct numbers){
        .shape = *shape, .type = type, .stored = stored, .rows = rows, .count = rows * stored,
        .in = draw_padded(type, 1, rows, channels), .addend = draw_padded(type, 2, rows, channels),
        .gradient = draw_padded(type, 3, rows, channels), .before = draw_padded(type, 4, rows, channels),
        .gamma = draw_padded(VALUE_FP32, 5, 1, channels), .beta = draw_padded(VALUE_FP32, 6, 1, channels) };
}

/* Every number is within the rounding of the type, relative to `scale` too; the padding is 0. */
static void assert_near(const struct numbers *n, const void *device, const double *expected, double scale)
{
    float *const found = values_read(n->type, device, n->count);
    for (size_t i = 0; i < n->count; i++)
        if (i % n->stored >= n->shape.channels)
            assert_true(found[i] == 0);
        else
            assert_within((double)found[i], expected[i], steps[n->type], scale * 1e-5);
}

static void assert_sums(const float *device, const double *expected, const struct numbers *n)
{
    float *const found = device_copy(device, n->stored * sizeof(*found));
    for (uint32_t c = 0; c < n->stored; c++)
        assert_within((double)found[c], expected[c], 1e-5, 1e-5 * sqrt((double)n->rows) * 4);
}

/* ---- layer normalisation ---- */

struct row { double mean, scale; };

static struct row row_of(const struct numbers *n, size_t row)
{
    const float *const in = n->in + row * n->stored;
    double mean = 0, squares = 0;
    for (uint32_t c = 0; c < n->shape.channels; c++)
        mean += (double)in[c] / n->shape.channels;
    for (uint32_t c = 0; c < n->shape.channels; c++)
        squares += ((double)in[c] - mean) * ((double)in[c] - mean) / n->shape.channels;
    return (struct row){ mean, 1 / sqrt(squares + (double)EPSILON) };
}

/* The result, its gradient with respect to the input, and the sums of the gradients of gamma and beta. */
static void expect_layer_norm(const struct numbers *n, double *out, double *passed, double *gamma, double *beta)
{
    const uint32_t channels = n->shape.channels;
    for (size_t r = 0; r < n->rows; r++) {
        const struct row row = row_of(n, r);
        double sum = 0, products = 0;
        for (uint32_t c = 0; c < channels; c++) {
            const size_t i = r * n->stored + c;
            const double normal = ((double)n->in[i] - row.mean) * row.scale, gradient = (double)n->gradient[i];
            out[i] = normal * (double)n->gamma[c] + (double)n->beta[c];
            gamma[c] += gradient * normal;
            beta[c] += gradient;
            sum += gradient * (double)n->gamma[c] / channels;
            products += gradient * (double)n->gamma[c] * normal / channels;
        }
        for (uint32_t c = 0; c < channels; c++) {
            const size_t i = r * n->stored + c;
            const double normal = ((double)n->in[i] - row.mean) * row.scale;
            passed[i] = ((double)n->gradient[i] * (double)n->gamma[c] - sum - normal * products) * row.scale;
        }
    }
}

static void check_layer_norm(enum value_type type, const struct residual_case *shape)
{
    const struct numbers n = numbers_of(type, shape);
    double *const out = host_new(n.count * sizeof(*out)), *const passed = host_new(n.count * sizeof(*passed));
    double *const gamma = host_new(n.stored * sizeof(*gamma)), *const beta = host_new(n.stored * sizeof(*beta));
    expect_layer_norm(&n, out, passed, gamma, beta);
    struct layer_normalisation norm = {
        .rows = n.rows, .channels = shape->channels, .columns = n.stored, .epsilon = EPSILON,
        .gamma = area_new(n.gamma, n.stored * sizeof(float)), .beta = area_new(n.beta, n.stored * sizeof(float)),
        .lines = area_new(NULL, n.rows * 2 * sizeof(float)) };
    void *const in = values_new(type, n.in, n.count), *const result = values_poison(type, n.count);
    void *const in_place = values_new(type, n.in, n.count), *const gradient = values_new(type, n.gradient, n.count);
    void *const added = values_new(type, n.before, n.count);
    float *const partials = area_new(NULL, kernel_gamma_partials(n.rows, n.stored) * sizeof(float));
    float *const gamma_gradient = area_new(NULL, n.stored * sizeof(float));
    float *const beta_gradient = area_new(NULL, n.stored * sizeof(float));
    CUDA_OK(kernel_layer_norm(stream, type, &norm, in, result));
    CUDA_OK(kernel_layer_norm_sums(stream, type, &norm, in, gradient, partials, gamma_gradient, beta_gradient));
    CUDA_OK(kernel_layer_norm_gradient(stream, type, &norm, in, gradient, added, true));
    CUDA_OK(kernel_layer_norm_gradient(stream, type, &norm, in, gradient, gradient, false));
    assert_near(&n, result, out, 1);
    assert_near(&n, gradient, passed, 32);
    assert_sums(gamma_gradient, gamma, &n);
    assert_sums(beta_gradient, beta, &n);
    for (size_t i = 0; i < n.count; i++)
        passed[i] += (double)n.before[i];
    assert_near(&n, added, passed, 32);
    norm.lines = NULL;
    CUDA_OK(kernel_layer_norm(stream, type, &norm, in_place, in_place));
    assert_near(&n, in_place, out, 1);
    areas_close();
}

TEST(the_channels_of_pixels_are_normalised_and_their_gradients_passed_back)
{
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < COUNT_OF(cases); i++)
            check_layer_norm(type, &cases[i]);
}

/* ---- branches ---- */

enum { FIRST_POSITION = 77, EPOCH = 5 };

static void check_branch(enum value_type type, const struct residual_case *shape, bool has_gamma, bool drops)
{
    const struct numbers n = numbers_of(type, shape);
    const struct step_values step = { FIRST_POSITION, EPOCH };
    struct branch branch = { .rows = n.rows, .pixels = shape->pixels, .columns = n.stored, .drops = drops,
                             .gamma = has_gamma ? area_new(n.gamma, n.stored * sizeof(float)) : NULL,
                             .values = area_new(&step, sizeof(step)) };
    double *const out = host_new(n.count * sizeof(*out)), *const sum = host_new(n.count * sizeof(*sum));
    double *const gamma = host_new(n.stored * sizeof(*gamma));
    dropout_init(&branch.rule, 3, 4, 0.5f);
    for (size_t i = 0; i < n.count; i++) {
        const uint32_t c = (uint32_t)(i % n.stored);
        const size_t sample = i / n.stored / shape->pixels;
        const double factor = drops ? (double)dropout_sample_factor(&branch.rule, EPOCH, FIRST_POSITION + sample) : 1;
        out[i] = (double)n.in[i] * factor * (has_gamma ? (double)n.gamma[c] : 1);
        sum[i] = out[i] + (double)n.addend[i];
        gamma[c] += (double)n.in[i] * (double)n.gradient[i] * factor;
    }
    void *const in = values_new(type, n.in, n.count), *const addend = values_new(type, n.addend, n.count);
    void *const result = values_poison(type, n.count), *const gradient = values_new(type, n.gradient, n.count);
    float *const partials = area_new(NULL, kernel_gamma_partials(n.rows, n.stored) * sizeof(float));
    float *const gamma_gradient = area_new(NULL, n.stored * sizeof(float));
    CUDA_OK(kernel_branch(stream, type, &branch, in, addend, result));
    assert_near(&n, result, sum, 1);
    CUDA_OK(kernel_branch_sums(stream, type, &branch, in, gradient, partials, gamma_gradient));
    assert_sums(gamma_gradient, gamma, &n);
    CUDA_OK(kernel_branch(stream, type, &branch, in, addend, addend));
    assert_near(&n, addend, sum, 1);
    CUDA_OK(kernel_branch(stream, type, &branch, in, NULL, in));
    assert_near(&n, in, out, 1);
    areas_close();
}

TEST(branches_are_scaled_dropped_by_sample_and_added)
{
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < COUNT_OF(cases); i++)
            for (uint32_t how = 0; how < 4; how++)
                check_branch(type, &cases[i], (how & 1) != 0, (how & 2) != 0);
}

/* ---- what is refused ---- */

TEST(shapes_and_addresses_that_do_not_fit_are_refused)
{
    float *const floats = area_new(NULL, 64 * sizeof(float)), *const odd = floats + 1;
    struct layer_normalisation norm = { .rows = 1, .channels = 8, .columns = 8, .epsilon = EPSILON, .gamma = floats,
                                        .beta = floats, .lines = floats };
    struct branch branch = { .rows = 1, .pixels = 1, .columns = 8 };
    MISALIGNED(kernel_layer_norm(stream, VALUE_FP32, &norm, odd, floats));
    MISALIGNED(kernel_layer_norm_gradient(stream, VALUE_FP32, &norm, floats, odd, floats, false));
    MISALIGNED(kernel_layer_norm_sums(stream, VALUE_FP32, &norm, floats, odd, floats, floats, floats));
    MISALIGNED(kernel_branch(stream, VALUE_FP32, &branch, floats, odd, floats));
    MISALIGNED(kernel_branch_sums(stream, VALUE_FP32, &branch, floats, floats, odd, floats));
    norm.channels = 9;
    INVALID(kernel_layer_norm(stream, VALUE_FP32, &norm, floats, floats));
    norm.channels = norm.columns = 12;
    INVALID(kernel_layer_norm_sums(stream, VALUE_FP32, &norm, floats, floats, floats, floats, floats));
    branch.columns = 12;
    INVALID(kernel_branch(stream, VALUE_FP32, &branch, floats, NULL, floats));
    branch = (struct branch){ .rows = 1, .pixels = 0, .columns = 8 };
    INVALID(kernel_branch_sums(stream, VALUE_FP32, &branch, floats, floats, floats, floats));
    areas_close();
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
