/* Augmentation: every view is where its rule allows it, is drawn from the right distribution, and depends
 * on nothing but the request; colours change as the formulas in double precision say. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/augment/augment.h"
#include "loader/augment/draw.h"
#include "loader/images/image.h"
#include "tests/helpers/test.h"

struct size { uint32_t height, width; };

static const struct size sizes[] = { { 1, 1 }, { 1, 2 }, { 2, 1 }, { 1, 500 }, { 500, 1 }, { 28, 28 }, { 32, 32 },
                                     { 37, 91 }, { 64, 64 }, { 375, 500 }, { 65500, 65500 }, { 65535, 3 },
                                     { 1, UINT32_MAX }, { UINT32_MAX, UINT32_MAX } };
#define SIZES (sizeof(sizes) / sizeof(*sizes))

static const struct image_shape shapes[] = { { 32, 32, 3 }, { 1, 1, 1 }, { 224, 224, 3 }, { 48, 20, 3 } };
#define SHAPES (sizeof(shapes) / sizeof(*shapes))

static struct augment make_augment(enum crop crop)
{
    return (struct augment){ .seed = 3, .crop = { crop, CROP_AUTO }, .filter = FILTER_AREA, .scale = 1.145, .pad = 4,
                             .shift = 0.1, .flips = true };
}

static struct augment_view view_of(const struct augment *augment, const struct image_request *request, struct size size)
{
    struct augment_view view;
    memset(&view, 0, sizeof(view));
    augment_view(augment, request, size.height, size.width, &view);
    return view;
}

static struct image_request request_at(enum phase phase, uint64_t position, const struct image_shape *shape)
{
    return (struct image_request){ .phase = phase, .epoch = (uint32_t)(position / 1000), .position = position,
                                   .shape = *shape };
}

static void assert_whole(const struct augment_view *view, struct size size)
{
    assert_true(view->left == 0 && view->top == 0 && view->width == size.width && view->height == size.height);
}

static void assert_inside(const struct augment_view *view, struct size size)
{
    assert_true(view->left >= 0 && view->top >= 0 && view->width > 0 && view->height > 0);
    assert_true(view->left + view->width <= size.width * (1 + 1e-12));
    assert_true(view->top + view->height <= size.height * (1 + 1e-12));
}

static void assert_in_part_inside(const struct augment_view *view, struct size size)
{
    assert_true(view->width > 0 && view->height > 0);
    assert_true(view->left < size.width && view->left + view->width > 0);
    assert_true(view->top < size.height && view->top + view->height > 0);
}

/* Calls `check` with many requests of every shape and size. */
static void try_views(const struct augment *augment, enum phase phase,
                      void (*check)(const struct augment_view *, const struct image_request *, struct size))
{
    for (size_t i = 0; i < SIZES * SHAPES; i++) {
        for (uint64_t position = 0; position < 200; position++) {
            const struct image_request request = request_at(phase, position * 97, &shapes[i / SIZES]);
            const struct augment_view view = view_of(augment, &request, sizes[i % SIZES]);
            check(&view, &request, sizes[i % SIZES]);
        }
    }
}

static bool fits(const struct image_request *request, struct size size)
{
    return request->shape.height == size.height && request->shape.width == size.width;
}

/* ---- each rule ---- */

static void check_none(const struct augment_view *view, const struct image_request *request, struct size size)
{
    (void)request;
    assert_whole(view, size);
    assert_int_equal(view->filter, FILTER_AREA);
}

TEST(none_uses_the_whole_image)
{
    const struct augment augment = make_augment(CROP_NONE);
    try_views(&augment, PHASE_TRAIN, check_none);
}

static bool is_whole_pixels(const struct augment_view *view)
{
    return view->left == floor(view->left) && view->top == floor(view->top) && view->width == floor(view->width) &&
           view->height == floor(view->height);
}

/* Within what rounding a side to whole pixels may change. */
static void check_resized(const struct augment_view *view, const struct image_request *request, struct size size)
{
    (void)request;
    assert_inside(view, size);
    assert_true(is_whole_pixels(view));
    assert_true((view->width - 0.5) / (view->height + 0.5) <= 4.0 / 3.0);
    assert_true((view->width + 0.5) / (view->height - 0.5) >= 3.0 / 4.0);
    const double aspect = (double)size.width / size.height;
    const double area = (view->width + 0.5) * (view->height + 0.5) / ((double)size.width * size.height);
    if (aspect >= 3.0 / 4.0 && aspect <= 4.0 / 3.0)
        assert_true(area >= 0.08);
}

