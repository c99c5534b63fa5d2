/* Batch normalisation in evaluation, y = factor * x + shift for each channel, and its folding into the layer that it
 * reads: the weights of an output are multiplied by its factor. Computed in double precision; pure functions. */
#ifndef PIPETRAIN_FOLDED_NORM_H
#define PIPETRAIN_FOLDED_NORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parameters and statistics of a batch normalisation; borrowed. */
struct norm_numbers {
    uint32_t channels;
    float epsilon;
    const float *gamma;         /* NULL: all are 1 */
    const float *beta, *mean, *variance;
};

/* Compute factor = gamma / sqrt(variance + epsilon) of every channel. */
void folded_norm_factors(const struct norm_numbers *norm, double *factors_out);
/* Compute the bias of the folded layer, beta + (bias - mean) * factor; bias = NULL: it has none. False if a number
 * is not finite or too large for a float. */
bool folded_norm_bias(const struct norm_numbers *norm, const double *factors, const float *bias, float *bias_out);
/* Multiply the weights of `outputs` outputs, `count` numbers each, by their factors. False as above. */
bool folded_norm_scale(float *weights, const double *factors, size_t outputs, size_t count);

#endif
