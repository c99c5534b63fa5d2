/* How well an order mixes what is stored. */
#ifndef PIPETRAIN_ORDER_MIXING_H
#define PIPETRAIN_ORDER_MIXING_H

#include "loader/order/order.h"

/* The mean distance, counted in records as they are stored, between records that follow each other in the
 * first epoch's order of this seed, in parts of (count + 1) / 3, which it is when all are permuted:
 * about 1 for SHUFFLE_FULL, about 1 - 1 / W for windows of W blocks out of many, next to 0 as stored.
 * By a sample, so that it is right to some hundredths; 1 for a set of one record. */
double order_mixing(const struct order_shape *shape, uint64_t seed);

#endif