TEST(resized_keeps_area_and_aspect)
{
    const struct augment augment = make_augment(CROP_RESIZED);
    try_views(&augment, PHASE_TRAIN, check_resized);
}

static void check_ranges(const struct augment_view *view, const struct image_request *request, struct size size)
{
    (void)request;
    assert_inside(view, size);
    assert_true(is_whole_pixels(view));
    const double whole = (double)size.width * size.height;
    if (size.height < 28 || size.height != size.width)  /* in which every such part fits */
        return;
    assert_true((view->width - 0.5) / (view->height + 0.5) <= 2 && (view->width + 0.5) / (view->height - 0.5) >= 0.5);
    assert_true((view->width + 0.5) * (view->height + 0.5) >= 0.3 * whole);
    assert_true((view->width - 0.5) * (view->height - 0.5) <= 0.5 * whole);
}

TEST(resized_takes_other_areas_and_aspects)
{
    struct augment augment = make_augment(CROP_RESIZED);
    augment.area = (struct augment_range){ 0.3, 0.5 };
    augment.aspect = (struct augment_range){ 0.5, 2 };
    try_views(&augment, PHASE_TRAIN, check_ranges);
}

/* The usual ranges are those that are used if none is set. */
TEST(the_usual_ranges_of_resized_are_torchvision_s)
{
    const struct augment unset = make_augment(CROP_RESIZED);
    struct augment set = unset;
    set.area = (struct augment_range){ 0.08, 1 };
    set.aspect = (struct augment_range){ 3.0 / 4, 4.0 / 3 };
    for (uint64_t position = 0; position < 500; position++) {
        const struct image_request request = request_at(PHASE_TRAIN, position, &shapes[2]);
        const struct augment_view first = view_of(&unset, &request, sizes[9]);
        const struct augment_view second = view_of(&set, &request, sizes[9]);
        assert_memory_equal(&first, &second, sizeof(first));
    }
}

static void check_box(const struct augment_view *view, const struct image_request *request, struct size size)
{
    (void)request;
    assert_inside(view, size);
    assert_true(is_whole_pixels(view));
    const bool is_whole = view->width == size.width && view->height == size.height;
    assert_true(view->width * view->height >= 0.1 * size.width * size.height);
    assert_true(is_whole || (view->width - 0.5) / view->height <= 1.33);
    assert_true(is_whole || (view->width + 0.5) / view->height >= 0.75);
}

TEST(box_keeps_aspect_and_shows_a_tenth)
{
    const struct augment augment = make_augment(CROP_BOX);
    try_views(&augment, PHASE_TRAIN, check_box);
}

static void check_pad(const struct augment_view *view, const struct image_request *request, struct size size)
{
    assert_in_part_inside(view, size);
    assert_int_equal(view->beyond, BEYOND_ZERO);
    assert_true(view->width == size.width && view->height == size.height);
    const double down = view->top * request->shape.height / size.height;
    const double right = view->left * request->shape.width / size.width;
    assert_true(fabs(down) < 4.000001 && fabs(down - nearbyint(down)) < 1e-6);
    assert_true(fabs(right) < 4.000001 && fabs(right - nearbyint(right)) < 1e-6);
}

TEST(pad_moves_by_whole_pixels_of_the_sample)
{
    const struct augment augment = make_augment(CROP_PAD);
    try_views(&augment, PHASE_TRAIN, check_pad);
}

static void check_shift(const struct augment_view *view, const struct image_request *request, struct size size)
{
    assert_in_part_inside(view, size);
    assert_int_equal(view->beyond, BEYOND_EDGE);
    assert_true(view->width == size.width && view->height == size.height);
    assert_true(fabs(view->top) <= 0.1 * size.height && fabs(view->left) <= 0.1 * size.width);
    assert_int_equal(view->filter, fits(request, size) ? FILTER_NEAREST : FILTER_AREA);
}

TEST(shift_moves_by_a_tenth_at_most)
{
    const struct augment augment = make_augment(CROP_SHIFT);
    try_views(&augment, PHASE_TRAIN, check_shift);
}

