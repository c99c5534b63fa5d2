/* Tests of dropout masks against their definition, and of applying them. */
#include <math.h>
#include <string.h>

#include "compute/dropout.h"
#include "tests/helpers/test.h"

enum { COUNT_MAX = 400, MANY = 100000 };

/* The definition in dropout.h, element by element. */
static uint8_t kept(const struct dropout *dropout, uint32_t epoch, uint64_t position, uint32_t element)
{
    const uint32_t counter[4] = { element / 8, (uint32_t)position, (uint32_t)(position >> 32), epoch };
    uint32_t word[4];
    random_block(dropout->key, counter, word);
    const uint32_t half = element % 2 == 0 ? word[element / 2 % 4] & 0xffff : word[element / 2 % 4] >> 16;
    return half >= dropout->threshold;
}

typedef void (*mask_function)(const struct dropout *, uint32_t epoch, uint64_t position, size_t count,
                              uint8_t *mask_out);

static void check_mask(mask_function mask_of, uint32_t layer, uint64_t position, size_t count)
{
    uint8_t mask[COUNT_MAX + 1];
    struct dropout dropout;
    dropout_init(&dropout, 11 + count, layer, 0.3f);
    memset(mask, 7, sizeof(mask));
    mask_of(&dropout, (uint32_t)count, position, count, mask);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(mask[i], kept(&dropout, (uint32_t)count, position, i));
    assert_int_equal(mask[count], 7);
}

/* The one of this CPU, and the plain one. */
TEST(every_length_gives_the_mask_of_the_definition)
{
    static const uint64_t positions[] = { 0, 1, 59999, UINT32_MAX, (1ull << 32) + 5, UINT64_MAX };
    for (uint32_t p = 0; p < sizeof(positions) / sizeof(positions[0]); p++)
        for (size_t count = 0; count < COUNT_MAX; count += 1 + p) {
            check_mask(dropout_mask, p, positions[p], count);
            check_mask(dropout_mask_plain, p, positions[p], count);
        }
}

TEST(the_rate_is_the_share_of_values_dropped)
{
    static uint8_t mask[MANY];
    for (float rate = 0; rate < 1; rate += 0.125f) {
        struct dropout dropout;
        size_t dropped = 0;
        dropout_init(&dropout, 1, 2, rate);
        dropout_mask(&dropout, 0, 0, MANY, mask);
        for (size_t i = 0; i < MANY; i++)
            dropped += !mask[i];
        assert_true(fabs((double)dropped / MANY - rate) <= 5 * sqrt(rate * (1.0 - rate) / MANY));
        assert_true(fabs(dropout.scale * (1 - rate) - 1) < 1e-6);
    }
}

/* The threshold is the rate in 2^16ths, to the nearest one: what is dropped, not the rate, decides the scale. */
TEST(rates_are_rounded_to_the_nearest_of_2_16)
{
    static const struct { float of_2_16; uint16_t threshold; } cases[] = {
        { 0.4f, 0 }, { 0.6f, 1 }, { 19660.4f, 19660 }, { 19660.6f, 19661 }, { 65534.6f, 65535 }, { 65535.9f, 65535 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dropout dropout;
        dropout_init(&dropout, 1, 2, cases[i].of_2_16 / 0x1p16f);
        assert_int_equal(dropout.threshold, cases[i].threshold);
        assert_true(dropout.scale == 0x1p16f / (float)(65536 - cases[i].threshold));
    }
}

TEST(rates_near_one_keep_a_finite_scale)
{
    struct dropout dropout;
    dropout_init(&dropout, 1, 2, nextafterf(1.0f, 0.0f));
    assert_true(isfinite(dropout.scale));
}

TEST(masks_differ_between_samples_epochs_layers_and_seeds)
{
    uint8_t masks[5][256];
    struct dropout dropout, layer, seed;
    dropout_init(&dropout, 1, 2, 0.5f);
    dropout_init(&layer, 1, 3, 0.5f);
    dropout_init(&seed, 2, 2, 0.5f);
    dropout_mask(&dropout, 0, 10, 256, masks[0]);
    dropout_mask(&dropout, 0, 11, 256, masks[1]);
    dropout_mask(&dropout, 1, 10, 256, masks[2]);
    dropout_mask(&layer, 0, 10, 256, masks[3]);
    dropout_mask(&seed, 0, 10, 256, masks[4]);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++) {
            int different = 0;
            for (int e = 0; e < 256; e++)
                different += masks[i][e] != masks[j][e];
            assert_in_range(different, 80, 176);
        }
}

TEST(applying_scales_what_is_kept_and_zeroes_the_rest)
{
    for (size_t count = 0; count < 70; count++) {
        uint8_t mask[70];
        float from[70], to[71], in_place[71];
        struct dropout dropout;
        dropout_init(&dropout, 3, 0, 0.25f);
        dropout_mask(&dropout, 0, count, count, mask);
        for (size_t i = 0; i < count; i++)
            in_place[i] = from[i] = (float)i - 30.5f;
        in_place[count] = to[count] = 5;
        dropout_apply(&dropout, mask, from, to, count);
        dropout_apply(&dropout, mask, in_place, in_place, count);
        for (size_t i = 0; i < count; i++)
            assert_true(to[i] == (mask[i] ? from[i] * dropout.scale : 0));
        assert_memory_equal(to, in_place, (count + 1) * sizeof(float));
        assert_true(to[count] == 5);
    }
}

TEST(a_dropped_value_is_zero_whatever_it_was)
{
    float values[2] = { NAN, INFINITY };
    const uint8_t mask[2] = { 0, 0 };
    struct dropout dropout;
    dropout_init(&dropout, 3, 0, 0.25f);
    dropout_apply(&dropout, mask, values, values, 2);
    assert_true(values[0] == 0 && values[1] == 0);
}

TESTS_MAIN(NULL, NULL)
