/* Tests of the kernel of the loss, with every type of values, against plain loops in double. */
#include <math.h>

#include "compute/cuda/kernels.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

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

/* Row by row in double; writes the gradient without the loss scale. */
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

/* In half of the rows several logits are the largest: the first one counts. */
static float *loss_logits(enum value_type type, struct loss_case c)
{
    const size_t count = (size_t)c.count * c.stored;
    float *logits = draw(type, 11, count), *whole = draw_whole(12, count, 2);
    for (size_t i = 0; i < count; i++)
        logits[i] = i % c.stored >= c.classes ? 1000 : i / c.stored % 2 ? whole[i]
                                                                        : 4 * logits[i];
    return logits;
}

/* With `mixed`, every third label is not mixed. */
static struct mixed_label *loss_labels(struct loss_case c, bool mixed)
{
    static const int32_t none[] = { -1, 1 << 30, INT32_MIN };
    struct mixed_label *labels = host_new((c.count + 1) * sizeof(*labels));
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
    assert_within(found.loss_sum, expected->sum, 1e-6, 1e-5);
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
    const float *const found = values_read(type, device, count);
    for (size_t i = 0; i < count; i++) {
        assert_within(found[i], expected[i] * factor, 1.01 * steps[type], 1e-6 * factor + least);
        assert_true(expected[i] != 0 || found[i] == 0);
    }
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
    double *gradient = host_new((count + 1) * sizeof(*gradient));
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
    assert_holds(from, device_copy(to, count * value_bytes(type)), count * value_bytes(type));
    assert_result(result, &expected, scale != NULL ? scale->skipped_steps : 0, factor);
    areas_close();
}

TEST(softmax_loss_and_gradient_equal_those_in_double)
{
    static const struct { bool mixed; float smoothing; struct loss_scale scale; } kinds[] = {
        { false, 0, { .factor = 0 } }, { false, 0, { .factor = 1024, .skipped_steps = 6 } },
        { false, 0.1f, { .factor = 0 } }, { false, 0.5f, { .factor = 1024 } },
        { true, 0, { .factor = 0 } }, { true, 0.1f, { .factor = 1024 } },
    };
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < COUNT_OF(loss_cases); i++)
            for (size_t k = 0; k < COUNT_OF(kinds); k++)
                check_loss(type, loss_cases[i], kinds[k].mixed, kinds[k].smoothing,
                           kinds[k].scale.factor > 0 ? &kinds[k].scale : NULL);
}

/* Two auxiliary losses and the last one, all of the same logits. */
static void check_auxiliary_loss(enum value_type type, struct loss_case c, const struct loss_scale *scale)
{
    const size_t count = (size_t)c.count * c.stored;
    struct loss_shape shape = { c.count, c.classes, c.stored, .weight = 0.5f, .is_auxiliary = true, .adds = false };
    float *logits = loss_logits(type, c);
    struct mixed_label *labels = loss_labels(c, false);
    double *gradient = host_new(count * sizeof(*gradient));
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
}

TEST(auxiliary_losses_are_weighted_and_added_and_count_no_samples)
{
    static const struct loss_scale scale = { .factor = 64, .skipped_steps = 3 };
    FOR_EACH_TYPE(type)
    check_auxiliary_loss(type, (struct loss_case){ 300, 33, 40 }, &scale);
}

enum { CLASSES = 40 };

/* Of one row. gradient_out may be NULL. */
static struct backend_result loss_of_row(enum value_type type, const float *logits, int32_t label,
                                         const float **gradient_out)
{
    static const struct loss_shape shape = { .count = 1, .classes = CLASSES, .stored = CLASSES, .weight = 1 };
    const struct mixed_label labels = { label, label, 1 };
    struct backend_result *result = area_new(NULL, sizeof(*result)), found;
    void *const to = gradient_out != NULL ? values_poison(type, CLASSES) : NULL;
    CUDA_OK(kernel_softmax_loss(stream, type, &shape, values_new(type, logits, CLASSES),
                                area_new(&labels, sizeof(labels)), NULL, to,
                                area_new(NULL, sizeof(struct sample_loss)), result));
    read_back(result, &found, sizeof(found));
    if (gradient_out != NULL)
        *gradient_out = values_read(type, to, CLASSES);
    return found;
}

TEST(softmax_loss_of_large_logits_is_finite)
{
    FOR_EACH_TYPE(type)
    {
        float logits[CLASSES];
        const float *gradient;
        for (int i = 0; i < CLASSES; i++)
            logits[i] = i == 39 ? 60000.0f : -60000.0f;
        assert_within(loss_of_row(type, logits, 1, &gradient).loss_sum, 120000, 0x1p-8, 0);
        for (int i = 0; i < CLASSES; i++)
            assert_true(gradient[i] == (i == 39) - (i == 1));
        areas_close();
    }
}

/* As in a plain loop, a NaN in the first place is the largest logit, and one elsewhere is not. */
TEST(nan_logits_make_the_loss_nan)
{
    for (int place = 0; place < CLASSES; place += 13) {
        float logits[CLASSES] = { [5] = 3 };
        logits[place] = NAN;
        const struct backend_result found = loss_of_row(VALUE_FP32, logits, 5, NULL);
        assert_true(isnan(found.loss_sum));
        assert_int_equal(found.correct, place != 0);
        assert_int_equal(found.counted, 1);
        areas_close();
    }
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
