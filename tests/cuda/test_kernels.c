/* Tests of the kernels of activations, with every type of values and odd shapes, against
 * plain loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/kernels.h"
#include "stage/random.h"
#include "tests/cuda/kernel_areas.h"

/* ---- input ---- */

static float input_of(const struct input_transform *transform, float pixel, size_t channel)
{
    if (transform->is_plain)
        return pixel / transform->divisor;
    return (pixel / transform->divisor - transform->mean[channel]) / transform->deviation[channel];
}

/* Boxes and shares that are exact in fp32, or NULL. Some samples are left alone, by their share or by a label that
 * is none. */
static struct mix *input_mixes(const struct image_shape *shape)
{
    const uint32_t height = shape->width > 0 ? shape->pixels / shape->width : 0;
    struct mix *mixes = height > 0 ? calloc(shape->count, sizeof(*mixes)) : NULL;
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
    uint8_t *pixels = malloc(sites * shape->channels);
    int32_t *labels = malloc(shape->count * sizeof(*labels));
    struct mix *mixes = input_mixes(shape);
    struct mixed_label *asked = malloc(shape->count * sizeof(*asked));
    float *expected = floats_new(count);
    assert_non_null(pixels);
    assert_non_null(labels);
    assert_non_null(asked);
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
    free(pixels);
    free(labels);
    free(mixes);
    free(asked);
    free(expected);
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

static void input_divides_pixels_mixes_them_and_pads_channels_with_zero(void **state)
{
    static const struct input_transform plain = { .divisor = 255.0f, .is_plain = true };
    (void)state;
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(image_shapes); i++)
        check_input(type, &image_shapes[i], &plain);
}

static void input_takes_a_mean_and_a_deviation_per_channel(void **state)
{
    struct input_transform transform = { .divisor = 127.5f };
    (void)state;
    for (uint32_t c = 0; c < NET_CHANNELS_MAX; c++) {
        transform.mean[c] = 0.4f + 0.01f * (float)c;
        transform.deviation[c] = 0.2f + 0.03f * (float)c;
    }
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(image_shapes); i++)
        if (image_shapes[i].channels <= NET_CHANNELS_MAX)
            check_input(type, &image_shapes[i], &transform);
}

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
    float *const all[] = { in, gradient, before, out, through, sum };
    for (size_t i = 0; i < COUNT_OF(all); i++)
        free(all[i]);
}

static void relu_keeps_what_is_positive_and_its_gradient(void **state)
{
    (void)state;
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
    free(a);
    free(b);
    free(sum);
}

static void sums_may_lie_over_what_is_added(void **state)
{
    (void)state;
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
    uint8_t *mask = malloc(elements);
    struct dropout dropout;
    assert_non_null(mask);
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
    assert_values(type, in_out, values, count); /* padding is as it was */
    areas_close();
    free(values);
    free(mask);
}

static void dropout_drops_what_the_mask_of_the_definition_drops(void **state)
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
    (void)state;
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        for (size_t r = 0; r < COUNT_OF(rates); r++)
            check_dropout(type, &shapes[i], rates[r], &steps[(i + r) % COUNT_OF(steps)]);
}

/* A rate hits a random half by chance only, so the threshold is taken from the random words. */
static void a_random_number_equal_to_the_threshold_keeps_its_value(void **state)
{
    static const struct image_shape shape = { 1, 8, 1, 8, 0 };
    static const struct step_values step = { 12, 3 };
    static const uint32_t counter[4] = { 0, 12, 0, 3 };
    float values[64], expected[64];
    uint32_t word[4];
    struct dropout dropout;
    (void)state;
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
    free(bias);
    free(values);
}

static void bias_is_added_to_every_row(void **state)
{
    static const uint32_t columns[] = { 8, 16, 24, 1000 };
    (void)state;
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
    free(out);
    free(gradient);
    free(sums);
}

static void bias_gradient_sums_every_row_once(void **state)
{
    (void)state;
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(bias_cases); i++) {
        check_bias_gradient(type, bias_cases[i], false);
        check_bias_gradient(type, bias_cases[i], true);
    }
}

