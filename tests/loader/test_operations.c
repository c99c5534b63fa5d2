/* Automatic augmentation: operations give the bytes of torchvision's on Pillow images, magnitudes are torchvision's,
 * and every method draws its operations as often as it should. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/augment/augment.h"
#include "loader/augment/draw.h"
#include "loader/augment/policy.h"
#include "loader/images/image.h"
#include "loader/images/scratch.h"
#include "tests/helpers/test.h"
#include "tests/peers/operation_results.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define BYTES_MAX 16470u        /* of the largest of result_shapes */

static const struct image_shape small = { 28, 20, 3 };

/* ---- images ---- */

/* The image that operations.py draws with this seed. */
static void draw_image(const struct image_shape *shape, uint32_t seed, uint8_t *pixels)
{
    uint32_t state = seed;
    for (uint32_t y = 0; y < shape->height; y++) {
        for (uint32_t i = 0; i < shape->width * shape->channels; i++) {
            const uint32_t x = i / shape->channels, c = i % shape->channels;
            state = state * 1664525 + 1013904223;
            const uint32_t noise = state >> 24;
            const uint32_t kinds[] = { noise, noise / 64 * 50 + 20, (3 * x + 5 * y + 60 * c + noise / 32) % 256, 77 };
            *pixels++ = (uint8_t)kinds[seed % 4];
        }
    }
}

static uint32_t sum_bytes(const uint8_t *bytes, size_t count)
{
    uint32_t low = 1, high = 0;
    for (size_t i = 0; i < count; i++) {
        low = (low + bytes[i]) % 65521;
        high = (high + low) % 65521;
    }
    return high << 16 | low;
}

/* ---- operations ---- */

TEST(operations_give_the_bytes_of_pillow)
{
    static uint8_t pixels[BYTES_MAX], room[BYTES_MAX];
    for (size_t i = 0; i < COUNT(results); i++) {
        const size_t of = results[i].shape;
        const struct image_shape shape = { result_shapes[of].height, result_shapes[of].width, result_shapes[of].channels };
        const size_t bytes = (size_t)shape.height * shape.width * shape.channels;
        const struct operation operation = { (enum operation_kind)results[i].kind, results[i].magnitude };
        assert_true(bytes <= BYTES_MAX);
        draw_image(&shape, results[i].seed, pixels);
        operation_apply(&operation, &shape, room, pixels);
        if (sum_bytes(pixels, bytes) != results[i].checksum)
            fail_msg("%s of %g differs for %ux%ux%u, seed %u", operation_names[operation.kind], operation.magnitude,
                     shape.height, shape.width, shape.channels, results[i].seed);
    }
}

TEST(every_kind_of_operation_is_compared)
{
    uint32_t seen[OPERATION_COUNT] = { 0 };
    for (size_t i = 0; i < COUNT(results); i++)
        seen[results[i].kind]++;
    for (size_t i = 0; i < OPERATION_COUNT; i++)
        assert_true(seen[i] > 1);
}

TEST(magnitudes_are_those_of_torchvision)
{
    for (size_t i = 0; i < COUNT(magnitudes); i++) {
        const struct image_shape shape = { magnitudes[i].height, magnitudes[i].width, 3 };
        const enum policy policy = (enum policy)(POLICY_TRIVIAL_AUGMENT_WIDE + magnitudes[i].method);
        const enum operation_kind kind = (enum operation_kind)magnitudes[i].kind;
        assert_int_equal(policy_bins(policy), magnitudes[i].bins);
        assert_int_equal(policy_is_signed(kind), magnitudes[i].is_signed);
        if (policy_magnitude(policy, kind, magnitudes[i].bin, &shape) != magnitudes[i].magnitude)
            fail_msg("method %u, %s, step %u: %.9g", magnitudes[i].method, operation_names[kind], magnitudes[i].bin,
                     policy_magnitude(policy, kind, magnitudes[i].bin, &shape));
    }
}

/* ---- what is drawn ---- */

static struct image_request request_at(uint64_t position)
{
    return (struct image_request){ .phase = PHASE_TRAIN, .epoch = 2, .position = position, .shape = small };
}

/* Chi-square of counts whose expectations are equal. */
static double chi_square(const uint32_t *counts, size_t count, double expected)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum;
}

