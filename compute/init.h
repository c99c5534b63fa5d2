/* Initial weights: a counted function of (seed, parameter, element), independent of
 * backend, layout and towers. Glorot uniform: U(-L, L), L = sqrt(6 / (fan_in + fan_out))
 * (Glorot, Bengio 2010; doc/models.md). */
#ifndef PIPETRAIN_INIT_H
#define PIPETRAIN_INIT_H

#include "compute/net.h"

/* parameter->count floats, row-major. */
void init_parameter(const struct net *net, uint32_t parameter, uint64_t seed, float *plain_out);

#endif
