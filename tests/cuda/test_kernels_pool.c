/* Tests of the kernels of pools and shortcuts, with every type and odd shapes, against plain loops. */
#include <math.h>

#include "compute/cuda/kernels.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

/* ---- max_pool ---- */

static const struct pool_shape pool_shapes[] = {
    /* count, stored, in, out, kernel, stride, padding at the top and left */
    { 1, 8, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0 },
    { 3, 16, 9, 7, 4, 3, 2, 2, 2, 2, 0, 0 },
    { 2, 8, 7, 7, 3, 3, 3, 3, 2, 2, 0, 0 },
    { 2, 24, 5, 6, 5, 6, 3, 3, 1, 1, 1, 1 },
    { 2, 8, 8, 8, 4, 4, 3, 3, 2, 2, 0, 0 }, /* padded at the bottom and right only */
    { 1, 8, 7, 8, 4, 4, 3, 3, 2, 2, 1, 1 },
    { 2, 8, 3, 2, 3, 2, 5, 5, 1, 1, 2, 2 }, /* larger than the image */
    { 2, 8, 9, 5, 3, 4, 1, 2, 4, 1, 0, 0 }, /* strides leave values out */
    { 1, 40, 6, 11, 3, 2, 4, 5, 1, 5, 0, 1 },
    { 1, 8, 15, 17, 1, 1, 15, 17, 1, 1, 0, 0 }, /* POOL_WINDOW_MAX pixels */
    { 5, 64, 8, 8, 7, 7, 2, 2, 1, 1, 0, 0 },
    { 2, 8, 9, 17, 9, 17, 1, 7, 1, 1, 0, 3 }, /* a row, and a column */
    { 2, 8, 17, 9, 17, 9, 7, 1, 1, 1, 3, 0 },
    { 1, 16, 6, 9, 6, 3, 1, 4, 1, 3, 0, 1 },
    { 2, 8, 17, 17, 5, 5, 5, 5, 3, 3, 0, 0 }, /* Inception's auxiliary head */
    { 2, 16, 9, 9, 2, 2, 8, 8, 1, 1, 0, 0 },  /* large and overlapping */
    { 1, 8, 11, 10, 6, 5, 8, 7, 2, 2, 3, 2 }, /* large and padded by one more behind */
};

struct pool {
    float *in, *out, *out_gradient, *in_gradient, *before;
    uint8_t *winners;           /* of max pools */
    size_t in_count, out_count;
};

static struct pool pool_new(enum value_type type, size_t in_count, size_t out_count, float *in)
{
    return (struct pool){
        .in = in, .out = floats_new(out_count), .out_gradient = draw(type, 2, out_count),
        .in_gradient = floats_new(in_count), .before = draw(type, 8, in_count), .winners = host_new(out_count),
        .in_count = in_count, .out_count = out_count,
    };
}

static size_t pool_tap(const struct pool_shape *s, size_t out, uint32_t place)
{
    const size_t channel = out % s->stored, column = out / s->stored % s->out_w;
    const size_t row = out / s->stored / s->out_w % s->out_h, sample = out / s->stored / s->out_w / s->out_h;
    const size_t y = row * s->stride_h + place / s->kernel_w - s->pad_top;
    const size_t x = column * s->stride_w + place % s->kernel_w - s->pad_left;
    return y < s->in_h && x < s->in_w ? ((sample * s->in_h + y) * s->in_w + x) * s->stored + channel : SIZE_MAX;
}

static void max_window(const struct pool_shape *s, struct pool *pool, size_t out)
{
    size_t best = SIZE_MAX;
    for (uint32_t place = 0; place < s->kernel_h * s->kernel_w; place++) {
        const size_t tap = pool_tap(s, out, place);
        if (tap == SIZE_MAX || (best != SIZE_MAX && !(pool->in[tap] > pool->in[best])))
            continue;
        best = tap;
        pool->winners[out] = (uint8_t)place;
    }
    assert_true(best != SIZE_MAX);
    pool->out[out] = pool->in[best];
    pool->in_gradient[best] += pool->out_gradient[out];
}

