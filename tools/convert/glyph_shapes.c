/* The writing habits behind the drawn digits; data for glyph.c. */
#include "tools/convert/glyph.h"

static const struct glyph_shape zeros[] = {
    /* round */
    { .points = { { 50, 0 }, { 18, 14 }, { 4, 50 }, { 18, 86 }, { 50, 100 }, { 82, 86 }, { 96, 50 }, { 82, 14 } },
      .strokes = { "abcdefgha" } },
    /* narrow */
    { .points = { { 50, 0 }, { 27, 18 }, { 20, 50 }, { 27, 84 }, { 50, 100 }, { 74, 84 }, { 80, 50 }, { 73, 17 } },
      .strokes = { "abcdefgha" } },
    /* ends crossing or not quite meeting */
    { .points = { { 64, 8 }, { 38, 2 }, { 14, 22 }, { 6, 55 }, { 22, 90 }, { 52, 99 }, { 84, 82 }, { 94, 46 },
                  { 80, 14 }, { 50, 0 } },
      .strokes = { "abcdefghij" } },
};

static const struct glyph_shape ones[] = {
    /* a line */
    { .points = { { 52, 0 }, { 51, 50 }, { 49, 100 } }, .strokes = { "abc" } },
    /* with a flag */
    { .points = { { 24, 25 }, { 55, 0 }, { 53, 50 }, { 52, 100 } }, .strokes = { "ab", "bcd" } },
    /* with a flag and a foot */
    { .points = { { 26, 22 }, { 54, 0 }, { 53, 50 }, { 52, 99 }, { 24, 100 }, { 82, 98 } },
      .strokes = { "ab", "bcd", "ef" } },
};

static const struct glyph_shape twos[] = {
    /* a corner below */
    { .points = { { 10, 25 }, { 28, 4 }, { 62, 0 }, { 88, 22 }, { 72, 52 }, { 38, 78 }, { 6, 100 }, { 50, 97 },
                  { 94, 99 } },
      .strokes = { "abcdefg", "ghi" } },
    /* a loop below */
    { .points = { { 12, 22 }, { 34, 2 }, { 70, 4 }, { 84, 30 }, { 62, 64 }, { 28, 94 }, { 8, 92 }, { 12, 76 },
                  { 36, 80 }, { 64, 97 }, { 96, 90 } },
      .strokes = { "abcdefghijk" } },
    /* nearly a z */
    { .points = { { 12, 10 }, { 58, 2 }, { 86, 20 }, { 58, 58 }, { 8, 98 }, { 92, 94 } },
      .strokes = { "abcde", "ef" } },
};

static const struct glyph_shape threes[] = {
    /* two bows with a point between */
    { .points = { { 12, 14 }, { 46, 0 }, { 80, 18 }, { 66, 42 }, { 36, 48 }, { 72, 54 }, { 90, 76 }, { 56, 100 },
                  { 8, 88 } },
      .strokes = { "abcde", "efghi" } },
    /* a flat top */
    { .points = { { 10, 3 }, { 84, 2 }, { 42, 42 }, { 78, 52 }, { 90, 76 }, { 58, 100 }, { 10, 90 } },
      .strokes = { "ab", "bc", "cdefg" } },
    /* one curve with a small loop in the middle */
    { .points = { { 10, 16 }, { 42, 0 }, { 78, 16 }, { 62, 42 }, { 38, 52 }, { 34, 44 }, { 50, 45 }, { 82, 62 },
                  { 80, 90 }, { 46, 101 }, { 6, 86 } },
      .strokes = { "abcdefghijk" } },
};

static const struct glyph_shape fours[] = {
    /* open */
    { .points = { { 30, 2 }, { 18, 34 }, { 6, 62 }, { 50, 62 }, { 96, 60 }, { 72, 24 }, { 66, 100 } },
      .strokes = { "abc", "cde", "fg" } },
    /* closed, a triangle */
    { .points = { { 66, 100 }, { 68, 50 }, { 70, 0 }, { 36, 34 }, { 4, 68 }, { 96, 68 } },
      .strokes = { "abc", "cde", "ef" } },
    /* open and round */
    { .points = { { 14, 2 }, { 8, 36 }, { 30, 54 }, { 62, 50 }, { 88, 36 }, { 90, 0 }, { 86, 50 }, { 80, 100 } },
      .strokes = { "abcde", "fgh" } },
};

