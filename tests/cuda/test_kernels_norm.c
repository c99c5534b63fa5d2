/* Tests of the kernels of batch normalisation, with every type of values, against loops in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/kernels.h"
#include "compute/cuda/sweep.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

#define EPSILON 1e-3f

struct norm_case {
    size_t rows;
    uint32_t columns;
    bool gamma, relu, shortcut;
    float decay;
};

static const struct norm_case cases[] = {
    { 1, 8, true, false, false, 0.9f },         /* one pixel of one sample */
    { 1, 16, false, true, false, 0.997f },
    { 2, 8, false, true, false, 0.999f },
    { 7, 16, true, true, true, 0.9997f },
    { 100, 24, true, true, false, 0.9f },
    { 5003, 8, false, true, true, 0.997f },
    { 1000, 264, true, false, false, 0.5f },
    { 20000, 16, true, true, false, 0 },        /* the batch only */
    { 333, 2048, false, true, false, 1 },       /* unchanged */
    { 70000, 8, true, true, true, 0.9f },
};

/* Relative error of a result rounded once. */
static const double steps[VALUE_TYPE_COUNT] = { [VALUE_FP32] = 2e-6, [VALUE_FP16] = 1e-3, [VALUE_BF16] = 8e-3 };

/* ---- expected values ---- */

struct numbers {
    struct norm_case shape;
    enum value_type type;
    size_t count;
    float *in, *shortcut, *gradient, *before, *gamma, *beta, *mean, *variance; /* host */
    double *means, *variances, *sums, *products; /* per column; sums after numbers_backward */
};

/* Sets what is kept per column from n->in. */
static void numbers_measure(struct numbers *n)
{
    const uint32_t columns = n->shape.columns;
    double **const made[] = { &n->means, &n->variances, &n->sums, &n->products };
    for (size_t i = 0; i < COUNT_OF(made); i++)
        *made[i] = host_new(columns * sizeof(**made[i]));
    for (size_t i = 0; i < n->count; i++)
        n->means[i % columns] += (double)n->in[i] / (double)n->shape.rows;
    for (size_t i = 0; i < n->count; i++)
        n->variances[i % columns] += pow((double)n->in[i] - n->means[i % columns], 2) / (double)n->shape.rows;
}

static void numbers_open(struct numbers *n, enum value_type type, const struct norm_case *shape)
{
    *n = (struct numbers){ .shape = *shape, .type = type, .count = shape->rows * shape->columns };
    n->in = draw(type, 1, n->count);
    n->shortcut = draw(type, 2, n->count);
    n->gradient = draw(type, 3, n->count);
    n->before = draw(type, 4, n->count);
    n->gamma = draw(VALUE_FP32, 5, shape->columns);
    n->beta = draw(VALUE_FP32, 6, shape->columns);
    n->mean = draw(VALUE_FP32, 7, shape->columns);
    n->variance = draw(VALUE_FP32, 8, shape->columns);
    numbers_measure(n);
}

static double inverse_of(const struct numbers *n, size_t column)
{
    return 1 / sqrt(n->variances[column] + (double)EPSILON);
}

static double gamma_of(const struct numbers *n, size_t column)
{
    return n->shape.gamma ? (double)n->gamma[column] : 1;
}

static double normal_of(const struct numbers *n, size_t i)
{
    const size_t column = i % n->shape.columns;
    return ((double)n->in[i] - n->means[column]) * inverse_of(n, column);
}

static double result_of(const struct numbers *n, size_t i)
{
    const size_t column = i % n->shape.columns;
    const double result = normal_of(n, i) * gamma_of(n, column) + (double)n->beta[column] +
                          (n->shape.shortcut ? (double)n->shortcut[i] : 0);
    return n->shape.relu && !(result > 0) ? 0 : result;
}

/* The gradient stops where `out`, the output of the device, is 0. */
static void numbers_backward(struct numbers *n, const float *out)
{
    for (size_t i = 0; i < n->count; i++) {
        if (n->shape.relu && !(out[i] > 0))
            n->gradient[i] = 0;
        n->sums[i % n->shape.columns] += (double)n->gradient[i];
        n->products[i % n->shape.columns] += (double)n->gradient[i] * normal_of(n, i);
    }
}

static double in_gradient_of(const struct numbers *n, size_t i)
{
    const size_t column = i % n->shape.columns;
    const double shared = (n->sums[column] + normal_of(n, i) * n->products[column]) / (double)n->shape.rows;
    return gamma_of(n, column) * inverse_of(n, column) * ((double)n->gradient[i] - shared);
}

/* ---- on the device ---- */

struct device_values {
    struct normalisation norm;
    void *in, *shortcut, *out, *gradient, *in_gradient, *added;
    uint8_t *mask; /* NULL without a shortcut */
    float *partials, *means, *running_mean, *running_variance, *gamma_gradient, *beta_gradient;
};

