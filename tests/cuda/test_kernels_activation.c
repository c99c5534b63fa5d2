/* Tests of the kernels of activations and products, with every type of values, against loops in double. */
#include <math.h>

#include "compute/cuda/cuda_plan.h"
#include "compute/cuda/kernels.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

/* Samples, their pixels, channels. */
struct image { uint32_t samples, pixels, channels; };

static const struct image images[] = {
    { 1, 1, 1 }, { 3, 1, 8 }, { 2, 5, 7 }, { 3, 6, 24 }, { 2, 49, 96 }, { 2, 70, 130 }, { 1, 2500, 17 }, { 300, 3, 9 },
};

/* Relative error of a result rounded once. */
static const double steps[VALUE_TYPE_COUNT] = { [VALUE_FP32] = 4e-6, [VALUE_FP16] = 1e-3, [VALUE_BF16] = 8e-3 };

static size_t numbers_of(const struct image *image)
{
    return (size_t)image->samples * image->pixels * channels_stored(image->channels);
}

/* Numbers with zeros in the padding, times `factor`. */
static float *draw_padded(enum value_type type, uint32_t what, const struct image *image, float factor)
{
    const uint32_t stored = channels_stored(image->channels);
    float *const values = draw(type, what, numbers_of(image));
    for (size_t i = 0; i < numbers_of(image); i++)
        values[i] = i % stored < image->channels ? rounded(type, values[i] * factor) : 0;
    return values;
}

static void assert_near(enum value_type type, const struct image *image, const void *device, const double *expected,
                        double absolute)
{
    const uint32_t stored = channels_stored(image->channels);
    float *const found = values_read(type, device, numbers_of(image));
    for (size_t i = 0; i < numbers_of(image); i++)
        if (i % stored < image->channels)
            assert_within((double)found[i], expected[i], steps[type], absolute);
        else
            assert_true(found[i] == 0);
}

/* ---- activations ---- */

static void expect(const struct curve *curve, double x, double *value_out, double *slope_out)
{
    const double s = 1 / (1 + exp(-x)), opposite = 1 / (1 + exp(x)), below = erfc(-x * sqrt(0.5)) / 2;
    const double h = fmin(fmax(x / 6 + 0.5, 0), 1), limit = (double)curve->limit;
    const bool is_between = x > -3 && x < 3;
    const double rows[ACTIVATION_COUNT][2] = {
        [ACTIVATION_CLIPPED_RELU] = { fmin(fmax(x, 0), limit), x > 0 && x < limit },
        [ACTIVATION_SIGMOID] = { s, s * opposite },
        [ACTIVATION_HARD_SIGMOID] = { h, is_between / 6.0 },
        [ACTIVATION_SILU] = { x * s, s * (1 + x * opposite) },
        [ACTIVATION_HARD_SWISH] = { x * h, h + is_between * x / 6 },
        [ACTIVATION_GELU] = { x * below, below + x * exp(-x * x / 2) * 0.3989422804014327 },
    };
    *value_out = rows[curve->function][0];
    *slope_out = rows[curve->function][1];
}

static void check_activation(enum value_type type, const struct image *image, enum activation function)
{
    const uint32_t stored = channels_stored(image->channels);
    const size_t count = numbers_of(image), pixels = count / stored;
    const struct curve curve = { .is_on = true, .function = function, .limit = 0.7f, .channels = image->channels };
    float *const in = draw_padded(type, 1, image, 4), *const gradient = draw_padded(type, 2, image, 1);
    float *const before = draw_padded(type, 3, image, 1);
    double *const out = host_new(count * sizeof(*out)), *const passed = host_new(count * sizeof(*passed));
    double *const sum = host_new(count * sizeof(*sum));
    for (size_t i = 0; i < count; i++) {
        double slope;
        expect(&curve, (double)in[i], &out[i], &slope);
        passed[i] = (double)gradient[i] * slope;
        sum[i] = passed[i] + (double)before[i];
    }
    void *const values = values_new(type, in, count), *const gradients = values_new(type, gradient, count);
    void *const added = values_new(type, before, count);
    CUDA_OK(kernel_activation_backward(stream, type, pixels, stored, &curve, values, gradients, added, true));
    CUDA_OK(kernel_activation_backward(stream, type, pixels, stored, &curve, values, gradients, gradients, false));
    CUDA_OK(kernel_activation(stream, type, pixels, stored, &curve, values, values));
    assert_near(type, image, values, out, 1e-6);
    assert_near(type, image, gradients, passed, 2e-6);
    assert_near(type, image, added, sum, 2e-6);
    areas_close();
}