static void bias_gradient_is_accurate_and_the_same_in_every_run(void **state)
{
    enum { ROWS = 20011,
           COLUMNS = 24 };
    float *gradient = draw(VALUE_BF16, 10, ROWS * COLUMNS), first[COLUMNS], again[COLUMNS];
    double sums[COLUMNS] = { 0 };
    (void)state;
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
        assert_near(first[i], sums[i], 1e-6, 1e-4);
    areas_close();
    free(gradient);
}

/* ---- softmax loss ---- */

struct loss_case {
    uint32_t count, classes, stored;
};

static const struct loss_case loss_cases[] = {
    { 0, 10, 16 },
    { 1, 1, 8 },
    { 3, 2, 8 },
    { 8, 10, 16 },
    { 9, 31, 32 },
    { 257, 32, 32 },
    { 300, 33, 40 },
    { 17, 100, 112 },
    { 5, 1000, 1000 },
};

struct loss {
    double sum;
    uint32_t correct, counted;
};

/* Row by row in double; *gradient gets what is not yet scaled. */
static struct loss loss_in_double(struct loss_case c, double smoothing, const float *logits,
                                  const struct mixed_label *labels, double *gradient)
{
    struct loss loss = { 0, 0, 0 };
    for (size_t n = 0; n < c.count; n++) {
        const float *row = logits + n * c.stored;
        uint32_t best = 0;
        double sum = 0;
        for (uint32_t i = 1; i < c.classes; i++)
            best = row[i] > row[best] ? i : best;
        for (uint32_t i = 0; i < c.classes; i++)
            sum += exp((double)row[i] - row[best]);
        const uint32_t label = (uint32_t)labels[n].label, other = (uint32_t)labels[n].other;
        const double share = (double)labels[n].share;
        const bool is_counted = label < c.classes;
        for (uint32_t i = 0; i < c.stored; i++) {
            const double wanted = (1 - smoothing) * (share * (i == label) + (1 - share) * (i == other)) +
                                  smoothing / c.classes;
            const bool is_used = is_counted && i < c.classes;
            gradient[n * c.stored + i] = is_used ? exp((double)row[i] - row[best]) / sum - wanted : 0;
            loss.sum += is_used ? wanted * (log(sum) + row[best] - row[i]) : 0;
        }
        loss.correct += is_counted && best == (share >= 0.5 ? label : other);
        loss.counted += is_counted;
    }
    return loss;
}

/* Half of the rows have equal largest logits, so that the first of them matters. */
static float *loss_logits(enum value_type type, struct loss_case c)
{
    const size_t count = (size_t)c.count * c.stored;
    float *logits = draw(type, 11, count), *whole = draw_whole(12, count, 2);
    for (size_t i = 0; i < count; i++)
        logits[i] = i % c.stored >= c.classes ? 1000 : i / c.stored % 2 ? whole[i]
                                                                        : 4 * logits[i];
    free(whole);
    return logits;
}

/* Every third one is a label by itself among those that are mixed. */
static struct mixed_label *loss_labels(struct loss_case c, bool mixed)
{
    static const int32_t none[] = { -1, 1 << 30, INT32_MIN };
    struct mixed_label *labels = calloc(c.count + 1, sizeof(*labels));
    assert_non_null(labels);
    for (uint32_t n = 0; n < c.count; n++) {
        const int32_t label = n % 5 == 4 ? none[n / 5 % 3] : n % 25 == 3 ? (int32_t)c.classes
                                                                         : (int32_t)(n * 7 % c.classes);
        const int32_t other = (int32_t)(n * 11 % c.classes);
        const bool is_mixed = mixed && n % 3 != 0 && label >= 0 && (uint32_t)label < c.classes;
        labels[n] = (struct mixed_label){ label, is_mixed ? other : label, is_mixed ? (float)(n % 17) / 16 : 1 };
    }
    return labels;
}

static void assert_result(const struct backend_result *device, const struct loss *expected, uint32_t skipped,
                          float scale)
{
    struct backend_result found;
    read_back(device, &found, sizeof(found));
    assert_near(found.loss_sum, expected->sum, 1e-6, 1e-5);
    assert_int_equal(found.correct, expected->correct);
    assert_int_equal(found.counted, expected->counted);
    assert_int_equal(found.skipped_steps, skipped);
    assert_true(found.loss_scale == scale);
}

