/* Tests of the kernels of shares of a net, with every type of values, against plain loops and the rules of
 * compute/part_loss.h on the host. */
#include <math.h>
#include <string.h>

#include "compute/cuda/kernels.h"
#include "compute/part_loss.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

/* ---- memory outside of plans ---- */

static const struct outside_shape outside_shapes[] = {
    { 0, 1, 8, 8, 1 }, { 1, 1, 1, 8, 1 }, { 3, 1, 24, 24, 4 }, { 5, 1, 12, 16, 4 }, { 2, 1, 12, 16, 12 },
    { 4, 9, 17, 24, 1 }, { 3, 36, 8, 8, 3 }, { 300, 1, 33, 40, 1 }, { 2, 49, 512, 512, 1 },
};

/* Where channel c of pixel p of a sample is outside: numbers of a sample are in C,H,W order. */
static size_t outside_place(const struct outside_shape *shape, size_t sample, size_t p, size_t c)
{
    const size_t number = c * shape->pixels + p, of_part = (size_t)shape->channels * shape->pixels / shape->parts;
    return (number / of_part * shape->count + sample) * of_part + number % of_part;
}

static void check_outside(enum value_type type, const struct outside_shape *shape)
{
    const size_t rows = (size_t)shape->count * shape->pixels, stored = rows * shape->stored;
    const size_t numbers = rows * shape->channels;
    float *const values = draw(type, 1, stored), *const before = draw(type, 2, stored);
    float *const outside = draw(VALUE_FP32, 3, numbers), *const sent = floats_new(numbers);
    float *const read = floats_new(stored), *const added = floats_new(stored);
    for (size_t row = 0; row < rows; row++)
        for (size_t c = 0; c < shape->stored; c++) {
            const size_t at = row * shape->stored + c;
            const bool is_real = c < shape->channels;
            const size_t place = is_real ? outside_place(shape, row / shape->pixels, row % shape->pixels, c) : 0;
            if (is_real)
                sent[place] = values[at];
            read[at] = is_real ? outside[place] : 0;
            added[at] = before[at] + read[at];
        }
    /* Memory outside begins at any number. */
    float *const to = (float *)area_new(NULL, (numbers + 1) * sizeof(float)) + 1;
    float *const from = (float *)area_new(outside, numbers * sizeof(float));
    void *const out = values_poison(type, stored), *const sum = values_new(type, before, stored);
    CUDA_OK(kernel_to_outside(stream, type, shape, values_new(type, values, stored), to));
    assert_holds(to, sent, numbers * sizeof(float));
    CUDA_OK(kernel_from_outside(stream, type, shape, from, out, false));
    assert_values(type, out, read, stored);
    CUDA_OK(kernel_from_outside(stream, type, shape, from, sum, true));
    assert_values(type, sum, added, stored);
    areas_close();
}

TEST(numbers_outside_are_fp32_in_c_h_w_order_by_part)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(outside_shapes); i++)
        check_outside(type, &outside_shapes[i]);
}

TEST(shapes_outside_are_checked)
{
    static const struct outside_shape broken[] = { { 1, 1, 12, 12, 1 }, { 1, 1, 17, 16, 1 }, { 1, 1, 8, 8, 3 },
                                                   { 1, 1, 8, 8, 0 }, { 1, 0, 8, 8, 1 } };
    const struct outside_shape whole = { 1, 1, 8, 8, 1 };
    char *const values = values_poison(VALUE_FP32, 64);
    float *const outside = area_new(NULL, 64 * sizeof(float));
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        INVALID(kernel_to_outside(stream, VALUE_FP32, &broken[i], values, outside));
        INVALID(kernel_from_outside(stream, VALUE_FP32, &broken[i], outside, values, false));
    }
    MISALIGNED(kernel_to_outside(stream, VALUE_FP32, &whole, values + 4, outside));
    MISALIGNED(kernel_from_outside(stream, VALUE_FP32, &whole, outside, values + 4, false));
    areas_close();
}

