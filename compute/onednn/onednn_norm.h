/* What the files of batch normalisation share: forward and the row of the layer table (onednn_norm.c), backward
 * (onednn_norm_back.c), what is planned for both (onednn_norm_plan.c) and the loops over a part of the values
 * (onednn_norm_loops.c, onednn_norm_back_loops.c). Private to them. */
#ifndef PIPETRAIN_ONEDNN_NORM_H
#define PIPETRAIN_ONEDNN_NORM_H

#include <assert.h>
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
    uint32_t passed;            /* buffer: by plane, norm_bit_words; BUFFER_NONE: the results are the mask */
    struct norm *before;        /* of the same value or a front of it, in training; NULL: there is none */
    size_t known;               /* channels of it that are not measured again */
    uint32_t slice;             /* samples of the result that are made together, see value_slice; 0: all */
    uint32_t owed;              /* buffer: by channel of the widest of the values, struct norm_owed, which it shares
                                 * with others of them, see onednn_norm_back.c; BUFFER_NONE: nothing is owed */
    bool is_last;               /* of those others: the first to go backward */
};

/* What is owed to the gradient of a channel's values by all normalisations of them that have gone backward:
 * slope * (value - mean) + offset. The mean is that of all of them. */
struct norm_owed { float slope, offset; };

/* Of the values one thread has seen: their mean and squared distances from it; backward, the sums
 * of gradients and of gradients times distances. */
struct channel_sums { double first, second; };

enum coefficient { MEAN, SCALE, SHIFT, INVERSE, SLOPE, OFFSET, COEFFICIENTS };

/* Of the layer table. */
void norm_use(const struct plan *plan, uint32_t layer, struct value_use *use_out);
int norm_plan(struct plan *plan, uint32_t layer);
void norm_release(struct plan *plan, uint32_t layer);
int norm_backward_parameters(struct plan *plan, uint32_t layer);
int norm_backward_inputs(struct plan *plan, uint32_t layer);

/* By channel of a block: result = (value - mean) * scale + shift. */
struct norm_line { const float *mean, *scale, *shift; };

/* A plane's bits, where it has one for each of its numbers: a word by channel for every NORM_NOTED pixels, the
 * lowest bit that of the first of them. */
#define NORM_NOTED 32u
static inline bool norm_has_bits(struct norm_plane plane)
{
    return plane.block % LANES == 0;
}

/* Words of it. */
static inline size_t norm_bit_words(struct norm_plane plane)
{
    return (plane.pixels + NORM_NOTED - 1) / NORM_NOTED * plane.block;
}

/* ---- of one normalisation, while the plan runs ---- */

/* By channel, and what threads use each for itself. */
static inline float *norm_coefficient(const struct plan *plan, const struct norm *norm, enum coefficient which)
{
    return (float *)plan_data(plan, norm->lines) + which * norm->channels;
}

/* The coefficients of channel block `block`. */
static inline struct norm_line norm_line_of(const struct plan *plan, const struct norm *norm, size_t block)
{
    const size_t first = block * norm->plane.block;
    return (struct norm_line){ norm_coefficient(plan, norm, MEAN) + first, norm_coefficient(plan, norm, SCALE) + first,
                              norm_coefficient(plan, norm, SHIFT) + first };
}

static inline struct channel_sums *norm_sums_of(const struct plan *plan, const struct norm *norm, uint32_t member)
{
    return (struct channel_sums *)plan_data(plan, norm->sums) + member * norm->channels;
}

static inline float *norm_scratch_of(const struct plan *plan, const struct norm *norm, uint32_t member)
{
    return (float *)plan_data(plan, norm->scratch) + member * 2 * norm->plane.block;
}

/* Plane `plane` of a result of the layer or a skip, or of a gradient of theirs. */
static inline void *norm_plane_of(const struct norm *norm, const void *values, size_t plane)
{
    return value_at(norm->plane.type, values, plane * norm->plane.pixels * norm->plane.block);
}

/* Of what is normalised, or of its gradient. */
static inline void *norm_value_plane(const struct norm *norm, const void *values, size_t plane)
{
    return value_at(norm->plane.type, values, plane * norm->plane.pixels * norm->plane.stride);
}

/* Plane `plane` of the bits; NULL: there are none. */
static inline uint32_t *norm_bits_of(const struct norm *norm, uint32_t *passed, size_t plane)
{
    assert(passed == NULL || norm_has_bits(norm->plane));
    return passed != NULL ? passed + plane * norm_bit_words(norm->plane) : NULL;
}

static inline uint32_t *norm_passed_of(const struct plan *plan, const struct norm *norm)
{
    return norm->passed != BUFFER_NONE ? plan_data(plan, norm->passed) : NULL;
}

/* ---- loops ---- */

/* sum[c] += values, and squares[c] += (values - mean)^2, both over the plane. */
void norm_add_sums(struct norm_plane plane, const void *values, float *sum);
void norm_add_squares(struct norm_plane plane, const void *values, const float *mean, float *squares);

/* result = line(value), + skip (NULL: nothing is added), and at least 0 with relu. passed: with skip and relu,
 * where norm_has_bits, the bits of what is above 0 are written there; or NULL. */
void norm_apply(struct norm_plane plane, struct norm_line line, const void *values, const void *skip, bool relu,
                void *result, uint32_t *passed);

/* What of the gradient of the result passes on to the normalised value. */
struct norm_mask {
    bool by_line;               /* where line(value) is above 0 */
    const void *results;        /* where these are above 0; NULL: everywhere */
    const uint32_t *passed;     /* in place of results: where the number's bit is set; NULL: there are none */
};

/* gradient_sum[c] += gradient, product_sum[c] += gradient * (value - mean), of what passes the mask.
 * A gradient masked by results or bits is left masked. */
void norm_add_products(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const void *values,
                       void *gradient, float *gradient_sum, float *product_sum);

/* norm_add_products without a mask, or one by_line, which leaves the gradient as it is; and on the way
 * to (+)= scale * gradient. `to` may be `gradient`. */
void norm_pass_products(struct norm_plane plane, struct norm_line line, bool masked_by_line, const void *values,
                        const void *gradient, float *gradient_sum, float *product_sum, bool adds, void *to);

/* By channel: value's gradient = scale * gradient + slope * (value - mean) + offset. */
struct norm_slope { const float *slope, *offset; };

/* to += slope * (value - mean) + offset. */
void norm_pay(struct norm_plane plane, const float *mean, struct norm_slope slope, const void *values, void *to);

/* to (+)= the gradient of the values; the mask only by_line, else the gradient is masked already.
 * `to` may be `gradient`. */
void norm_give_back(struct norm_plane plane, struct norm_line line, struct norm_slope slope, bool masked_by_line,
                    const void *values, const void *gradient, bool adds, void *to);

#endif
