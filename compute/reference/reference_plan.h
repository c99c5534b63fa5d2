/* Shared by the files of the reference backend: its plan, the data that a plan keeps for each layer, and the arguments
 * of the loops of a layer. Private to this folder. */
#ifndef PIPETRAIN_REFERENCE_PLAN_H
#define PIPETRAIN_REFERENCE_PLAN_H

#include "compute/backend.h"
#include "compute/dropout.h"
#include "compute/mixing.h"

struct reference {
    struct backend_base base;
    struct backend_spec spec;
    const struct arenas *arenas;        /* lent */
    struct backend_memory memory;       /* lent */
    size_t label_count;                 /* of the largest plan */
    struct mixed_label *labels;
};

/* The data that a layer keeps from forward to backward. */
struct reference_layer {
    uint32_t kept;              /* buffer: max_pool winners, dropout mask, batch_norm channels, layer_norm sums */
    uint32_t weight_sums, in_sums;      /* buffers: conv2d, gradients while they are summed in double */
    struct dropout dropout;
};

struct reference_plan {
    struct plan_base base;
    struct reference_layer *layers;
    uint64_t first_position;
    uint32_t epoch;
    struct backend_result result;
};

/* Where the gradient of an input is written. */
struct target {
    float *gradient;            /* NULL: it is not needed */
    bool adds;                  /* add to the gradient in memory, else overwrite it */
};

/* One layer of a plan with all memory that its loops read or write. Values and gradients are of all samples, in N,C,H,W
 * order. */
struct view {
    const struct reference_plan *plan;
    const struct layer *layer;
    const struct reference_layer *state;
    size_t samples;
    size_t in_count, out_count; /* values of all samples */
    const float *in, *ins[LAYER_INPUTS_MAX];    /* in: the first */
    float *out;
    const float *out_gradient;  /* NULL: there is none */
    struct target targets[LAYER_INPUTS_MAX];
    float *parameters[PARAMETER_KIND_COUNT];    /* NULL: the layer has none of the kind */
    float *gradients[PARAMETER_KIND_COUNT];     /* gradients of the trained parameters */
};

struct view view_of(struct plan *plan, uint32_t index);

static inline struct reference_plan *reference_plan_of(struct plan *plan)
{
    return (struct reference_plan *)plan;
}

static inline void *reference_buffer(const struct reference_plan *plan, uint32_t buffer)
{
    return plan_data((const struct plan *)plan, buffer);
}

/* Write or add the gradient of input value i. */
static inline void target_put(struct target target, size_t i, float gradient)
{
    target.gradient[i] = target.adds ? target.gradient[i] + gradient : gradient;
}

/* Pixels of one channel of one sample. */
static inline size_t shape_area(struct shape shape)
{
    return (size_t)shape.height * shape.width;
}

/* reference_windows.c */
extern const struct layer_ops reference_conv2d, reference_max_pool, reference_average_pool;
/* reference_layers.c */
extern const struct layer_ops reference_dense, reference_relu, reference_activation, reference_dropout, reference_add,
    reference_multiply,
    reference_pad_channels, reference_concat, reference_local_response_norm, reference_batch_norm, reference_loss;

/* reference_residual.c */
extern const struct layer_ops reference_layer_norm, reference_channel_scale, reference_stochastic_depth;

/* reference_share.c */
extern const struct layer_ops reference_send, reference_receive, reference_part_loss;
int reference_part_result(struct plan *plan, uint32_t first, uint32_t count, struct backend_result *result_out);
int reference_part_answers(struct plan *plan, uint32_t first, uint32_t count, struct answer *answers_out);
int reference_part_weigh(struct plan *plan, uint32_t first, uint32_t count);

/* The gradient of a bias: the sum over samples and pixels of each channel. */
void reference_bias_backward(const struct view *view);

#endif
