/* Drawing how samples are mixed. Called by decoders for every training sample. */
#include "loader/augment/mixing.h"

#include <math.h>

#include "loader/augment/draw.h"
#include "stage/random.h"

/* What blocks of random numbers are for; the last word of the counter tells them from those of single images. */
enum mixing_use { MIXING_CHOICE, MIXING_TRIES };
#define MIXING_PLANE 1u

/* The random numbers of one sample. */
struct numbers { struct random_key key; uint64_t position; };

static struct draw numbers_block(const struct numbers *numbers, uint32_t use)
{
    struct draw draw = { { (uint32_t)numbers->position, (uint32_t)(numbers->position >> 32), use, MIXING_PLANE } };
    random_mix(numbers->key, draw.word);
    return draw;
}

/* In (0, 1). */
static double open_unit(uint32_t word)
{
    return (word + 0.5) * 0x1p-32;
}

/* The logarithm of a number of the distribution Gamma(shape, 1), shape > 0: that of shape + 1 by Marsaglia and Tsang
 * (2000, "A simple method for generating gamma variables"), times u^(1 / shape), which for small shapes is too small
 * for a double. Takes blocks use, use + 2, ... : more than the first one in 5 % of all cases at most. */
static double gamma_logarithm(const struct numbers *numbers, double shape, uint32_t use)
{
    const double d = shape + 1 - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;; use += 2) {
        const struct draw draw = numbers_block(numbers, use);
        const double radius = sqrt(-2 * log(open_unit(draw.word[0])));
        const double normal = radius * cos(2 * M_PI * open_unit(draw.word[1]));
        const double root = 1 + c * normal, v = root * root * root;
        if (root > 0 && log(open_unit(draw.word[2])) < normal * normal / 2 + d - d * v + d * log(v))
            return log(d * v) + log(open_unit(draw.word[3])) / shape;
    }
}

/* Of the distribution Beta(shape, shape): a / (a + b) with a and b of Gamma(shape, 1). */
static double beta_draw(const struct numbers *numbers, double shape)
{
    const double a = gamma_logarithm(numbers, shape, MIXING_TRIES);
    const double b = gamma_logarithm(numbers, shape, MIXING_TRIES + 1);
    return 1 / (1 + exp(b - a));
}

/* Pixels [begin, end) of a side. */
struct stretch { uint32_t begin, end; };

static struct stretch stretch_around(uint32_t word, uint32_t side, double part)
{
    const uint32_t centre = draw_below(word, side), half = (uint32_t)(side * part) / 2;
    return (struct stretch){ centre > half ? centre - half : 0, centre + half < side ? centre + half : side };
}

static struct mix mix_box(double share, const struct draw *choice, uint32_t height, uint32_t width)
{
    const struct stretch rows = stretch_around(choice->word[2], height, sqrt(1 - share));
    const struct stretch columns = stretch_around(choice->word[3], width, sqrt(1 - share));
    const double area = (double)(rows.end - rows.begin) * (columns.end - columns.begin);
    return (struct mix){
        .share = (float)(1 - area / ((double)height * width)),
        .top = rows.begin, .bottom = rows.end,
        .left = columns.begin, .right = columns.end,
    };
}

struct mix mixing_draw(const struct augment *augment, uint32_t epoch, uint64_t position, uint32_t height,
                       uint32_t width)
{
    const struct numbers numbers = { random_key(augment->seed, RANDOM_AUGMENT, epoch), position };
    const struct draw choice = numbers_block(&numbers, MIXING_CHOICE);
    if (!mixing_is_on(augment) || draw_uniform(choice.word[0], 0, 1) >= augment->mixed)
        return (struct mix){ .share = 1 };
    if (augment->cutmix > 0 && (augment->mixup == 0 || choice.word[1] >> 31 != 0))
        return mix_box(beta_draw(&numbers, augment->cutmix), &choice, height, width);
    return (struct mix){ .share = (float)beta_draw(&numbers, augment->mixup) };
}