static struct pool pool_open(enum value_type type, const struct pool_shape *s,
                             void (*find_window)(const struct pool_shape *s, struct pool *pool, size_t out))
{
    const size_t in_count = (size_t)s->count * s->in_h * s->in_w * s->stored;
    float *const in = draw_whole(1, in_count, 3);
    for (size_t i = 0; i < in_count; i++)
        in[i] -= 5; /* padding would win if it were 0 */
    struct pool pool = pool_new(type, in_count, (size_t)s->count * s->out_h * s->out_w * s->stored, in);
    for (size_t i = 0; i < pool.out_count; i++)
        find_window(s, &pool, i);
    return pool;
}

/* `before` plus the gradient. */
static float *pool_sum(const struct pool *pool)
{
    float *const sum = floats_new(pool->in_count);
    for (size_t i = 0; i < pool->in_count; i++)
        sum[i] = pool->before[i] + pool->in_gradient[i];
    return sum;
}

static void check_max_pool(enum value_type type, const struct pool_shape *shape)
{
    const struct pool pool = pool_open(type, shape, max_window);
    void *in = values_new(type, pool.in, pool.in_count), *out = values_poison(type, pool.out_count);
    void *other_out = values_poison(type, pool.out_count), *in_gradient = values_poison(type, pool.in_count);
    void *out_gradient = values_new(type, pool.out_gradient, pool.out_count);
    uint8_t *winners = area_new(NULL, pool.out_count);
    CUDA_OK(kernel_max_pool(stream, type, shape, in, out, winners));
    CUDA_OK(kernel_max_pool(stream, type, shape, in, other_out, NULL));
    void *added = values_new(type, pool.before, pool.in_count);
    CUDA_OK(kernel_max_pool_backward(stream, type, shape, out_gradient, winners, in_gradient, false));
    CUDA_OK(kernel_max_pool_backward(stream, type, shape, out_gradient, winners, added, true));
    assert_values(type, out, pool.out, pool.out_count);
    assert_values(type, other_out, pool.out, pool.out_count);
    assert_holds(winners, pool.winners, pool.out_count);
    assert_values(type, in_gradient, pool.in_gradient, pool.in_count);
    assert_values(type, added, pool_sum(&pool), pool.in_count);
    areas_close();
}

TEST(max_pool_and_its_gradient_equal_plain_loops)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(pool_shapes); i++)
        check_max_pool(type, &pool_shapes[i]);
}

TEST(max_pool_keeps_a_nan_only_in_the_first_place)
{
    static const struct pool_shape shape = { 1, 8, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0 };
    FOR_EACH_TYPE(type)
    for (uint32_t place = 0; place < 4; place++) {
        float in[32];
        uint8_t winner;
        for (uint32_t i = 0; i < 32; i++)
            in[i] = i / 8 == place ? NAN : (float)(i / 8);
        void *to = values_poison(type, 8), *winners = area_new(NULL, 8);
        CUDA_OK(kernel_max_pool(stream, type, &shape, values_new(type, in, 32), to, winners));
        const float *const out = values_read(type, to, 8);
        read_back(winners, &winner, 1);
        assert_true(place == 0 ? isnan(out[0]) : out[0] == (place == 3 ? 2.0f : 3.0f));
        assert_int_equal(winner, place == 0 ? 0 : place == 3 ? 2
                                                             : 3);
        areas_close();
    }
}

/* ---- average_pool ---- */

