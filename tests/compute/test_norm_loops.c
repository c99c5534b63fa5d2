/* Tests of the loops of batch normalisation: mask bits act like results, and a gradient in two parts equals one in a
 * single part. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/onednn/onednn_activation.h"
#include "compute/onednn/onednn_norm_loops.h"
#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

enum { BLOCK_MAX = 64, PIXELS_MAX = 300, COUNT_MAX = BLOCK_MAX * PIXELS_MAX };

struct plane_numbers {
    float values[COUNT_MAX], skip[COUNT_MAX], result[COUNT_MAX], gradient[COUNT_MAX];
    float sums[2 * BLOCK_MAX];
    uint32_t passed[COUNT_MAX];
};

/* Random numbers around 0, some of them 0. */
static void fill(float *values, uint64_t seed)
{
    const struct random_key key = random_key(seed, RANDOM_WEIGHTS, 0);
    for (size_t i = 0; i < COUNT_MAX; i++) {
        const float drawn = test_uniform(key, i);
        values[i] = drawn < 0.05f ? 0 : drawn - 0.5f;
    }
}

static void store(enum value_type type, float *values)
{
    if (type == VALUE_BF16)
        for (size_t i = 0; i < COUNT_MAX; i++) {
            const uint16_t half = bf16_from_float(values[i]);
            memcpy((uint16_t *)values + i, &half, sizeof(half));
        }
}

static void apply_and_mask(struct norm_plane plane, struct plane_numbers *numbers, bool by_bits)
{
    static const float means[BLOCK_MAX] = { [3] = 0.25f, [20] = -0.5f };
    static float scales[BLOCK_MAX], shifts[BLOCK_MAX];
    const struct norm_line line = { means, scales, shifts };
    for (size_t c = 0; c < BLOCK_MAX; c++) {
        scales[c] = 0.5f + (float)(c % 7) / 4;
        shifts[c] = c % 5 == 0 ? 0 : (float)(c % 3) - 1;
    }
    fill(numbers->values, 1);
    fill(numbers->skip, 2);
    fill(numbers->gradient, 3);
    store(plane.type, numbers->values);
    store(plane.type, numbers->skip);
    store(plane.type, numbers->gradient);
    memset(numbers->passed, 0x55, sizeof(numbers->passed));
    memset(numbers->sums, 0, sizeof(numbers->sums));
    norm_apply(plane, line, numbers->values, numbers->skip, true, numbers->result, by_bits ? numbers->passed : NULL);
    const struct norm_mask mask = { false, by_bits ? NULL : numbers->result, by_bits ? numbers->passed : NULL,
                                    NULL };
    norm_sum_products(plane, line, mask, numbers->values, numbers->gradient, numbers->sums,
                      numbers->sums + BLOCK_MAX);
}

TEST(mask_bits_act_like_results)
{
    static const size_t blocks[] = { 8, 16, 24, 64 }, pixels[] = { 1, 7, 128, 129, PIXELS_MAX };
    struct plane_numbers *const bits = calloc(1, sizeof(*bits)), *const results = calloc(1, sizeof(*results));
    assert_non_null(bits);
    assert_non_null(results);
    for (enum value_type type = VALUE_FP32; type <= VALUE_BF16; type++)
        for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++)
            for (size_t p = 0; p < sizeof(pixels) / sizeof(pixels[0]); p++) {
                const struct norm_plane plane = { type, pixels[p], blocks[b], blocks[b] };
                assert_true(norm_can_mask(plane));
                apply_and_mask(plane, bits, true);
                apply_and_mask(plane, results, false);
                assert_memory_equal(bits->result, results->result, sizeof(bits->result));
                assert_memory_equal(bits->gradient, results->gradient, sizeof(bits->gradient));
                assert_memory_equal(bits->sums, results->sums, sizeof(bits->sums));
                for (size_t i = norm_mask_words(plane); i < COUNT_MAX; i++)
                    assert_int_equal(bits->passed[i], 0x55555555);
            }
    free(bits);
    free(results);
}

/* For each of 32 pixels, one word per channel. */
TEST(mask_bits_are_set_for_positive_results)
{
    const struct norm_plane plane = { VALUE_FP32, 130, 24, 24 };
    struct plane_numbers *const numbers = calloc(1, sizeof(*numbers));
    assert_non_null(numbers);
    apply_and_mask(plane, numbers, true);
    assert_int_equal(norm_mask_words(plane), 5 * plane.block);
    for (size_t p = 0; p < plane.pixels; p++)
        for (size_t c = 0; c < plane.block; c++)
            assert_int_equal(numbers->passed[p / 32 * plane.block + c] >> p % 32 & 1,
                             numbers->result[p * plane.block + c] > 0);
    free(numbers);
}

static void assert_close(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i])));
}

static const float means[BLOCK_MAX] = { [2] = 0.25f, [40] = -0.5f };

