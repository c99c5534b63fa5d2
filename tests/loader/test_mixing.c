/* How samples are mixed: shares are of the distribution asked for, boxes have the area of theirs, and what is drawn
 * for a place depends on nothing but the place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/augment/augment.h"
#include "stage/random.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { DRAWS = 40000 };

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of mixup with this number, in ascending order. */
static void draw_shares(double number, float *shares)
{
    const struct augment augment = { .seed = 7, .mixup = number, .mixed = 1 };
    for (uint32_t i = 0; i < DRAWS; i++) {
        const struct mix mix = mixing_draw(&augment, 3, i, 32, 32);
        assert_true(mix.share >= 0 && mix.share <= 1);
        assert_true(mix.top == 0 && mix.left == 0 && mix.bottom == 0 && mix.right == 0);
        shares[i] = mix.share;
    }
    qsort(shares, DRAWS, sizeof(*shares), compare_floats);
}

/* So that runs stay the same, bit by bit: the highest bit of the second random word of a place. */
TEST(the_choice_between_both_is_a_bit_of_the_place)
{
    const struct augment augment = { .seed = 7, .mixup = 1, .cutmix = 1, .mixed = 1 };
    const struct random_key key = random_key(7, RANDOM_AUGMENT, 3);
    for (uint64_t position = 0; position < 1000; position++) {
        uint32_t word[4] = { (uint32_t)position, 0, 0, 1 };
        random_mix(key, word);
        const struct mix mix = mixing_draw(&augment, 3, position, 32, 32);
        const bool is_box = mix.bottom > 0 || mix.right > 0;
        assert_true(word[1] >> 31 != 0 ? is_box || mix.share == 1 : !is_box);
    }
}

static double moment(const float *numbers, int power)
{
    double sum = 0;
    for (uint32_t i = 0; i < DRAWS; i++)
        sum += pow((double)numbers[i] - 0.5, power);
    return sum / DRAWS;
}

/* Beta(a, a) has the mean 1/2, the variance 1 / (4 (2 a + 1)) and the kurtosis 3 - 6 / (2 a + 3). */
TEST(shares_have_the_moments_of_beta)
{
    static const double numbers[] = { 0.05, 0.1, 0.2, 0.4, 1, 2, 8, 100 };
    static float shares[DRAWS];
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const double variance = 1 / (4 * (2 * numbers[i] + 1)), kurtosis = 3 - 6 / (2 * numbers[i] + 3);
        draw_shares(numbers[i], shares);
        assert_true(fabs(moment(shares, 1)) < 4 * sqrt(variance / DRAWS));
        assert_true(fabs(moment(shares, 2) / variance - 1) < 0.03);
        assert_true(fabs(moment(shares, 4) / (variance * variance * kurtosis) - 1) < 0.06);
    }
}

static double beta_half(double x) { return 2 / M_PI * asin(sqrt(x)); }
static double beta_one(double x) { return x; }
static double beta_two(double x) { return x * x * (3 - 2 * x); }

/* The largest distance from the distribution function is below that of one draw in a thousand (Kolmogorov). */
TEST(shares_are_distributed_as_beta)
{
    static const struct { double number; double (*function)(double x); } cases[] = {
        { 0.5, beta_half }, { 1, beta_one }, { 2, beta_two } };
    static float shares[DRAWS];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double distance = 0;
        draw_shares(cases[i].number, shares);
        for (uint32_t k = 0; k < DRAWS; k++)
            distance = fmax(distance, fabs(cases[i].function((double)shares[k]) - (k + 0.5) / DRAWS));
        assert_true(distance < 1.95 / sqrt(DRAWS));
    }
}

/* Numbers of the distribution Gamma lie below what a double can hold then. */
TEST(small_numbers_give_one_of_both)
{
    static float shares[DRAWS];
    uint32_t between = 0;
    draw_shares(1e-6, shares);
    for (uint32_t i = 0; i < DRAWS; i++)
        between += shares[i] > 0 && shares[i] < 1;
    assert_true(between < 10);
    assert_true(fabs(moment(shares, 1)) < 0.01);
}

static uint32_t rows_of(const struct mix *mix) { return mix->bottom - mix->top; }
static uint32_t columns_of(const struct mix *mix) { return mix->right - mix->left; }

static void assert_box(const struct mix *mix, uint32_t height, uint32_t width)
{
    const double area = (double)rows_of(mix) * columns_of(mix);
    assert_true(mix->top <= mix->bottom && mix->bottom <= height);
    assert_true(mix->left <= mix->right && mix->right <= width);
    assert_true(fabs((double)mix->share - (1 - area / ((double)height * width))) < 1e-7);
}

