/* Random changes of brightness, saturation, hue and contrast, as in tf_cnn_benchmarks. Pixels are values in [0, 1] that
 * may leave this range between the steps. Called by decoders for every training image. */
#include <math.h>

#include "loader/augment/augment.h"
#include "loader/augment/draw.h"

#define BRIGHTNESS_MAX (32.0 / 255.0)
#define FACTOR_MIN 0.5
#define FACTOR_MAX 1.5
#define HUE_MAX 0.2            /* fraction of the hue circle */

#define RANGE_MIN 1e-30f      /* smallest divisor: avoids a branch for grey pixels, whose range is 0 */

#define PLANES_MAX 3u
#define BLOCK_PIXELS 64u
#define LANES 8u                /* number of independent sums: additions to a single sum would wait for one another */

/* Functions inlined into change_set are compiled twice: for every CPU, and for CPUs with AVX2. */
#define INLINE static inline __attribute__((always_inline))

/* Without this option gcc does not vectorise conditional expressions that might raise a floating-point exception. It
 * does not change values. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif

/* The random changes of an image. */
struct change {
    float brightness;           /* added to every pixel value */
    float saturation, contrast; /* factors */
    float turn;                 /* change of the hue, in sixths of the circle */
    bool contrast_is_early;     /* contrast is changed before saturation and hue, not after them */
    float mean[PLANES_MAX];     /* mean of each plane just before contrast, the distance from the mean, is changed */
};

/* The three colour planes of an image, or one of its other planes. */
struct plane_set {
    uint8_t *pixels;            /* first pixel of the first plane */
    size_t count;               /* number of pixels */
    uint32_t planes, stride;    /* stride: distance from pixel to pixel */
};

struct pixel_block {
    uint32_t count;
    float value[PLANES_MAX][BLOCK_PIXELS];
};

static struct change draw_change(const struct augment *augment, const struct image_request *request)
{
    const struct draw draw = draw_make(augment, request, DRAW_COLOUR);
    return (struct change){
        .brightness = (float)draw_uniform(draw.word[0], -BRIGHTNESS_MAX, BRIGHTNESS_MAX),
        .saturation = (float)draw_uniform(draw.word[1], FACTOR_MIN, FACTOR_MAX),
        .turn = (float)draw_uniform(draw.word[2], -6 * HUE_MAX, 6 * HUE_MAX),
        .contrast = (float)draw_uniform(draw.word[3], FACTOR_MIN, FACTOR_MAX),
        .contrast_is_early = request->position % 2 != 0,
    };
}

INLINE float least(float a, float b)
{
    return a < b ? a : b;
}

INLINE float most(float a, float b)
{
    return a > b ? a : b;
}

/* Change the saturation as in HSV. The value stays; the saturation, (value - smallest) / value, is multiplied and
 * limited to 1, which multiplies the distance of every colour from the value. */
INLINE void saturate(struct pixel_block *block, float factor)
{
    for (uint32_t i = 0; i < block->count; i++) {
        const float red = block->value[0][i], green = block->value[1][i], blue = block->value[2][i];
        const float value = most(red, most(green, blue));
        const float range = value - least(red, least(green, blue));
        const float share = most(0, least(range * factor, value)) / most(range, RANGE_MIN);
        block->value[0][i] = value + (red - value) * share;
        block->value[1][i] = value + (green - value) * share;
        block->value[2][i] = value + (blue - value) * share;
    }
}

/* One colour channel, in [value - range, value], of a hue in sixths of the circle; `place` is the channel's phase. */
INLINE float colour_of(float hue, float place, float value, float range)
{
    const float wide = hue + place;
    const float sixth = wide + (wide < 0 ? 6.0f : wide >= 6 ? -6.0f : 0.0f);
    return value - range * most(0, least(1, least(sixth, 4 - sixth)));
}