static void areas_open(struct device_values *a, const struct numbers *n)
{
    const size_t columns = n->shape.columns;
    *a = (struct device_values){
        .norm = { .rows = n->shape.rows, .columns = n->shape.columns, .stride = n->shape.columns,
                  .gamma = n->shape.gamma ? area_new(n->gamma, columns * sizeof(float)) : NULL,
                  .beta = area_new(n->beta, columns * sizeof(float)),
                  .statistics = area_new(NULL, 3 * columns * sizeof(float)) },
        .in = values_new(n->type, n->in, n->count),
        .shortcut = n->shape.shortcut ? values_new(n->type, n->shortcut, n->count) : NULL,
        .out = values_poison(n->type, n->count),
        .mask = n->shape.shortcut ? area_new(NULL, n->count / 8) : NULL,
        .gradient = values_new(n->type, n->gradient, n->count),
        .in_gradient = values_poison(n->type, n->count),
        .added = values_new(n->type, n->before, n->count),
        .partials = area_new(NULL, kernel_norm_partials(n->shape.rows, n->shape.columns) * sizeof(float)),
        .means = area_new(NULL, 2 * columns * sizeof(float)),
        .running_mean = area_new(n->mean, columns * sizeof(float)),
        .running_variance = area_new(n->variance, columns * sizeof(float)),
        .gamma_gradient = n->shape.gamma ? area_new(NULL, columns * sizeof(float)) : NULL,
        .beta_gradient = area_new(NULL, columns * sizeof(float)),
    };
}

static void run_forward(const struct device_values *a, const struct numbers *n)
{
    CUDA_OK(kernel_norm_statistics(stream, n->type, &a->norm, EPSILON, n->shape.decay, a->in, a->partials,
                                   a->running_mean, a->running_variance));
    CUDA_OK(kernel_norm_apply(stream, n->type, &a->norm, a->in, a->shortcut, n->shape.relu, a->out, a->mask));
}

/* As the backend does: after a sum the mask is stored, and applied once. */
static void run_backward(const struct device_values *a, const struct numbers *n)
{
    const bool again = n->shape.relu && !n->shape.shortcut;
    CUDA_OK(kernel_norm_sums(stream, n->type, &a->norm, a->in, n->shape.relu, a->mask,
                             a->gradient, a->partials, a->means, a->gamma_gradient, a->beta_gradient));
    CUDA_OK(kernel_norm_gradient(stream, n->type, &a->norm, a->in, again, a->gradient, a->means, a->in_gradient,
                                 false));
    CUDA_OK(kernel_norm_gradient(stream, n->type, &a->norm, a->in, again, a->gradient, a->means, a->added, true));
}

/* ---- checks ---- */

static void assert_columns_near(const float *device, const struct numbers *n,
                                double (*expected)(const struct numbers *n, size_t column), double relative,
                                double absolute)
{
    const float *const found = values_read(VALUE_FP32, device, n->shape.columns);
    for (size_t c = 0; c < n->shape.columns; c++)
        assert_within((double)found[c], expected(n, c), relative, absolute);
}

static double mean_of(const struct numbers *n, size_t column)
{
    return n->means[column];
}

static double running_mean_of(const struct numbers *n, size_t column)
{
    const double decay = (double)n->shape.decay;
    return decay * (double)n->mean[column] + (1 - decay) * n->means[column];
}

static double running_variance_of(const struct numbers *n, size_t column)
{
    const double rows = (double)n->shape.rows, unbiased = rows > 1 ? rows / (rows - 1) : 1;
    const double decay = (double)n->shape.decay;
    return decay * (double)n->variance[column] + (1 - decay) * unbiased * n->variances[column];
}

static double sum_of(const struct numbers *n, size_t column)
{
    return n->sums[column];
}

static double product_of(const struct numbers *n, size_t column)
{
    return n->products[column];
}

static void check_mask(const struct device_values *a, const struct numbers *n, const float *out)
{
    uint8_t *const mask = host_new(n->count / 8);
    for (size_t i = 0; i < n->count; i++)
        mask[i / 8] |= (uint8_t)((out[i] > 0) << i % 8);
    assert_holds(a->mask, mask, n->count / 8);
}

/* Returns the output. */
static const float *check_forward(const struct device_values *a, const struct numbers *n)
{
    const float *const out = values_read(n->type, a->out, n->count);
    assert_columns_near(a->norm.statistics, n, mean_of, 1e-6, 1e-6);
    assert_columns_near(a->norm.statistics + n->shape.columns, n, inverse_of, 3e-6, 0);
    assert_columns_near(a->running_mean, n, running_mean_of, 1e-6, 1e-6);
    assert_columns_near(a->running_variance, n, running_variance_of, 1e-6, 1e-6);
    for (size_t i = 0; i < n->count; i++)
        assert_within((double)out[i], result_of(n, i), steps[n->type], 3e-5);
    if (a->mask != NULL)
        check_mask(a, n, out);
    return out;
}

