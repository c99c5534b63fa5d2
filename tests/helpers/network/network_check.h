/* What a network computes, checked: its gradients against the slopes of its loss, and its numbers
 * against those of another backend. All assert. */
#ifndef PIPETRAIN_NETWORK_CHECK_H
#define PIPETRAIN_NETWORK_CHECK_H

#include "tests/helpers/network/network.h"

/* The plain numbers of a parameter / of its gradient; freed by the caller. */
float *network_numbers(struct network *network, uint32_t parameter);
float *network_gradient(struct network *network, uint32_t parameter);

/* What the dense layer with these weights reads in a pass over the first sample, freed by the caller:
 * the gradient of its weight [0][i] is that of its bias [0] times input i. The loss must be behind it. */
float *network_values_before(struct network *network, const struct backend_input *input, uint32_t dense_weight);

/* Some numbers of every trained parameter, chosen by `seed`, at the first `count` samples. */
void network_check_slopes(struct network *network, const struct backend_input *input, uint32_t count, uint32_t seed);

/* Within `tolerance` of the largest number expected, in all numbers of a parameter. */
void network_assert_near(const struct network *network, uint32_t parameter, const float *values,
                         const float *expected, double tolerance);
void network_assert_same_result(struct backend_result result, struct backend_result expected);

/* Loss, gradients, statistics and evaluation of a batch of `count` samples, and of one that is two
 * samples smaller, to 1e-4. Both have the same weights. */
void network_compare(struct network *network, struct network *reference, const struct backend_input *input,
                     uint32_t count);
/* The same of a network that is open against the reference on the same net, with weights and
 * samples drawn from `seed`. */
void network_compare_with_reference(struct network *network, uint32_t count, uint64_t seed);
/* Gradients and result of the first `count` samples are the sums of those of the parts, which have all samples with a
 * label. */
struct network_part { uint32_t first, count; };
void network_check_parts(struct network *network, const struct backend_input *input, const struct network_part *parts,
                         uint32_t part_count, uint32_t count);

/* All parameters of both are the same, bit for bit. */
void network_assert_same_numbers(struct network *network, struct network *same);
/* The same as network_compare, bit for bit. */
void network_compare_bits(struct network *network, struct network *same, const struct backend_input *input,
                          uint32_t count);

#endif