/* Rotate the hue as in HSV. The value and the smallest colour stay. */
INLINE void turn_hue(struct pixel_block *block, float turn)
{
    for (uint32_t i = 0; i < block->count; i++) {
        const float red = block->value[0][i], green = block->value[1][i], blue = block->value[2][i];
        const float value = most(red, most(green, blue));
        const float range = value - least(red, least(green, blue));
        const float scale = 1 / most(range, RANGE_MIN);
        const float by_red = (green - blue) * scale, by_green = (blue - red) * scale + 2;
        const float by_blue = (red - green) * scale + 4;
        const float hue = turn + (value == red ? by_red : value == green ? by_green : by_blue);
        block->value[0][i] = colour_of(hue, 5, value, range);
        block->value[1][i] = colour_of(hue, 3, value, range);
        block->value[2][i] = colour_of(hue, 1, value, range);
    }
}

INLINE void load(struct pixel_block *block, const struct plane_set *set, size_t begin, float brightness)
{
    const size_t left = set->count - begin;
    const uint8_t *const from = set->pixels + begin * set->stride;
    block->count = left < BLOCK_PIXELS ? (uint32_t)left : BLOCK_PIXELS;
    for (uint32_t plane = 0; plane < set->planes; plane++)
        for (uint32_t i = 0; i < block->count; i++)
            block->value[plane][i] = (float)from[(size_t)i * set->stride + plane] / 255 + brightness;
}

INLINE void store(const struct pixel_block *block, const struct plane_set *set, size_t begin)
{
    uint8_t *const to = set->pixels + begin * set->stride, rounded[BLOCK_PIXELS];
    for (uint32_t plane = 0; plane < set->planes; plane++) {
        for (uint32_t i = 0; i < block->count; i++)
            rounded[i] = (uint8_t)(int32_t)(255 * most(0, least(1, block->value[plane][i])) + 0.5f);
        for (uint32_t i = 0; i < block->count; i++)
            to[(size_t)i * set->stride + plane] = rounded[i];
    }
}

INLINE void change_contrast(struct pixel_block *block, uint32_t planes, const struct change *change)
{
    for (uint32_t plane = 0; plane < planes; plane++)
        for (uint32_t i = 0; i < block->count; i++)
            block->value[plane][i] = (block->value[plane][i] - change->mean[plane]) * change->contrast +
                                     change->mean[plane];
}

/* Change saturation and hue, which grey images do not have. */
INLINE void change_colour(struct pixel_block *block, uint32_t planes, const struct change *change)
{
    if (planes != 3)
        return;
    saturate(block, change->saturation);
    turn_hue(block, change->turn);
}

/* Load a block and apply all changes that come before contrast. */
INLINE void load_changed(struct pixel_block *block, const struct plane_set *set, size_t begin,
                         const struct change *change)
{
    load(block, set, begin, change->brightness);
    if (!change->contrast_is_early)
        change_colour(block, set->planes, change);
}

INLINE void add_values(const float *value, uint32_t count, double sums[LANES])
{
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (uint32_t lane = 0; lane < LANES; lane++)
            sums[lane] += (double)value[i + lane];
    for (; i < count; i++)
        sums[0] += (double)value[i];
}

INLINE double add_lanes(const double sums[LANES])
{
    double sum = 0;
    for (uint32_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* Find the means before contrast is changed. Changed pixels are not stored: change_set computes them again. */
INLINE void find_means(const struct plane_set *set, struct change *change)
{
    double sums[PLANES_MAX][LANES] = { 0 };
    struct pixel_block block;
    for (size_t begin = 0; begin < set->count; begin += BLOCK_PIXELS) {
        load_changed(&block, set, begin, change);
        for (uint32_t plane = 0; plane < set->planes; plane++)
            add_values(block.value[plane], block.count, sums[plane]);
    }
    for (uint32_t plane = 0; plane < set->planes; plane++)
        change->mean[plane] = (float)(add_lanes(sums[plane]) / (double)set->count);
}

INLINE void change_set(const struct plane_set *set, struct change change)
{
    struct pixel_block block;
    find_means(set, &change);
    for (size_t begin = 0; begin < set->count; begin += BLOCK_PIXELS) {
        load_changed(&block, set, begin, &change);
        change_contrast(&block, set->planes, &change);
        if (change.contrast_is_early)
            change_colour(&block, set->planes, &change);
        store(&block, set, begin);
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