static void check_backward(const struct device_values *a, const struct numbers *n)
{
    const double summed = sqrt((double)n->shape.rows) * 3e-6;
    assert_columns_near(a->beta_gradient, n, sum_of, 1e-5, summed);
    if (n->shape.gamma)
        assert_columns_near(a->gamma_gradient, n, product_of, 1e-5, summed);
    const float *const found = values_read(n->type, a->in_gradient, n->count);
    const float *const added = values_read(n->type, a->added, n->count);
    for (size_t i = 0; i < n->count; i++) {
        assert_within((double)found[i], in_gradient_of(n, i), steps[n->type], 3e-4);
        assert_within((double)added[i], (double)n->before[i] + in_gradient_of(n, i), steps[n->type], 3e-4);
    }
    if (n->shape.shortcut)
        assert_values(n->type, a->gradient, n->gradient, n->count);
}

static void check_norm(enum value_type type, const struct norm_case *shape)
{
    struct numbers numbers;
    struct device_values areas;
    numbers_open(&numbers, type, shape);
    areas_open(&areas, &numbers);
    run_forward(&areas, &numbers);
    run_backward(&areas, &numbers);
    numbers_backward(&numbers, check_forward(&areas, &numbers));
    check_backward(&areas, &numbers);
    areas_close();
}

TEST(batch_norm_and_its_gradients_equal_those_in_double)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        check_norm(type, &cases[i]);
}

/* ---- properties ---- */

/* Both on the device. */
static void assert_same(const void *found, const void *expected, size_t bytes)
{
    assert_holds(found, device_copy(expected, bytes), bytes);
}

/* In any order of the blocks. */
TEST(sums_are_the_same_in_every_run)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct numbers numbers;
        struct device_values first, second;
        numbers_open(&numbers, VALUE_BF16, &cases[i]);
        areas_open(&first, &numbers);
        areas_open(&second, &numbers);
        run_forward(&first, &numbers);
        run_backward(&first, &numbers);
        CUDA_OK(kernel_relu(stream, VALUE_FP32, 8, first.partials, first.partials)); /* reverses the order */
        run_forward(&second, &numbers);
        run_backward(&second, &numbers);
        const size_t bytes = 2 * numbers.shape.columns * sizeof(float);
        assert_same(second.norm.statistics, first.norm.statistics, bytes);
        assert_same(second.means, first.means, bytes);
        areas_close();
    }
}

/* The tests below run the large cases only when tests are long; the first test has run them already. */
static size_t property_cases(void)
{
    enum { SMALL = 7 };
    return test_is_long() ? COUNT_OF(cases) : SMALL;
}

/* ---- the order of rows ---- */

/* Those of ResNet-50's layers at batch 4, one slab and one row more or less, and narrow and wide ones. */
static const struct { size_t rows; uint32_t columns; } shapes[] = {
    { 4 * 112 * 112, 64 }, { 4 * 56 * 56, 64 }, { 4 * 56 * 56, 256 }, { 4 * 28 * 28, 128 }, { 4 * 28 * 28, 512 },
    { 4 * 14 * 14, 256 }, { 4 * 14 * 14, 1024 }, { 4 * 7 * 7, 512 }, { 4 * 7 * 7, 2048 }, { 1, 8 }, { 32, 256 },
    { 31, 256 }, { 33, 256 }, { 1024, 8 }, { 1025, 8 }, { 3000000, 8 }, { 100000, 24 },
};

/* In the order of turns, and within a turn of blocks, every row is visited once: forwards from the first row to the
 * last slab, backwards from the last slab to the first row. */
static void check_sweep(const struct sweep *sweep)
{
    size_t visited = 0, *const rows_of = calloc(sweep->chunks, sizeof(*rows_of));
    assert_non_null(rows_of);
    for (uint32_t visit = 0; visit < sweep->slabs; visit++) {
        const uint32_t slab = sweep->backwards ? sweep->slabs - 1 - visit : visit;
        const size_t first = sweep_row(sweep, visit), end = first + sweep->slab_rows;
        assert_int_equal(first, (size_t)slab * sweep->slab_rows);
        const size_t rows = (end < sweep->rows ? end : sweep->rows) - first;
        rows_of[visit % sweep->chunks] += rows;
        visited += rows;
    }
    assert_int_equal(visited, sweep->rows);
    for (uint32_t chunk = 0; chunk < sweep->chunks; chunk++)
        assert_int_equal(rows_of[chunk], sweep_chunk_rows(sweep, chunk));
    free(rows_of);
}

TEST(a_sweep_visits_every_row_once_in_its_direction)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct sweep forwards = sweep_forwards(shapes[i].rows, shapes[i].columns);
        const struct sweep backwards = sweep_backwards(shapes[i].rows, shapes[i].columns);
        assert_false(forwards.backwards);
        assert_true(backwards.backwards);
        check_sweep(&forwards);
        check_sweep(&backwards);
    }
}

