/* Initial weights, counted by element. Called by each tower while it opens. */
#include "compute/init.h"

#include <math.h>
#include <string.h>

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

void init_parameter(const struct net *net, uint32_t parameter, uint64_t seed, float *plain_out)
{
    const struct parameter *made = &net->parameters[parameter];
    if (made->init == INIT_ZERO) {
        memset(plain_out, 0, made->count * sizeof(*plain_out));
        return;
    }
    const double fans = (double)made->fan_in + (double)made->fan_out;
    uniform(random_key(seed, RANDOM_WEIGHTS, parameter), (float)sqrt(6.0 / fans), made->count, plain_out);
}