TEST(activations_are_those_of_their_formulas_and_keep_padding_zero)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(images); i++)
        for (enum activation function = 0; function < ACTIVATION_COUNT; function++)
            check_activation(type, &images[i], function);
}

/* ---- behind a batch normalisation ---- */

static void assert_alike(const float *device, const float *expected, size_t count, double absolute)
{
    const float *const found = device_copy(device, count * sizeof(*found));
    const float *const wanted = device_copy(expected, count * sizeof(*wanted));
    for (size_t i = 0; i < count; i++)
        assert_within((double)found[i], (double)wanted[i], 1e-5, absolute);
}

/* In fp32 the fused kernels compute what the separate ones do: the line, its function, and backward the gradient times
 * the derivative, and its sums. */
static void check_fused(const struct image *image, enum activation function)
{
    const uint32_t stored = channels_stored(image->channels);
    const size_t count = numbers_of(image), rows = count / stored, bytes = count * sizeof(float);
    const struct curve curve = { .is_on = true, .function = function, .limit = 0.7f, .channels = image->channels };
    const struct image row = { 1, 1, image->channels }, three = { 3, 1, image->channels };
    const float *const in = draw_padded(VALUE_FP32, 1, image, 2), *const drawn = draw_padded(VALUE_FP32, 2, image, 1);
    const float *const gamma = draw_padded(VALUE_FP32, 3, &row, 1), *const beta = draw_padded(VALUE_FP32, 4, &row, 1);
    const float *const statistics = draw_padded(VALUE_FP32, 5, &three, 1);
    struct normalisation norm = { .rows = rows, .columns = stored, .stride = stored,
                                  .gamma = area_new(gamma, stored * sizeof(float)),
                                  .beta = area_new(beta, stored * sizeof(float)),
                                  .statistics = area_new(statistics, 3 * stored * sizeof(float)) };
    void *const values = area_new(in, bytes), *const line = area_new(NULL, bytes), *const fused = area_new(NULL, bytes);
    void *const passed = area_new(drawn, bytes), *const gradient = area_new(drawn, bytes);
    float *const partials = area_new(NULL, kernel_norm_partials(rows, stored) * sizeof(float));
    float *sums[4];
    for (int i = 0; i < 4; i++)
        sums[i] = area_new(NULL, 2 * stored * sizeof(float));
    CUDA_OK(kernel_norm_apply(stream, VALUE_FP32, &norm, values, NULL, false, line, NULL));
    CUDA_OK(kernel_activation_backward(stream, VALUE_FP32, rows, stored, &curve, line, passed, passed, false));
    CUDA_OK(kernel_norm_sums(stream, VALUE_FP32, &norm, values, false, NULL, passed, partials, sums[0], sums[1],
                             sums[1]));
    CUDA_OK(kernel_activation(stream, VALUE_FP32, rows, stored, &curve, line, line));
    norm.curve = curve;
    CUDA_OK(kernel_norm_apply(stream, VALUE_FP32, &norm, values, NULL, false, fused, NULL));
    CUDA_OK(kernel_norm_sums(stream, VALUE_FP32, &norm, values, false, NULL, gradient, partials, sums[2], sums[3],
                             sums[3]));
    assert_alike(fused, line, count, 1e-6);
    assert_alike(gradient, passed, count, 1e-6);
    assert_alike(sums[2], sums[0], 2 * stored, 1e-5);
    assert_alike(sums[3], sums[1], stored, 1e-5 * sqrt((double)rows));
    areas_close();
}

