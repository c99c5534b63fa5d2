/* Loops of batch normalisation over one plane: one channel block of one sample. */
#ifndef PIPETRAIN_ONEDNN_NORM_LOOPS_H
#define PIPETRAIN_ONEDNN_NORM_LOOPS_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/net.h"
#include "compute/onednn/onednn_value.h"

/* A plane: `pixels` rows of `block` numbers. Rows of the normalised values and of their gradient may be `stride` >=
 * block numbers apart; all others are contiguous. */
struct norm_plane { enum value_type type; size_t pixels, block, stride; };

/* Per channel of a block: result = (value - mean) * scale + shift. */
struct norm_line { const float *mean, *scale, *shift; };

/* A plane's mask has one bit per number: a word per channel for every NORM_MASK_PIXELS pixels, the lowest bit for the
 * first of them. Only where norm_can_mask. */
#define NORM_MASK_PIXELS 32u
static inline bool norm_can_mask(struct norm_plane plane)
{
    return plane.block % LANES == 0;
}

/* Words of a plane's mask. */
static inline size_t norm_mask_words(struct norm_plane plane)
{
    return (plane.pixels + NORM_MASK_PIXELS - 1) / NORM_MASK_PIXELS * plane.block;
}

/* sum[c] += value; squares[c] += (value - mean)^2, over the plane. */
void norm_add_sums(struct norm_plane plane, const void *values, float *sum);
void norm_add_squares(struct norm_plane plane, const void *values, const float *mean, float *squares);

/* result = line(value) [+ skip], then max(., 0) with relu. passed (NULL: none), with skip and relu: the mask of the
 * result. */
void norm_apply(struct norm_plane plane, struct norm_line line, const void *values, const void *skip, bool relu,
                void *result, uint32_t *bits);

/* result = the activation of line(value). */
void norm_activate(struct norm_plane plane, struct norm_line line, const struct layer *activation, const void *values,
                   void *result);

/* Where the gradient of the result passes the ReLU. */
struct norm_mask {
    bool by_line;               /* where line(value) > 0 */
    const void *results;        /* where these results are > 0; NULL: everywhere */
    const uint32_t *bits;     /* instead of results: where the bit is set; NULL: not used */
    const struct layer *activation;     /* instead of a mask: the gradient is multiplied by the derivative of this
                                         * layer at line(value); NULL: none */
};

/* gradient_sum[c] += gradient; product_sum[c] += gradient * (value - mean), of masked gradients. With results or
 * bits, or with an activation, the masked gradient is also written back. */
void norm_sum_products(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const void *values,
                       void *gradient, float *gradient_sum, float *product_sum);

/* norm_sum_products without results and bits; in the same pass to (+)= scale * gradient. `to` may be `gradient`. */
void norm_sum_and_scale(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const void *values,
                        void *gradient, float *gradient_sum, float *product_sum, bool adds, void *to);

/* Per channel: gradient of the value = scale * gradient + slope * (value - mean) + offset. */
struct norm_slope { const float *slope, *offset; };

/* to += slope * (value - mean) + offset. */
void norm_add_line(struct norm_plane plane, const float *mean, struct norm_slope slope, const void *values, void *to);

/* to (+)= the gradient of the values. The gradient of the result is masked by line here, or is masked already. `to` may
 * be `gradient`. */
void norm_input_gradient(struct norm_plane plane, struct norm_line line, struct norm_slope slope, bool masked_by_line,
                         const void *values, const void *gradient, bool adds, void *to);

#endif