/* The first channels of values with STRIDE channels, in one pass and in two. */
static void pass_and_give(struct norm_plane plane, bool by_line, bool adds, struct plane_numbers *at_once,
                          struct plane_numbers *in_two)
{
    float scales[BLOCK_MAX], shifts[BLOCK_MAX], slopes[BLOCK_MAX], offsets[BLOCK_MAX];
    for (size_t c = 0; c < BLOCK_MAX; c++) {
        scales[c] = 0.5f + (float)(c % 7) / 4;
        shifts[c] = (float)(c % 3) / 4 - 0.25f;
        slopes[c] = (float)(c % 4) / 8 - 0.25f;
        offsets[c] = (float)(c % 5) / 16;
    }
    const struct norm_line line = { means, scales, shifts };
    const struct norm_slope slope = { slopes, offsets };
    struct plane_numbers *const both[] = { at_once, in_two };
    for (int i = 0; i < 2; i++) {
        memset(both[i]->sums, 0, sizeof(both[i]->sums));
        fill(both[i]->values, 1);
        fill(both[i]->gradient, 2);
        fill(both[i]->result, 3);
    }
    const struct norm_mask mask = { by_line, NULL, NULL, NULL };
    norm_sum_and_scale(plane, line, mask, at_once->values, at_once->gradient, at_once->sums,
                       at_once->sums + BLOCK_MAX, adds, at_once->result);
    norm_add_line(plane, means, slope, at_once->values, at_once->result);
    norm_sum_products(plane, line, mask, in_two->values, in_two->gradient,
                      in_two->sums, in_two->sums + BLOCK_MAX);
    norm_input_gradient(plane, line, slope, by_line, in_two->values, in_two->gradient, adds, in_two->result);
}

/* ---- activations ---- */

/* Value and derivative by libm in double. */
static void expect_activation(const struct layer *layer, double x, double *value_out, double *slope_out)
{
    const double s = 1 / (1 + exp(-x)), opposite = 1 / (1 + exp(x)), below = erfc(-x * sqrt(0.5)) / 2;
    const double bell = exp(-x * x / 2) * 0.3989422804014327, h = fmin(fmax(x / 6 + 0.5, 0), 1);
    const bool is_between = x > -3 && x < 3;
    const double rows[ACTIVATION_COUNT][2] = {
        [ACTIVATION_CLIPPED_RELU] = { fmin(fmax(x, 0), layer->limit), x > 0 && x < layer->limit },
        [ACTIVATION_SIGMOID] = { s, s * opposite },
        [ACTIVATION_HARD_SIGMOID] = { h, is_between / 6.0 },
        [ACTIVATION_SILU] = { x * s, s * (1 + x * opposite) },
        [ACTIVATION_HARD_SWISH] = { x * h, h + is_between * x / 6 },
        [ACTIVATION_GELU] = { x * below, below + x * bell },
    };
    *value_out = rows[layer->activation][0];
    *slope_out = rows[layer->activation][1];
}

enum { POINTS = 4001 };

/* From -8 to 8, then from -100 to 100, then numbers that are not normal. */
static float point(int i)
{
    return i < 2000 ? (float)(i - 1000) / 125 : i < 3990 ? (float)(i - 2995) / 10 : ldexpf((float)(i - 3995), -140);
}

/* Every number depends on its own input alone, so it does not matter where it stands. */
TEST(activations_are_those_of_libm_and_the_same_at_every_place)
{
    static float values[POINTS], slopes[POINTS];
    for (enum activation activation = 0; activation < ACTIVATION_COUNT; activation++) {
        const struct layer layer = { .kind = LAYER_ACTIVATION, .activation = activation, .limit = 6 };
        for (int i = 0; i < POINTS; i++)
            values[i] = slopes[i] = point(i);
        activation_values(&layer, values, POINTS);
        activation_slopes(&layer, slopes, POINTS);
        for (int i = 0; i < POINTS; i++) {
            const double size = fabs((double)point(i)), error = size <= 8 ? 1.5e-6 : 1e-5;
            double value, slope;
            expect_activation(&layer, point(i), &value, &slope);
            if (!(fabs(values[i] - value) <= error * fabs(value) + 1e-35) || !(fabs(slopes[i] - slope) <= error * 2))
                fail_msg("%s(%g) is %.9g instead of %.9g, slope %.9g instead of %.9g", activation_name(activation),
                         (double)point(i), (double)values[i], value, (double)slopes[i], slope);
            float one = point(i);
            activation_values(&layer, &one, 1);
            assert_memory_equal(&one, &values[i], sizeof(one));
        }
    }
}

