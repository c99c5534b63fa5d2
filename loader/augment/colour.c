/* Colours changed at random as tf_cnn_benchmarks does with its distortions: brightness, saturation, hue and contrast
 * of values in [0, 1], which may leave that range on the way. Called by decoders, for every training image. */
#include <math.h>

#include "loader/augment/augment.h"
#include "loader/augment/draw.h"

#define BRIGHTNESS_MOST (32.0 / 255.0)
#define FACTOR_LEAST 0.5
#define FACTOR_MOST 1.5
#define HUE_MOST 0.2            /* of the circle */

#define RANGE_LEAST 1e-30f      /* of greys, whose colours are 0 apart, for a division without a branch */

#define PLANES_MAX 3u
#define PIECE_PIXELS 64u
#define LANES 8u                /* sums that are made side by side, as one would wait for itself */

/* What is done to a piece is compiled twice, as part of change_set: for every processor, and for those with AVX2. */
#define PART static inline __attribute__((always_inline))

/* Where a part of an expression could raise an exception gcc computes it under its condition only, pixel by pixel.
 * Nobody looks for exceptions here; the values are the same. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif

/* What is done to an image. */
struct change {
    float brightness;           /* added */
    float saturation, contrast; /* factors */
    float turn;                 /* of the hue, in sixths of the circle */
    bool contrast_is_early;     /* before the saturation, not behind the hue */
    float mean[PLANES_MAX];     /* of each plane where the contrast is changed, which is its distance from the mean */
};

/* Pixels next to each other of planes that belong together: the three colours, or one plane by itself. */
struct plane_set {
    uint8_t *pixels;            /* of the first plane */
    size_t count;               /* pixels */
    uint32_t planes, stride;    /* from pixel to pixel */
};

/* Some pixels of a set. */
struct piece {
    uint32_t count;
    float value[PLANES_MAX][PIECE_PIXELS];
};

static struct change draw_change(const struct augment *augment, const struct image_request *request)
{
    const struct draw draw = draw_make(augment, request, DRAW_COLOUR);
    return (struct change){
        .brightness = (float)draw_uniform(draw.word[0], -BRIGHTNESS_MOST, BRIGHTNESS_MOST),
        .saturation = (float)draw_uniform(draw.word[1], FACTOR_LEAST, FACTOR_MOST),
        .turn = (float)draw_uniform(draw.word[2], -6 * HUE_MOST, 6 * HUE_MOST),
        .contrast = (float)draw_uniform(draw.word[3], FACTOR_LEAST, FACTOR_MOST),
        .contrast_is_early = request->position % 2 != 0,
    };
}

PART float least(float a, float b)
{
    return a < b ? a : b;
}

PART float most(float a, float b)
{
    return a > b ? a : b;
}

/* HSV: the value stays; the saturation, (value - smallest) / value, is multiplied, at most to 1, and so is the
 * distance of every colour from the value. */
PART void saturate(struct piece *piece, float factor)
{
    for (uint32_t i = 0; i < piece->count; i++) {
        const float red = piece->value[0][i], green = piece->value[1][i], blue = piece->value[2][i];
        const float value = most(red, most(green, blue));
        const float range = value - least(red, least(green, blue));
        const float share = most(0, least(range * factor, value)) / most(range, RANGE_LEAST);
        piece->value[0][i] = value + (red - value) * share;
        piece->value[1][i] = value + (green - value) * share;
        piece->value[2][i] = value + (blue - value) * share;
    }
}

/* A colour of a hue in sixths of the circle, of which it is `place` behind: from value - range to value. */
PART float colour_of(float hue, float place, float value, float range)
{
    const float wide = hue + place;
    const float sixth = wide + (wide < 0 ? 6.0f : wide >= 6 ? -6.0f : 0.0f);
    return value - range * most(0, least(1, least(sixth, 4 - sixth)));
}

/* HSV: value and smallest colour stay. */
PART void turn_hue(struct piece *piece, float turn)
{
    for (uint32_t i = 0; i < piece->count; i++) {
        const float red = piece->value[0][i], green = piece->value[1][i], blue = piece->value[2][i];
        const float value = most(red, most(green, blue));
        const float range = value - least(red, least(green, blue));
        const float scale = 1 / most(range, RANGE_LEAST);
        const float by_red = (green - blue) * scale, by_green = (blue - red) * scale + 2;
        const float by_blue = (red - green) * scale + 4;
        const float hue = turn + (value == red ? by_red : value == green ? by_green : by_blue);
        piece->value[0][i] = colour_of(hue, 5, value, range);
        piece->value[1][i] = colour_of(hue, 3, value, range);
        piece->value[2][i] = colour_of(hue, 1, value, range);
    }
}

