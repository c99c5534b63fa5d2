/* Tests of the drawn digits: the same everywhere, different from each other, inside the image. */
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "tests/helpers/test.h"
#include "tools/convert/glyph.h"

#define INK 100     /* a pixel at least this dark belongs to a stroke */

static struct random_key key_of(uint64_t seed)
{
    return random_key(seed, RANDOM_DRAW, 0);
}

TEST(a_sample_depends_on_digit_key_and_number_only)
{
    uint8_t first[GLYPH_PIXELS], other[GLYPH_PIXELS], again[GLYPH_PIXELS];

    for (unsigned digit = 0; digit < 10; digit++) {
        glyph_draw(digit, key_of(1), 5, first);
        glyph_draw(digit, key_of(1), 6, other);
        assert_memory_not_equal(first, other, sizeof(first));
        glyph_draw(digit, key_of(2), 5, other);
        assert_memory_not_equal(first, other, sizeof(first));
        glyph_draw((digit + 1) % 10, key_of(1), 5, other);
        assert_memory_not_equal(first, other, sizeof(first));
        glyph_draw(digit, key_of(1), 5, again);
        assert_memory_equal(first, again, sizeof(first));
    }
}

/* Changes when anybody changes how digits are drawn: then the accuracies in the
 * documentation have to be measured again. */
TEST(draws_the_same_bytes_with_any_compiler)
{
    static uint8_t pixels[200][GLYPH_PIXELS];

    for (unsigned i = 0; i < 200; i++)
        glyph_draw(i % 10, key_of(1), i, pixels[i]);
    assert_int_equal(XXH3_64bits(&pixels[0][0], sizeof(pixels)), 0x7ae402a735fe70cd);
}

static unsigned ink_pixels(const uint8_t *pixels)
{
    unsigned count = 0;

    for (unsigned i = 0; i < GLYPH_PIXELS; i++)
        count += pixels[i] >= INK;
    return count;
}

static unsigned border_ink_pixels(const uint8_t *pixels)
{
    unsigned count = 0;

    for (unsigned i = 0; i < GLYPH_SIDE; i++) {
        count += pixels[i] >= INK;
        count += pixels[(GLYPH_SIDE - 1) * GLYPH_SIDE + i] >= INK;
        count += pixels[i * GLYPH_SIDE] >= INK;
        count += pixels[i * GLYPH_SIDE + GLYPH_SIDE - 1] >= INK;
    }
    return count;
}

TEST(every_digit_has_ink_and_few_touch_the_border)
{
    unsigned touching = 0;

    for (unsigned i = 0; i < 2000; i++) {
        uint8_t pixels[GLYPH_PIXELS];
        glyph_draw(i % 10, key_of(3), i, pixels);
        assert_in_range(ink_pixels(pixels), 15, 350);
        touching += border_ink_pixels(pixels) > 0;
    }
    assert_in_range(touching, 0, 200);
}

TEST(strokes_name_points_there_are)
{
    for (unsigned digit = 0; digit < 10; digit++) {
        assert_in_range(glyph_shapes[digit].count, 2, 8);
        for (uint32_t i = 0; i < glyph_shapes[digit].count; i++) {
            const struct glyph_shape *shape = &glyph_shapes[digit].shapes[i];
            assert_non_null(shape->strokes[0]);
            for (unsigned s = 0; s < GLYPH_STROKES_MAX && shape->strokes[s] != NULL; s++) {
                assert_in_range(strlen(shape->strokes[s]), 2, GLYPH_POINTS_MAX + 1);
                for (const char *at = shape->strokes[s]; *at; at++)
                    assert_in_range(*at, 'a', 'a' + GLYPH_POINTS_MAX - 1);
            }
        }
    }
}

TESTS_MAIN(NULL, NULL)