/* Also of the NaNs that poisoned memory and other programs have. */
TEST(an_activation_of_nan_is_nan)
{
    static const uint32_t bits[] = { 0x7fc00000, 0xffc00000, 0xffffffff, 0x7fffffff, 0x7f800001 };
    for (enum activation activation = 0; activation < ACTIVATION_COUNT; activation++)
        for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
            const struct layer layer = { .kind = LAYER_ACTIVATION, .activation = activation, .limit = 6 };
            float numbers[] = { 1, 0, 2 };
            memcpy(&numbers[1], &bits[i], sizeof(bits[i]));
            activation_values(&layer, numbers, 3);
            assert_true(isnan(numbers[1]) && !isnan(numbers[0]) && !isnan(numbers[2]));
        }
}

/* Hard swish, whose derivative is short to write. */
static double hard_swish(double x)
{
    return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
}

static double hard_swish_slope(double x)
{
    return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
}

static double number_of(enum value_type type, const float *numbers, size_t i)
{
    return value_read(type, numbers, i);
}

/* Rows of the values are 3 numbers longer than the block; those of results and gradients are not. */
static void check_activation(struct norm_plane plane, struct plane_numbers *numbers, struct plane_numbers *before)
{
    static const struct layer layer = { .kind = LAYER_ACTIVATION, .activation = ACTIVATION_HARD_SWISH };
    const double error = plane.type == VALUE_BF16 ? 1.0 / 128 : 1e-5;
    float scales[BLOCK_MAX], shifts[BLOCK_MAX];
    for (size_t c = 0; c < BLOCK_MAX; c++) {
        scales[c] = 1 + (float)(c % 7);
        shifts[c] = (float)(c % 3) - 1;
    }
    const struct norm_line line = { means, scales, shifts };
    fill(numbers->values, 1);
    fill(numbers->gradient, 2);
    store(plane.type, numbers->values);
    store(plane.type, numbers->gradient);
    memset(numbers->sums, 0, sizeof(numbers->sums));
    *before = *numbers;
    norm_activate(plane, line, &layer, numbers->values, numbers->result);
    norm_sum_products(plane, line, (struct norm_mask){ false, NULL, NULL, &layer }, numbers->values, numbers->gradient,
                      numbers->sums, numbers->sums + BLOCK_MAX);
    for (size_t p = 0; p < plane.pixels; p++)
        for (size_t c = 0; c < plane.block; c++) {
            const size_t i = p * plane.block + c;
            const double x = (number_of(plane.type, numbers->values, p * plane.stride + c) - means[c]) * scales[c] +
                             shifts[c];
            const double gradient = number_of(plane.type, before->gradient, i);
            assert_true(fabs(number_of(plane.type, numbers->result, i) - hard_swish(x)) <= error * (1 + fabs(x)));
            const double passed = gradient * hard_swish_slope(x);
            assert_true(fabs(number_of(plane.type, numbers->gradient, i) - passed) <= error * 2);
            before->sums[c] += (float)number_of(plane.type, numbers->gradient, i);
        }
    for (size_t c = 0; c < plane.block; c++)
        assert_true(fabs(numbers->sums[c] - before->sums[c]) <= 1e-4 * (double)plane.pixels);
}

TEST(an_activation_is_applied_to_the_line_and_its_derivative_to_the_gradient)
{
    static const size_t blocks[] = { 1, 5, 8, 12, 16, 28, 40, 61 }, pixels[] = { 1, 129, PIXELS_MAX };
    struct plane_numbers *const numbers = calloc(1, sizeof(*numbers)), *const before = calloc(1, sizeof(*before));
    assert_non_null(numbers);
    assert_non_null(before);
    for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++)
        for (size_t p = 0; p < sizeof(pixels) / sizeof(pixels[0]); p++)
            for (int type = VALUE_FP32; type <= VALUE_BF16; type++)
                check_activation((struct norm_plane){ (enum value_type)type, pixels[p], blocks[b], blocks[b] + 3 },
                                 numbers, before);
    free(numbers);
    free(before);
}

TEST(deferred_gradients_are_the_same)
{
    static const size_t blocks[] = { 1, 4, 8, 12, 16, 28, 40, 64 }, pixels[] = { 1, 129, PIXELS_MAX };
    struct plane_numbers *const at_once = calloc(1, sizeof(*at_once)), *const in_two = calloc(1, sizeof(*in_two));
    assert_non_null(at_once);
    assert_non_null(in_two);
    for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++)
        for (size_t p = 0; p < sizeof(pixels) / sizeof(pixels[0]); p++)
            for (int how = 0; how < 4; how++) {
                const struct norm_plane plane = { VALUE_FP32, pixels[p], blocks[b], BLOCK_MAX };
                pass_and_give(plane, how & 1, how & 2, at_once, in_two);
                assert_close(at_once->result, in_two->result, COUNT_MAX);
                assert_close(at_once->sums, in_two->sums, sizeof(at_once->sums) / sizeof(float));
            }
    free(at_once);
    free(in_two);
}

TESTS_MAIN(NULL, NULL)