TEST(rows_without_samples_are_zeros_without_a_label)
{
    static const struct { size_t count; uint32_t rows; } cases[] = { { 0, 0 }, { 1, 1 }, { 700, 3 }, { 3, 300 } };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const size_t count = cases[i].count;
        struct mixed_label labels[300];
        for (uint32_t row = 0; row < cases[i].rows; row++)
            labels[row] = (struct mixed_label){ -1, -1, 1 };
        float *const numbers = area_new(NULL, count * sizeof(float));
        struct mixed_label *const to = area_new(NULL, cases[i].rows * sizeof(*to));
        CUDA_OK(kernel_send_nothing(stream, count, numbers, cases[i].rows, to));
        assert_holds(numbers, floats_new(count), count * sizeof(float));
        assert_holds(to, labels, cases[i].rows * sizeof(*labels));
        areas_close();
    }
}

/* ---- the loss of a part of the classes ---- */

/* `parts` parts of `classes` logits each, of `count` samples. */
struct loss_case { uint32_t count, parts, classes, stored; };

static const struct loss_case loss_cases[] = {
    { 1, 1, 1, 8 }, { 5, 4, 1, 8 }, { 7, 2, 10, 16 }, { 3, 7, 33, 40 }, { 4, 3, 1000, 1000 }, { 2, 4, 2500, 2504 },
};

enum { CLASSES_MAX = 10000, PARTS_MAX = 7, ROWS_MAX = 8 };

/* The logits of every part, with 1000 in padding columns; labels; the statistics on the host. */
struct samples {
    struct loss_case shape;
    struct part_rule rule, device_rule;
    float *logits[PARTS_MAX];
    struct mixed_label labels[ROWS_MAX];
    struct part_stats stats[PARTS_MAX * ROWS_MAX];
};

/* In half of the rows several logits are the largest: the first one counts. */
static float *draw_logits(enum value_type type, uint32_t part, const struct loss_case *c)
{
    const size_t count = (size_t)c->count * c->stored;
    float *const logits = draw(type, 20 + part, count), *const whole = draw_whole(40 + part, count, 2);
    for (size_t i = 0; i < count; i++)
        logits[i] = i % c->stored >= c->classes ? 1000 : i / c->stored % 2 ? whole[i] : rounded(type, 4 * logits[i]);
    return logits;
}

static struct part_stats stats_on_host(const struct samples *samples, uint32_t part, uint32_t row)
{
    const struct loss_case *const c = &samples->shape;
    const float *const logits = samples->logits[part] + (size_t)row * c->stored;
    const struct mixed_label *const label = &samples->labels[row];
    uint32_t best = 0;
    struct part_stats stats = { .sum = 0 };
    for (uint32_t i = 1; i < c->classes; i++)
        best = logits[i] > logits[best] || (isnan(logits[i]) && !isnan(logits[best])) ? i : best;
    stats.largest = logits[best];
    stats.predicted = part * c->classes + best;
    for (uint32_t i = 0; i < c->classes; i++) {
        const double target = label->label < 0 ? 0 : part_target(&samples->rule, label, part * c->classes + i);
        stats.sum += exp((double)logits[i] - (double)stats.largest);
        stats.target += target > 0 ? target * (double)logits[i] : 0;
    }
    return stats;
}

static struct part_rule rule_make(const struct loss_case *c, double smoothing, const float *class_weights)
{
    struct part_rule rule = { .smoothing = smoothing, .classes = c->parts * c->classes,
                              .class_weights = class_weights };
    rule.weight_total = class_weights == NULL ? rule.classes : 0;
    for (uint32_t i = 0; i < rule.classes && class_weights != NULL; i++)
        rule.weight_total += (double)class_weights[i];
    return rule;
}

/* Labels of row 2 are missing; those of odd rows are mixed. */
static void samples_make(struct samples *samples, enum value_type type, const struct loss_case *c, double smoothing,
                         const float *class_weights)
{
    const uint32_t classes = c->parts * c->classes;
    *samples = (struct samples){ .shape = *c, .rule = rule_make(c, smoothing, class_weights) };
    samples->device_rule = samples->rule;
    if (class_weights != NULL)
        samples->device_rule.class_weights = area_new(class_weights, classes * sizeof(float));
    for (uint32_t row = 0; row < c->count; row++) {
        const int32_t label = row == 2 ? -1 : (int32_t)(row * 31 % classes), other = (int32_t)(row * 47 % classes);
        const bool is_mixed = row % 2 == 1;
        samples->labels[row] = (struct mixed_label){ label, is_mixed ? other : label, is_mixed ? 0.3125f : 1 };
    }
    for (uint32_t part = 0; part < c->parts; part++)
        samples->logits[part] = draw_logits(type, part, c);
}

