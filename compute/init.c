/* Initial weights, counted by element. Called by each tower while it opens. */
#include "compute/init.h"

#include <math.h>

#include "stage/random.h"

/* The 24 high bits of a word as a number in [0, 1). */
static float unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Element e takes word e % 4 of the block at counter e / 4. */
static void uniform(struct random_key key, float limit, size_t count, float *out)
{
    uint32_t word[4];
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0) {
            const uint64_t block = i / 4;
            random_block(key, (const uint32_t[4]){ (uint32_t)block, (uint32_t)(block >> 32), 0, 0 }, word);
        }
        out[i] = (2.0f * unit(word[i % 4]) - 1.0f) * limit;
    }
}

/* Element e is the first of the normals at e, e + 2^40, e + 2 * 2^40, ... that lies within two
 * deviations: elements are fewer. */
static float truncated_normal(struct random_key key, uint64_t element)
{
    float value = random_normal(key, element);
    for (uint64_t at = element; fabsf(value) > 2.0f; value = random_normal(key, at))
        at += (uint64_t)1 << 40;
    return value;
}

static void fill_constant(const struct parameter *parameter, struct random_key key, float *out)
{
    (void)key;
    for (size_t i = 0; i < parameter->count; i++)
        out[i] = parameter->initializer.value;
}

static void fill_glorot(const struct parameter *parameter, struct random_key key, float *out)
{
    const double fans = (double)parameter->fan_in + (double)parameter->fan_out;
    uniform(key, (float)sqrt(6.0 / fans), parameter->count, out);
}

static void fill_truncated(const struct parameter *parameter, struct random_key key, float *out)
{
    for (size_t i = 0; i < parameter->count; i++)
        out[i] = parameter->initializer.value * truncated_normal(key, i);
}

static void (*const fillers[])(const struct parameter *parameter, struct random_key key, float *out) = {
    [INITIALIZER_CONSTANT] = fill_constant,
    [INITIALIZER_GLOROT_UNIFORM] = fill_glorot,
    [INITIALIZER_TRUNCATED_NORMAL] = fill_truncated,
};

void init_parameter(const struct net *net, uint32_t parameter, uint64_t seed, float *plain_out)
{
    const struct parameter *const made = &net->parameters[parameter];
    fillers[made->initializer.kind](made, random_key(seed, RANDOM_WEIGHTS, parameter), plain_out);
}
