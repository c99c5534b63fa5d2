/* Scaling compared with sums of doubles written down as the filters are defined, and views compared with what they
 * promise: parts, borders, mirrors, channels. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "loader/images/scale.h"
#include "loader/images/scale_kernels.h"
#include "stage/random.h"
#include "tests/helpers/test.h"

enum { SIDE_MAX = 60, SAMPLE_MAX = SIDE_MAX * SIDE_MAX * 4, LINE_MAX = SIDE_MAX * 7 * 4 + 32 };

static struct scale scale;
static uint64_t drawn;

static uint32_t draw(uint32_t least, uint32_t most)
{
    return least + (uint32_t)(random_u64(random_key(9, RANDOM_DRAW, 0), drawn++) % (most - least + 1));
}

static struct picture draw_picture(uint8_t *pixels, uint32_t channels)
{
    const struct picture picture = { .pixels = pixels, .width = draw(1, SIDE_MAX), .height = draw(1, SIDE_MAX),
                                     .channels = channels };
    for (size_t i = 0; i < SAMPLE_MAX; i++)
        pixels[i] = (uint8_t)draw(0, 255);
    struct picture filled = picture;
    filled.row_bytes = (size_t)picture.width * channels;
    return filled;
}

static struct image_shape draw_shape(uint32_t channels)
{
    return (struct image_shape){ draw(1, SIDE_MAX), draw(1, SIDE_MAX), channels };
}

/* A view that touches the picture; of whole pixels or not. */
static struct augment_view draw_view(const struct picture *picture, bool is_whole)
{
    const double part = is_whole ? 0 : 0.37;
    const double width = draw(1, picture->width + 6), height = draw(1, picture->height + 6);
    return (struct augment_view){
        .left = (double)draw(0, picture->width - 1) - draw(0, (uint32_t)width - 1) + part,
        .top = (double)draw(0, picture->height - 1) - draw(0, (uint32_t)height - 1) + part,
        .width = width - part,
        .height = height - part * 0.5,
        .is_flipped = draw(0, 1) == 1,
        .beyond = draw(0, 1) == 1 ? BEYOND_EDGE : BEYOND_ZERO,
    };
}

static void run(const struct picture *picture, const struct augment_view *view, const struct image_shape *shape,
                uint8_t *sample)
{
    assert_int_equal(scale_picture(&scale, picture, view, shape, sample), 0);
}

static double weight(enum filter filter, double distance, double ratio)
{
    const double wide = fmax(ratio, 1), x = fabs(distance) / wide;
    switch (filter) {
    case FILTER_BILINEAR:
        return x < 1 ? 1 - x : 0;
    case FILTER_BICUBIC:
        if (x < 1)
            return 1.5 * x * x * x - 2.5 * x * x + 1;
        return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
    case FILTER_AREA:
        return fmax(0, fmin(distance + 0.5, ratio / 2) - fmax(distance - 0.5, -ratio / 2));
    default:
        return distance > -0.5 && distance <= 0.5 ? 1 : 0;
    }
}

/* One value of the image, or of what lies beyond it. */
static double value_at(const struct picture *picture, enum beyond beyond, int64_t y, int64_t x, uint32_t c)
{
    const int64_t near_y = y < 0 ? 0 : y >= picture->height ? picture->height - 1 : y;
    const int64_t near_x = x < 0 ? 0 : x >= picture->width ? picture->width - 1 : x;
    if (beyond == BEYOND_ZERO && (near_y != y || near_x != x))
        return 0;
    return picture->pixels[(size_t)near_y * picture->row_bytes + (size_t)near_x * picture->channels + c];
}

static double exact(const struct picture *picture, const struct augment_view *view, const struct image_shape *shape,
                    uint32_t y, uint32_t x, uint32_t c)
{
    const double ratio_y = view->height / shape->height, ratio_x = view->width / shape->width;
    const double center_y = view->top + (y + 0.5) * ratio_y, center_x = view->left + (x + 0.5) * ratio_x;
    double sum = 0, total = 0;
    for (int64_t j = (int64_t)floor(view->top); j < (int64_t)ceil(view->top + view->height); j++) {
        const double by_y = weight(view->filter, (double)j + 0.5 - center_y, ratio_y);
        for (int64_t i = (int64_t)floor(view->left); by_y != 0 && i < (int64_t)ceil(view->left + view->width); i++) {
            const double by_x = weight(view->filter, (double)i + 0.5 - center_x, ratio_x);
            sum += by_y * by_x * value_at(picture, view->beyond, j, i, c);
            total += by_y * by_x;
        }
    }
    return fmin(fmax(sum / total, 0), 255);
}

