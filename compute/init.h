/* Initial weights: a function of (seed, parameter, element) without state, so that backend, layout and towers do not
 * change them (doc/models.md); so a share of a net has the numbers of the whole net. Used by towers. */
#ifndef PIPETRAIN_INIT_H
#define PIPETRAIN_INIT_H

#include "compute/net.h"

/* Compute the parameter->count initial values in row-major order with `threads` threads (compute/team.h), whose
 * number does not change them. */
void init_parameter(const struct net *net, uint32_t parameter, uint64_t seed, uint32_t threads, float *plain_out);

#endif