/* The window of a sum: what all blocks read in a turn. A wider one leaves less of the matrix' end in a cache. */
TEST(the_blocks_of_a_sum_run_side_by_side)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct sweep sweep = sweep_backwards(shapes[i].rows, shapes[i].columns);
        const size_t window = (size_t)sweep.chunks * sweep.slab_rows * shapes[i].columns * value_bytes(VALUE_BF16);
        assert_at_most(sweep.chunks * sweep.tiles, 4 * 108);            /* four on each multiprocessor of an A100 */
        assert_at_most(window, 8 << 20);
        assert_int_equal(kernel_norm_partials(shapes[i].rows, shapes[i].columns), 2 * sweep.chunks * shapes[i].columns);
    }
}

/* ---- columns that are known ---- */

/* `known` is all columns, or all but the last eight. */
static void check_known(enum value_type type, const struct norm_case *shape, uint32_t known)
{
    struct numbers numbers;
    struct device_values first, second;
    numbers_open(&numbers, type, shape);
    areas_open(&first, &numbers);
    areas_open(&second, &numbers);
    run_forward(&first, &numbers);
    second.norm.known.columns = known;
    second.norm.known.means = first.norm.statistics;
    second.norm.known.squares = first.norm.statistics + 2 * shape->columns;
    run_forward(&second, &numbers);
    check_forward(&second, &numbers);
    assert_same(second.norm.statistics, first.norm.statistics, known * sizeof(float));
    areas_close();
}

TEST(known_columns_are_not_measured_again)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < property_cases(); i++) {
        check_known(type, &cases[i], cases[i].columns - 8);
        check_known(type, &cases[i], cases[i].columns);
    }
}

/* Known statistics are used even where they are not those of the input. */
TEST(known_statistics_are_used_unchecked)
{
    enum { KNOWN = 16 };
    float means[KNOWN], squares[KNOWN];
    struct numbers numbers;
    struct device_values areas;
    numbers_open(&numbers, VALUE_BF16, &cases[4]);
    for (size_t c = 0; c < KNOWN; c++) {
        means[c] = (float)c;
        squares[c] = (float)(numbers.shape.rows * (c + 1));
        numbers.means[c] = (double)c;
        numbers.variances[c] = (double)c + 1;
    }
    areas_open(&areas, &numbers);
    areas.norm.known.columns = KNOWN;
    areas.norm.known.means = area_new(means, sizeof(means));
    areas.norm.known.squares = area_new(squares, sizeof(squares));
    run_forward(&areas, &numbers);
    check_forward(&areas, &numbers);
    areas_close();
}

/* ---- strided rows ---- */

enum { APART = 16 };            /* unused numbers between two rows */

/* Device memory of strided rows, with random numbers between them. */
static void *spread(const struct numbers *n, const float *values)
{
    const uint32_t columns = n->shape.columns, stride = columns + APART;
    float *const wide = draw(n->type, 9, n->shape.rows * stride);
    for (size_t i = 0; i < n->count; i++)
        wide[i / columns * stride + i % columns] = values[i];
    return values_new(n->type, wide, n->shape.rows * stride);
}

static void assert_spread(const struct numbers *n, const void *area, const void *close)
{
    const uint32_t columns = n->shape.columns, stride = columns + APART;
    const float *const found = values_read(n->type, close, n->count);
    float *const wide = draw(n->type, 9, n->shape.rows * stride);
    for (size_t i = 0; i < n->count; i++)
        wide[i / columns * stride + i % columns] = found[i];
    assert_values(n->type, area, wide, n->shape.rows * stride);
}

static void check_apart(enum value_type type, const struct norm_case *shape)
{
    struct numbers numbers;
    struct device_values close, apart;
    numbers_open(&numbers, type, shape);
    areas_open(&close, &numbers);
    areas_open(&apart, &numbers);
    apart.norm.stride += APART;
    apart.in = spread(&numbers, numbers.in);
    apart.in_gradient = spread(&numbers, numbers.before);
    apart.added = spread(&numbers, numbers.before);
    const struct device_values *const both[] = { &close, &apart };
    for (size_t i = 0; i < COUNT_OF(both); i++) {
        run_forward(both[i], &numbers);
        run_backward(both[i], &numbers);
    }
    assert_same(apart.out, close.out, numbers.count * value_bytes(type));
    assert_same(apart.means, close.means, 2 * shape->columns * sizeof(float));
    assert_spread(&numbers, apart.in_gradient, close.in_gradient);
    assert_spread(&numbers, apart.added, close.added);
    areas_close();
}

TEST(rows_may_be_strided)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < property_cases(); i++)
        check_apart(type, &cases[i]);
}

/* The sum of squares less the square of the sum would cancel here. */
TEST(a_mean_far_from_zero_leaves_the_variance_exact)
{
    enum { ROWS = 50000, COLUMNS = 8 };
    static const struct norm_case shape = { ROWS, COLUMNS, false, false, false, 0.9f };
    struct numbers numbers;
    struct device_values areas;
    numbers_open(&numbers, VALUE_FP32, &shape);
    for (size_t i = 0; i < numbers.count; i++)
        numbers.in[i] = 10000 + (i / COLUMNS % 2 == 0 ? 1.0f : -1.0f);
    for (size_t c = 0; c < COLUMNS; c++) {
        numbers.means[c] = 10000;
        numbers.variances[c] = 1;
    }
    areas_open(&areas, &numbers);
    run_forward(&areas, &numbers);
    assert_columns_near(areas.norm.statistics, &numbers, mean_of, 1e-7, 0);
    assert_columns_near(areas.norm.statistics + COLUMNS, &numbers, inverse_of, 1e-5, 0);
    areas_close();
}

