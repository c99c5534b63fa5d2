/* Tests of the kernels of the input, ReLU, sums, dropout and biases, with every type and odd shapes, against plain
 * loops. */
#include <math.h>

#include "compute/cuda/kernels.h"
#include "stage/random.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

/* ---- relu ---- */

static void check_relu(enum value_type type, size_t count)
{
    float *in = draw(type, 3, count), *gradient = draw(type, 4, count), *before = draw(type, 9, count);
    float *out = floats_new(count), *through = floats_new(count), *sum = floats_new(count);
    for (size_t i = 0; i < count; i++) {
        in[i] = i % 11 == 5 ? NAN : i % 11 == 7 ? -0.0f
                                : i % 11 == 9   ? INFINITY
                                                : in[i];
        out[i] = in[i] > 0 ? in[i] : 0;
        through[i] = out[i] > 0 ? gradient[i] : 0;
        sum[i] = before[i] + through[i];
    }
    void *from = values_new(type, in, count), *to = values_poison(type, count);
    void *in_place = values_new(type, in, count), *gradients = values_new(type, gradient, count);
    CUDA_OK(kernel_relu(stream, type, count, from, to));
    CUDA_OK(kernel_relu(stream, type, count, in_place, in_place));
    void *other = values_poison(type, count), *added = values_new(type, before, count);
    CUDA_OK(kernel_relu_backward(stream, type, count, to, gradients, other, false));
    CUDA_OK(kernel_relu_backward(stream, type, count, to, gradients, added, true));
    CUDA_OK(kernel_relu_backward(stream, type, count, to, gradients, gradients, false));
    assert_values(type, to, out, count);
    assert_values(type, in_place, out, count);
    assert_values(type, gradients, through, count);
    assert_values(type, other, through, count);
    assert_values(type, added, sum, count);
    areas_close();
}

TEST(relu_passes_positive_values_and_their_gradients)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(odd_counts); i++)
        check_relu(type, odd_counts[i]);
}

/* ---- add ---- */

static void check_add(enum value_type type, size_t count)
{
    float *a = draw(type, 3, count), *b = draw(type, 4, count), *sum = floats_new(count);
    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
    void *left = values_new(type, a, count), *right = values_new(type, b, count), *apart = values_poison(type, count);
    CUDA_OK(kernel_add(stream, type, count, left, right, false, apart));
    CUDA_OK(kernel_add(stream, type, count, left, right, false, right));
    CUDA_OK(kernel_add(stream, type, count, left, values_new(type, b, count), false, left));
    assert_values(type, apart, sum, count);
    assert_values(type, left, sum, count);
    assert_values(type, right, sum, count);
    CUDA_OK(kernel_add(stream, type, count, values_new(type, a, count), values_new(type, b, count), true, apart));
    for (size_t i = 0; i < count; i++)
        sum[i] = sum[i] > 0 ? sum[i] : 0;
    assert_values(type, apart, sum, count);
    areas_close();
}

TEST(add_may_write_over_an_operand)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(odd_counts); i++)
        check_add(type, odd_counts[i]);
}

/* ---- dropout ---- */

static void check_dropout(enum value_type type, const struct image_shape *shape, float rate,
                          const struct step_values *step)
{
    const size_t size = (size_t)shape->pixels * shape->stored, count = size * shape->count;
    const size_t elements = (size_t)shape->pixels * shape->channels;
    float *values = draw(type, 5, count);
    uint8_t *mask = host_new(elements);
    struct dropout dropout;
    dropout_init(&dropout, 99, 3, rate);
    void *in_out = values_new(type, values, count);
    CUDA_OK(kernel_dropout(stream, type, shape, &dropout, area_new(step, sizeof(*step)), in_out));
    for (size_t n = 0; n < shape->count; n++) {
        dropout_mask(&dropout, step->epoch, step->first_position + n, elements, mask);
        for (size_t e = 0; e < elements; e++) {
            float *value = &values[n * size + e % shape->pixels * shape->stored + e / shape->pixels];
            *value = mask[e] ? *value * dropout.scale : 0;
        }
    }
    assert_values(type, in_out, values, count); /* padding is unchanged */
    areas_close();
}

