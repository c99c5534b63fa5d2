/* Draws the operations of automatic augmentation. Called by decoders for every training image. */
#include "loader/augment/policy.h"

#include <assert.h>
#include <math.h>

#include "loader/augment/draw.h"
#include "loader/images/image.h"

#define BINS 31u                /* steps of TrivialAugmentWide and RandAugment */
#define AUTO_BINS 10u
#define DRAWN_KINDS OPERATION_INVERT    /* TrivialAugmentWide and RandAugment choose among the kinds before it */
#define WIDE_PIXELS 32          /* the largest translation of TrivialAugmentWide */
#define SIDE_SHARE (150.0 / 331.0)      /* the largest of the other methods, as a share of the side */

/* Magnitudes go from `from` to `to` (TrivialAugmentWide: to `to_wide`) in steps of equal size. For translations
 * find_end returns the end. */
static const struct { float from, to_wide, to; bool is_signed; } ranges[OPERATION_COUNT] = {
    [OPERATION_SHEAR_X] = { 0, 0.99f, 0.3f, true },    [OPERATION_SHEAR_Y] = { 0, 0.99f, 0.3f, true },
    [OPERATION_TRANSLATE_X] = { 0, 0, 0, true },       [OPERATION_TRANSLATE_Y] = { 0, 0, 0, true },
    [OPERATION_ROTATE] = { 0, 135, 30, true },         [OPERATION_BRIGHTNESS] = { 0, 0.99f, 0.9f, true },
    [OPERATION_COLOR] = { 0, 0.99f, 0.9f, true },      [OPERATION_CONTRAST] = { 0, 0.99f, 0.9f, true },
    [OPERATION_SHARPNESS] = { 0, 0.99f, 0.9f, true },  [OPERATION_POSTERIZE] = { 8, 2, 4, false },
    [OPERATION_SOLARIZE] = { 255, 0, 0, false },
};

uint32_t policy_bins(enum policy policy)
{
    return policy == POLICY_AUTO_AUGMENT ? AUTO_BINS : BINS;
}

bool policy_is_signed(enum operation_kind kind)
{
    return ranges[kind].is_signed;
}

static float find_end(enum policy policy, enum operation_kind kind, const struct image_shape *shape)
{
    const bool is_wide = policy == POLICY_TRIVIAL_AUGMENT_WIDE;
    if (kind == OPERATION_TRANSLATE_X)
        return is_wide ? WIDE_PIXELS : (float)(SIDE_SHARE * shape->width);
    if (kind == OPERATION_TRANSLATE_Y)
        return is_wide ? WIDE_PIXELS : (float)(SIDE_SHARE * shape->height);
    return is_wide ? ranges[kind].to_wide : ranges[kind].to;
}

/* Computes as torch.linspace does on processors with fused multiply-add: the step is a float, the second half is
 * counted from the end, and products are not rounded. */
double policy_magnitude(enum policy policy, enum operation_kind kind, uint32_t bin, const struct image_shape *shape)
{
    const uint32_t last = policy_bins(policy) - 1;
    const float from = ranges[kind].from, end = find_end(policy, kind, shape), step = (end - from) / (float)last;
    if (kind == OPERATION_POSTERIZE)
        return from - nearbyint(bin * (double)(from - end) / last);
    const bool is_first_half = bin < (last + 1) / 2;
    return (float)(is_first_half ? (double)from + (double)step * bin : (double)end - (double)step * (last - bin));
}

static struct operation make_operation(const struct augment *augment, const struct image_request *request,
                                       enum operation_kind kind, uint32_t bin, bool is_negative)
{
    const double magnitude = policy_magnitude(augment->policy, kind, bin, &request->shape);
    return (struct operation){ kind, ranges[kind].is_signed && is_negative ? -magnitude : magnitude };
}

static uint32_t draw_trivial(const struct augment *augment, const struct image_request *request,
                             struct operation *operations_out)
{
    const struct draw draw = draw_operation(augment, request, DRAW_POLICY);
    operations_out[0] = make_operation(augment, request, (enum operation_kind)draw_below(draw.word[0], DRAWN_KINDS),
                                       draw_below(draw.word[1], BINS), draw.word[2] >> 31 != 0);
    return 1;
}

static uint32_t draw_rand(const struct augment *augment, const struct image_request *request,
                          struct operation *operations_out)
{
    for (uint32_t i = 0; i < augment->policy_operations; i++) {
        const struct draw draw = draw_operation(augment, request, DRAW_POLICY + i);
        operations_out[i] = make_operation(augment, request, (enum operation_kind)draw_below(draw.word[0], DRAWN_KINDS),
                                           augment->policy_magnitude, draw.word[1] >> 31 != 0);
    }
    return augment->policy_operations;
}

/* One of the two operations of a sub-policy: its kind, probability, and step. */
struct choice { enum operation_kind kind; double probability; uint32_t bin; };