static const struct glyph_shape fives[] = {
    /* with corners, the bar put on last */
    { .points = { { 28, 4 }, { 22, 42 }, { 56, 36 }, { 90, 58 }, { 76, 92 }, { 40, 100 }, { 6, 88 }, { 88, 2 } },
      .strokes = { "ab", "bcdefg", "ah" } },
    /* nearly an s */
    { .points = { { 90, 4 }, { 40, 4 }, { 22, 30 }, { 44, 45 }, { 82, 58 }, { 82, 86 }, { 46, 101 }, { 8, 90 } },
      .strokes = { "abcdefgh" } },
};

static const struct glyph_shape sixes[] = {
    /* a slanted stem */
    { .points = { { 70, 0 }, { 30, 26 }, { 8, 64 }, { 24, 96 }, { 62, 98 }, { 86, 74 }, { 64, 52 }, { 30, 58 },
                  { 11, 78 } },
      .strokes = { "abcdefghi" } },
    /* a steep stem */
    { .points = { { 44, 0 }, { 22, 34 }, { 10, 70 }, { 34, 99 }, { 72, 92 }, { 80, 66 }, { 52, 52 }, { 14, 68 } },
      .strokes = { "abcdefgh" } },
    /* a hook above */
    { .points = { { 84, 10 }, { 54, 0 }, { 20, 28 }, { 8, 66 }, { 34, 100 }, { 78, 92 }, { 84, 64 }, { 48, 52 },
                  { 11, 70 } },
      .strokes = { "abcdefghi" } },
};

static const struct glyph_shape sevens[] = {
    /* plain */
    { .points = { { 6, 6 }, { 50, 4 }, { 92, 2 }, { 62, 44 }, { 40, 100 } }, .strokes = { "abc", "cde" } },
    /* with a bar */
    { .points = { { 6, 6 }, { 50, 4 }, { 92, 2 }, { 62, 44 }, { 40, 100 }, { 32, 52 }, { 84, 48 } },
      .strokes = { "abc", "cde", "fg" } },
    /* with a serif */
    { .points = { { 10, 22 }, { 8, 2 }, { 92, 4 }, { 66, 50 }, { 46, 100 } }, .strokes = { "ab", "bc", "cde" } },
};

static const struct glyph_shape eights[] = {
    /* in one line */
    { .points = { { 78, 12 }, { 46, 0 }, { 18, 20 }, { 46, 46 }, { 84, 76 }, { 52, 100 }, { 12, 80 }, { 52, 46 } },
      .strokes = { "abcdefgha" } },
    /* two rings */
    { .points = { { 50, 0 }, { 20, 22 }, { 50, 46 }, { 80, 22 }, { 12, 74 }, { 50, 100 }, { 88, 74 } },
      .strokes = { "abcda", "cefgc" } },
};

static const struct glyph_shape nines[] = {
    /* a straight stem */
    { .points = { { 84, 20 }, { 54, 0 }, { 16, 18 }, { 22, 48 }, { 60, 48 }, { 82, 60 }, { 76, 100 } },
      .strokes = { "abcdea", "afg" } },
    /* a curved tail */
    { .points = { { 84, 20 }, { 54, 0 }, { 16, 18 }, { 22, 48 }, { 60, 48 }, { 88, 60 }, { 64, 96 }, { 18, 94 } },
      .strokes = { "abcdea", "afgh" } },
    /* in one line */
    { .points = { { 80, 24 }, { 50, 0 }, { 14, 26 }, { 38, 54 }, { 78, 30 }, { 82, 66 }, { 70, 100 } },
      .strokes = { "abcdefg" } },
};

#define SHAPES(list) { list, sizeof(list) / sizeof(list[0]) }

const struct glyph_shapes glyph_shapes[10] = {
    SHAPES(zeros), SHAPES(ones), SHAPES(twos), SHAPES(threes), SHAPES(fours),
    SHAPES(fives), SHAPES(sixes), SHAPES(sevens), SHAPES(eights), SHAPES(nines),
};
