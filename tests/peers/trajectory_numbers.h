/* What the tests of trajectories share: where they start, their gradients, and whether numbers are where they should
 * be. Behind cmocka.h and optimizer_trajectories.h. */
#ifndef PIPETRAIN_TEST_TRAJECTORY_NUMBERS_H
#define PIPETRAIN_TEST_TRAJECTORY_NUMBERS_H

#include <math.h>

static inline float start_at(uint32_t i)
{
    return ((float)(i * 5 % 7) - 3) / 4;
}

static inline float gradient_at(uint32_t step, uint32_t i)
{
    return ((float)((step * 31 + i * 17 + step * i * 7) % 41) - 15) / 16;
}

static inline void trajectory_assert_at(const struct trajectory *trajectory, uint32_t point, const float *weights)
{
    const double *const expected = trajectory->weights[point];
    double largest = 0;
    for (uint32_t i = 0; i < NUMBERS; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (uint32_t i = 0; i < NUMBERS; i++)
        if (!(fabs(weights[i] - expected[i]) <= 1e-5 * largest))
            fail_msg("%s: number %u is %.9g behind %u steps, not %.9g", trajectory->name, (unsigned)i,
                     (double)weights[i], (unsigned)points[point], expected[i]);
}

#endif