/* The middle, whose pixels are square when the image was scaled to whole pixels. */
static void check_central(const struct augment_view *view, const struct image_request *request, struct size size)
{
    assert_inside(view, size);
    assert_false(view->is_flipped);
    const double height = view->height / request->shape.height, width = view->width / request->shape.width;
    const double scaled = fmin(size.height / height, size.width / width);
    assert_true(fabs(height / width - 1) <= 1.001 / scaled || fmin(size.height, size.width) < 2);
    assert_true(fabs(2 * view->top + view->height - size.height) <= 1.001 * height);
    assert_true(fabs(2 * view->left + view->width - size.width) <= 1.001 * width);
}

TEST(evaluation_sees_the_middle)
{
    struct augment augment = make_augment(CROP_RESIZED);
    augment.crop[PHASE_EVALUATE] = CROP_CENTRAL;
    try_views(&augment, PHASE_EVALUATE, check_central);
    /* 375 x 500 becomes 256 x 341, of which rows 16 ... 239 and columns 58 ... 281 are taken. */
    const struct image_request request = request_at(PHASE_EVALUATE, 1, &shapes[2]);
    const struct augment_view view = view_of(&augment, &request, (struct size){ 375, 500 });
    assert_true(fabs(view.top - 16 * 375.0 / 256) < 1e-9 && fabs(view.height - 224 * 375.0 / 256) < 1e-9);
    assert_true(fabs(view.left - 58 * 500.0 / 341) < 1e-9 && fabs(view.width - 224 * 500.0 / 341) < 1e-9);
}

static void check_auto(const struct augment_view *view, const struct image_request *request, struct size size)
{
    struct augment augment = make_augment(request->phase == PHASE_TRAIN ? CROP_RESIZED : CROP_AUTO);
    augment.crop[PHASE_EVALUATE] = CROP_CENTRAL;
    const struct augment_view other = view_of(&augment, request, size);
    if (fits(request, size))
        assert_whole(view, size);
    else
        assert_memory_equal(view, &other, sizeof(other));
}

TEST(auto_keeps_images_of_the_right_size)
{
    const struct augment augment = make_augment(CROP_AUTO);
    try_views(&augment, PHASE_TRAIN, check_auto);
    try_views(&augment, PHASE_EVALUATE, check_auto);
}

TEST(without_an_augmentation_the_whole_image_is_used)
{
    for (size_t i = 0; i < SIZES; i++) {
        const struct image_request request = request_at(PHASE_TRAIN, 5 + i, &shapes[0]);
        const struct augment_view view = view_of(NULL, &request, sizes[i]);
        assert_whole(&view, sizes[i]);
        assert_false(view.is_flipped);
    }
}

/* ---- what is drawn ---- */

TEST(the_same_request_gives_the_same_view)
{
    for (enum crop crop = CROP_AUTO; crop < CROP_COUNT; crop++) {
        const struct augment augment = make_augment(crop);
        for (uint64_t position = 0; position < 100; position++) {
            const struct image_request request = request_at(PHASE_TRAIN, position, &shapes[0]);
            const struct augment_view first = view_of(&augment, &request, sizes[9]);
            const struct augment_view second = view_of(&augment, &request, sizes[9]);
            assert_memory_equal(&first, &second, sizeof(first));
        }
    }
}

/* Positions beyond 32 bits included. */
TEST(another_seed_epoch_or_position_gives_another_view)
{
    const struct augment augment = make_augment(CROP_RESIZED);
    struct augment reseeded = augment;
    reseeded.seed++;
    uint32_t same = 0;
    for (uint64_t position = 0; position < 1000; position++) {
        const struct image_request request = request_at(PHASE_TRAIN, position, &shapes[0]);
        struct image_request others[3] = { request, request, request };
        others[0].epoch++;
        others[1].position++;
        others[2].position += UINT64_C(1) << 32;
        const struct augment_view view = view_of(&augment, &request, sizes[9]);
        for (size_t i = 0; i < 3; i++) {
            const struct augment_view other = view_of(&augment, &others[i], sizes[9]);
            same += memcmp(&view, &other, sizeof(view)) == 0;
        }
        const struct augment_view other = view_of(&reseeded, &request, sizes[9]);
        same += memcmp(&view, &other, sizeof(view)) == 0;
    }
    assert_in_range(same, 0, 3);
}