static void assert_gradient(enum value_type type, const void *device, const double *expected, double factor,
                            size_t count)
{
    static const double steps[VALUE_TYPE_COUNT] = { 1e-6, 0x1p-11, 0x1p-8 };
    const double least = type == VALUE_FP16 ? 0x1p-24 : 0;
    float *found = floats_new(count);
    values_read(type, device, found, count);
    for (size_t i = 0; i < count; i++) {
        assert_near(found[i], expected[i] * factor, 1.01 * steps[type], 1e-6 * factor + least);
        assert_true(expected[i] != 0 || found[i] == 0);
    }
    free(found);
}

static void check_loss(enum value_type type, struct loss_case c, bool mixed, float smoothing,
                       const struct loss_scale *scale)
{
    const size_t count = (size_t)c.count * c.stored;
    const struct loss_shape shape = { .count = c.count, .classes = c.classes, .stored = c.stored, .weight = 1,
                                      .smoothing = smoothing };
    const float factor = scale != NULL ? scale->factor : 1;
    float *logits = loss_logits(type, c);
    struct mixed_label *labels = loss_labels(c, mixed);
    double *gradient = calloc(count + 1, sizeof(*gradient));
    assert_non_null(gradient);
    const struct loss expected = loss_in_double(c, (double)smoothing, logits, labels, gradient);
    void *from = values_new(type, logits, count), *to = values_poison(type, count);
    struct mixed_label *label_area = area_new(labels, c.count * sizeof(*labels));
    struct loss_scale *scale_area = scale != NULL ? area_new(scale, sizeof(*scale)) : NULL;
    struct sample_loss *samples = area_new(NULL, c.count * sizeof(*samples));
    struct backend_result *result = area_new(NULL, sizeof(*result)), first, again;
    CUDA_OK(kernel_softmax_loss(stream, type, &shape, from, label_area, scale_area, to, samples, result));
    assert_gradient(type, to, gradient, factor, count);
    assert_result(result, &expected, scale != NULL ? scale->skipped_steps : 0, factor);
    assert_values(type, from, logits, count);
    read_back(result, &first, sizeof(first));
    CUDA_OK(kernel_softmax_loss(stream, type, &shape, from, label_area, scale_area, NULL, samples, result));
    read_back(result, &again, sizeof(again));
    assert_memory_equal(&first, &again, sizeof(first));
    CUDA_OK(kernel_softmax_loss(stream, type, &shape, from, label_area, scale_area, from, samples, result));
    void *outside = malloc(count * value_bytes(type) + 1);
    assert_non_null(outside);
    read_back(to, outside, count * value_bytes(type));
    assert_holds(from, outside, count * value_bytes(type));
    assert_result(result, &expected, scale != NULL ? scale->skipped_steps : 0, factor);
    areas_close();
    free(outside);
    free(logits);
    free(labels);
    free(gradient);
}

static void softmax_loss_and_gradient_equal_those_in_double(void **state)
{
    static const struct loss_scale scale = { .factor = 1024, .skipped_steps = 6 };
    (void)state;
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(loss_cases); i++) {
        check_loss(type, loss_cases[i], false, 0, NULL);
        check_loss(type, loss_cases[i], false, 0, &scale);
    }
}

static void smoothed_labels_give_the_loss_and_gradient_in_double(void **state)
{
    static const struct loss_scale scale = { .factor = 1024 };
    (void)state;
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(loss_cases); i++) {
        check_loss(type, loss_cases[i], false, 0.1f, NULL);
        check_loss(type, loss_cases[i], false, 0.5f, &scale);
    }
}

static void mixed_labels_give_the_loss_and_gradient_in_double(void **state)
{
    static const struct loss_scale scale = { .factor = 1024 };
    (void)state;
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(loss_cases); i++) {
        check_loss(type, loss_cases[i], true, 0, NULL);
        check_loss(type, loss_cases[i], true, 0.1f, &scale);
    }
}

