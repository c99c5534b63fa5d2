/* Initial weights: a counted function of (seed, parameter, element), independent of
 * backend, layout and towers. Glorot uniform: U(-L, L), L = sqrt(6 / (fan_in + fan_out))
 * (Glorot, Bengio 2010; doc/models.md). */
#ifndef PIPETRAIN_INIT_H
#define PIPETRAIN_INIT_H

#include "compute/net.h"

/* parameter->count floats, row-major, made by a team of `threads` (compute/team.h); the same for any number of
 * threads. */
void init_parameter(const struct net *net, uint32_t parameter, uint64_t seed, uint32_t threads, float *plain_out);

#endif