TEST(half_of_the_training_images_are_mirrored_and_no_others)
{
    struct augment augment = make_augment(CROP_NONE);
    uint32_t flipped = 0;
    for (uint64_t position = 0; position < 10000; position++) {
        const struct image_request train = request_at(PHASE_TRAIN, position, &shapes[0]);
        const struct image_request evaluate = request_at(PHASE_EVALUATE, position, &shapes[0]);
        flipped += view_of(&augment, &train, sizes[9]).is_flipped;
        assert_false(view_of(&augment, &evaluate, sizes[9]).is_flipped);
    }
    assert_in_range(flipped, 4800, 5200);       /* 4 deviations */
    augment.flips = false;
    for (uint64_t position = 0; position < 1000; position++) {
        const struct image_request train = request_at(PHASE_TRAIN, position, &shapes[0]);
        assert_false(view_of(&augment, &train, sizes[9]).is_flipped);
    }
}

/* Every one of the 81 places, about as often. */
TEST(pad_uses_every_position_equally_often)
{
    const struct augment augment = make_augment(CROP_PAD);
    uint32_t counts[9][9] = { { 0 } };
    for (uint64_t position = 0; position < 81 * 400; position++) {
        const struct image_request request = request_at(PHASE_TRAIN, position, &shapes[0]);
        const struct augment_view view = view_of(&augment, &request, (struct size){ 32, 32 });
        counts[(int)view.top + 4][(int)view.left + 4]++;
    }
    for (size_t i = 0; i < 81; i++)
        assert_in_range(counts[i / 9][i % 9], 300, 500);        /* 5 deviations */
}

struct sums { double area, log_aspect, least_area, most_area, left, shift, shift_least; };

static struct sums sum_views(enum crop crop, struct size size, uint32_t count)
{
    const struct augment augment = make_augment(crop);
    struct sums sums = { .least_area = 1 };
    for (uint64_t position = 0; position < count; position++) {
        const struct image_request request = request_at(PHASE_TRAIN, position, &shapes[0]);
        const struct augment_view view = view_of(&augment, &request, size);
        const double area = view.width * view.height / ((double)size.width * size.height);
        sums.area += area / count;
        sums.log_aspect += log(view.width / view.height) / count;
        sums.least_area = fmin(sums.least_area, area);
        sums.most_area = fmax(sums.most_area, area);
        sums.left += (view.left + view.width / 2) / size.width / count;
        sums.shift = fmax(sums.shift, view.left / size.width);
        sums.shift_least = fmin(sums.shift_least, view.left / size.width);
    }
    return sums;
}

TEST(parts_are_spread_over_areas_aspects_and_places)
{
    const struct size size = { 400, 400 };
    const struct sums resized = sum_views(CROP_RESIZED, size, 20000);
    assert_true(resized.least_area < 0.083 && resized.most_area > 0.95);
    assert_true(fabs(resized.log_aspect) < 0.01 && fabs(resized.left - 0.5) < 0.01);
    assert_true(fabs(resized.area - 0.478) < 0.008);    /* of 3/4 and more only those of fitting aspects: no 0.54 */
    const struct sums box = sum_views(CROP_BOX, size, 20000);
    assert_true(box.least_area < 0.11 && box.most_area > 0.9);
    assert_true(fabs(box.left - 0.5) < 0.01);
    const struct sums shift = sum_views(CROP_SHIFT, size, 20000);
    assert_true(shift.shift > 0.0995 && shift.shift_least < -0.0995 && fabs(shift.left - 0.5) < 0.002);
}

/* ---- colours, by the book: RGB to HSV and back ---- */

static void to_hsv(const double *rgb, double *hsv)
{
    const double value = fmax(rgb[0], fmax(rgb[1], rgb[2])), range = value - fmin(rgb[0], fmin(rgb[1], rgb[2]));
    hsv[1] = value > 0 ? range / value : 0;
    hsv[2] = value;
    hsv[0] = 0;
    if (range <= 0)
        return;
    if (rgb[0] == value)
        hsv[0] = (rgb[1] - rgb[2]) / (6 * range);
    else if (rgb[1] == value)
        hsv[0] = (rgb[2] - rgb[0]) / (6 * range) + 2.0 / 6;
    else
        hsv[0] = (rgb[0] - rgb[1]) / (6 * range) + 4.0 / 6;
    hsv[0] -= floor(hsv[0]);
}