/* ---- the line of a convolution that normalises its input ---- */

TEST(scale_and_shift_are_those_of_the_normalisation)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < property_cases(); i++) {
        struct numbers n;
        struct device_values areas;
        numbers_open(&n, type, &cases[i]);
        areas_open(&areas, &n);
        void *const scales = values_poison(type, n.shape.columns), *const shifts = values_poison(type, n.shape.columns);
        CUDA_OK(kernel_norm_statistics(stream, type, &areas.norm, EPSILON, 0.9, areas.in, areas.partials,
                                       areas.running_mean, areas.running_variance));
        CUDA_OK(kernel_norm_line(stream, type, &areas.norm, scales, shifts));
        const float *const scale = values_read(type, scales, n.shape.columns);
        const float *const shift = values_read(type, shifts, n.shape.columns);
        for (size_t c = 0; c < n.shape.columns; c++) {
            const double expected = gamma_of(&n, c) * inverse_of(&n, c);
            assert_within((double)scale[c], expected, steps[type], 0);
            assert_within((double)shift[c], (double)n.beta[c] - n.means[c] * expected, steps[type], 1e-4);
        }
        areas_close();
    }
}

/* ---- both summands normalised ---- */

/* The shortcut's rows are further apart than those of the result. */
static void check_both(enum value_type type, const struct norm_case *shape, bool relu, bool with_mask)
{
    struct numbers n;
    struct device_values areas;
    numbers_open(&n, type, shape);
    areas_open(&areas, &n);
    const size_t columns = n.shape.columns, bytes = n.count * value_bytes(type);
    struct normalisation other = areas.norm;
    other.stride = areas.norm.stride + 8;
    other.gamma = area_new(draw(VALUE_FP32, 9, columns), columns * sizeof(float));
    other.beta = area_new(draw(VALUE_FP32, 10, columns), columns * sizeof(float));
    other.statistics = area_new(NULL, 3 * columns * sizeof(float));
    const size_t wide = n.shape.rows * other.stride;
    void *const shortcut = values_new(type, draw(type, 11, wide), wide), *const normal = values_poison(type, n.count);
    void *const both = values_poison(type, n.count);
    uint8_t *const masks[] = { with_mask ? area_new(NULL, n.count / 8) : NULL,
                               with_mask ? area_new(NULL, n.count / 8) : NULL };
    run_forward(&areas, &n);
    CUDA_OK(kernel_norm_statistics(stream, type, &other, EPSILON, 0, shortcut, areas.partials, areas.running_mean,
                                   areas.running_variance));
    CUDA_OK(kernel_norm_apply(stream, type, &other, shortcut, NULL, false, normal, NULL));
    CUDA_OK(kernel_norm_apply(stream, type, &areas.norm, areas.in, normal, relu, areas.out, masks[0]));
    CUDA_OK(kernel_norm_apply_both(stream, type, &areas.norm, areas.in, &other, shortcut, relu, both, masks[1]));
    assert_same(both, areas.out, bytes);
    if (with_mask)
        assert_same(masks[1], masks[0], n.count / 8);
    areas_close();
}

TEST(a_normalised_shortcut_is_added_with_the_bits_of_two_kernels)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < property_cases(); i++) {
        check_both(type, &cases[i], false, false);
        check_both(type, &cases[i], true, false);
        check_both(type, &cases[i], true, true);
    }
}

/* ---- gradients from sums ---- */

TEST(means_from_sums_of_a_convolution_are_those_of_the_pass)
{
    for (size_t i = 0; i < property_cases(); i++) {
        struct numbers n;
        struct device_values areas;
        numbers_open(&n, VALUE_FP16, &cases[i]);
        areas_open(&areas, &n);
        const size_t columns = n.shape.columns, bytes = columns * sizeof(float);
        float *const sums = area_new(NULL, 2 * bytes), *const means = area_new(NULL, 2 * bytes);
        float *const gamma = area_new(NULL, bytes), *const beta = area_new(NULL, bytes);
        run_forward(&areas, &n);
        CUDA_OK(kernel_norm_sums(stream, VALUE_FP16, &areas.norm, areas.in, false, NULL, areas.gradient, areas.partials,
                                 areas.means, sums, sums + columns));
        CUDA_OK(kernel_norm_means(stream, &areas.norm, sums, means, gamma, beta));
        CUDA_OK(cudaStreamSynchronize(stream));
        assert_memory_equal(gamma, sums, bytes);
        assert_memory_equal(beta, sums + columns, bytes);
        assert_memory_equal(means, areas.means, 2 * bytes);
        areas_close();
    }
}

/* ---- statistics from sums ---- */

/* The sums of columns and of their squares as tensor-core convolutions compute them: in fp32, of tiles of rows, then of
 * the tiles. */
