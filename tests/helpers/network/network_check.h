/* Check what a network computes: its gradients by finite differences, and its results against those of another
 * backend. All functions assert. */
#ifndef PIPETRAIN_NETWORK_CHECK_H
#define PIPETRAIN_NETWORK_CHECK_H

#include "tests/helpers/network/network.h"

/* A parameter, or its gradient, in the plain layout; freed by the caller. */
float *network_numbers(struct network *network, uint32_t parameter);
float *network_gradient(struct network *network, uint32_t parameter);

/* The input of the dense layer with these weights for the first sample; freed by the caller. It is derived from
 * gradients: that of weight [0][i] is that of bias [0] times input i. The layer must be the last
 * one before the loss. */
float *network_values_before(struct network *network, const struct backend_input *input, uint32_t dense_weight);

/* Check some random elements of every trained parameter by finite differences, with the first `count` samples. */
void network_check_slopes(struct network *network, const struct backend_input *input, uint32_t count, uint32_t seed);

/* Every element differs by at most `tolerance` times the largest expected one. */
void network_assert_near(const struct network *network, uint32_t parameter, const float *values,
                         const float *expected, double tolerance);
void network_assert_same_result(struct backend_result result, struct backend_result expected);

/* Compare loss, gradients, statistics and evaluation of a batch of `count` samples, and of one with two fewer, to 1e-4.
 * Both networks have the same weights. */
void network_compare(struct network *network, struct network *reference, const struct backend_input *input,
                     uint32_t count);
/* The same for an open network and the reference backend, with random weights and samples. */
void network_compare_with_reference(struct network *network, uint32_t count, uint64_t seed);
/* The same, with a network that is opened with these settings and closed again; samples: settings.local_max. Closes
 * the net. */
void network_check_net(const char *backend, struct net *net, struct backend_spec settings, uint64_t seed);
/* Gradients and results of the first `count` samples are the sums of those of the parts, which contain all labelled
 * samples. */
struct network_part { uint32_t first, count; };
void network_check_parts(struct network *network, const struct backend_input *input, const struct network_part *parts,
                         uint32_t part_count, uint32_t count);

/* The parameters of both are equal, bit for bit. */
void network_assert_same_numbers(struct network *network, struct network *same);
/* The same as network_compare, bit for bit. */
void network_compare_bits(struct network *network, struct network *same, const struct backend_input *input,
                          uint32_t count);

#endif