/* Of any size; the last ones are of one window over the whole image. */
static const struct pool_shape average_shapes[] = {
    { 1, 8, 20, 20, 1, 1, 20, 20, 1, 1, 0, 0 },
    { 2, 8, 17, 19, 2, 2, 16, 16, 1, 3, 0, 0 },
    { 3, 64, 8, 8, 1, 1, 8, 8, 1, 1, 0, 0 },
    { 2, 264, 7, 7, 1, 1, 7, 7, 1, 1, 0, 0 },
    { 70, 24, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0 },
    { 2, 16, 5, 3, 1, 1, 6, 5, 1, 1, 1, 1 },
};

static void average_window(const struct pool_shape *s, struct pool *pool, size_t out)
{
    float count = 0;
    for (uint32_t place = 0; place < s->kernel_h * s->kernel_w; place++)
        count += pool_tap(s, out, place) != SIZE_MAX;
    for (uint32_t place = 0; place < s->kernel_h * s->kernel_w; place++) {
        const size_t tap = pool_tap(s, out, place);
        if (tap == SIZE_MAX)
            continue;
        pool->out[out] += pool->in[tap] / count;
        pool->in_gradient[tap] += pool->out_gradient[out] / count;
    }
}

/* Sums in another order, rounded once. */
static void assert_values_within(enum value_type type, const void *device, const float *expected, size_t count)
{
    static const double steps[VALUE_TYPE_COUNT] = {
        [VALUE_FP32] = 1e-6,
        [VALUE_FP16] = 1e-3,
        [VALUE_BF16] = 8e-3,
    };
    const float *const found = values_read(type, device, count);
    for (size_t i = 0; i < count; i++)
        assert_within((double)found[i], (double)expected[i], steps[type], 4e-6);
}

static void check_average_pool(enum value_type type, const struct pool_shape *shape)
{
    const struct pool pool = pool_open(type, shape, average_window);
    void *in = values_new(type, pool.in, pool.in_count), *out = values_poison(type, pool.out_count);
    void *out_gradient = values_new(type, pool.out_gradient, pool.out_count);
    void *in_gradient = values_poison(type, pool.in_count), *added = values_new(type, pool.before, pool.in_count);
    CUDA_OK(kernel_average_pool(stream, type, shape, in, out));
    CUDA_OK(kernel_average_pool_backward(stream, type, shape, out_gradient, in_gradient, false));
    CUDA_OK(kernel_average_pool_backward(stream, type, shape, out_gradient, added, true));
    assert_values_within(type, out, pool.out, pool.out_count);
    assert_values_within(type, in_gradient, pool.in_gradient, pool.in_count);
    assert_values_within(type, added, pool_sum(&pool), pool.in_count);
    areas_close();
}

TEST(average_pool_leaves_padding_out)
{
    FOR_EACH_TYPE(type)
    {
        for (size_t i = 0; i < COUNT_OF(pool_shapes); i++)
            check_average_pool(type, &pool_shapes[i]);
        for (size_t i = 0; i < COUNT_OF(average_shapes); i++)
            check_average_pool(type, &average_shapes[i]);
    }
}

/* ---- pad_channels ---- */

static const struct pad_shape pad_shapes[] = {
    /* count, channels, in, stored, out, stored, before, stride */
    { 2, 16, 32, 32, 16, 16, 16, 32, 8, 2 },
    { 3, 16, 7, 5, 16, 4, 3, 24, 4, 2 },
    { 2, 3, 4, 4, 8, 4, 4, 8, 0, 1 },
    { 2, 5, 3, 6, 8, 1, 2, 16, 1, 3 },
    { 1, 13, 6, 4, 16, 3, 2, 24, 9, 2 },
    { 4, 8, 1, 1, 8, 1, 1, 40, 31, 1 },
    { 2, 17, 2, 3, 24, 2, 3, 24, 3, 1 },
};