static void find_stats(struct samples *samples)
{
    const struct loss_case *const c = &samples->shape;
    for (uint32_t part = 0; part < c->parts; part++)
        for (uint32_t row = 0; row < c->count; row++)
            samples->stats[part * c->count + row] = stats_on_host(samples, part, row);
}

static struct part_loss_shape part_shape(const struct samples *samples, uint32_t part)
{
    const struct loss_case *const c = &samples->shape;
    return (struct part_loss_shape){ .count = c->count, .first = part * c->classes, .classes = c->classes,
                                     .stored = c->stored, .part = part, .parts = c->parts,
                                     .rule = samples->device_rule };
}

static void assert_stats(const struct part_stats *found, const struct part_stats *expected, double logits)
{
    assert_memory_equal(&found->largest, &expected->largest, sizeof(float));
    assert_int_equal(found->predicted, expected->predicted);
    assert_within(found->sum, expected->sum, 1e-6, 0);
    assert_within(found->target, expected->target, 1e-12, 1e-12 * logits);
}

static void check_stats(const struct samples *samples, enum value_type type)
{
    const struct loss_case *const c = &samples->shape;
    const size_t count = (size_t)c->count * c->parts;
    struct part_stats *const stats = area_new(NULL, count * sizeof(*stats)), *found[2];
    const struct mixed_label *const labels = area_new(samples->labels, c->count * sizeof(*labels));
    for (int again = 0; again < 2; again++) {
        for (uint32_t part = 0; part < c->parts; part++) {
            const struct part_loss_shape shape = part_shape(samples, part);
            const void *const logits = values_new(type, samples->logits[part], (size_t)c->count * c->stored);
            CUDA_OK(kernel_part_stats(stream, type, &shape, logits, labels, stats));
        }
        found[again] = device_copy(stats, count * sizeof(*stats));
    }
    assert_memory_equal(found[0], found[1], count * sizeof(*stats));
    for (size_t i = 0; i < count; i++)
        assert_stats(&found[0][i], &samples->stats[i], 20 * c->classes);
}

static void check_gradient(const struct samples *samples, enum value_type type, uint32_t part)
{
    static const double steps[VALUE_TYPE_COUNT] = { 0, 0x1p-11, 0x1p-8 };
    const struct loss_case *const c = &samples->shape;
    const size_t count = (size_t)c->count * c->stored;
    const struct part_loss_shape shape = part_shape(samples, part);
    void *const gradient = values_poison(type, count);
    CUDA_OK(kernel_part_gradient(stream, type, &shape, values_new(type, samples->logits[part], count),
                                 area_new(samples->labels, c->count * sizeof(*samples->labels)),
                                 area_new(samples->stats, (size_t)c->count * c->parts * sizeof(*samples->stats)),
                                 gradient));
    const float *const found = values_read(type, gradient, count);
    for (size_t i = 0; i < count; i++) {
        const uint32_t row = (uint32_t)(i / c->stored), column = (uint32_t)(i % c->stored);
        const struct mixed_label *const label = &samples->labels[row];
        const struct part_softmax softmax = part_combine(samples->stats + row, c->count, c->parts);
        const double total = label->label < 0 ? 0 : part_target_total(&samples->rule, label);
        const float expected = column < c->classes ? part_gradient(&samples->rule, label, total, &softmax,
                                                                   shape.first + column, samples->logits[part][i])
                                                   : 0;
        if (isnan(expected))
            assert_true(isnan(found[i]));
        else
            assert_within(found[i], expected, 1.01 * steps[type] + 1e-6, 5e-7);
        assert_true(expected != 0 || label->label >= 0 || found[i] == 0);
    }
}

