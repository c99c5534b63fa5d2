/* Drawing one digit: dice -> points -> curves -> distance to the pen's path -> pixels.
 * Called by the threads that write the shards of the drawn data set. Only +, -, *, / and
 * square root are used, each rounded on its own, so that the same sample has the same bytes
 * on any machine. */
#include "tools/convert/glyph.h"

#include <math.h>
#include <string.h>

/* clang fuses a product and a sum where the processor can; gcc does not in ISO C. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define CURVE_STEPS 6u          /* line pieces between two points of a stroke */
#define BEND_SIDE 4u            /* the field that bends the digit has this many knots a side */

struct point {
    float x, y;
};

/* An endless row of random numbers of one sample. */
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

/* How one sample's points come to lie in the image. */
struct pose {
    float bend[BEND_SIDE][BEND_SIDE][2];
    float wide, high;           /* pixels */
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
    /* The tangent of half the angle gives sine and cosine by divisions; 0.13 is 15 degrees. */
    const float half = dice_between(dice, -0.13f, 0.13f);
    pose->cosine = (1 - half * half) / (1 + half * half);
    pose->sine = 2 * half / (1 + half * half);
    pose->centre.x = 0.5f * GLYPH_SIDE + dice_bell(dice, 1.15f);
    pose->centre.y = 0.5f * GLYPH_SIDE + dice_bell(dice, 1.15f);
}

/* One knot and the weight of the next for a place in 0..1 along a side; smooth at the knots. */
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

/* From the digit's box (0..1) to pixels. */
static struct point place(const struct pose *pose, struct point p)
{
    const float v = (p.y + bend_at(pose, p, 1) - 0.5f) * pose->high;
    const float u = (p.x + bend_at(pose, p, 0) - 0.5f) * pose->wide + pose->slant * v;

    return (struct point){ pose->centre.x + pose->cosine * u - pose->sine * v,
                          pose->centre.y + pose->sine * u + pose->cosine * v };
}

/* A point of the smooth curve (Catmull-Rom) between b and c. */
static struct point curve(struct point a, struct point b, struct point c, struct point d, float t)
{
    const float t2 = t * t, t3 = t2 * t;
    const float wa = -0.5f * t3 + t2 - 0.5f * t, wb = 1.5f * t3 - 2.5f * t2 + 1;
    const float wc = -1.5f * t3 + 2 * t2 + 0.5f * t, wd = 0.5f * t3 - 0.5f * t2;

    return (struct point){ wa * a.x + wb * b.x + wc * c.x + wd * d.x, wa * a.y + wb * b.y + wc * c.y + wd * d.y };
}

/* The sheet: for each pixel how much of it is inked, 0..1. */
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

/* Ink all pixels near a line piece; the pen's edge fades over a pixel. */
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

/* The pen gets wider or narrower from a stroke's beginning to its end. */
struct pen {
    float start, end;           /* radius */
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

/* Ink to grey levels: how hard the pen was pressed, and some grain. */
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
