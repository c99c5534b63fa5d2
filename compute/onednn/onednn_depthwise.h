/* The weight gradient of a depthwise convolution, in which every channel has its own window, on values in any layout of
 * this backend. Used by onednn_weighted.c, and by its test without a plan. */
#ifndef PIPETRAIN_ONEDNN_DEPTHWISE_H
#define PIPETRAIN_ONEDNN_DEPTHWISE_H

#include "compute/onednn/onednn_plan.h"

struct depthwise;

/* Operands of depthwise_compute. `count` samples of values and gradients are stored one after the other. */
struct depthwise_operands {
    const void *values, *gradients;     /* the input, the gradient of the result */
    size_t count;
    float *scratch, *sums;      /* memory of the sizes below, of any contents */
    float *weights, *bias;      /* gradients; bias may be NULL. Padding of the weights is not written */
    bool adds;                  /* add to the gradients instead of replacing them */
};

/* Opens the gradient of a convolution of at most `count_max` samples whose weights are stored as `stored`. 0 or a
 * negative errno. */
int depthwise_open(const struct layer *layer, const struct tensor_layout *in, const struct tensor_layout *out,
                   size_t count_max, nn_md stored, struct depthwise **depthwise_out);
void depthwise_close(struct depthwise *depthwise);
/* Bytes of scratch for `threads` threads, and of sums. */
size_t depthwise_scratch_bytes(const struct depthwise *depthwise, uint32_t threads);
size_t depthwise_sum_bytes(const struct depthwise *depthwise);
/* Computes on a team of `threads`, whose number does not change the bits. */
void depthwise_compute(const struct depthwise *depthwise, const struct depthwise_operands *operands, uint32_t threads);

#endif