TEST(dropout_drops_by_the_mask_of_the_definition)
{
    static const struct image_shape shapes[] = {
        { 1, 1, 1, 8, 0 },
        { 3, 1, 500, 504, 0 },
        { 2, 5, 3, 8, 0 },
        { 2, 8, 8, 8, 0 },
        { 2, 13, 11, 16, 0 },
        { 3, 49, 24, 24, 0 },
        { 1, 7, 9, 16, 0 },
        { 2, 15, 5, 8, 0 },
        { 2, 16, 33, 40, 0 },
        { 1, 9, 8, 8, 0 },
        { 300, 2, 3, 8, 0 },
    };
    static const float rates[] = { 0, 0.25f, 0.5f, 0.999f };
    static const struct step_values steps[] = { { 0, 0 }, { UINT32_MAX - 1ull, 5 }, { 77ull << 40, UINT32_MAX } };
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        for (size_t r = 0; r < COUNT_OF(rates); r++)
            check_dropout(type, &shapes[i], rates[r], &steps[(i + r) % COUNT_OF(steps)]);
}

/* A rate would hit a random half word only by chance, so the threshold is taken from the words. */
TEST(a_random_number_equal_to_the_threshold_keeps_its_value)
{
    static const struct image_shape shape = { 1, 8, 1, 8, 0 };
    static const struct step_values step = { 12, 3 };
    static const uint32_t counter[4] = { 0, 12, 0, 3 };
    float values[64], expected[64];
    uint32_t word[4];
    struct dropout dropout;
    dropout_init(&dropout, 1, 2, 0.5f);
    random_block(dropout.key, counter, word);
    for (uint32_t e = 0; e < 8; e++) {
        dropout.threshold = (uint16_t)(word[e / 2] >> e % 2 * 16);
        for (uint32_t i = 0; i < 64; i++) {
            const uint16_t half = (uint16_t)(word[i / 16] >> i / 8 % 2 * 16);
            values[i] = 1;
            expected[i] = i % 8 != 0 ? 1 : half >= dropout.threshold ? dropout.scale
                                                                     : 0;
        }
        void *in_out = values_new(VALUE_FP32, values, 64);
        CUDA_OK(kernel_dropout(stream, VALUE_FP32, &shape, &dropout, area_new(&step, sizeof(step)), in_out));
        assert_values(VALUE_FP32, in_out, expected, 64);
        areas_close();
    }
}

/* ---- bias ---- */

static void check_bias(enum value_type type, size_t rows, uint32_t columns, bool relu)
{
    float *bias = draw(type, 6, columns), *values = draw(type, 7, rows * columns);
    void *in_out = values_new(type, values, rows * columns);
    CUDA_OK(kernel_bias(stream, type, rows, columns, values_new(type, bias, columns), relu, in_out));
    for (size_t i = 0; i < rows * columns; i++) {
        const float sum = values[i] + bias[i % columns];
        values[i] = relu && !(sum > 0) ? 0 : sum;
    }
    assert_values(type, in_out, values, rows * columns);
    areas_close();
}

TEST(bias_is_added_to_every_row)
{
    static const uint32_t columns[] = { 8, 16, 24, 1000 };
    FOR_EACH_TYPE(type)
    for (size_t c = 0; c < COUNT_OF(columns); c++)
        for (size_t rows = 0; rows < 40; rows += 13) {
            check_bias(type, rows, columns[c], false);
            check_bias(type, rows, columns[c], true);
        }
}

struct bias_case {
    size_t rows;
    uint32_t columns;
};

static const struct bias_case bias_cases[] = {
    { 0, 8 },
    { 1, 8 },
    { 2, 16 },
    { 31, 24 },
    { 257, 64 },
    { 5000, 8 },
    { 129, 264 },
    { 33, 1032 },
    { 6001, 40 },
    { 40000, 16 },
};

static void check_bias_gradient(enum value_type type, struct bias_case c, bool relu)
{
    const size_t count = c.rows * c.columns;
    float *out = draw_whole(8, count, 1), *gradient = draw_whole(9, count, 8), *sums = floats_new(c.columns);
    void *outs = relu ? values_new(type, out, count) : NULL, *gradients = values_new(type, gradient, count);
    void *partials = area_new(NULL, kernel_bias_partials(c.rows, c.columns) * sizeof(float));
    float *result = area_new(NULL, c.columns * sizeof(*result));
    CUDA_OK(kernel_bias_gradient(stream, type, c.rows, c.columns, outs, gradients, partials, result));
    for (size_t i = 0; i < count; i++) {
        gradient[i] = !relu || out[i] > 0 ? gradient[i] : 0;
        sums[i % c.columns] += gradient[i];
    }
    assert_values(type, gradients, gradient, count);
    assert_values(VALUE_FP32, result, sums, c.columns);
    areas_close();
}