/* Two auxiliary losses and the last one, all of the same logits. */
static void check_auxiliary_loss(enum value_type type, struct loss_case c, const struct loss_scale *scale)
{
    const size_t count = (size_t)c.count * c.stored;
    struct loss_shape shape = { c.count, c.classes, c.stored, .weight = 0.5f, .is_auxiliary = true, .adds = false };
    float *logits = loss_logits(type, c);
    struct mixed_label *labels = loss_labels(c, false);
    double *gradient = calloc(count, sizeof(*gradient));
    assert_non_null(gradient);
    struct loss expected = loss_in_double(c, 0, logits, labels, gradient);
    void *from = values_new(type, logits, count), *to = values_poison(type, count);
    const struct mixed_label *label_area = area_new(labels, c.count * sizeof(*labels));
    const struct loss_scale *scale_area = area_new(scale, sizeof(*scale));
    struct sample_loss *samples = area_new(NULL, c.count * sizeof(*samples));
    struct backend_result *result = area_new(NULL, sizeof(*result));
    CUDA_OK(kernel_softmax_loss(stream, type, &shape, from, label_area, scale_area, to, samples, result));
    assert_gradient(type, to, gradient, 0.5 * (double)scale->factor, count);
    const struct loss alone = { 0.5 * expected.sum, 0, 0 };
    assert_result(result, &alone, scale->skipped_steps, scale->factor);
    shape.weight = 0.25f;
    shape.adds = true;
    CUDA_OK(kernel_softmax_loss(stream, type, &shape, from, label_area, scale_area, NULL, samples, result));
    shape.weight = 1;
    shape.is_auxiliary = false;
    CUDA_OK(kernel_softmax_loss(stream, type, &shape, from, label_area, scale_area, to, samples, result));
    assert_gradient(type, to, gradient, scale->factor, count);
    expected.sum *= 1.75;
    assert_result(result, &expected, scale->skipped_steps, scale->factor);
    areas_close();
    free(logits);
    free(labels);
    free(gradient);
}

static void auxiliary_losses_are_weighted_and_added_and_count_no_samples(void **state)
{
    static const struct loss_scale scale = { .factor = 64, .skipped_steps = 3 };
    (void)state;
    FOR_EACH_TYPE(type)
    check_auxiliary_loss(type, (struct loss_case){ 300, 33, 40 }, &scale);
}

static void softmax_loss_of_large_logits_is_finite(void **state)
{
    enum { CLASSES = 40 };
    static const struct loss_shape shape = { .count = 1, .classes = CLASSES, .stored = CLASSES, .weight = 1 };
    (void)state;
    FOR_EACH_TYPE(type)
    {
        float logits[CLASSES], gradient[CLASSES];
        const struct mixed_label label = { 1, 1, 1 };
        struct backend_result *result = area_new(NULL, sizeof(*result)), found;
        for (int i = 0; i < CLASSES; i++)
            logits[i] = i == 39 ? 60000.0f : -60000.0f;
        void *to = values_poison(type, CLASSES);
        CUDA_OK(kernel_softmax_loss(stream, type, &shape, values_new(type, logits, CLASSES),
                                    area_new(&label, sizeof(label)), NULL, to,
                                    area_new(NULL, sizeof(struct sample_loss)), result));
        read_back(result, &found, sizeof(found));
        values_read(type, to, gradient, CLASSES);
        assert_near(found.loss_sum, 120000, 0x1p-8, 0);
        for (int i = 0; i < CLASSES; i++)
            assert_true(gradient[i] == (i == 39 ? 1 : i == 1 ? -1
                                                             : 0));
        areas_close();
    }
}

/* As in the plain loop, a NaN in the first place is the largest and one elsewhere is not. */
static void nan_logits_show_in_the_loss_and_count_as_in_a_plain_loop(void **state)
{
    enum { CLASSES = 40 };
    static const struct loss_shape shape = { .count = 1, .classes = CLASSES, .stored = CLASSES, .weight = 1 };
    (void)state;
    for (int place = 0; place < CLASSES; place += 13) {
        float logits[CLASSES];
        const struct mixed_label label = { 5, 5, 1 };
        struct backend_result *result = area_new(NULL, sizeof(*result)), found;
        for (int i = 0; i < CLASSES; i++)
            logits[i] = i == place ? NAN : i == 5 ? 3.0f
                                                  : 0.0f;
        CUDA_OK(kernel_softmax_loss(stream, VALUE_FP32, &shape, values_new(VALUE_FP32, logits, CLASSES),
                                    area_new(&label, sizeof(label)), NULL, NULL,
                                    area_new(NULL, sizeof(struct sample_loss)), result));
        read_back(result, &found, sizeof(found));
        assert_true(isnan(found.loss_sum));
        assert_int_equal(found.correct, place != 0);
        assert_int_equal(found.counted, 1);
        areas_close();
    }
}

/* ---- arguments ---- */

