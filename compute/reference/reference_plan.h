/* What the two files of the reference backend share: a plan and what it keeps of each
 * layer. Private to them. */
#ifndef PIPETRAIN_REFERENCE_PLAN_H
#define PIPETRAIN_REFERENCE_PLAN_H

#include "compute/backend.h"
#include "compute/dropout.h"

/* Values and gradients are those of all samples of the plan, in N,C,H,W order. */
struct reference_layer {
    float *out, *gradient;      /* gradient: of out, in training plans; a folded ReLU borrows both */
    double *weight_sums;        /* conv2d: its gradients while they are summed up, */
    double *in_sums;            /*   by weight and by input value */
    size_t *winners;            /* max_pool: the input value each output value is */
    uint8_t *mask;              /* dropout: 1 kept, 0 dropped */
    struct dropout dropout;
};

struct reference_plan {
    struct plan_base base;
    const struct net *net;
    struct device *device;
    uint64_t seed;
    const float *weights;       /* the arenas, lent */
    float *gradients;
    const struct arena *arena;
    struct reference_layer *layers;
    float *image;               /* the net's input */
    int32_t *labels;
    uint64_t first_position;
    uint32_t epoch;
    struct backend_result result;
    size_t bytes;               /* of everything reference_alloc gave */
};

static inline struct reference_plan *reference_plan_of(struct plan *plan)
{
    return (struct reference_plan *)plan;
}

/* Zeroed memory for `count` items, or NULL. */
void *reference_alloc(struct reference_plan *plan, size_t count, size_t item_bytes);
void reference_free(struct reference_plan *plan, void *memory);

/* By layer kind. */
extern const struct layer_ops reference_layer_table[LAYER_KIND_COUNT];

#endif