static void assert_near(const struct picture *picture, const struct augment_view *view,
                        const struct image_shape *shape, const uint8_t *sample)
{
    for (uint32_t y = 0; y < shape->height; y++) {
        for (uint32_t x = 0; x < shape->width; x++) {
            const uint32_t place = view->is_flipped ? shape->width - 1 - x : x;
            for (uint32_t c = 0; c < shape->channels; c++) {
                const double wanted = exact(picture, view, shape, y, x, c);
                const double got = sample[((size_t)y * shape->width + place) * shape->channels + c];
                assert_true(fabs(got - wanted) <= 0.75);
            }
        }
    }
}

TEST(every_filter_gives_its_sums_rounded)
{
    static uint8_t pixels[SAMPLE_MAX], sample[SAMPLE_MAX];
    for (int round = 0; round < 60; round++) {
        const uint32_t channels = 1 + (uint32_t)round % 4;
        const struct picture picture = draw_picture(pixels, channels);
        const struct image_shape shape = { draw(1, 24), draw(1, 24), channels };
        struct augment_view view = draw_view(&picture, round % 8 < 4);
        view.filter = (enum filter)(round / 4 % 4);
        run(&picture, &view, &shape, sample);
        assert_near(&picture, &view, &shape, sample);
    }
}

TEST(a_plain_image_stays_plain_at_every_size)
{
    static uint8_t pixels[SAMPLE_MAX], sample[SAMPLE_MAX];
    for (int round = 0; round < 200; round++) {
        struct picture picture = draw_picture(pixels, 3);
        memset(pixels, 201, sizeof(pixels));
        const struct image_shape shape = draw_shape(3);
        struct augment_view view = draw_view(&picture, false);
        view.beyond = BEYOND_EDGE;
        view.filter = (enum filter)(round % 4);
        run(&picture, &view, &shape, sample);
        for (size_t i = 0; i < (size_t)shape.height * shape.width * 3; i++)
            assert_int_equal(sample[i], 201);
    }
}

TEST(a_view_of_whole_pixels_of_the_samples_size_is_copied)
{
    static uint8_t pixels[SAMPLE_MAX], sample[SAMPLE_MAX * 2];
    for (int round = 0; round < 100; round++) {
        const uint32_t channels = draw(1, 4);
        const struct picture picture = draw_picture(pixels, channels);
        const struct augment_view view = draw_view(&picture, true);
        const struct image_shape shape = { (uint32_t)view.height, (uint32_t)view.width, channels };
        run(&picture, &view, &shape, sample);
        for (uint32_t y = 0; y < shape.height; y++)
            for (uint32_t i = 0; i < shape.width * channels; i++) {
                const uint32_t x = i / channels, c = i % channels;
                const uint32_t place = view.is_flipped ? shape.width - 1 - x : x;
                assert_int_equal(sample[((size_t)y * shape.width + place) * channels + c],
                                 value_at(&picture, view.beyond, (int64_t)view.top + y, (int64_t)view.left + x, c));
            }
    }
}

TEST(the_rest_of_an_image_does_not_shine_into_a_part_of_it)
{
    static uint8_t pixels[SAMPLE_MAX], sample[SAMPLE_MAX], alone[SAMPLE_MAX];
    for (int round = 0; round < 100; round++) {
        const struct picture picture = draw_picture(pixels, 3);
        struct picture part = picture;
        part.left = draw(0, picture.width - 1);
        part.top = draw(0, picture.height - 1);
        part.width = draw(1, picture.width - part.left);
        part.height = draw(1, picture.height - part.top);
        part.pixels += part.top * part.row_bytes + part.left * (size_t)3;
        const struct augment_view view = { .left = part.left, .top = part.top, .width = part.width,
                                           .height = part.height, .filter = (enum filter)(round % 4) };
        const struct image_shape shape = draw_shape(3);
        run(&picture, &view, &shape, sample);
        run(&part, &view, &shape, alone);
        assert_memory_equal(sample, alone, (size_t)shape.height * shape.width * 3);
    }
}

