/* Tests of the kernels that put channels one behind the other or look at neighbouring ones, with every
 * type of values and odd channel counts, against plain loops. */
#include <math.h>

#include "compute/cuda/cuda_plan.h"
#include "compute/cuda/kernels.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

/* Numbers of real channels, zeros in the padding. */
static float *draw_pixels(enum value_type type, uint32_t what, size_t pixels, uint32_t channels)
{
    const uint32_t stored = channels_stored(channels);
    float *const values = draw(type, what, pixels * stored);
    for (size_t i = 0; i < pixels * stored; i++)
        values[i] = i % stored < channels ? values[i] : 0;
    return values;
}

/* ---- concat ---- */

struct concat_case {
    size_t pixels;
    uint32_t count, channels[LAYER_INPUTS_MAX];
};

static const struct concat_case concat_cases[] = {
    { 3, 1, { 12 } },
    { 5, 2, { 8, 8 } },
    { 6, 2, { 16, 12 } },               /* DenseNet */
    { 2, 2, { 12, 12 } },               /* the second begins at no multiple of eight */
    { 7, 4, { 3, 1, 2, 1 } },           /* all in one group of eight */
    { 4, 3, { 5, 19, 9 } },
    { 33, 4, { 64, 96, 128, 32 } },     /* Inception */
    { 3, 8, { 1, 7, 8, 9, 15, 16, 17, 2 } },
    { 0, 2, { 8, 3 } },
};

struct concatenated {
    float *parts[LAYER_INPUTS_MAX], *out, *out_gradient;
    uint32_t channels, stored;
};

static void concatenated_open(struct concatenated *all, enum value_type type, const struct concat_case *c)
{
    *all = (struct concatenated){ .channels = 0 };
    for (uint32_t k = 0; k < c->count; k++)
        all->channels += c->channels[k];
    all->stored = channels_stored(all->channels);
    all->out = floats_new(c->pixels * all->stored);
    all->out_gradient = draw_pixels(type, 20, c->pixels, all->channels);
    uint32_t before = 0;
    for (uint32_t k = 0; k < c->count; before += c->channels[k++]) {
        all->parts[k] = draw_pixels(type, 1 + k, c->pixels, c->channels[k]);
        for (size_t pixel = 0; pixel < c->pixels; pixel++)
            for (uint32_t i = 0; i < c->channels[k]; i++)
                all->out[pixel * all->stored + before + i] = all->parts[k][pixel * channels_stored(c->channels[k]) + i];
    }
}

/* One input's part of the gradient, written and added. */
static void check_part(enum value_type type, const struct concat_case *c, const struct concatenated *all, uint32_t k,
                        uint32_t before)
{
    const uint32_t stored = channels_stored(c->channels[k]);
    const size_t count = c->pixels * stored;
    const struct pad_shape shape = {
        .count = (uint32_t)c->pixels, .channels = c->channels[k], .in_h = 1, .in_w = 1, .in_stored = stored,
        .out_h = 1, .out_w = 1, .out_stored = all->stored, .before = before, .stride = 1,
    };
    float *part = floats_new(count), *there = draw(type, 30, count), *sum = floats_new(count);
    for (size_t i = 0; i < count; i++) {
        part[i] = i % stored < c->channels[k] ? all->out_gradient[i / stored * all->stored + before + i % stored] : 0;
        sum[i] = there[i] + part[i];
    }
    const void *from = values_new(type, all->out_gradient, c->pixels * all->stored);
    void *to = values_poison(type, count), *added = values_new(type, there, count);
    CUDA_OK(kernel_pad_channels_backward(stream, type, &shape, from, to, false));
    CUDA_OK(kernel_pad_channels_backward(stream, type, &shape, from, added, true));
    assert_values(type, to, part, count);
    assert_values(type, added, sum, count);
}

