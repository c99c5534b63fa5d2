/* How far the numbers of a network are from those of one that computes more exactly: for precisions whose rounding
 * leaves nothing to compare bit by bit. */
#ifndef PIPETRAIN_NETWORK_DISTANCE_H
#define PIPETRAIN_NETWORK_DISTANCE_H

#include "tests/helpers/network/network.h"

/* Distances of parameters: the norm of the difference as a part of the norm of what is expected. */
struct network_distances {
    double sum;
    uint32_t count;
};

/* The unit roundoff of a precision's values: half the distance from 1 to the next number. */
double network_roundoff(enum precision precision);

/* Steps of `count` samples and of two less, and an evaluation of each, in the network and in the reference on the same
 * net, with weights and samples drawn from `seed`. Adds the distances of all gradients (fp16's divided by the loss scale) and running statistics. Asserts that
 * losses are near by what `precision` rounds away, and that no distance is more than 0.35: rounding turns a ReLU on or
 * off now and then, or takes another number of a pool as the largest, and such a gradient is further away than most. */
void network_add_distances(struct network *network, uint32_t count, uint64_t seed, enum precision precision,
                           struct network_distances *distances);

/* Asserts that the distances are not more than 16 roundoffs on average. */
void network_assert_distances(const struct network_distances *distances, enum precision precision);

#endif