PART void load(struct piece *piece, const struct plane_set *set, size_t begin, float brightness)
{
    const size_t left = set->count - begin;
    const uint8_t *const from = set->pixels + begin * set->stride;
    piece->count = left < PIECE_PIXELS ? (uint32_t)left : PIECE_PIXELS;
    for (uint32_t plane = 0; plane < set->planes; plane++)
        for (uint32_t i = 0; i < piece->count; i++)
            piece->value[plane][i] = (float)from[(size_t)i * set->stride + plane] / 255 + brightness;
}

PART void store(const struct piece *piece, const struct plane_set *set, size_t begin)
{
    uint8_t *const to = set->pixels + begin * set->stride, rounded[PIECE_PIXELS];
    for (uint32_t plane = 0; plane < set->planes; plane++) {
        for (uint32_t i = 0; i < piece->count; i++)
            rounded[i] = (uint8_t)(int32_t)(255 * most(0, least(1, piece->value[plane][i])) + 0.5f);
        for (uint32_t i = 0; i < piece->count; i++)
            to[(size_t)i * set->stride + plane] = rounded[i];
    }
}

PART void change_contrast(struct piece *piece, uint32_t planes, const struct change *change)
{
    for (uint32_t plane = 0; plane < planes; plane++)
        for (uint32_t i = 0; i < piece->count; i++)
            piece->value[plane][i] = (piece->value[plane][i] - change->mean[plane]) * change->contrast +
                                     change->mean[plane];
}

/* Grey has neither saturation nor hue. */
PART void change_colour(struct piece *piece, uint32_t planes, const struct change *change)
{
    if (planes != 3)
        return;
    saturate(piece, change->saturation);
    turn_hue(piece, change->turn);
}

/* A piece with all that is done to it before its contrast. */
PART void load_changed(struct piece *piece, const struct plane_set *set, size_t begin, const struct change *change)
{
    load(piece, set, begin, change->brightness);
    if (!change->contrast_is_early)
        change_colour(piece, set->planes, change);
}

PART void add_values(const float *value, uint32_t count, double sums[LANES])
{
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (uint32_t lane = 0; lane < LANES; lane++)
            sums[lane] += (double)value[i + lane];
    for (; i < count; i++)
        sums[0] += (double)value[i];
}

PART double add_lanes(const double sums[LANES])
{
    double sum = 0;
    for (uint32_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* What is between is not kept: it is found again where the means are known. */
PART void find_means(const struct plane_set *set, struct change *change)
{
    double sums[PLANES_MAX][LANES] = { 0 };
    struct piece piece;
    for (size_t begin = 0; begin < set->count; begin += PIECE_PIXELS) {
        load_changed(&piece, set, begin, change);
        for (uint32_t plane = 0; plane < set->planes; plane++)
            add_values(piece.value[plane], piece.count, sums[plane]);
    }
    for (uint32_t plane = 0; plane < set->planes; plane++)
        change->mean[plane] = (float)(add_lanes(sums[plane]) / (double)set->count);
}

PART void change_set(const struct plane_set *set, struct change change)
{
    struct piece piece;
    find_means(set, &change);
    for (size_t begin = 0; begin < set->count; begin += PIECE_PIXELS) {
        load_changed(&piece, set, begin, &change);
        change_contrast(&piece, set->planes, &change);
        if (change.contrast_is_early)
            change_colour(&piece, set->planes, &change);
        store(&piece, set, begin);
    }
}

static void change_set_plain(const struct plane_set *set, const struct change *change)
{
    change_set(set, *change);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void change_set_avx2(const struct plane_set *set, const struct change *change)
{
    change_set(set, *change);
}

static void change_fast(const struct plane_set *set, const struct change *change)
{
    (__builtin_cpu_supports("avx2") ? change_set_avx2 : change_set_plain)(set, change);
}
#else
static void change_fast(const struct plane_set *set, const struct change *change)
{
    change_set_plain(set, change);
}
#endif

void augment_colour(const struct augment *augment, const struct image_request *request, uint8_t *pixels)
{
    const struct image_shape *const shape = &request->shape;
    if (augment == NULL || !augment->changes_colour || request->phase != PHASE_TRAIN)
        return;
    const struct change change = draw_change(augment, request);
    const uint32_t together = shape->channels == 3 ? 3 : 1;
    for (uint32_t first = 0; first < shape->channels; first += together) {
        const struct plane_set set = { .pixels = pixels + first, .count = (size_t)shape->height * shape->width,
                                       .planes = together, .stride = shape->channels };
        change_fast(&set, &change);
    }
}
