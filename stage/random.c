/* Counter-based random numbers. Pure functions; any thread. */
#include "stage/random.h"

#include <math.h>

/* A bijection of 64-bit words in which every input bit affects every output bit: two rounds of xor-shift and
 * multiplication by an odd number. */
static uint64_t mix_bits(uint64_t bits)
{
    bits ^= bits >> 30;
    bits *= 0xBF58476D1CE4E5B9u;
    bits ^= bits >> 27;
    bits *= 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
}

struct random_key random_key(uint64_t seed, enum random_use use, uint32_t index)
{
    /* For a given seed, (use, index) -> key is a bijection, so two uses never share a key. */
    const uint64_t what = (uint64_t)use << 32 | index;
    const uint64_t bits = mix_bits(mix_bits(seed + 0x9E3779B97F4A7C15u) ^ what);
    return (struct random_key){ { (uint32_t)bits, (uint32_t)(bits >> 32) } };
}

void random_block(struct random_key key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t word[4] = { counter[0], counter[1], counter[2], counter[3] };
    random_mix(key, word);
    for (int i = 0; i < 4; i++)
        out[i] = word[i];
}

static void block_at(struct random_key key, uint64_t index, uint32_t word[4])
{
    word[0] = (uint32_t)index;
    word[1] = (uint32_t)(index >> 32);
    word[2] = word[3] = 0;
    random_mix(key, word);
}

uint64_t random_u64(struct random_key key, uint64_t index)
{
    uint32_t word[4];
    block_at(key, index, word);
    return (uint64_t)word[1] << 32 | word[0];
}

float random_normal(struct random_key key, uint64_t index)
{
    uint32_t word[4];
    block_at(key, index, word);
    /* In (0, 1], so that the logarithm is finite. 32 bits limit the normal numbers to 6.6 standard deviations. */
    const double radius = sqrt(-2.0 * log(((double)word[0] + 1.0) * 0x1p-32));
    const double angle = 6.283185307179586 * (double)word[1] * 0x1p-32;
    return (float)(radius * cos(angle));
}
