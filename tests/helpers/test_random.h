/* Random numbers for tests. */
#ifndef PIPETRAIN_TEST_RANDOM_H
#define PIPETRAIN_TEST_RANDOM_H

#include "stage/random.h"

/* Uniform in [0, 1) with 24 bits, at counter `index`. */
static inline float test_uniform(struct random_key key, uint64_t index)
{
    return (float)((uint32_t)random_u64(key, index) >> 8) * 0x1p-24f;
}

#endif