static float *weights_make(void)
{
    float *const weights = host_new(CLASSES_MAX * sizeof(*weights));
    for (uint32_t i = 0; i < CLASSES_MAX; i++)
        weights[i] = 0.25f * (float)(i % 9);
    return weights;
}

/* Calls check for every type and case, without and with smoothing and class weights. */
static void for_each_case(void (*check)(const struct samples *samples, enum value_type type))
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(loss_cases); i++)
        for (int kind = 0; kind < 4; kind++) {
            struct samples samples;
            samples_make(&samples, type, &loss_cases[i], kind & 1 ? 0.1 : 0, kind & 2 ? weights_make() : NULL);
            find_stats(&samples);
            check(&samples, type);
            areas_close();
        }
}

TEST(statistics_of_a_part_equal_those_in_double)
{
    for_each_case(check_stats);
}

static void check_gradients(const struct samples *samples, enum value_type type)
{
    for (uint32_t part = 0; part < samples->shape.parts; part++)
        check_gradient(samples, type, part);
}

TEST(gradients_of_a_part_equal_those_of_the_rule)
{
    for_each_case(check_gradients);
}

/* Row 0 has a logit that is not finite, row 1 two, row 2 one and no label. */
TEST(logits_that_are_not_finite_make_gradients_nan)
{
    static const struct loss_case shape = { 4, 2, 300, 304 };
    static const float broken[] = { NAN, INFINITY };
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        struct samples samples;
        samples_make(&samples, VALUE_FP32, &shape, 0, NULL);
        samples.logits[0][200] = samples.logits[1][shape.stored + 299] = broken[i];
        samples.logits[1][shape.stored + 17] = samples.logits[0][2 * (size_t)shape.stored + 5] = broken[i];
        find_stats(&samples);
        check_gradients(&samples, VALUE_FP32);
        struct part_stats *const stats = area_new(NULL, sizeof(*stats) * 2 * shape.count), found[8];
        for (uint32_t part = 0; part < 2; part++) {
            const struct part_loss_shape of = part_shape(&samples, part);
            CUDA_OK(kernel_part_stats(stream, VALUE_FP32, &of,
                                      values_new(VALUE_FP32, samples.logits[part], (size_t)4 * shape.stored),
                                      area_new(samples.labels, sizeof(samples.labels)), stats));
        }
        read_back(stats, found, sizeof(found));
        for (size_t n = 0; n < 8; n++) {
            assert_int_equal(found[n].predicted, samples.stats[n].predicted);
            assert_int_equal(isnan(found[n].sum), isnan(samples.stats[n].sum));
        }
        assert_int_equal(found[0].predicted, 200);
        assert_int_equal(found[5].predicted, shape.classes + 17);
        areas_close();
    }
}

TEST(shapes_of_parts_are_checked)
{
    const struct part_loss_shape whole = { .count = 1, .classes = 8, .stored = 8, .parts = 1 };
    struct part_loss_shape broken[] = { whole, whole, whole, whole };
    broken[0].classes = 9;
    broken[1].classes = 0;
    broken[2].stored = 12;
    broken[3].part = 1;
    char *const values = values_poison(VALUE_FP32, 64);
    struct mixed_label *const labels = area_new(NULL, sizeof(*labels));
    struct part_stats *const stats = area_new(NULL, sizeof(*stats));
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        INVALID(kernel_part_stats(stream, VALUE_FP32, &broken[i], values, labels, stats));
        INVALID(kernel_part_gradient(stream, VALUE_FP32, &broken[i], values, labels, stats, values));
    }
    MISALIGNED(kernel_part_stats(stream, VALUE_FP32, &whole, values + 4, labels, stats));
    MISALIGNED(kernel_part_gradient(stream, VALUE_FP32, &whole, values, labels, stats, values + 4));
    areas_close();
}

/* ---- results ---- */

enum { ROWS = 700, PARTS = 5, FIRST = 100, COUNTED = 599 };