/* Below the quantile of 0.999 for this many degrees of freedom (Wilson and Hilferty). */
static bool is_likely(double chi, double freedom)
{
    const double spread = 2 / (9 * freedom), root = 1 - spread + 3.09 * sqrt(spread);
    return chi < freedom * root * root * root;
}

#define DRAWN 20000u

TEST(trivial_augment_draws_all_operations_steps_and_signs_equally_often)
{
    const struct augment augment = { .seed = 5, .policy = POLICY_TRIVIAL_AUGMENT_WIDE };
    struct operation operations[POLICY_OPERATIONS_MAX];
    uint32_t kinds[OPERATION_COUNT] = { 0 }, steps[31] = { 0 }, signs[2] = { 0 }, rotations = 0;
    for (uint64_t position = 0; position < DRAWN; position++) {
        const struct image_request request = request_at(position);
        assert_int_equal(policy_draw(&augment, &request, operations), 1);
        kinds[operations[0].kind]++;
        if (operations[0].kind != OPERATION_ROTATE)
            continue;
        rotations++;
        steps[(uint32_t)nearbyint(fabs(operations[0].magnitude) / 4.5)]++;
        signs[signbit(operations[0].magnitude) != 0]++;
    }
    assert_int_equal(kinds[OPERATION_INVERT], 0);
    assert_true(is_likely(chi_square(kinds, OPERATION_INVERT, DRAWN / 14.0), 13));
    assert_true(is_likely(chi_square(steps, 31, rotations / 31.0), 30));
    assert_true(is_likely(chi_square(signs, 2, rotations / 2.0), 1));
}

TEST(rand_augment_draws_as_many_operations_as_asked_with_one_magnitude)
{
    const struct augment augment = { .seed = 5, .policy = POLICY_RAND_AUGMENT, .policy_operations = 3,
                                     .policy_magnitude = 9 };
    struct operation operations[POLICY_OPERATIONS_MAX];
    uint32_t pairs[14 * 14] = { 0 };
    for (uint64_t position = 0; position < DRAWN; position++) {
        const struct image_request request = request_at(position);
        assert_int_equal(policy_draw(&augment, &request, operations), 3);
        pairs[operations[0].kind * 14 + operations[2].kind]++;
        for (size_t i = 0; i < 3; i++)
            assert_true(fabs(operations[i].magnitude) ==
                        policy_magnitude(POLICY_RAND_AUGMENT, operations[i].kind, 9, &small));
    }
    assert_true(is_likely(chi_square(pairs, COUNT(pairs), DRAWN / (double)COUNT(pairs)), COUNT(pairs) - 1.0));
}

/* Averages over the 25 sub-policies; Equalize is more frequent than any other. */
TEST(auto_augment_draws_operations_with_the_probabilities_of_its_policy)
{
    static const struct { enum operation_kind kind; double mean; } expected[] = {
        { OPERATION_IDENTITY, 0 },    { OPERATION_SHEAR_X, 0.6 },        { OPERATION_SHEAR_Y, 0 },
        { OPERATION_ROTATE, 3.6 },    { OPERATION_COLOR, 4.0 },          { OPERATION_CONTRAST, 2 },
        { OPERATION_SHARPNESS, 0.4 }, { OPERATION_POSTERIZE, 2.8 },      { OPERATION_SOLARIZE, 3.6 },
        { OPERATION_INVERT, 1.8 },    { OPERATION_AUTO_CONTRAST, 1.2 },  { OPERATION_EQUALIZE, 11.2 },
    };
    const struct augment augment = { .seed = 5, .policy = POLICY_AUTO_AUGMENT };
    struct operation operations[POLICY_OPERATIONS_MAX];
    uint32_t kinds[OPERATION_COUNT] = { 0 }, negative = 0, rotations = 0;
    for (uint64_t position = 0; position < DRAWN; position++) {
        const struct image_request request = request_at(position);
        const uint32_t count = policy_draw(&augment, &request, operations);
        assert_in_range(count, 0, 2);
        for (uint32_t i = 0; i < count; i++) {
            kinds[operations[i].kind]++;
            rotations += operations[i].kind == OPERATION_ROTATE;
            negative += operations[i].kind == OPERATION_ROTATE && operations[i].magnitude < 0;
        }
    }
    for (size_t i = 0; i < COUNT(expected); i++) {
        const double mean = expected[i].mean / 25 * DRAWN;
        if (fabs(kinds[expected[i].kind] - mean) > 4 * sqrt(mean))
            fail_msg("%s: %u times, expected %.0f", operation_names[expected[i].kind], kinds[expected[i].kind], mean);
    }
    assert_true(fabs(negative - rotations / 2.0) < 2 * sqrt(rotations));
}

