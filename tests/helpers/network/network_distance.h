/* How far the results of a network are from those of a more exact one, for low precisions. */
#ifndef PIPETRAIN_NETWORK_DISTANCE_H
#define PIPETRAIN_NETWORK_DISTANCE_H

#include "tests/helpers/network/network.h"

/* Relative distances of parameters: the norm of the difference over the norm of the expected values. */
struct network_distances {
    double sum;
    uint32_t count;
};

/* The unit roundoff of a precision's values: half the distance from 1 to the next number. */
double network_roundoff(enum precision precision);

/* Run steps of `count` and of `count` - 2 samples, and an evaluation of each, in the network and in the reference
 * backend, with random weights and samples. Adds the distances of all gradients (fp16's divided by the loss scale) and
 * running statistics. Asserts that losses agree within the rounding of `precision`, and that no distance is more than
 * 0.35: rounding may switch a ReLU, or change the largest value of a pool, and such gradients differ most. */
void network_add_distances(struct network *network, uint32_t count, uint64_t seed, enum precision precision,
                           struct network_distances *distances);

/* Assert that the mean distance is at most 16 roundoffs. */
void network_assert_distances(const struct network_distances *distances, enum precision precision);

#endif
