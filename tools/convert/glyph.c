/* Draws digits that look handwritten. Pure; any thread. */
#include "tools/convert/glyph.h"

#include <math.h>
#include <string.h>

/* ---- the strokes of the ten digits ---- */

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

/* ---- drawing ---- */

/* By default, clang fuses a multiplication and an addition on processors that can; gcc in ISO C mode does not. The
 * pixels must be equal with both. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define CURVE_STEPS 6u          /* line segments between two points of a stroke */
#define BEND_SIDE 4u            /* knots along each side of the grid of displacements that bends the digit */

struct point {
    float x, y;
};

/* An endless sequence of random numbers for one sample. */
struct dice {
    struct random_key key;
    uint64_t number;
    uint32_t block_count, words_left;
    uint32_t words[4];
};

static uint32_t dice_word(struct dice *dice)
{
    if (dice->words_left == 0) {
        const uint32_t counter[4] = { (uint32_t)dice->number, (uint32_t)(dice->number >> 32), dice->block_count++, 1 };
        random_block(dice->key, counter, dice->words);
        dice->words_left = 4;
    }
    return dice->words[--dice->words_left];
}

static float dice_between(struct dice *dice, float least, float most)
{
    return least + (most - least) * ((float)(dice_word(dice) >> 8) * 0x1p-24f);
}

/* Bell-shaped around 0 with the given standard deviation, and never over 3.5 times it:
 * the sum of four bytes of one word, whose variance is 4 * (256^2 - 1) / 12. */
static float dice_bell(struct dice *dice, float deviation)
{
    const uint32_t word = dice_word(dice);
    const uint32_t sum = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);

    return ((float)sum - 510.0f) * (deviation / 147.8f);
}

/* The transformation of a sample's points into the image. */
struct pose {
    float bend[BEND_SIDE][BEND_SIDE][2];
    float wide, high;           /* size of the digit's box in pixels */
    float slant;
    float cosine, sine;
    struct point centre;
};

static void throw_pose(struct dice *dice, struct pose *pose)
{
    for (unsigned i = 0; i < BEND_SIDE * BEND_SIDE * 2; i++)
        pose->bend[i / (2 * BEND_SIDE)][i / 2 % BEND_SIDE][i % 2] = dice_bell(dice, 0.045f);
    pose->high = dice_between(dice, 16.0f, 20.5f);
    pose->wide = pose->high * dice_between(dice, 0.55f, 0.9f);
    pose->slant = dice_bell(dice, 0.14f) - 0.08f;
    /* `half` is the tangent of half the angle, from which sine and cosine are computed by divisions. 0.13 is 15
     * degrees. */
    const float half = dice_between(dice, -0.13f, 0.13f);
    pose->cosine = (1 - half * half) / (1 + half * half);
    pose->sine = 2 * half / (1 + half * half);
    pose->centre.x = 0.5f * GLYPH_SIDE + dice_bell(dice, 1.15f);
    pose->centre.y = 0.5f * GLYPH_SIDE + dice_bell(dice, 1.15f);
}

/* For a position in 0..1 along a side, the index of the knot before it, and the weight of the knot after it. The
 * weight is smooth at the knots. */
static unsigned knot(float place, float *weight_out)
{
    const float along = fminf(fmaxf(place, 0), 1) * (BEND_SIDE - 1);
    const unsigned first = along < BEND_SIDE - 2 ? (unsigned)along : BEND_SIDE - 2;
    const float t = along - (float)first;

    *weight_out = t * t * (3 - 2 * t);
    return first;
}

static float bend_at(const struct pose *pose, struct point p, int axis)
{
    float u, v;
    const unsigned column = knot(p.x, &u), row = knot(p.y, &v);
    const float above = pose->bend[row][column][axis] * (1 - u) + pose->bend[row][column + 1][axis] * u;
    const float below = pose->bend[row + 1][column][axis] * (1 - u) + pose->bend[row + 1][column + 1][axis] * u;

    return above * (1 - v) + below * v;
}

/* Transforms a point from the digit's box (0..1) to pixels. */
static struct point place(const struct pose *pose, struct point p)
{
    const float v = (p.y + bend_at(pose, p, 1) - 0.5f) * pose->high;
    const float u = (p.x + bend_at(pose, p, 0) - 0.5f) * pose->wide + pose->slant * v;

    return (struct point){ pose->centre.x + pose->cosine * u - pose->sine * v,
                          pose->centre.y + pose->sine * u + pose->cosine * v };
}

/* A point of the smooth curve (Catmull-Rom) between b and c: at b for t = 0, at c for t = 1. */
static struct point curve(struct point a, struct point b, struct point c, struct point d, float t)
{
    const float t2 = t * t, t3 = t2 * t;
    const float wa = -0.5f * t3 + t2 - 0.5f * t, wb = 1.5f * t3 - 2.5f * t2 + 1;
    const float wc = -1.5f * t3 + 2 * t2 + 0.5f * t, wd = 0.5f * t3 - 0.5f * t2;

    return (struct point){ wa * a.x + wb * b.x + wc * c.x + wd * d.x, wa * a.y + wb * b.y + wc * c.y + wd * d.y };
}

