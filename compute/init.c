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

/* The arguments of the fill functions, which compute the numbers [first, end) of `out`: number 0 is element `offset` of
 * the parameter of the whole net. */
struct fill { const struct parameter *parameter; struct random_key key; size_t offset; float *out; };

/* Fill in uniform numbers of (-limit, limit). Element e uses word e % 4 of the block at counter e / 4. */
static void uniform(const struct fill *fill, float limit, size_t first, size_t end)
{
    uint32_t word[4] = { 0 };
    for (size_t i = first; i < end; i++) {
        const size_t element = fill->offset + i;
        if (element % 4 == 0 || i == first) {
            const uint64_t block = element / 4;
            random_block(fill->key, (const uint32_t[4]){ (uint32_t)block, (uint32_t)(block >> 32), 0, 0 }, word);
        }
        fill->out[i] = (2.0f * unit(word[element % 4]) - 1.0f) * limit;
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
    uniform(fill, (float)sqrt(6.0 / fans), first, end);
}

static void fill_truncated(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct fill *const fill = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        fill->out[i] = fill->parameter->initializer.value * truncated_normal(fill->key, fill->offset + i);
}

static void fill_normal(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct fill *const fill = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        fill->out[i] = fill->parameter->initializer.value * random_normal(fill->key, fill->offset + i);
}

static void fill_uniform(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct fill *const fill = arg;
    (void)member;
    uniform(fill, fill->parameter->initializer.value, first, end);
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
    const struct net_share *const share = net->share;
    const uint32_t whole = share != NULL ? share->parameters[parameter] : parameter;
    struct fill fill = { .parameter = made, .key = random_key(seed, RANDOM_WEIGHTS, whole),
                         .offset = share != NULL ? share->firsts[parameter] : 0, .out = plain_out };
    team_run(threads, made->count, ELEMENT_GRAIN, fillers[made->initializer.kind], &fill);
}
