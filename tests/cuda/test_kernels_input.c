/* Tests of the kernel that makes values of pixels, with every type of values, against plain loops. */

#include "compute/cuda/kernels.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"

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

int main(void)
{
    return kernel_tests_run();
}