TEST(an_activation_behind_a_normalisation_is_that_of_its_result)
{
    for (size_t i = 0; i < COUNT_OF(images); i++)
        for (enum activation function = 0; function < ACTIVATION_COUNT; function++)
            check_fused(&images[i], function);
}

/* ---- products ---- */

static void check_products(enum value_type type, const struct image *image)
{
    const uint32_t stored = channels_stored(image->channels), pixels = image->pixels;
    const struct image factors_of = { image->samples, 1, image->channels };
    const struct image_shape shape = { .count = image->samples, .pixels = pixels, .channels = image->channels,
                                       .stored = stored };
    const size_t count = numbers_of(image), factor_count = numbers_of(&factors_of);
    float *const in = draw_padded(type, 1, image, 1), *const gradient = draw_padded(type, 2, image, 1);
    float *const before = draw_padded(type, 3, image, 1), *const factors = draw_padded(type, 4, &factors_of, 1);
    double *const out = host_new(count * sizeof(*out)), *const sum = host_new(count * sizeof(*sum));
    double *const sums = host_new(factor_count * sizeof(*sums)), *const twice = host_new(factor_count * sizeof(*twice));
    for (size_t i = 0; i < count; i++) {
        const size_t factor = i / stored / pixels * stored + i % stored;
        out[i] = (double)in[i] * (double)factors[factor];
        sum[i] = (double)before[i] + (double)gradient[i] * (double)factors[factor];
        sums[factor] += (double)in[i] * (double)gradient[i];
    }
    for (size_t i = 0; i < factor_count; i++)
        twice[i] = sums[i] + (double)factors[i];
    void *const values = values_new(type, in, count), *const gradients = values_new(type, gradient, count);
    void *const added = values_new(type, before, count), *const scale = values_new(type, factors, factor_count);
    void *const to = values_poison(type, factor_count), *const more = values_new(type, factors, factor_count);
    const double error = 1e-5 * sqrt((double)pixels);
    CUDA_OK(kernel_multiply(stream, type, &shape, gradients, scale, added, true));
    CUDA_OK(kernel_factor_gradient(stream, type, &shape, values, gradients, to, false));
    CUDA_OK(kernel_factor_gradient(stream, type, &shape, values, gradients, more, true));
    CUDA_OK(kernel_multiply(stream, type, &shape, values, scale, values, false));
    assert_near(type, image, values, out, 1e-6);
    assert_near(type, image, added, sum, 1e-6);
    assert_near(type, &factors_of, to, sums, error);
    assert_near(type, &factors_of, more, twice, error);
    areas_close();
}

TEST(products_and_the_gradients_of_factors_are_those_of_their_formulas)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(images); i++)
        check_products(type, &images[i]);
}

TEST(shapes_and_pointers_that_do_not_fit_launch_nothing)
{
    const struct curve curve = { .is_on = true, .function = ACTIVATION_SILU, .channels = 8 };
    const struct image_shape odd = { .count = 1, .pixels = 1, .channels = 7, .stored = 7 };
    const struct image_shape shape = { .count = 1, .pixels = 1, .channels = 8, .stored = 8 };
    char *const area = values_poison(VALUE_FP32, 64);
    INVALID(kernel_activation(stream, VALUE_FP32, 1, 7, &curve, area, area));
    INVALID(kernel_activation_backward(stream, VALUE_FP32, 1, 7, &curve, area, area, area, false));
    INVALID(kernel_multiply(stream, VALUE_FP32, &odd, area, area, area, false));
    INVALID(kernel_factor_gradient(stream, VALUE_FP32, &odd, area, area, area, false));
    MISALIGNED(kernel_activation(stream, VALUE_FP32, 1, 8, &curve, area + 4, area));
    MISALIGNED(kernel_activation_backward(stream, VALUE_FP32, 1, 8, &curve, area, area, area + 4, false));
    MISALIGNED(kernel_multiply(stream, VALUE_FP32, &shape, area, area + 4, area, false));
    MISALIGNED(kernel_factor_gradient(stream, VALUE_FP32, &shape, area, area, area + 4, false));
    areas_close();
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