TEST(grey_becomes_three_equal_channels_and_colours_their_luma)
{
    static uint8_t pixels[SAMPLE_MAX], grey[SAMPLE_MAX], colour[SAMPLE_MAX];
    const struct picture picture = draw_picture(pixels, 1);
    const struct augment_view view = { .width = picture.width, .height = picture.height };
    const struct image_shape one = { 19, 23, 1 }, three = { 19, 23, 3 };
    run(&picture, &view, &one, grey);
    run(&picture, &view, &three, colour);
    for (size_t i = 0; i < (size_t)19 * 23 * 3; i++)
        assert_int_equal(colour[i], grey[i / 3]);
    const struct picture coloured = { .pixels = colour, .row_bytes = (size_t)23 * 3, .width = 23, .height = 19,
                                      .channels = 3 };
    const struct augment_view all = { .width = 23, .height = 19 };
    uint8_t back[19 * 23];
    run(&coloured, &all, &one, back);
    assert_memory_equal(back, grey, sizeof(back));
    memcpy(colour, (const uint8_t[]){ 255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30 }, 12);
    run(&coloured, &all, &one, back);
    assert_memory_equal(back, ((const uint8_t[]){ 76, 150, 29, 18 }), 4);
}

/* Images narrower than a vector, and remainders after the last vector. */
TEST(every_width_of_a_row_is_scaled)
{
    static uint8_t pixels[SAMPLE_MAX], sample[SAMPLE_MAX];
    for (uint32_t width = 1; width <= SIDE_MAX; width++) {
        struct picture picture = draw_picture(pixels, 3);
        picture.width = width;
        picture.height = 5;
        picture.row_bytes = (size_t)width * 3;
        const struct augment_view view = { .width = width, .height = 5 };
        const struct image_shape shape = { 3, width, 3 };
        run(&picture, &view, &shape, sample);
        assert_near(&picture, &view, &shape, sample);
    }
}

/* Compare the sums of one picture by the plain loops and by another kernel. */
static void try_kernel(const struct scale_kernel *kernel, const struct picture *picture, struct scale_axis *axis,
                    uint32_t count)
{
    static int16_t lines[2][2][LINE_MAX];
    static uint8_t rows[2][2][SIDE_MAX * 4];
    const struct scale_kernel *const kernels[2] = { &scale_kernel_plain, kernel };
    const size_t values = (size_t)picture->width * picture->channels;
    const int16_t weights[5] = { 3000, -400, 12000, 2000, -216 };
    const struct scale_rows_sum sums[2] = { { picture->pixels, picture->row_bytes, draw(1, 5), weights },
                                            { picture->pixels, picture->row_bytes, draw(1, 5), weights } };
    assert_true(values + scale_line_padding(axis, picture->channels) <= LINE_MAX);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++)
            kernels[i]->add_rows(&sums[j], values, lines[i][j]);
        const struct scale_pair pair = { { lines[i][0], lines[i][1] }, 0, picture->channels,
                                         { rows[i][0], rows[i][1] } };
        kernels[i]->add_pixels(axis, &pair, count);
    }
    for (int j = 0; j < 2; j++) {
        assert_memory_equal(lines[0][j], lines[1][j], values * sizeof(**lines[0]));
        assert_memory_equal(rows[0][j], rows[1][j], (size_t)count * picture->channels);
    }
}

TEST(every_kernel_gives_the_results_of_the_plain_loops)
{
    static uint8_t pixels[SAMPLE_MAX];
    struct scale_axis axis = { 0 };
    for (int round = 0; round < 400; round++) {
        struct picture picture = draw_picture(pixels, draw(1, 4));
        picture.height = 5;
        const struct scale_view view = { 0, picture.width, { 0, picture.width }, BEYOND_ZERO,
                                         (enum filter)(round % FILTER_COUNT), round % 2 == 1 };
        const uint32_t count = draw(1, SIDE_MAX);
        assert_int_equal(scale_axis_init(&axis, &view, count), 0);
        for (size_t i = 0; i < scale_kernel_count; i++)
            if (scale_kernels[i]->is_supported())
                try_kernel(scale_kernels[i], &picture, &axis, count);
    }
    scale_axis_release(&axis);
}

static int release(void **state)
{
    (void)state;
    scale_release(&scale);
    return 0;
}

TESTS_MAIN(NULL, release)