static void to_rgb(const double *hsv, double *rgb)
{
    const double range = hsv[1] * hsv[2], smallest = hsv[2] - range, place = hsv[0] * 6;
    const double between = smallest + range * (1 - fabs(fmod(place, 2) - 1));
    const double largest = hsv[2];
    const double all[6][3] = { { largest, between, smallest }, { between, largest, smallest },
                               { smallest, largest, between }, { smallest, between, largest },
                               { between, smallest, largest }, { largest, smallest, between } };
    memcpy(rgb, all[(int)place % 6], 3 * sizeof(*rgb));
}

struct picture { double value[64 * 3]; size_t count; uint32_t channels; };

static void reference_brightness(struct picture *picture, double by)
{
    for (size_t i = 0; i < picture->count; i++)
        picture->value[i] += by;
}

static void reference_saturation(struct picture *picture, double factor)
{
    double hsv[3];
    for (size_t i = 0; i < picture->count && picture->channels == 3; i += 3) {
        to_hsv(&picture->value[i], hsv);
        hsv[1] = fmin(1, hsv[1] * factor);
        to_rgb(hsv, &picture->value[i]);
    }
}

/* Between the smallest and the largest, also where the smallest is negative: as TensorFlow's kernel, not by HSV. */
static void reference_hue(struct picture *picture, double by)
{
    double hsv[3];
    for (size_t i = 0; i < picture->count && picture->channels == 3; i += 3) {
        double *const rgb = &picture->value[i];
        const double smallest = fmin(rgb[0], fmin(rgb[1], rgb[2]));
        for (int c = 0; c < 3; c++)
            rgb[c] -= smallest;
        to_hsv(rgb, hsv);
        hsv[0] = hsv[0] + by - floor(hsv[0] + by);
        to_rgb(hsv, rgb);
        for (int c = 0; c < 3; c++)
            rgb[c] += smallest;
    }
}

static void reference_contrast(struct picture *picture, double factor)
{
    for (uint32_t c = 0; c < picture->channels; c++) {
        double sum = 0;
        for (size_t i = c; i < picture->count; i += picture->channels)
            sum += picture->value[i];
        const double mean = sum / (double)(picture->count / picture->channels);
        for (size_t i = c; i < picture->count; i += picture->channels)
            picture->value[i] = (picture->value[i] - mean) * factor + mean;
    }
}

static void reference_colour(struct picture *picture, const struct augment *augment,
                             const struct image_request *request)
{
    const struct draw draw = draw_make(augment, request, DRAW_COLOUR);
    const double saturation = draw_uniform(draw.word[1], 0.5, 1.5), hue = draw_uniform(draw.word[2], -0.2, 0.2);
    const double contrast = draw_uniform(draw.word[3], 0.5, 1.5);
    reference_brightness(picture, draw_uniform(draw.word[0], -32.0 / 255, 32.0 / 255));
    if (request->position % 2 != 0)
        reference_contrast(picture, contrast);
    reference_saturation(picture, saturation);
    reference_hue(picture, hue);
    if (request->position % 2 == 0)
        reference_contrast(picture, contrast);
}

/* Noise, or only few values so that colours are equal, or dark, or grey. */
static uint8_t pixel_of(uint64_t position, size_t i)
{
    const uint64_t bits = random_u64(random_key(position, RANDOM_DRAW, 0), position % 4 == 3 ? i / 3 : i);
    switch (position / 2 % 3) {
    case 0: return (uint8_t)bits;
    case 1: return (uint8_t)(bits % 3 * 127);
    default: return (uint8_t)(bits % 40);
    }
}