/* A box that is not cut at a side has the image's aspect; where the share is uniform its area is, too, before it is
 * cut; and its middle lies anywhere. */
TEST(boxes_have_the_area_of_their_share)
{
    static const struct { uint32_t height, width; } sizes[] = { { 32, 32 }, { 224, 160 }, { 1, 1 }, { 2, 100000 } };
    const struct augment augment = { .seed = 1, .cutmix = 1, .mixed = 1 };
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
        for (uint32_t i = 0; i < 2000; i++) {
            const struct mix mix = mixing_draw(&augment, 0, i, sizes[s].height, sizes[s].width);
            assert_box(&mix, sizes[s].height, sizes[s].width);
        }
    uint32_t whole = 0, halves = 0, above = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        const struct mix mix = mixing_draw(&augment, 1, i, 1000, 500);
        if (mix.top == 0 || mix.left == 0 || mix.bottom == 1000 || mix.right == 500)
            continue;
        assert_true(abs((int)rows_of(&mix) - 2 * (int)columns_of(&mix)) <= 4);
        whole++;
        halves += mix.share < 0.75f;
        above += mix.top + mix.bottom < 1000;
    }
    /* Boxes of side r in a uniform place are not cut in (1 - r)^2 of all cases: r^2 is uniform. */
    assert_true(fabs((double)whole / DRAWS - 1.0 / 6) < 0.01);
    assert_true(fabs((double)halves / whole - 0.3125) < 0.03);
    assert_true(fabs((double)above / whole - 0.5) < 0.03);
}

TEST(both_methods_are_used_and_the_share_of_mixed_samples_is_right)
{
    const struct augment augment = { .seed = 2, .mixup = 0.2, .cutmix = 1, .mixed = 0.3 };
    const struct augment off = { .seed = 2, .mixed = 1 };
    uint32_t boxes = 0, blends = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        const struct mix mix = mixing_draw(&augment, 0, i, 1000, 1000);
        boxes += mix.bottom > mix.top;
        blends += mix.bottom == mix.top && mix.share < 1;
        assert_true(mixing_draw(&off, 0, i, 32, 32).share == 1);
    }
    assert_true(fabs((double)boxes / DRAWS - 0.15) < 0.01);
    assert_true(fabs((double)blends / DRAWS - 0.15) < 0.01);
}

TEST(a_place_has_its_own_numbers)
{
    const struct augment augment = { .seed = 5, .mixup = 1, .mixed = 1 }, other = { .seed = 6, .mixup = 1, .mixed = 1 };
    const struct mix mix = mixing_draw(&augment, 2, 77, 32, 32), again = mixing_draw(&augment, 2, 77, 32, 32);
    assert_memory_equal(&mix, &again, sizeof(mix));
    assert_true(mixing_draw(&other, 2, 77, 32, 32).share != mix.share);
    assert_true(mixing_draw(&augment, 3, 77, 32, 32).share != mix.share);
    assert_true(mixing_draw(&augment, 2, 78, 32, 32).share != mix.share);
    assert_true(mixing_draw(&augment, 2, 77 + (1ull << 32), 32, 32).share != mix.share);
}

/* Through a whole loader, which writes what is drawn beside every training sample. */
TEST(batches_carry_what_is_drawn)
{
    const struct augment augment = { .seed = 9, .filter = FILTER_BILINEAR, .mixup = 0.4, .cutmix = 1, .mixed = 0.7 };
    char place[300];
    fixture_subfolder(place, sizeof(place), "set");
    fixture_write_set(place, 2, 31);
    const struct dataset_options options = fixture_options(place);
    struct dataset *const set = fixture_open(&options);
    for (uint32_t towers = 1; towers <= 3; towers++) {
        struct harness harness = {
            .spec = { .datasets = { set, set }, .shuffle = SHUFFLE_FULL, .seed = 11, .augment = &augment,
                      .read_threads = 2, .decode_threads = 2 },
            .schedule = { .batch = 7, .towers = towers, .epochs = 2, .pairs = true },
            .depth = 2,
        };
        harness_run(&harness);
        assert_string_equal(harness.message, "");
        for (uint64_t i = 0; i < harness.batch_count * 7; i++) {
            const struct local_batch local = harness_span(&harness, i / 7);
            const struct mix expected = mixing_draw(&augment, local.epoch, local.first_position + i % 7, FIXTURE_HEIGHT,
                                                    FIXTURE_WIDTH);
            if (i % 7 < local.global_count && local.phase == PHASE_TRAIN)
                assert_memory_equal(&harness.deliveries[i].mix, &expected, sizeof(expected));
        }
        harness_release(&harness);
    }
    dataset_close(set);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