/* For each pixel, the share of its area that is inked, 0..1. */
struct sheet {
    float ink[GLYPH_SIDE][GLYPH_SIDE];
};

static float distance(struct point p, struct point from, struct point to)
{
    const float dx = to.x - from.x, dy = to.y - from.y;
    const float length2 = dx * dx + dy * dy;
    const float along = length2 > 0 ? ((p.x - from.x) * dx + (p.y - from.y) * dy) / length2 : 0;
    const float t = fminf(fmaxf(along, 0), 1);
    const float ex = p.x - from.x - t * dx, ey = p.y - from.y - t * dy;

    return sqrtf(ex * ex + ey * ey);
}

static unsigned pixel_floor(float place)
{
    return place < 0 ? 0 : place > GLYPH_SIDE ? GLYPH_SIDE : (unsigned)place;
}

/* Ink all pixels near a line segment; at the edge of the pen, the ink fades over one pixel. */
static void draw_line(struct sheet *sheet, struct point from, struct point to, float radius)
{
    const float reach = radius + 1;
    const unsigned top = pixel_floor(fminf(from.y, to.y) - reach);
    const unsigned bottom = pixel_floor(fmaxf(from.y, to.y) + reach + 1);
    const unsigned left = pixel_floor(fminf(from.x, to.x) - reach);
    const unsigned right = pixel_floor(fmaxf(from.x, to.x) + reach + 1);

    for (unsigned y = top; y < bottom; y++) {
        for (unsigned x = left; x < right; x++) {
            const struct point middle = { (float)x + 0.5f, (float)y + 0.5f };
            const float ink = fminf(radius + 0.5f - distance(middle, from, to), 1);
            sheet->ink[y][x] = fmaxf(sheet->ink[y][x], ink);
        }
    }
}

/* The width of the pen changes linearly from the start to the end of a stroke. */
struct pen {
    float start, end;           /* radius in pixels */
};

static void draw_stroke(struct sheet *sheet, const struct pose *pose, const struct point *points, const char *stroke,
                        struct pen pen)
{
    const size_t last = strlen(stroke) - 1;
    const int is_closed = stroke[0] == stroke[last];
    const float step_count = (float)(last * CURVE_STEPS);
    struct point from = place(pose, points[stroke[0] - 'a']);

    for (size_t i = 0; i < last; i++) {
        const size_t before = i > 0 ? i - 1 : is_closed ? last - 1 : 0;
        const size_t after = i + 2 <= last ? i + 2 : is_closed ? 1 : last;
        for (unsigned step = 1; step <= CURVE_STEPS; step++) {
            const float done = (float)(i * CURVE_STEPS + step) / step_count;
            const struct point on = curve(points[stroke[before] - 'a'], points[stroke[i] - 'a'],
                                          points[stroke[i + 1] - 'a'], points[stroke[after] - 'a'],
                                          (float)step / CURVE_STEPS);
            const struct point to = place(pose, on);
            draw_line(sheet, from, to, pen.start + (pen.end - pen.start) * done);
            from = to;
        }
    }
}

static void draw_shape(struct dice *dice, const struct glyph_shape *shape, struct sheet *sheet)
{
    struct point points[GLYPH_POINTS_MAX];
    struct pose pose;
    const float radius = dice_between(dice, 0.75f, 1.75f);

    throw_pose(dice, &pose);
    for (unsigned i = 0; i < GLYPH_POINTS_MAX; i++) {
        points[i].x = (float)shape->points[i][0] / 100 + dice_bell(dice, 0.035f);
        points[i].y = (float)shape->points[i][1] / 100 + dice_bell(dice, 0.03f);
    }
    for (unsigned i = 0; i < GLYPH_STROKES_MAX && shape->strokes[i] != NULL; i++) {
        const struct pen pen = { radius * dice_between(dice, 0.85f, 1.15f), radius * dice_between(dice, 0.75f, 1.1f) };
        draw_stroke(sheet, &pose, points, shape->strokes[i], pen);
    }
}

/* Convert ink to grey levels, with a random pressure of the pen and some grain. */
static void expose(struct dice *dice, const struct sheet *sheet, uint8_t pixels_out[GLYPH_PIXELS])
{
    const float pressure = dice_between(dice, 185, 255);
    const float *ink = &sheet->ink[0][0];

    for (unsigned i = 0; i < GLYPH_PIXELS; i++) {
        const float level = pressure * ink[i] + dice_bell(dice, 4 + 10 * ink[i]);
        pixels_out[i] = level < 0 ? 0 : level > 255 ? 255 : (uint8_t)(level + 0.5f);
    }
}

void glyph_draw(unsigned digit, struct random_key key, uint64_t number, uint8_t pixels_out[GLYPH_PIXELS])
{
    struct dice dice = { .key = key, .number = number };
    const struct glyph_shapes *habits = &glyph_shapes[digit];
    struct sheet sheet;

    memset(&sheet, 0, sizeof(sheet));
    draw_shape(&dice, &habits->shapes[dice_word(&dice) % habits->count], &sheet);
    expose(&dice, &sheet, pixels_out);
}