static void shapes_that_break_a_rule_are_refused(void **state)
{
    static const struct image_shape narrow = { 1, 1, 3, 4, 1 }, wide = { 1, 1, 17, 24, 1 },
                                    uneven = { 1, 6, 3, 8, 4 };
    static const struct input_transform plain = { .divisor = 1, .is_plain = true }, transform = { .divisor = 1 };
    static const struct loss_shape tight = { .count = 1, .classes = 9, .stored = 8 };
    (void)state;
    assert_int_equal(kernel_input(stream, VALUE_FP32, &narrow, &plain, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL),
                     cudaErrorInvalidValue);
    assert_int_equal(kernel_input(stream, VALUE_FP32, &uneven, &plain, NULL, NULL, area_new(NULL, 64), 0, 0, NULL, NULL,
                                  NULL), cudaErrorInvalidValue);
    assert_int_equal(kernel_input(stream, VALUE_FP32, &wide, &transform, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL),
                     cudaErrorInvalidValue);
    assert_int_equal(kernel_bias(stream, VALUE_FP32, 1, 12, NULL, 0, NULL), cudaErrorInvalidValue);
    assert_int_equal(kernel_bias_gradient(stream, VALUE_FP32, 1, 7, NULL, NULL, NULL, NULL), cudaErrorInvalidValue);
    assert_int_equal(kernel_softmax_loss(stream, VALUE_FP32, &tight, NULL, NULL, NULL, NULL, NULL, NULL),
                     cudaErrorInvalidValue);
}

static void misaligned_memory_is_refused(void **state)
{
    static const struct image_shape image = { 1, 1, 3, 8, 1 };
    static const struct input_transform plain = { .divisor = 1, .is_plain = true };
    unsigned char *memory = area_new(NULL, 256), *off = memory + 8;
    (void)state;
    assert_int_equal(kernel_input(stream, VALUE_FP16, &image, &plain, memory, NULL, NULL, 0, 0, off, NULL, NULL),
                     cudaErrorMisalignedAddress);
    assert_int_equal(kernel_relu(stream, VALUE_FP16, 8, memory, off), cudaErrorMisalignedAddress);
    assert_int_equal(kernel_relu_backward(stream, VALUE_FP16, 8, off, memory, memory, false),
                     cudaErrorMisalignedAddress);
    assert_int_equal(kernel_add(stream, VALUE_FP16, 8, memory, off, false, memory), cudaErrorMisalignedAddress);
    assert_int_equal(kernel_bias(stream, VALUE_FP16, 1, 8, off, 0, memory), cudaErrorMisalignedAddress);
    assert_int_equal(kernel_bias_gradient(stream, VALUE_FP16, 1, 8, NULL, memory, (float *)(void *)off, NULL),
                     cudaErrorMisalignedAddress);
    areas_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(input_divides_pixels_mixes_them_and_pads_channels_with_zero),
        cmocka_unit_test(input_takes_a_mean_and_a_deviation_per_channel),
        cmocka_unit_test(relu_keeps_what_is_positive_and_its_gradient),
        cmocka_unit_test(sums_may_lie_over_what_is_added),
        cmocka_unit_test(dropout_drops_what_the_mask_of_the_definition_drops),
        cmocka_unit_test(a_random_number_equal_to_the_threshold_keeps_its_value),
        cmocka_unit_test(bias_is_added_to_every_row),
        cmocka_unit_test(bias_gradient_sums_every_row_once),
        cmocka_unit_test(bias_gradient_is_accurate_and_the_same_in_every_run),
        cmocka_unit_test(softmax_loss_and_gradient_equal_those_in_double),
        cmocka_unit_test(smoothed_labels_give_the_loss_and_gradient_in_double),
        cmocka_unit_test(mixed_labels_give_the_loss_and_gradient_in_double),
        cmocka_unit_test(auxiliary_losses_are_weighted_and_added_and_count_no_samples),
        cmocka_unit_test(softmax_loss_of_large_logits_is_finite),
        cmocka_unit_test(nan_logits_show_in_the_loss_and_count_as_in_a_plain_loop),
        cmocka_unit_test(shapes_that_break_a_rule_are_refused),
        cmocka_unit_test(misaligned_memory_is_refused),
    };
    const int status = kernel_test_status();
    return status != 0 ? status : cmocka_run_group_tests(tests, kernel_test_open, kernel_test_close);
}
