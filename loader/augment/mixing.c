/* Draws how samples are mixed. Called by decoders for every training sample. */
#include "loader/augment/augment.h"

#include <math.h>

#include "loader/augment/draw.h"
#include "stage/random.h"

/* Uses of blocks of random words. The last word of the counter separates them from the uses in draw.h. */
enum mixing_use { MIXING_CHOICE, MIXING_TRIES };
#define MIXING_PLANE 1u

struct mixing_key { struct random_key key; uint64_t position; };

static struct draw mixing_block(const struct mixing_key *key, uint32_t use)
{
    struct draw draw = { { (uint32_t)key->position, (uint32_t)(key->position >> 32), use, MIXING_PLANE } };
    random_mix(key->key, draw.word);
    return draw;
}

/* A uniform number in (0, 1). */
static double open_unit(uint32_t word)
{
    return (word + 0.5) * 0x1p-32;
}

/* The logarithm of a number drawn from Gamma(shape, 1), shape > 0: of one from Gamma(shape + 1, 1), by Marsaglia and
 * Tsang (2000, "A simple method for generating gamma variables"), times u^(1 / shape). The logarithm is used because
 * the number underflows a double if shape is small. Uses blocks use, use + 2, ...; more than the first one in at most 5
 * % of all cases. */
static double gamma_logarithm(const struct mixing_key *key, double shape, uint32_t use)
{
    const double d = shape + 1 - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;; use += 2) {
        const struct draw draw = mixing_block(key, use);
        const double radius = sqrt(-2 * log(open_unit(draw.word[0])));
        const double normal = radius * cos(2 * M_PI * open_unit(draw.word[1]));
        const double root = 1 + c * normal, v = root * root * root;
        if (root > 0 && log(open_unit(draw.word[2])) < normal * normal / 2 + d - d * v + d * log(v))
            return log(d * v) + log(open_unit(draw.word[3])) / shape;
    }
}

/* Draw from Beta(shape, shape): a / (a + b) with a and b from Gamma(shape, 1). */
static double beta_draw(const struct mixing_key *key, double shape)
{
    const double a = gamma_logarithm(key, shape, MIXING_TRIES);
    const double b = gamma_logarithm(key, shape, MIXING_TRIES + 1);
    return 1 / (1 + exp(b - a));
}

/* Pixels [begin, end) of a side. */
struct interval { uint32_t begin, end; };

static struct interval interval_around(uint32_t word, uint32_t side, double part)
{
    const uint32_t centre = draw_below(word, side), half = (uint32_t)(side * part) / 2;
    return (struct interval){ centre > half ? centre - half : 0, centre + half < side ? centre + half : side };
}

static struct mix mix_box(double share, const struct draw *choice, uint32_t height, uint32_t width)
{
    const struct interval rows = interval_around(choice->word[2], height, sqrt(1 - share));
    const struct interval columns = interval_around(choice->word[3], width, sqrt(1 - share));
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
    const struct mixing_key key = { random_key(augment->seed, RANDOM_AUGMENT, epoch), position };
    const struct draw choice = mixing_block(&key, MIXING_CHOICE);
    if (!mixing_is_on(augment) || draw_uniform(choice.word[0], 0, 1) >= augment->mixed)
        return (struct mix){ .share = 1 };
    if (augment->cutmix > 0 && (augment->mixup == 0 || choice.word[1] >> 31 != 0))
        return mix_box(beta_draw(&key, augment->cutmix), &choice, height, width);
    return (struct mix){ .share = (float)beta_draw(&key, augment->mixup) };
}