static float *sums_of(const struct numbers *n)
{
    enum { TILE = 128 };
    const uint32_t columns = n->shape.columns;
    float *const sums = floats_new(2 * columns), *const tile = floats_new(2 * columns);
    for (size_t row = 0; row < n->shape.rows; row++) {
        const float *const in = n->in + row * columns;
        for (uint32_t c = 0; c < columns; c++) {
            tile[c] += in[c];
            tile[columns + c] += in[c] * in[c];
        }
        if ((row + 1) % TILE != 0 && row + 1 < n->shape.rows)
            continue;
        for (uint32_t c = 0; c < 2 * columns; c++) {
            sums[c] += tile[c];
            tile[c] = 0;
        }
    }
    return area_new(sums, 2 * columns * sizeof(float));
}

static void run_from_sums(const struct device_values *a, const struct numbers *n)
{
    CUDA_OK(kernel_norm_from_sums(stream, &a->norm, EPSILON, n->shape.decay, sums_of(n), a->running_mean,
                                  a->running_variance));
}

/* The variance may err by what the squares of the mean are rounded to. */
static void check_sums(const struct device_values *a, const struct numbers *n)
{
    const uint32_t columns = n->shape.columns;
    const float *const found = values_read(VALUE_FP32, a->norm.statistics, 3 * columns);
    for (size_t c = 0; c < columns; c++)
        assert_within((double)found[2 * columns + c] / (double)n->shape.rows, n->variances[c], 3e-6,
                      1e-6 * n->means[c] * n->means[c]);
    assert_columns_near(a->norm.statistics, n, mean_of, 1e-6, 1e-6);
    assert_columns_near(a->norm.statistics + columns, n, inverse_of, 1e-4, 0);
    assert_columns_near(a->running_mean, n, running_mean_of, 1e-6, 1e-6);
    assert_columns_near(a->running_variance, n, running_variance_of, 3e-6, 1e-6);
}

TEST(sums_and_squares_give_the_statistics_of_values_around_zero)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < property_cases(); i++) {
        struct numbers numbers;
        struct device_values areas;
        numbers_open(&numbers, type, &cases[i]);
        areas_open(&areas, &numbers);
        run_from_sums(&areas, &numbers);
        check_sums(&areas, &numbers);
        areas_close();
    }
}

/* The largest relative error of the variance over the columns. */
static double variance_error(const struct device_values *a, const struct numbers *n)
{
    const float *const found = values_read(VALUE_FP32, a->norm.statistics, 3 * n->shape.columns);
    double most = 0;
    for (uint32_t c = 0; c < n->shape.columns; c++) {
        const double variance = (double)found[2 * n->shape.columns + c] / (double)n->shape.rows;
        most = fmax(most, fabs(variance / n->variances[c] - 1));
    }
    return most;
}

/* Values of deviation 1, and the errors of the variance that doc/numerics.md shows. */
static const struct cancelling { float mean; double by_sums, by_merging; } cancelling[] = {
    { 0, 2e-6, 2e-6 },
    { 1, 5e-6, 2e-6 },
    { 10, 5e-4, 2e-6 },
    { 100, 5e-2, 2e-6 },
};

TEST(the_variance_from_sums_errs_with_the_square_of_the_mean)
{
    static const struct norm_case shape = { 50176, 8, false, false, false, 0.9f };
    for (size_t i = 0; i < COUNT_OF(cancelling); i++) {
        struct numbers numbers;
        struct device_values areas;
        numbers_open(&numbers, VALUE_FP32, &shape);
        for (size_t k = 0; k < numbers.count; k++)
            numbers.in[k] += cancelling[i].mean;
        numbers_measure(&numbers);
        areas_open(&areas, &numbers);
        run_forward(&areas, &numbers);
        const double merged = variance_error(&areas, &numbers);
        run_from_sums(&areas, &numbers);
        const double summed = variance_error(&areas, &numbers);
        print_message("mean / deviation %3.0f: error of the variance %.1e by sums, %.1e by merging\n",
                      (double)cancelling[i].mean, summed, merged);
        assert_true(summed < cancelling[i].by_sums);
        assert_true(merged < cancelling[i].by_merging);
        areas_close();
    }
}

/* The squares are less than the square of the sum by a rounding error. */
TEST(a_variance_from_sums_is_not_negative_and_nan_stays)
{
    enum { ROWS = 1000, COLUMNS = 8 };
    static const struct norm_case shape = { ROWS, COLUMNS, false, false, false, 0 };
    float sums[2 * COLUMNS];
    struct numbers numbers;
    struct device_values areas;
    numbers_open(&numbers, VALUE_FP32, &shape);
    areas_open(&areas, &numbers);
    for (size_t c = 0; c < COLUMNS; c++) {
        sums[c] = 3.0f * ROWS;
        sums[COLUMNS + c] = c == 0 ? nanf("") : 8.99f * ROWS;
    }
    CUDA_OK(kernel_norm_from_sums(stream, &areas.norm, EPSILON, 0, area_new(sums, sizeof(sums)), areas.running_mean,
                                  areas.running_variance));
    const float *const variance = values_read(VALUE_FP32, areas.running_variance, COLUMNS);
    const float *const statistics = values_read(VALUE_FP32, areas.norm.statistics, 2 * COLUMNS);
    assert_true(isnan(variance[0]));
    for (size_t c = 1; c < COLUMNS; c++) {
        assert_true(variance[c] >= 0 && variance[c] <= 0);
        assert_within((double)statistics[COLUMNS + c], 1 / sqrt((double)EPSILON), 1e-6, 0);
    }
    areas_close();
}