TEST(bias_gradient_sums_every_row_once)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(bias_cases); i++) {
        check_bias_gradient(type, bias_cases[i], false);
        check_bias_gradient(type, bias_cases[i], true);
    }
}

TEST(bias_gradient_is_accurate_and_the_same_in_every_run)
{
    enum { ROWS = 20011,
           COLUMNS = 24 };
    float *gradient = draw(VALUE_BF16, 10, ROWS * COLUMNS), first[COLUMNS], again[COLUMNS];
    double sums[COLUMNS] = { 0 };
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        sums[i % COLUMNS] += gradient[i];
    void *gradients = values_new(VALUE_BF16, gradient, ROWS * COLUMNS);
    void *partials = area_new(NULL, kernel_bias_partials(ROWS, COLUMNS) * sizeof(float));
    float *result = area_new(NULL, sizeof(first));
    CUDA_OK(kernel_bias_gradient(stream, VALUE_BF16, ROWS, COLUMNS, NULL, gradients, partials, result));
    read_back(result, first, sizeof(first));
    CUDA_OK(kernel_bias_gradient(stream, VALUE_BF16, ROWS, COLUMNS, NULL, gradients, partials, result));
    read_back(result, again, sizeof(again));
    assert_memory_equal(first, again, sizeof(first));
    for (size_t i = 0; i < COLUMNS; i++)
        assert_within(first[i], sums[i], 1e-6, 1e-4);
    areas_close();
}

/* ---- input ---- */

static float input_of(const struct input_transform *transform, float pixel, size_t channel)
{
    if (transform->is_plain)
        return pixel / transform->divisor;
    return (pixel / transform->divisor - transform->mean[channel]) / transform->std[channel];
}

/* Boxes and shares that are exact in fp32, or NULL. Some samples are left alone, by their share or by a label that
 * is none. */
static struct mix *input_mixes(const struct image_shape *shape)
{
    const uint32_t height = shape->width > 0 ? shape->pixels / shape->width : 0;
    struct mix *mixes = height > 0 ? host_new(shape->count * sizeof(*mixes)) : NULL;
    for (uint32_t n = 0; n < shape->count && mixes != NULL; n++) {
        const uint32_t top = n % height, left = n % shape->width;
        mixes[n] = (struct mix){ .share = (float)(n % 5) / 4 };
        if (n % 3 == 0)
            mixes[n] = (struct mix){ 0.5f, top, left, top + 1, shape->width };
    }
    return mixes;
}

static float expected_input(const struct image_shape *shape, const struct input_transform *transform,
                            const uint8_t *pixels, const int32_t *labels, const struct mix *mixes, size_t i)
{
    const size_t channel = i % shape->stored, site = i / shape->stored, place = site % shape->pixels;
    const uint32_t n = (uint32_t)(site / shape->pixels), width = shape->width > 0 ? shape->width : 1;
    const size_t other = (size_t)mixing_partner(n, shape->count) * shape->pixels + place;
    if (channel >= shape->channels)
        return 0;
    const struct mix mix = mixing_find(mixes, labels, n, shape->count);
    return input_of(transform, mixing_pixel(&mix, pixels[site * shape->channels + channel],
                                            pixels[other * shape->channels + channel], (uint32_t)place / width,
                                            (uint32_t)place % width), channel);
}

static void check_input(enum value_type type, const struct image_shape *shape, const struct input_transform *transform)
{
    const size_t sites = (size_t)shape->count * shape->pixels, count = sites * shape->stored;
    uint8_t *pixels = host_new(sites * shape->channels);
    int32_t *labels = host_new(shape->count * sizeof(*labels));
    struct mix *mixes = input_mixes(shape);
    struct mixed_label *asked = host_new(shape->count * sizeof(*asked));
    float *expected = floats_new(count);
    for (size_t i = 0; i < sites * shape->channels; i++)
        pixels[i] = (uint8_t)(i * 37 + i / 256);
    for (uint32_t n = 0; n < shape->count; n++)
        labels[n] = (int32_t)n - 1;
    for (uint32_t n = 0; n < shape->count; n++)
        asked[n] = mixing_label(mixes, labels, n, shape->count);
    for (size_t i = 0; i < count; i++)
        expected[i] = expected_input(shape, transform, pixels, labels, mixes, i);
    void *out = values_poison(type, count);
    struct mixed_label *labels_out = area_new(NULL, shape->count * sizeof(*labels_out));
    struct step_values *values = area_new(NULL, sizeof(*values));
    const struct step_values wanted = { .first_position = 0x123456789abull, .epoch = 77 };
    CUDA_OK(kernel_input(stream, type, shape, transform, area_new(pixels, sites * shape->channels),
                         area_new(labels, shape->count * sizeof(*labels)),
                         mixes != NULL ? area_new(mixes, shape->count * sizeof(*mixes)) : NULL, wanted.first_position,
                         wanted.epoch, out, labels_out, values));
    struct step_values found;
    assert_values(type, out, expected, count);
    assert_holds(labels_out, asked, shape->count * sizeof(*asked));
    read_back(values, &found, sizeof(found));
    assert_true(found.first_position == wanted.first_position && found.epoch == wanted.epoch);
    areas_close();
}