TEST(draws_are_a_function_of_seed_epoch_and_position)
{
    struct augment augment = { .seed = 5, .policy = POLICY_TRIVIAL_AUGMENT_WIDE };
    uint32_t alike = 0;
    for (uint64_t position = 0; position < 1000; position++) {
        struct operation first[POLICY_OPERATIONS_MAX], second[POLICY_OPERATIONS_MAX];
        struct image_request request = request_at(position);
        augment.seed = 5;
        policy_draw(&augment, &request, first);
        policy_draw(&augment, &request, second);
        assert_true(first[0].kind == second[0].kind && first[0].magnitude == second[0].magnitude);
        request.epoch++;
        policy_draw(&augment, &request, second);
        alike += first[0].kind == second[0].kind && first[0].magnitude == second[0].magnitude;
        request.epoch--;
        augment.seed++;
        policy_draw(&augment, &request, second);
        alike += first[0].kind == second[0].kind && first[0].magnitude == second[0].magnitude;
    }
    assert_in_range(alike, 0, 100);
}

/* ---- augment_apply ---- */

TEST(only_training_images_are_changed)
{
    static uint8_t pixels[28 * 20 * 3], unchanged[28 * 20 * 3];
    const struct augment augment = { .seed = 5, .policy = POLICY_TRIVIAL_AUGMENT_WIDE };
    struct scratch scratch = { NULL, 0 };
    uint32_t changed = 0;
    draw_image(&small, 4, unchanged);
    for (uint64_t position = 0; position < 200; position++) {
        struct image_request request = request_at(position);
        memcpy(pixels, unchanged, sizeof(pixels));
        assert_int_equal(augment_apply(&augment, &request, &scratch, pixels), 0);
        changed += memcmp(pixels, unchanged, sizeof(pixels)) != 0;
        memcpy(pixels, unchanged, sizeof(pixels));
        request.phase = PHASE_EVALUATE;
        assert_int_equal(augment_apply(&augment, &request, &scratch, pixels), 0);
        assert_int_equal(augment_apply(NULL, &request, &scratch, pixels), 0);
        assert_memory_equal(pixels, unchanged, sizeof(pixels));
    }
    assert_in_range(changed, 140, 199);
    assert_int_equal(scratch.bytes, augment_room_bytes(&augment, &small));
    scratch_release(&scratch);
}

TEST(half_of_the_images_are_flipped_and_all_are_rotated_by_a_uniform_angle)
{
    static uint8_t pixels[28 * 20 * 3], room[28 * 20 * 3], expected[28 * 20 * 3];
    const struct augment augment = { .seed = 5, .flips_vertically = true, .rotation = 30 };
    struct scratch scratch = { NULL, 0 };
    uint32_t flipped = 0, tenths[10] = { 0 };
    for (uint64_t position = 0; position < 5000; position++) {
        const struct image_request request = request_at(position);
        const struct draw draw = draw_operation(&augment, &request, DRAW_TURN);
        const struct operation rotation = { OPERATION_ROTATE, draw_uniform(draw.word[1], -30, 30) };
        tenths[(uint32_t)((rotation.magnitude + 30) / 6)]++;
        draw_image(&small, 4, pixels);
        memcpy(expected, pixels, sizeof(pixels));
        if (draw.word[0] >> 31 != 0) {
            for (size_t y = 0; y < 28; y++)
                memcpy(expected + y * 60, pixels + (27 - y) * 60, 60);
            flipped++;
        }
        operation_apply(&rotation, &small, room, expected);
        assert_int_equal(augment_apply(&augment, &request, &scratch, pixels), 0);
        assert_memory_equal(pixels, expected, sizeof(pixels));
    }
    assert_in_range(flipped, 2359, 2641);       /* 4 deviations */
    assert_true(is_likely(chi_square(tenths, 10, 500), 9));
    scratch_release(&scratch);
}

