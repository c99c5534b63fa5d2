/* Tests of the width of text, and of where it is cut. */
#include "tools/lib/text/columns.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/utf8.h"
#include "tests/helpers/test.h"

static const struct { const char *text; size_t columns; } rows[] = {
    { "", 0 }, { "plain", 5 }, { "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 4 },
    { "a\xcc\x88o\xcc\x88", 2 },                        /* umlauts that are written as two characters */
    { "\xe7\x8c\xab\xe3\x81\xae\xe5\x86\x99\xe7\x9c\x9f\xf0\x9f\x90\xb1", 10 },
    { "\xef\xbd\xb1\xef\xbd\xb2", 2 },                  /* halfwidth katakana */
    { "\xef\xbc\xa1", 2 },                              /* a fullwidth letter */
    { "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", 2 },      /* a syllable of Hangul, by its parts */
    { "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", 2 },          /* a flag */
    { "\xd7\xa9\xd6\xb8\xd7\x9c", 2 }, { "\xe0\xb8\x99\xe0\xb9\x89\xe0\xb8\xb3", 2 }, { "\xe2\x82\xac", 1 },
    { "n\\x0al", 6 }, { "\\xe7\\x8c", 8 }, { "\\x", 2 }, { "a\\", 2 },
};

TEST(width_is_that_of_a_terminal)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(columns_count(rows[i].text), rows[i].columns);
}

static const char *const joined[] = {
    "\\x0a", "a\xcc\x88\xcc\xa3", "\xe7\x8c\xab", "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab",
    "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",      /* a family */
    "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd",                                         /* a thumb with a skin tone */
    "\xe2\x9d\xa4\xef\xb8\x8f",                                                 /* a heart with a variation selector */
};

/* With every one of them at every place of a text that is cut at every column. */
TEST(nothing_is_cut_within)
{
    for (size_t i = 0; i < sizeof(joined) / sizeof(*joined); i++)
        for (size_t before = 0; before < 4; before++)
            for (size_t columns = 0; columns < 20; columns++) {
                char text[96];
                snprintf(text, sizeof(text), "%.*s%s%sz", (int)before, "xyz", joined[i], joined[i]);
                const size_t bytes = columns_fitting(text, columns), one = strlen(joined[i]);
                const size_t wide = columns_count(joined[i]);
                const size_t whole = columns < before ? 0 : (columns - before) / wide;
                const size_t expected = columns < before ? columns : whole < 2 ? before + whole * one
                                        : columns > before + 2 * wide ? before + 2 * one + 1 : before + 2 * one;
                assert_int_equal(bytes, expected);
                assert_int_equal(utf8_valid_bytes(text, bytes), bytes);
            }
}

TEST(cells_have_their_width)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (size_t width = 0; width < 12; width++) {
            char *text = NULL;
            size_t bytes;
            FILE *const out = open_memstream(&text, &bytes);
            assert_non_null(out);
            columns_print(out, rows[i].text, width, width);
            assert_int_equal(fclose(out), 0);
            assert_int_equal(columns_count(text), width);
            free(text);
        }
}

TESTS_MAIN(NULL, NULL)
