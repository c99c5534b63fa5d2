/* The dynamic loss scale of fp16, in device memory: gradients are computed of loss * factor,
 * so that small ones survive 16 bits, and divided by it in the update, in fp32. After a step
 * whose reduced gradients hold a number that is not finite, nothing is updated and the factor
 * is halved; after LOSS_SCALE_GROWTH good steps in a row it is doubled (Micikevicius et al.
 * 2018, "Mixed precision training"). The reduced gradients are the same in every tower, so
 * all towers decide alike without talking. Where steps are left out in other precisions the factor stays 1. */
#ifndef PIPETRAIN_LOSS_SCALE_H
#define PIPETRAIN_LOSS_SCALE_H

#include <stdint.h>

/* Gradients are sums over samples: the factor begins lower than where means are scaled. */
#define LOSS_SCALE_FIRST 1024.0f
#define LOSS_SCALE_LEAST 0x1p-14f
#define LOSS_SCALE_MOST 16777216.0f
#define LOSS_SCALE_GROWTH 2000u

#define LOSS_SCALE_BROKEN 1u            /* one that was checked is not finite */
#define LOSS_SCALE_LEFT_OUT 2u          /* the step before was left out; this one is not checked yet */

struct loss_scale {
    float factor;               /* of this step */
    uint32_t good_steps;        /* since the factor last changed */
    uint32_t overflowed;        /* what the gradients of this step are known to be, below; 0: finite */
    uint32_t skipped_steps;     /* in all */
};

#endif