/* Other numbers of channels than automatic augmentation supports. */
TEST(images_of_any_number_of_channels_are_flipped_and_rotated)
{
    for (uint32_t channels = 1; channels <= 18; channels++) {
        const struct image_shape shape = { 9, 9, channels }, single = { 9, 9, 1 };
        uint8_t pixels[9 * 9 * 18], room[9 * 9 * 18], plane[9 * 9];
        static const struct operation operations[] = { { OPERATION_VERTICAL_FLIP, 0 }, { OPERATION_ROTATE, 33 } };
        draw_image(&shape, 4, pixels);
        for (size_t i = 0; i < sizeof(plane); i++)
            plane[i] = pixels[i * channels + channels - 1];
        for (size_t i = 0; i < COUNT(operations); i++) {
            operation_apply(&operations[i], &shape, room, pixels);
            operation_apply(&operations[i], &single, room, plane);
        }
        for (size_t i = 0; i < sizeof(plane); i++)
            assert_int_equal(plane[i], pixels[i * channels + channels - 1]);
    }
}

/* ---- random erasing ---- */

#define ERASED_SIDE 40u

/* The smallest box with all pixels of the value; false if there is none. All of the box has it, and nothing else. */
static bool find_erased(const uint8_t *pixels, uint32_t *height_out, uint32_t *width_out)
{
    uint32_t top = ERASED_SIDE, left = ERASED_SIDE, bottom = 0, right = 0, count = 0;
    for (uint32_t y = 0; y < ERASED_SIDE; y++)
        for (uint32_t x = 0; x < ERASED_SIDE; x++) {
            const uint8_t *const pixel = pixels + (y * ERASED_SIDE + x) * 3;
            if (pixel[0] == 1)
                continue;
            assert_true(pixel[0] == 10 && pixel[1] == 20 && pixel[2] == 30);
            top = y < top ? y : top;
            left = x < left ? x : left;
            bottom = y;
            right = x > right ? x : right;
            count++;
        }
    *height_out = bottom - top + 1;
    *width_out = right - left + 1;
    assert_true(count == 0 || count == *height_out * *width_out);
    return count > 0;
}

TEST(erased_boxes_have_the_areas_aspects_and_values_of_random_erasing)
{
    const struct augment augment = { .seed = 7, .erase = 0.25, .erased = { 10, 20, 30 } };
    static uint8_t pixels[ERASED_SIDE * ERASED_SIDE * 3];
    double least = 1, most = 0, logarithms = 0;
    uint32_t erased = 0;
    for (uint64_t position = 0; position < 8000; position++) {
        struct image_request request = request_at(position);
        struct scratch scratch = { NULL, 0 };
        uint32_t height, width;
        request.shape = (struct image_shape){ ERASED_SIDE, ERASED_SIDE, 3 };
        memset(pixels, 1, sizeof(pixels));
        assert_int_equal(augment_apply(&augment, &request, &scratch, pixels), 0);
        assert_null(scratch.memory);
        if (!find_erased(pixels, &height, &width))
            continue;
        const double area = height * width / (double)(ERASED_SIDE * ERASED_SIDE);
        assert_in_range(height, 2, ERASED_SIDE - 1);
        assert_in_range(width, 2, ERASED_SIDE - 1);
        assert_true((height - 0.5) / (width + 0.5) < 3.3 && (height + 0.5) / (width - 0.5) > 0.3);
        least = fmin(least, area);
        most = fmax(most, area);
        logarithms += log((double)height / width);
        erased++;
    }
    assert_in_range(erased, 1845, 2155);        /* 4 deviations */
    assert_true(least > 0.015 && least < 0.03 && most > 0.31 && most < 0.35);
    assert_true(fabs(logarithms / erased) < 0.06);
}

TEST(nothing_is_erased_of_the_smallest_images_or_with_probability_0)
{
    struct augment augment = { .seed = 7, .erase = 1, .erased = { 10 } };
    struct scratch scratch = { NULL, 0 };
    for (uint64_t position = 0; position < 100; position++) {
        struct image_request request = request_at(position);
        uint8_t pixels[18] = { 1 };
        request.shape = (struct image_shape){ 1, 1, 18 };
        assert_int_equal(augment_apply(&augment, &request, &scratch, pixels), 0);
        assert_int_equal(pixels[0], 1);
    }
    augment.erase = 0;
    const struct image_request request = request_at(3);
    static uint8_t pixels[28 * 20 * 3], unchanged[28 * 20 * 3];
    assert_int_equal(augment_apply(&augment, &request, &scratch, pixels), 0);
    assert_memory_equal(pixels, unchanged, sizeof(pixels));
}

TESTS_MAIN(NULL, NULL)