static void assert_colours(const struct augment *augment, const struct image_request *request)
{
    const struct image_shape *const shape = &request->shape;
    struct picture picture = { .count = (size_t)shape->height * shape->width * shape->channels,
                               .channels = shape->channels };
    uint8_t pixels[sizeof(picture.value) / sizeof(*picture.value) + 1];
    assert_true(picture.count < sizeof(pixels));
    for (size_t i = 0; i < picture.count; i++)
        picture.value[i] = (pixels[i] = pixel_of(request->position, i)) / 255.0;
    pixels[picture.count] = 77;
    reference_colour(&picture, augment, request);
    augment_colour(augment, request, pixels);
    for (size_t i = 0; i < picture.count; i++) {
        const double wanted = 255 * fmax(0, fmin(1, picture.value[i]));
        if (fabs(wanted - pixels[i]) > 0.501)
            fail_msg("position %d, number %d: %d instead of %g", (int)request->position, (int)i, pixels[i], wanted);
    }
    assert_int_equal(pixels[picture.count], 77);
}

TEST(colours_change_as_in_a_reference_in_double)
{
    static const struct image_shape pictures[] = { { 8, 8, 3 }, { 1, 1, 3 }, { 5, 7, 3 }, { 9, 9, 1 }, { 6, 5, 2 } };
    struct augment augment = make_augment(CROP_NONE);
    augment.changes_colour = true;
    for (uint64_t position = 0; position < 2000; position++) {
        const struct image_request request = request_at(PHASE_TRAIN, position, &pictures[position / 12 % 5]);
        assert_colours(&augment, &request);
    }
}

TEST(colours_stay_in_evaluation_and_where_they_are_not_to_change)
{
    struct augment augment = make_augment(CROP_NONE);
    uint8_t pixels[12], before[12];
    for (size_t i = 0; i < sizeof(pixels); i++)
        before[i] = pixels[i] = (uint8_t)(i * 20);
    const struct image_shape shape = { 2, 2, 3 };
    const struct image_request train = request_at(PHASE_TRAIN, 1, &shape);
    const struct image_request evaluate = request_at(PHASE_EVALUATE, 1, &shape);
    augment_colour(NULL, &train, pixels);
    augment_colour(&augment, &train, pixels);
    augment.changes_colour = true;
    augment_colour(&augment, &evaluate, pixels);
    assert_memory_equal(pixels, before, sizeof(pixels));
    augment_colour(&augment, &train, pixels);
    assert_memory_not_equal(pixels, before, sizeof(pixels));
}

/* ---- in words ---- */

TEST(every_rule_is_described)
{
    char text[256], small[8];
    struct augment augment = make_augment(CROP_AUTO);
    augment.changes_colour = true;
    augment_describe(&augment, PHASE_TRAIN, text, sizeof(text));
    assert_string_equal(text, "unchanged if it has the input's size, else random resized crop (area 0.08 to 1, aspect 3/4 to "
                              "4/3), area, random horizontal flip, colour jitter");
    augment_describe(&augment, PHASE_EVALUATE, text, sizeof(text));
    assert_string_equal(text, "unchanged if it has the input's size, else scaled to 1.145 x the input's size, central crop, "
                              "area");
    augment.resize = 256;
    augment_describe(&augment, PHASE_EVALUATE, text, sizeof(text));
    assert_string_equal(text, "unchanged if it has the input's size, else shorter side resized to 256 pixels, central crop, "
                              "area");
    augment.resize = 0;
    augment.area = (struct augment_range){ 0.25, 1 };
    augment.aspect = (struct augment_range){ 0.5, 2 };
    augment.crop[PHASE_TRAIN] = CROP_RESIZED;
    augment_describe(&augment, PHASE_TRAIN, text, sizeof(text));
    assert_string_equal(text, "random resized crop (area 0.25 to 1, aspect 0.5 to 2), area, random horizontal flip, colour "
                              "jitter");
    augment.crop[PHASE_TRAIN] = CROP_PAD;
    augment.pad = 1;
    augment_describe(&augment, PHASE_TRAIN, text, sizeof(text));
    assert_string_equal(text, "random crop with 1 pixel of zero padding, area, random horizontal flip, colour jitter");
    for (enum crop crop = CROP_NONE; crop < CROP_COUNT; crop++) {
        augment.crop[PHASE_TRAIN] = crop;
        augment_describe(&augment, PHASE_TRAIN, text, sizeof(text));
        assert_in_range(strlen(text), 40, 120);
        augment_describe(&augment, PHASE_TRAIN, small, sizeof(small));
        assert_int_equal(strlen(small), sizeof(small) - 1);
        assert_memory_equal(small, text, sizeof(small) - 1);
    }
}

TESTS_MAIN(NULL, NULL)