TEST(evaluation_normalises_by_the_running_statistics_in_place)
{
    FOR_EACH_TYPE(type)
    {
        struct numbers numbers;
        struct device_values areas;
        numbers_open(&numbers, type, &cases[4]);
        for (size_t c = 0; c < numbers.shape.columns; c++) {
            numbers.variance[c] = fabsf(numbers.variance[c]);
            numbers.means[c] = (double)numbers.mean[c];
            numbers.variances[c] = (double)numbers.variance[c];
        }
        areas_open(&areas, &numbers);
        CUDA_OK(kernel_norm_running(stream, &areas.norm, EPSILON, areas.running_mean, areas.running_variance));
        CUDA_OK(kernel_norm_apply(stream, type, &areas.norm, areas.in, NULL, numbers.shape.relu, areas.in,
                                  NULL));
        const float *const out = values_read(type, areas.in, numbers.count);
        for (size_t i = 0; i < numbers.count; i++)
            assert_within((double)out[i], result_of(&numbers, i), steps[type], 1e-5);
        areas_close();
    }
}

/* ---- folded into a convolution ---- */

enum { FILTERS = 16 };

static double folded_scale(const float *gamma, const float *variance, size_t filter)
{
    return (gamma != NULL ? (double)gamma[filter] : 1) / sqrt((double)variance[filter] + (double)EPSILON);
}

/* `numbers`: of a filter. */
static void check_folded(enum value_type type, size_t numbers, bool with_bias, bool with_gamma)
{
    float *weights = draw(VALUE_FP32, 1, FILTERS * numbers), *bias = draw(VALUE_FP32, 2, FILTERS);
    float *gamma = draw(VALUE_FP32, 3, FILTERS), *beta = draw(VALUE_FP32, 4, FILTERS);
    float *mean = draw(VALUE_FP32, 5, FILTERS), *variance = draw(VALUE_FP32, 6, FILTERS);
    for (size_t c = 0; c < FILTERS; c++)
        variance[c] = fabsf(variance[c]);
    const struct folding folding = {
        .filters = FILTERS, .numbers = numbers, .epsilon = EPSILON,
        .weights = area_new(weights, FILTERS * numbers * sizeof(float)),
        .bias = with_bias ? area_new(bias, FILTERS * sizeof(float)) : NULL,
        .gamma = with_gamma ? area_new(gamma, FILTERS * sizeof(float)) : NULL,
        .beta = area_new(beta, FILTERS * sizeof(float)),
        .mean = area_new(mean, FILTERS * sizeof(float)), .variance = area_new(variance, FILTERS * sizeof(float)),
    };
    void *const folded = values_poison(type, FILTERS * numbers), *const folded_bias = values_poison(type, FILTERS);
    CUDA_OK(kernel_norm_fold(stream, type, &folding, folded, folded_bias));
    const float *const found = values_read(type, folded, FILTERS * numbers);
    for (size_t i = 0; i < FILTERS * numbers; i++)
        assert_within((double)found[i],
                      (double)weights[i] * folded_scale(with_gamma ? gamma : NULL, variance, i / numbers), steps[type],
                      1e-6);
    const float *const found_bias = values_read(type, folded_bias, FILTERS);
    for (size_t c = 0; c < FILTERS; c++)
        assert_within((double)found_bias[c],
                      (double)beta[c] + ((with_bias ? (double)bias[c] : 0) - (double)mean[c]) *
                                            folded_scale(with_gamma ? gamma : NULL, variance, c),
                      steps[type], 1e-5);
    areas_close();
}

TEST(a_normalisation_is_folded_into_weights_and_bias)
{
    static const size_t numbers[] = { 72, 1, 9, 25, 36 };      /* a depthwise filter has one number for each tap */
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < 4 * COUNT_OF(numbers); i++)
        check_folded(type, numbers[i / 4], i % 2 != 0, i / 2 % 2 != 0);
}