static const struct choice imagenet_policy[][2] = {
    { { OPERATION_POSTERIZE, 0.4, 8 }, { OPERATION_ROTATE, 0.6, 9 } },
    { { OPERATION_SOLARIZE, 0.6, 5 }, { OPERATION_AUTO_CONTRAST, 0.6, 0 } },
    { { OPERATION_EQUALIZE, 0.8, 0 }, { OPERATION_EQUALIZE, 0.6, 0 } },
    { { OPERATION_POSTERIZE, 0.6, 7 }, { OPERATION_POSTERIZE, 0.6, 6 } },
    { { OPERATION_EQUALIZE, 0.4, 0 }, { OPERATION_SOLARIZE, 0.2, 4 } },
    { { OPERATION_EQUALIZE, 0.4, 0 }, { OPERATION_ROTATE, 0.8, 8 } },
    { { OPERATION_SOLARIZE, 0.6, 3 }, { OPERATION_EQUALIZE, 0.6, 0 } },
    { { OPERATION_POSTERIZE, 0.8, 5 }, { OPERATION_EQUALIZE, 1.0, 0 } },
    { { OPERATION_ROTATE, 0.2, 3 }, { OPERATION_SOLARIZE, 0.6, 8 } },
    { { OPERATION_EQUALIZE, 0.6, 0 }, { OPERATION_POSTERIZE, 0.4, 6 } },
    { { OPERATION_ROTATE, 0.8, 8 }, { OPERATION_COLOR, 0.4, 0 } },
    { { OPERATION_ROTATE, 0.4, 9 }, { OPERATION_EQUALIZE, 0.6, 0 } },
    { { OPERATION_EQUALIZE, 0.0, 0 }, { OPERATION_EQUALIZE, 0.8, 0 } },
    { { OPERATION_INVERT, 0.6, 0 }, { OPERATION_EQUALIZE, 1.0, 0 } },
    { { OPERATION_COLOR, 0.6, 4 }, { OPERATION_CONTRAST, 1.0, 8 } },
    { { OPERATION_ROTATE, 0.8, 8 }, { OPERATION_COLOR, 1.0, 2 } },
    { { OPERATION_COLOR, 0.8, 8 }, { OPERATION_SOLARIZE, 0.8, 7 } },
    { { OPERATION_SHARPNESS, 0.4, 7 }, { OPERATION_INVERT, 0.6, 0 } },
    { { OPERATION_SHEAR_X, 0.6, 5 }, { OPERATION_EQUALIZE, 1.0, 0 } },
    { { OPERATION_COLOR, 0.4, 0 }, { OPERATION_EQUALIZE, 0.6, 0 } },
    { { OPERATION_EQUALIZE, 0.4, 0 }, { OPERATION_SOLARIZE, 0.2, 4 } },
    { { OPERATION_SOLARIZE, 0.6, 5 }, { OPERATION_AUTO_CONTRAST, 0.6, 0 } },
    { { OPERATION_INVERT, 0.6, 0 }, { OPERATION_EQUALIZE, 1.0, 0 } },
    { { OPERATION_COLOR, 0.6, 4 }, { OPERATION_CONTRAST, 1.0, 8 } },
    { { OPERATION_EQUALIZE, 0.8, 0 }, { OPERATION_EQUALIZE, 0.6, 0 } },
};

#define SUB_POLICIES (sizeof(imagenet_policy) / sizeof(*imagenet_policy))

static uint32_t draw_auto(const struct augment *augment, const struct image_request *request,
                          struct operation *operations_out)
{
    const struct draw draw = draw_operation(augment, request, DRAW_POLICY);
    const struct choice *const choices = imagenet_policy[draw_below(draw.word[0], SUB_POLICIES)];
    uint32_t count = 0;
    for (uint32_t i = 0; i < 2; i++)
        if (draw_uniform(draw.word[1 + i], 0, 1) < choices[i].probability)
            operations_out[count++] = make_operation(augment, request, choices[i].kind, choices[i].bin,
                                                     (draw.word[3] >> (31 - i) & 1) != 0);
    return count;
}

static uint32_t draw_none(const struct augment *augment, const struct image_request *request,
                          struct operation *operations_out)
{
    (void)augment;
    (void)request;
    (void)operations_out;
    return 0;
}

uint32_t policy_draw(const struct augment *augment, const struct image_request *request,
                     struct operation operations_out[POLICY_OPERATIONS_MAX])
{
    static uint32_t (*const draws[POLICY_COUNT])(const struct augment *, const struct image_request *,
                                                 struct operation *) = {
        [POLICY_NONE] = draw_none,
        [POLICY_TRIVIAL_AUGMENT_WIDE] = draw_trivial,
        [POLICY_RAND_AUGMENT] = draw_rand,
        [POLICY_AUTO_AUGMENT] = draw_auto,
    };
    assert(augment->policy_operations <= POLICY_OPERATIONS_MAX);
    return draws[augment->policy](augment, request, operations_out);
}
