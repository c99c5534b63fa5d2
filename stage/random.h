/* Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as
 * 1, 2, 3"). The value at a counter is a pure function of (key, counter); there is no generator state. */
#ifndef PIPETRAIN_RANDOM_H
#define PIPETRAIN_RANDOM_H

#include <stdint.h>

/* The use of a sequence of random numbers; part of the key, so sequences of different uses are independent. */
enum random_use {
    RANDOM_ORDER = 1,   /* sample order */
    RANDOM_WEIGHTS,     /* initial weights; index = parameter */
    RANDOM_DROPOUT,     /* dropout; index = layer */
    RANDOM_SYNTHETIC,   /* synthetic input; index = tower */
    RANDOM_DRAW,        /* generated data sets */
    RANDOM_SHUFFLE,     /* record order in converted shards */
    RANDOM_AUGMENT,     /* augmentation of training images; index = epoch */
    RANDOM_HOLD_OUT,    /* validation samples in converted shards */
    RANDOM_LANES        /* which blocks are in which lane of the sample order */
};

struct random_key { uint32_t word[2]; };

/* The key of (seed, use, index): a 64-bit mix, so the keys of similar seeds are unrelated. */
struct random_key random_key(uint64_t seed, enum random_use use, uint32_t index);

/* Four 32-bit words at the counter {c0, c1, c2, c3}. */
void random_block(struct random_key key, const uint32_t counter[4], uint32_t out[4]);

/* A 64-bit word at the counter `index`. */
uint64_t random_u64(struct random_key key, uint64_t index);
/* A standard normal number at the counter `index`, by Box-Muller. */
float random_normal(struct random_key key, uint64_t index);

/* One of the ten rounds, for random_mix. */
static inline void random_round(uint32_t key0, uint32_t key1, uint32_t word[4])
{
    const uint64_t product0 = (uint64_t)word[0] * 0xD2511F53u;
    const uint64_t product1 = (uint64_t)word[2] * 0xCD9E8D57u;
    word[0] = (uint32_t)(product1 >> 32) ^ word[1] ^ key0;
    word[1] = (uint32_t)product1;
    word[2] = (uint32_t)(product0 >> 32) ^ word[3] ^ key1;
    word[3] = (uint32_t)product0;
}

/* random_block in place and inline, without loops or branches, so that compilers can vectorise a loop over counters
 * that calls it. */
static inline void random_mix(struct random_key key, uint32_t word[4])
{
    const uint32_t step0 = 0x9E3779B9u, step1 = 0xBB67AE85u;
    const uint32_t key0 = key.word[0], key1 = key.word[1];
    random_round(key0, key1, word);
    random_round(key0 + step0, key1 + step1, word);
    random_round(key0 + 2 * step0, key1 + 2 * step1, word);
    random_round(key0 + 3 * step0, key1 + 3 * step1, word);
    random_round(key0 + 4 * step0, key1 + 4 * step1, word);
    random_round(key0 + 5 * step0, key1 + 5 * step1, word);
    random_round(key0 + 6 * step0, key1 + 6 * step1, word);
    random_round(key0 + 7 * step0, key1 + 7 * step1, word);
    random_round(key0 + 8 * step0, key1 + 8 * step1, word);
    random_round(key0 + 9 * step0, key1 + 9 * step1, word);
}

#endif
