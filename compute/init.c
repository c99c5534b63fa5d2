/* Initial weights. Called by every tower when it allocates its memory. */
#include "compute/init.h"

#include <math.h>

#include "compute/team.h"
#include "stage/random.h"

/* The high 24 bits of a word as a number in [0, 1). */
static float unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Fill in uniform numbers of (-limit, limit). Element e uses word e % 4 of the block at counter e / 4. */
static void uniform(struct random_key key, float limit, size_t first, size_t end, float *out)
{
    uint32_t word[4] = { 0 };
    for (size_t i = first; i < end; i++) {
        if (i % 4 == 0 || i == first) {
            const uint64_t block = i / 4;
            random_block(key, (const uint32_t[4]){ (uint32_t)block, (uint32_t)(block >> 32), 0, 0 }, word);
        }
        out[i] = (2.0f * unit(word[i % 4]) - 1.0f) * limit;
    }
}

/* Element e is the first of the normals at counters e, e + 2^40, e + 2 * 2^40, ... that is within two standard
 * deviations; there are fewer than 2^40 elements. */
static float truncated_normal(struct random_key key, uint64_t element)
{
    float value = random_normal(key, element);
    for (uint64_t at = element; fabsf(value) > 2.0f; value = random_normal(key, at))
        at += (uint64_t)1 << 40;
    return value;
}

/* The arguments of the fill functions, which compute the elements [first, end) of a parameter. */
struct fill { const struct parameter *parameter; struct random_key key; float *out; };

static void fill_constant(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct fill *const fill = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        fill->out[i] = fill->parameter->initializer.value;
}

static void fill_glorot(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct fill *const fill = arg;
    const double fans = (double)fill->parameter->fan_in + (double)fill->parameter->fan_out;
    (void)member;
    uniform(fill->key, (float)sqrt(6.0 / fans), first, end, fill->out);
}

static void fill_truncated(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct fill *const fill = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        fill->out[i] = fill->parameter->initializer.value * truncated_normal(fill->key, i);
}

static void fill_normal(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct fill *const fill = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        fill->out[i] = fill->parameter->initializer.value * random_normal(fill->key, i);
}

static void fill_uniform(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct fill *const fill = arg;
    (void)member;
    uniform(fill->key, fill->parameter->initializer.value, first, end, fill->out);
}

static const team_work fillers[] = {
    [INITIALIZER_CONSTANT] = fill_constant,
    [INITIALIZER_GLOROT_UNIFORM] = fill_glorot,
    [INITIALIZER_TRUNCATED_NORMAL] = fill_truncated,
    [INITIALIZER_NORMAL] = fill_normal,
    [INITIALIZER_UNIFORM] = fill_uniform,
};

#define ELEMENT_GRAIN 4096u     /* fewest elements per thread */

void init_parameter(const struct net *net, uint32_t parameter, uint64_t seed, uint32_t threads, float *plain_out)
{
    const struct parameter *const made = &net->parameters[parameter];
    struct fill fill = { made, random_key(seed, RANDOM_WEIGHTS, parameter), plain_out };
    team_run(threads, made->count, ELEMENT_GRAIN, fillers[made->initializer.kind], &fill);
}
