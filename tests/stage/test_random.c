/* Tests of counted randomness: the published vectors, and that numbers look drawn. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

TEST(agrees_with_the_published_vectors)
{
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } vectors[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        const struct random_key key = { { vectors[i].key[0], vectors[i].key[1] } };
        uint32_t out[4];
        random_block(key, vectors[i].counter, out);
        assert_memory_equal(out, vectors[i].expected, sizeof(out));
    }
}

TEST(the_inline_form_equals_the_function)
{
    enum { COUNT = 1000 };
    static uint32_t mixed[COUNT][4];
    const struct random_key key = random_key(11, RANDOM_DROPOUT, 2);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t word[4] = { i, ~i, i * 7, 3 };
        random_mix(key, word);
        memcpy(mixed[i], word, sizeof(word));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t counter[4] = { i, ~i, i * 7, 3 };
        uint32_t out[4];
        random_block(key, counter, out);
        assert_memory_equal(out, mixed[i], sizeof(out));
    }
}

TEST(a_block_may_be_written_over_its_counter)
{
    const struct random_key key = random_key(1, RANDOM_ORDER, 0);
    const uint32_t counter[4] = { 5, 6, 7, 8 };
    uint32_t apart[4], in_place[4] = { 5, 6, 7, 8 };
    random_block(key, counter, apart);
    random_block(key, in_place, in_place);
    assert_memory_equal(apart, in_place, sizeof(apart));
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(keys_of_all_seeds_uses_and_indexes_differ)
{
    enum { SEEDS = 20, INDEXES = 50, USES = RANDOM_SHUFFLE, COUNT = SEEDS * INDEXES * USES };
    static uint64_t keys[COUNT];
    size_t count = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t use = RANDOM_ORDER; use <= RANDOM_SHUFFLE; use++)
            for (uint32_t index = 0; index < INDEXES; index++) {
                const struct random_key key = random_key(seed, (enum random_use)use, index);
                keys[count++] = (uint64_t)key.word[1] << 32 | key.word[0];
            }
    assert_int_equal(count, COUNT);
    qsort(keys, COUNT, sizeof(keys[0]), compare_u64);
    for (size_t i = 1; i < COUNT; i++)
        assert_true(keys[i - 1] < keys[i]);
}

TEST(one_bit_of_the_seed_changes_half_of_the_key)
{
    unsigned changed = 0;
    for (int bit = 0; bit < 64; bit++) {
        const struct random_key a = random_key(0, RANDOM_WEIGHTS, 0);
        const struct random_key b = random_key(1ull << bit, RANDOM_WEIGHTS, 0);
        changed += (unsigned)__builtin_popcount(a.word[0] ^ b.word[0]);
        changed += (unsigned)__builtin_popcount(a.word[1] ^ b.word[1]);
    }
    const double share = changed / (64.0 * 64.0);
    assert_true(share > 0.46 && share < 0.54);
}

TEST(words_of_64_bits_use_the_whole_index)
{
    const struct random_key key = random_key(3, RANDOM_ORDER, 0);
    assert_true(random_u64(key, 1) != random_u64(key, 1ull << 32 | 1));
    assert_true(random_u64(key, 1) == random_u64(key, 1));
    uint64_t any_set = 0, all_set = UINT64_MAX;
    for (uint64_t i = 0; i < 200; i++) {
        any_set |= random_u64(key, i);
        all_set &= random_u64(key, i);
    }
    assert_true(any_set == UINT64_MAX && all_set == 0);
}

TEST(uniform_numbers_fill_the_unit_interval_evenly)
{
    enum { COUNT = 100000, CELLS = 50 };
    const struct random_key key = random_key(17, RANDOM_WEIGHTS, 4);
    unsigned cells[CELLS] = { 0 };
    for (uint64_t i = 0; i < COUNT; i++) {
        const float value = test_uniform(key, i);
        assert_true(value >= 0.0f && value < 1.0f);
        cells[(int)(value * CELLS)]++;
    }
    double chi_square = 0.0;
    for (int i = 0; i < CELLS; i++) {
        const double off = cells[i] - (double)COUNT / CELLS;
        chi_square += off * off / ((double)COUNT / CELLS);
    }
    assert_true(chi_square > 20.0 && chi_square < 100.0);   /* 49 degrees of freedom */
}

TEST(normal_numbers_have_the_moments_of_the_normal_distribution)
{
    enum { COUNT = 200000 };
    const struct random_key key = random_key(19, RANDOM_DRAW, 0);
    double sum = 0.0, squares = 0.0, cubes = 0.0, fourths = 0.0;
    unsigned within_one = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const double value = random_normal(key, i);
        assert_true(isfinite(value));
        sum += value;
        squares += value * value;
        cubes += value * value * value;
        fourths += value * value * value * value;
        within_one += fabs(value) < 1.0;
    }
    assert_true(fabs(sum / COUNT) < 0.01);
    assert_true(fabs(squares / COUNT - 1.0) < 0.02);
    assert_true(fabs(cubes / COUNT) < 0.05);
    assert_true(fabs(fourths / COUNT - 3.0) < 0.1);
    assert_true(fabs(within_one / (double)COUNT - 0.6827) < 0.005);
}

/* This block begins with a word that is 0. */
TEST(the_rarest_normal_number_is_finite)
{
    const float value = random_normal((struct random_key){ { 1, 2 } }, 1178950210);
    assert_true(fabsf(value - 3.03363020f) < 1e-6f);
}

TESTS_MAIN(NULL, NULL)