static const struct image_shape image_shapes[] = {
    { 1, 1, 1, 8, 0 },
    { 3, 25, 3, 8, 0 },
    { 2, 49, 8, 8, 0 },
    { 5, 7, 11, 16, 0 },
    { 4, 300, 3, 8, 0 },
    { 700, 1, 1, 8, 0 },
    { 2, 3, 16, 16, 0 },
    { 2, 3, 17, 32, 0 },
    /* mixed */
    { 7, 25, 3, 8, 5 },
    { 4, 300, 1, 8, 20 },
    { 12, 6, 16, 16, 3 },
    { 3, 1, 3, 8, 1 },
};

TEST(input_divides_pixels_mixes_them_and_pads_channels_with_zero)
{
    static const struct input_transform plain = { .divisor = 255.0f, .is_plain = true };
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(image_shapes); i++)
        check_input(type, &image_shapes[i], &plain);
}

TEST(input_takes_a_mean_and_a_deviation_per_channel)
{
    struct input_transform transform = { .divisor = 127.5f };
    for (uint32_t c = 0; c < NET_CHANNELS_MAX; c++) {
        transform.mean[c] = 0.4f + 0.01f * (float)c;
        transform.std[c] = 0.2f + 0.03f * (float)c;
    }
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(image_shapes); i++)
        if (image_shapes[i].channels <= NET_CHANNELS_MAX)
            check_input(type, &image_shapes[i], &transform);
}

/* ---- arguments ---- */

TEST(invalid_shapes_are_refused)
{
    static const struct image_shape narrow = { 1, 1, 3, 4, 1 }, wide = { 1, 1, 17, 24, 1 },
                                    uneven = { 1, 6, 3, 8, 4 };
    static const struct input_transform plain = { .divisor = 1, .is_plain = true }, transform = { .divisor = 1 };
    static const struct loss_shape tight = { .count = 1, .classes = 9, .stored = 8 };
    INVALID(kernel_input(stream, VALUE_FP32, &narrow, &plain, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL));
    INVALID(kernel_input(stream, VALUE_FP32, &uneven, &plain, NULL, NULL, area_new(NULL, 64), 0, 0, NULL, NULL, NULL));
    INVALID(kernel_input(stream, VALUE_FP32, &wide, &transform, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL));
    INVALID(kernel_bias(stream, VALUE_FP32, 1, 12, NULL, 0, NULL));
    INVALID(kernel_bias_gradient(stream, VALUE_FP32, 1, 7, NULL, NULL, NULL, NULL));
    INVALID(kernel_softmax_loss(stream, VALUE_FP32, &tight, NULL, NULL, NULL, NULL, NULL, NULL));
}

TEST(misaligned_memory_is_refused)
{
    static const struct image_shape image = { 1, 1, 3, 8, 1 };
    static const struct input_transform plain = { .divisor = 1, .is_plain = true };
    unsigned char *memory = area_new(NULL, 256), *off = memory + 8;
    MISALIGNED(kernel_input(stream, VALUE_FP16, &image, &plain, memory, NULL, NULL, 0, 0, off, NULL, NULL));
    MISALIGNED(kernel_relu(stream, VALUE_FP16, 8, memory, off));
    MISALIGNED(kernel_relu_backward(stream, VALUE_FP16, 8, off, memory, memory, false));
    MISALIGNED(kernel_add(stream, VALUE_FP16, 8, memory, off, false, memory));
    MISALIGNED(kernel_bias(stream, VALUE_FP16, 1, 8, off, 0, memory));
    MISALIGNED(kernel_bias_gradient(stream, VALUE_FP16, 1, 8, NULL, memory, (float *)(void *)off, NULL));
    areas_close();
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
