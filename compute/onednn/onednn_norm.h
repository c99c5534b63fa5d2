/* What the three files of batch normalisation share: the row of the layer table (onednn_norm.c), what is planned
 * for it (onednn_norm_plan.c) and the loops over a part of the values (onednn_norm_loops.c). Private to them. */
#ifndef PIPETRAIN_ONEDNN_NORM_H
#define PIPETRAIN_ONEDNN_NORM_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/onednn/onednn_plan.h"

/* One channel block of one sample, as the loops see it: `pixels` rows of `block` numbers. Rows of what is normalised
 * and of its gradient may be `stride` >= block numbers apart; all others lie one behind the other. */
struct norm_plane { enum value_type type; size_t pixels, block, stride; };

struct norm {
    const struct layer *layer;
    size_t blocks;
    struct norm_plane plane;
    bool adds_skip, relu;
    size_t channels;            /* with those that fill the last block */
    uint32_t sums;              /* buffer: by thread, then channel, struct channel_sums */
    uint32_t scratch;           /* buffer: by thread, two floats a channel */
    uint32_t lines;             /* buffer: COEFFICIENTS floats a channel, of the last forward */
    uint32_t moments;           /* buffer: by channel, struct channel_sums, of one that is `before` another */
    uint32_t passed;            /* buffer: a bit a number, struct norm_mask; BUFFER_NONE: the results are the mask */
    struct norm *before;        /* of the same value or a front of it, in training; NULL: there is none */
    size_t known;               /* channels of it that are not measured again */
};

/* Of the values one thread has seen: their mean and squared distances from it; backward, the sums
 * of gradients and of gradients times distances. */
struct channel_sums { double first, second; };

enum coefficient { MEAN, SCALE, SHIFT, INVERSE, SLOPE, OFFSET, COEFFICIENTS };

/* Of the layer table. */
void norm_use(const struct plan *plan, uint32_t layer, struct value_use *use_out);
int norm_plan(struct plan *plan, uint32_t layer);
void norm_release(struct plan *plan, uint32_t layer);

/* By channel of a block: result = (value - mean) * scale + shift. */
struct norm_line { const float *mean, *scale, *shift; };

/* sum[c] += values, and squares[c] += (values - mean)^2, both over the plane. */
void norm_add_sums(struct norm_plane plane, const void *values, float *sum);
void norm_add_squares(struct norm_plane plane, const void *values, const float *mean, float *squares);

/* Numbers of a plane whose bits are together, as many as channels that are worked off at once: whether a plane can
 * have a bit for each of its numbers. */
#define NORM_BITS 16u
static inline bool norm_has_bits(struct norm_plane plane)
{
    return plane.block % NORM_BITS == 0;
}

/* result = line(value), + skip (NULL: nothing is added), and at least 0 with relu. passed: with skip and relu, the
 * bits of struct norm_mask are written there; or NULL. */
void norm_apply(struct norm_plane plane, struct norm_line line, const void *values, const void *skip, bool relu,
                void *result, uint16_t *passed);

/* What of the gradient of the result passes on to the normalised value. */
struct norm_mask {
    bool by_line;               /* where line(value) is above 0 */
    const void *results;        /* where these are above 0; NULL: everywhere */
    const uint16_t *passed;     /* in place of results: where the bit is set that the number's place counts, from the
                                 * lowest one of the first; NULL: there are none */
};

/* gradient_sum[c] += gradient, product_sum[c] += gradient * (value - mean), of what passes the mask.
 * A gradient masked by results or bits is left masked. */
void norm_add_products(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const void *values,
                       void *gradient, float *gradient_sum, float *product_sum);

/* By channel: value's gradient = scale * gradient + slope * (value - mean) + offset. */
struct norm_slope { const float *slope, *offset; };

/* to (+)= the gradient of the values; the mask only by_line, else the gradient is masked already.
 * `to` may be `gradient`. */
void norm_give_back(struct norm_plane plane, struct norm_line line, struct norm_slope slope, bool masked_by_line,
                    const void *values, const void *gradient, bool adds, void *to);

#endif