static void check_concat(enum value_type type, const struct concat_case *c)
{
    struct concatenated all;
    concatenated_open(&all, type, c);
    struct concat concat = { .pixels = c->pixels, .stride = all.stored, .count = c->count };
    for (uint32_t k = 0; k < c->count; k++) {
        concat.parts[k].values = values_new(type, all.parts[k], c->pixels * channels_stored(c->channels[k]));
        concat.parts[k].channels = c->channels[k];
        concat.parts[k].stride = channels_stored(c->channels[k]);
    }
    void *const out = values_poison(type, c->pixels * all.stored);
    CUDA_OK(kernel_concat(stream, type, &concat, out));
    assert_values(type, out, all.out, c->pixels * all.stored);
    for (uint32_t k = 0, before = 0; k < c->count; before += c->channels[k++])
        check_part(type, c, &all, k, before);
    areas_close();
}

TEST(concat_and_the_parts_of_its_gradient)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(concat_cases); i++)
        check_concat(type, &concat_cases[i]);
}

/* `kept` channels of rows of WIDE, then `more` of a part with wider rows; then zeros up to a multiple of eight. */
static void check_growth(enum value_type type, uint32_t kept, uint32_t more)
{
    enum { PIXELS = 37, WIDE = 48, PART = 24 };
    float *there = draw(type, 31, PIXELS * WIDE), *part = draw(type, 32, PIXELS * PART);
    void *const out = values_new(type, there, PIXELS * WIDE);
    const struct concat concat = { .pixels = PIXELS, .kept = kept, .stride = WIDE, .count = 1,
                                   .parts = { { values_new(type, part, PIXELS * PART), more, PART } } };
    CUDA_OK(kernel_concat(stream, type, &concat, out));
    for (size_t i = 0; i < PIXELS * WIDE; i++) {
        const size_t channel = i % WIDE;
        if (channel >= kept && channel < channels_stored(kept + more))
            there[i] = channel < kept + more ? part[i / WIDE * PART + channel - kept] : 0;
    }
    assert_values(type, out, there, PIXELS * WIDE);
    areas_close();
}

TEST(concat_keeps_the_first_channels)
{
    static const uint32_t kept[] = { 8, 28, 13, 16, 1, 0 }, more[] = { 8, 12, 2, 17, 1, 24 };
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(kept); i++)
        check_growth(type, kept[i], more[i]);
}

/* ---- zeros around images ---- */

static const struct surround_shape surround_shapes[] = {
    /* count, stored, in, out, top, left */
    { 2, 8, 5, 4, 6, 5, 0, 0 },
    { 3, 24, 3, 7, 4, 8, 1, 1 },
    { 1, 16, 2, 2, 5, 9, 2, 4 },
    { 2, 8, 1, 3, 1, 4, 0, 1 },
    { 4, 40, 6, 1, 6, 1, 0, 0 },
    { 0, 8, 2, 2, 3, 3, 0, 0 },
};

static void check_surround(enum value_type type, const struct surround_shape *s)
{
    const size_t in_count = (size_t)s->count * s->in_h * s->in_w * s->stored;
    const size_t out_count = (size_t)s->count * s->out_h * s->out_w * s->stored;
    float *const in = draw(type, 1, in_count), *const wanted = floats_new(out_count);
    for (size_t i = 0; i < in_count; i++) {
        const size_t channel = i % s->stored, column = i / s->stored % s->in_w;
        const size_t row = i / s->stored / s->in_w % s->in_h, sample = i / s->stored / s->in_w / s->in_h;
        wanted[((sample * s->out_h + row + s->top) * s->out_w + column + s->left) * s->stored + channel] = in[i];
    }
    void *const from = values_new(type, in, in_count), *const to = values_poison(type, out_count);
    CUDA_OK(kernel_surround(stream, type, s, from, to));
    assert_values(type, to, wanted, out_count);
    areas_close();
}

TEST(images_are_surrounded_by_zeros)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(surround_shapes); i++)
        check_surround(type, &surround_shapes[i]);
}