/* Any statistics: the rules make losses of them. */
static void draw_stats(struct part_stats stats[PARTS * ROWS])
{
    const float *const drawn = draw(VALUE_FP32, 60, 3 * PARTS * ROWS);
    for (uint32_t i = 0; i < PARTS * ROWS; i++)
        stats[i] = (struct part_stats){ rintf(2 * drawn[3 * i]), i / ROWS * 10 + i % 7,
                                        1 + fabs((double)drawn[3 * i + 1]), (double)drawn[3 * i + 2] };
}

static struct backend_result result_on_host(const struct part_rows *rows, const struct part_rule *rule)
{
    struct backend_result result = { .loss_scale = 1 };
    for (uint32_t row = FIRST; row < FIRST + COUNTED; row++) {
        const struct mixed_label *const label = &rows->labels[row];
        const struct part_softmax softmax = part_combine(rows->stats + row, ROWS, PARTS);
        if (label->label < 0)
            continue;
        result.loss_sum += part_loss(rule, label, &softmax);
        result.correct += softmax.predicted == (uint32_t)mixing_answer(label);
        result.counted++;
        if (rule->class_weights != NULL)
            result.weight_sum += (double)mixing_class_weight(label, rule->class_weights);
    }
    return result;
}

static void check_results(double smoothing, bool has_weights, const struct loss_scale *scale)
{
    static const struct loss_case shape = { .parts = PARTS, .classes = 10 };
    struct part_stats *const stats = host_new(PARTS * ROWS * sizeof(*stats));
    struct mixed_label *const labels = host_new(ROWS * sizeof(*labels));
    const struct part_rule rule = rule_make(&shape, smoothing, has_weights ? weights_make() : NULL);
    draw_stats(stats);
    for (uint32_t row = 0; row < ROWS; row++)
        labels[row] = (struct mixed_label){ row % 11 == 3 ? -1 : (int32_t)(row % 50), (int32_t)(row * 3 % 50),
                                            row % 3 ? 1 : 0.375f };
    struct part_rows rows = { .count = ROWS, .parts = PARTS, .labels = labels, .stats = stats };
    const struct backend_result expected = result_on_host(&rows, &rule);
    rows.labels = area_new(labels, ROWS * sizeof(*labels));
    rows.stats = area_new(stats, PARTS * ROWS * sizeof(*stats));
    rows.rule = rule;
    rows.rule.class_weights = has_weights ? area_new(rule.class_weights, CLASSES_MAX * sizeof(float)) : NULL;
    struct backend_result *const result = area_new(NULL, sizeof(*result)), found;
    float *const weight_sum = area_new(NULL, sizeof(float)), weights;
    struct answer *const answers = area_new(NULL, COUNTED * sizeof(*answers)), answered[COUNTED];
    CUDA_OK(kernel_part_result(stream, &rows, FIRST, COUNTED, scale != NULL ? area_new(scale, sizeof(*scale)) : NULL,
                               weight_sum, result));
    CUDA_OK(kernel_part_answers(stream, &rows, FIRST, COUNTED, answers));
    read_back(result, &found, sizeof(found));
    read_back(weight_sum, &weights, sizeof(weights));
    read_back(answers, answered, sizeof(answered));
    assert_within(found.loss_sum, expected.loss_sum, 1e-12, 0);
    assert_true(found.weight_sum == expected.weight_sum && weights == (float)expected.weight_sum);
    assert_int_equal(found.correct, expected.correct);
    assert_int_equal(found.counted, expected.counted);
    assert_int_equal(found.skipped_steps, scale != NULL ? scale->skipped_steps : 0);
    assert_true(found.loss_scale == (scale != NULL ? scale->factor : 1) && found.is_skipped == 0);
    for (uint32_t i = 0; i < COUNTED; i++) {
        const uint32_t best = part_with_largest(stats + FIRST + i, ROWS, PARTS);
        assert_int_equal(answered[i].label, labels[FIRST + i].label);
        assert_int_equal(answered[i].predicted, stats[best * ROWS + FIRST + i].predicted);
    }
    areas_close();
}

TEST(results_of_rows_follow_from_the_statistics_of_all_parts)
{
    static const struct loss_scale scale = { .factor = 1, .skipped_steps = 3 };
    check_results(0, false, NULL);
    check_results(0.25, true, &scale);
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