static struct pool padded_open(enum value_type type, const struct pad_shape *s)
{
    const size_t in_count = (size_t)s->count * s->in_h * s->in_w * s->in_stored;
    const size_t out_count = (size_t)s->count * s->out_h * s->out_w * s->out_stored;
    struct pool padded = pool_new(type, in_count, out_count, draw(type, 1, in_count));
    for (size_t i = 0; i < out_count; i++) {
        const size_t channel = i % s->out_stored, column = i / s->out_stored % s->out_w;
        const size_t row = i / s->out_stored / s->out_w % s->out_h, sample = i / s->out_stored / s->out_w / s->out_h;
        if (channel < s->before || channel >= s->before + s->channels)
            continue;
        const size_t in = ((sample * s->in_h + row * s->stride) * s->in_w + column * s->stride) * s->in_stored +
                          channel - s->before;
        padded.out[i] = padded.in[in];
        padded.in_gradient[in] = padded.out_gradient[i];
    }
    return padded;
}

static void check_pad_channels(enum value_type type, const struct pad_shape *shape)
{
    const struct pool padded = padded_open(type, shape);
    void *in = values_new(type, padded.in, padded.in_count), *out = values_poison(type, padded.out_count);
    void *out_gradient = values_new(type, padded.out_gradient, padded.out_count);
    void *in_gradient = values_poison(type, padded.in_count);
    void *added = values_new(type, padded.before, padded.in_count);
    CUDA_OK(kernel_pad_channels(stream, type, shape, in, out));
    CUDA_OK(kernel_pad_channels_backward(stream, type, shape, out_gradient, in_gradient, false));
    CUDA_OK(kernel_pad_channels_backward(stream, type, shape, out_gradient, added, true));
    assert_values(type, out, padded.out, padded.out_count);
    assert_values(type, in_gradient, padded.in_gradient, padded.in_count);
    assert_values(type, added, pool_sum(&padded), padded.in_count);
    areas_close();
}

TEST(a_shortcut_takes_every_stride_th_pixel_between_zeros)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(pad_shapes); i++)
        check_pad_channels(type, &pad_shapes[i]);
}

/* ---- refusals ---- */

TEST(shapes_that_break_a_rule_are_refused)
{
    static const struct pool_shape large = { 1, 8, 16, 16, 1, 1, 16, 16, 1, 1, 0, 0 };
    static const struct pool_shape narrow = { 1, 4, 2, 2, 1, 1, 2, 2, 1, 1, 0, 0 };
    static const struct pad_shape still = { 1, 8, 1, 1, 8, 1, 1, 8, 0, 0 }, odd = { 1, 4, 1, 1, 4, 1, 1, 8, 0, 1 };
    INVALID(kernel_max_pool(stream, VALUE_FP32, &large, NULL, NULL, NULL));
    INVALID(kernel_max_pool_backward(stream, VALUE_FP32, &narrow, NULL, NULL, NULL, false));
    INVALID(kernel_average_pool(stream, VALUE_FP32, &narrow, NULL, NULL));
    INVALID(kernel_pad_channels(stream, VALUE_FP32, &still, NULL, NULL));
    INVALID(kernel_pad_channels_backward(stream, VALUE_FP32, &odd, NULL, NULL, false));
}

TEST(misaligned_memory_is_refused)
{
    static const struct pool_shape pool = { 1, 8, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0 };
    static const struct pad_shape pad = { 1, 8, 1, 1, 8, 1, 1, 8, 0, 1 };
    unsigned char *memory = area_new(NULL, 256), *off = memory + 8;
    MISALIGNED(kernel_max_pool(stream, VALUE_FP16, &pool, memory, off, NULL));
    MISALIGNED(kernel_max_pool_backward(stream, VALUE_FP16, &pool, memory, off, memory, false));
    MISALIGNED(kernel_average_pool(stream, VALUE_FP16, &pool, memory, off));
    MISALIGNED(kernel_average_pool_backward(stream, VALUE_FP16, &pool, off, memory, true));
    MISALIGNED(kernel_pad_channels(stream, VALUE_FP16, &pad, off, memory));
    MISALIGNED(kernel_pad_channels_backward(stream, VALUE_FP16, &pad, memory, off, true));
    areas_close();
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