TEST(images_that_do_not_fit_are_refused)
{
    static const struct surround_shape refused[] = {
        { 1, 4, 2, 2, 3, 3, 0, 0 }, { 1, 8, 2, 2, 3, 2, 2, 0 }, { 1, 8, 2, 2, 2, 3, 0, 2 }, { 1, 8, 2, 2, 2, 3, 0, 4 },
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        INVALID(kernel_surround(stream, VALUE_FP32, &refused[i], NULL, NULL));
}

/* ---- local response normalisation ---- */

struct response_case {
    size_t pixels;
    uint32_t channels;
    struct local_response_norm how;
};

static const struct response_case response_cases[] = {
    /* pixels, channels, size, alpha, beta, k */
    { 5, 64, { 9, 0.009f, 0.75f, 1 } },         /* cifar_alexnet: alpha 0.001 per channel */
    { 3, 24, { 5, 2, 0.75f, 2 } },
    { 7, 12, { 3, 1.5f, 0.5f, 1 } },
    { 2, 5, { 1, 3, 1.25f, 0.5f } },            /* its own channel only */
    { 4, 20, { 39, 4, 0.75f, 1 } },             /* all channels */
    { 2, 8, { UINT32_MAX, 1e9f, 1, 1 } },       /* beyond all channels */
    { 3, 9, { 7, 0, 0.75f, 2 } },
    { 3, 17, { 17, 1, 0, 1 } },                 /* beta 0: the identity */
    { 0, 8, { 3, 1, 1, 1 } },
};

struct response_values {
    float *in, *out_gradient, *before;
    double *out, *in_gradient;
    size_t count;
};

/* k plus the scaled sum of squares around channel c, the base of the power. */
static double root_of(const struct response_case *r, const float *pixel, uint32_t c)
{
    const int64_t reach = r->how.size / 2;
    double sum = 0;
    for (int64_t i = 0; i < r->channels; i++)
        if (i - c <= reach && c - i <= reach)
            sum += (double)pixel[i] * pixel[i];
    return r->how.k + (double)r->how.alpha / r->how.size * sum;
}

static double gradient_of(const struct response_case *r, const float *pixel, const float *gradient, uint32_t c)
{
    const int64_t reach = r->how.size / 2;
    double sum = 0;
    for (int64_t i = 0; i < r->channels; i++)
        if (i - c <= reach && c - i <= reach)
            sum += (double)gradient[i] * pixel[i] * pow(root_of(r, pixel, (uint32_t)i), -(double)r->how.beta - 1);
    return gradient[c] * pow(root_of(r, pixel, c), -(double)r->how.beta) -
           2.0 * r->how.alpha / r->how.size * r->how.beta * pixel[c] * sum;
}

static void response_values_open(struct response_values *v, enum value_type type, const struct response_case *r)
{
    const uint32_t stored = channels_stored(r->channels);
    v->count = r->pixels * stored;
    v->in = draw_pixels(type, 1, r->pixels, r->channels);
    v->out_gradient = draw_pixels(type, 2, r->pixels, r->channels);
    v->before = draw_pixels(type, 3, r->pixels, r->channels);
    v->out = host_new((v->count + 1) * sizeof(*v->out));
    v->in_gradient = host_new((v->count + 1) * sizeof(*v->in_gradient));
    for (size_t i = 0; i < v->count; i++) {
        const float *pixel = v->in + i / stored * stored, *gradient = v->out_gradient + i / stored * stored;
        const uint32_t c = (uint32_t)(i % stored);
        if (c >= r->channels)
            continue;
        v->out[i] = pixel[c] * pow(root_of(r, pixel, c), -(double)r->how.beta);
        v->in_gradient[i] = gradient_of(r, pixel, gradient, c);
    }
}

/* fp32 arithmetic, rounded once; padding is 0. */
static void assert_rounded(enum value_type type, const void *device, const double *expected, const float *before,
                           size_t count)
{
    static const double steps[VALUE_TYPE_COUNT] = { 0, 0x1p-11, 0x1p-8 };
    const float *const found = values_read(type, device, count);
    for (size_t i = 0; i < count; i++)
        assert_within(found[i], expected[i] + (before != NULL ? before[i] : 0), 2e-6 + steps[type], 2e-6);
}

static void check_response(enum value_type type, const struct response_case *r)
{
    const uint32_t stored = channels_stored(r->channels);
    const struct response_shape shape = { r->pixels, r->channels, stored, r->how };
    struct response_values v;
    response_values_open(&v, type, r);
    const void *in = values_new(type, v.in, v.count);
    void *out = values_poison(type, v.count), *gradient = values_new(type, v.out_gradient, v.count);
    void *to = values_poison(type, v.count), *added = values_new(type, v.before, v.count);
    float *terms = area_new(NULL, v.count * sizeof(*terms));
    CUDA_OK(kernel_response_norm(stream, type, &shape, in, out));
    CUDA_OK(kernel_response_norm_backward(stream, type, &shape, in, gradient, terms, to, false));
    CUDA_OK(kernel_response_norm_backward(stream, type, &shape, in, gradient, terms, added, true));
    CUDA_OK(kernel_response_norm_backward(stream, type, &shape, in, gradient, terms, gradient, false));
    assert_rounded(type, out, v.out, NULL, v.count);
    assert_rounded(type, to, v.in_gradient, NULL, v.count);
    assert_rounded(type, added, v.in_gradient, v.before, v.count);
    assert_rounded(type, gradient, v.in_gradient, NULL, v.count);
    areas_close();
}

TEST(response_norm_and_its_gradient_equal_those_in_double)
{
    FOR_EACH_TYPE(type)
    for (size_t i = 0; i < COUNT_OF(response_cases); i++)
        check_response(type, &response_cases[i]);
}

/* y = 1 / (1 + 0.001)^0.75 of ones with nine neighbours. CUDA's powf has an error of at most 4 ulp. */
TEST(response_norm_of_ones)
{
    static const struct response_shape shape = { 1, 16, 16, { 9, 0.001f, 0.75f, 1 } };
    float ones[16];
    for (size_t i = 0; i < 16; i++)
        ones[i] = 1;
    void *const out = values_poison(VALUE_FP32, 16);
    CUDA_OK(kernel_response_norm(stream, VALUE_FP32, &shape, values_new(VALUE_FP32, ones, 16), out));
    const float *const found = values_read(VALUE_FP32, out, 16);
    assert_within(found[8], pow(1 + 0.001, -0.75), 3e-7, 0);
    assert_within(found[0], pow(1 + 0.001 * 5 / 9, -0.75), 3e-7, 0);
    areas_close();
}

/* ---- refusals ---- */

TEST(invalid_shapes_are_refused)
{
    static const struct concat none = { .pixels = 1 }, many = { .pixels = 1, .count = LAYER_INPUTS_MAX + 1 };
    static const struct response_shape even = { 1, 8, 8, { 4, 1, 1, 1 } }, narrow = { 1, 4, 4, { 3, 1, 1, 1 } };
    INVALID(kernel_concat(stream, VALUE_FP32, &none, NULL));
    INVALID(kernel_concat(stream, VALUE_FP32, &many, NULL));
    INVALID(kernel_response_norm(stream, VALUE_FP32, &even, NULL, NULL));
    INVALID(kernel_response_norm_backward(stream, VALUE_FP32, &narrow, NULL, NULL, NULL, NULL, false));
}

TEST(misaligned_memory_is_refused)
{
    static const struct response_shape shape = { 1, 8, 8, { 3, 1, 1, 1 } };
    unsigned char *memory = area_new(NULL, 256), *off = memory + 8;
    const struct concat concat = { .pixels = 1, .count = 2, .stride = 16,
                                    .parts = { { memory, 8, 8 }, { off, 8, 8 } } };
    const struct concat narrow = { .pixels = 1, .count = 1, .kept = 4, .stride = 8, .parts = { { memory, 8, 8 } } };
    const struct concat odd = { .pixels = 1, .count = 1, .stride = 8, .parts = { { memory, 4, 4 } } };
    MISALIGNED(kernel_concat(stream, VALUE_FP16, &concat, memory));
    INVALID(kernel_concat(stream, VALUE_FP16, &narrow, memory));
    INVALID(kernel_concat(stream, VALUE_FP16, &odd, memory));
    MISALIGNED(kernel_response_norm(stream, VALUE_FP16, &shape, memory, off));
    MISALIGNED(kernel_response_norm_backward(stream, VALUE_FP16, &shape, memory, memory, (float *)(void *)off, memory,
                                             false));
    areas_close();
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