/* Padding channels have neither weights nor statistics. */
TEST(columns_of_zeros_stay_zeros)
{
    enum { ROWS = 19, COLUMNS = 8 };
    static const struct norm_case shape = { ROWS, COLUMNS, true, true, false, 0.9f };
    static const float zeros[ROWS * COLUMNS];
    FOR_EACH_TYPE(type)
    {
        struct numbers numbers;
        struct device_values areas;
        numbers_open(&numbers, type, &shape);
        float *const all[] = { numbers.in, numbers.gradient };
        float *const per_column[] = { numbers.gamma, numbers.beta, numbers.mean, numbers.variance };
        for (size_t i = 0; i < COUNT_OF(all); i++)
            memset(all[i], 0, sizeof(zeros));
        for (size_t i = 0; i < COUNT_OF(per_column); i++)
            memset(per_column[i], 0, COLUMNS * sizeof(float));
        areas_open(&areas, &numbers);
        run_forward(&areas, &numbers);
        run_backward(&areas, &numbers);
        const float *const made[] = { areas.running_mean, areas.running_variance, areas.gamma_gradient,
                                      areas.beta_gradient };
        for (size_t i = 0; i < COUNT_OF(made); i++)
            assert_holds(made[i], zeros, COLUMNS * sizeof(float));
        assert_values(type, areas.out, zeros, ROWS * COLUMNS);
        assert_values(type, areas.in_gradient, zeros, ROWS * COLUMNS);
        areas_close();
    }
}

/* A positive number that rounds to 0 has no bit. */
TEST(the_mask_is_that_of_rounded_numbers)
{
    static const struct norm_case shape = { 64, 8, true, true, true, 0.9f };
    struct numbers numbers;
    struct device_values areas;
    numbers_open(&numbers, VALUE_FP16, &shape);
    for (size_t c = 0; c < 8; c++) {
        numbers.gamma[c] = 1e-12f;
        numbers.beta[c] = 0;
    }
    memset(numbers.shortcut, 0, numbers.count * sizeof(float));
    areas_open(&areas, &numbers);
    float *const zeros = floats_new(numbers.count);
    run_forward(&areas, &numbers);
    assert_values(VALUE_FP16, areas.out, zeros, numbers.count);
    check_mask(&areas, &numbers, zeros);
    areas_close();
}

/* ---- refusals ---- */

TEST(odd_columns_and_misaligned_memory_are_refused)
{
    unsigned char *memory = area_new(NULL, 1024), *off = memory + 8;
    float *const floats = (float *)(void *)memory;
    const struct folding narrow = { .filters = 12, .numbers = 8 }, folding = { .filters = 8, .numbers = 8 };
    const struct normalisation odd = { .rows = 1, .columns = 12, .stride = 16, .beta = floats, .statistics = floats };
    const struct normalisation norm = { .rows = 1, .columns = 8, .stride = 8, .beta = floats, .statistics = floats };
    const struct normalisation longer = { .rows = 2, .columns = 8, .stride = 8, .beta = floats, .statistics = floats };
    const struct normalisation wider = { .rows = 1, .columns = 16, .stride = 16, .beta = floats, .statistics = floats };
    const struct normalisation close = { .rows = 1, .columns = 16, .stride = 8, .beta = floats, .statistics = floats };
    const struct normalisation skewed = { .rows = 1, .columns = 8, .stride = 8, .beta = (float *)(void *)off,
                                         .statistics = floats };
    INVALID(kernel_norm_apply(stream, VALUE_FP32, &odd, memory, NULL, false, memory, NULL));
    INVALID(kernel_norm_apply(stream, VALUE_FP32, &norm, memory, NULL, true, memory, memory));
    INVALID(kernel_norm_apply(stream, VALUE_FP32, &close, memory, NULL, false, memory, NULL));
    INVALID(kernel_norm_apply_both(stream, VALUE_FP32, &norm, memory, &odd, memory, false, memory, NULL));
    INVALID(kernel_norm_apply_both(stream, VALUE_FP32, &norm, memory, &longer, memory, false, memory, NULL));
    INVALID(kernel_norm_apply_both(stream, VALUE_FP32, &norm, memory, &wider, memory, false, memory, NULL));
    INVALID(kernel_norm_apply_both(stream, VALUE_FP32, &norm, memory, &norm, memory, false, memory, memory));
    INVALID(kernel_norm_apply_both(stream, VALUE_FP32, &norm, memory, &norm, NULL, false, memory, NULL));
    MISALIGNED(kernel_norm_apply_both(stream, VALUE_FP32, &norm, memory, &norm, off, false, memory, NULL));
    MISALIGNED(kernel_norm_apply(stream, VALUE_FP32, &norm, memory, off, false, memory, NULL));
    MISALIGNED(kernel_norm_apply(stream, VALUE_FP32, &skewed, memory, NULL, false, memory, NULL));
    MISALIGNED(kernel_norm_statistics(stream, VALUE_FP32, &norm, EPSILON, 0.9f, off, floats, floats, floats));
    MISALIGNED(kernel_norm_sums(stream, VALUE_FP32, &norm, memory, true, NULL, off, floats, floats, NULL, floats));
    MISALIGNED(kernel_norm_gradient(stream, VALUE_FP32, &norm, memory, true, memory, floats, off, false));
    INVALID(kernel_norm_fold(stream, VALUE_FP32, &narrow, memory, memory));
    MISALIGNED(kernel_norm_fold(stream, VALUE_FP32, &folding, off, memory));
    areas_close();
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
