/* Activations of arrays of floats, for the layers that are one and for the loops into which one is fused. They call
 * nothing of libm, and every number depends on its own input alone, so blocks and threads do not change it. With x in
 * float, exp and the sigmoid are exact to 2 units in the last place, the others to a few; GELU is exact to 1e-6 of its
 * value where |x| < 5, and to 1e-5 where it is below 1e-22. Inputs of the exponential are limited to -87 and 88, so
 * that what would be below 1e-38 becomes about that. NaN stays NaN. */
#ifndef PIPETRAIN_ONEDNN_ACTIVATION_H
#define PIPETRAIN_ONEDNN_ACTIVATION_H

#include "compute/net.h"

/* Replace each number by the layer's function of it, or by the derivative there. The layer is an activation. */
void activation_values(const struct layer *layer, float *numbers, size_t count);
void activation_slopes(const struct layer *layer, float *numbers, size_t count);

/* Is the function of 0 another number? Then it changes the zeros with which channel blocks are padded. */
static inline bool activation_moves_zero(const struct layer *layer)
{
    return layer->activation == ACTIVATION_SIGMOID || layer->activation == ACTIVATION_HARD_SIGMOID;
}

#endif
