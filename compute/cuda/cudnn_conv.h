/* Convolutions through cuDNN's graph API: one operation graph per (shape, pass, precision), planned once. Tensors are
 * NHWC, filters K,R,S,C with the C of their group, channels include padding. Only reproducible engines are used, and in
 * fp32 only those that neither round inputs nor use tensor cores. Used from the tower's thread. */
#ifndef PIPETRAIN_CUDNN_CONV_H
#define PIPETRAIN_CUDNN_CONV_H

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"
#include "compute/cuda/kernels.h"

/* Computed on the input before the product: nothing; max(in * scale + shift, 0) with a scale and a shift per channel of
 * the input (forward and weight gradient), both of the value type, in which cuDNN also rounds the product and the
 * sum. */
enum conv_before { CONV_BEFORE_NOTHING, CONV_BEFORE_SCALE_RELU };

/* Computed on the result of a data gradient before it is rounded and written, in this order: the addend is added; the
 * gradient of a ReLU is computed, which is 0 where the ReLU's output is not above 0. Or (NORM) the gradient of the ReLU
 * after a batch normalisation, whose result is recomputed in fp32, and then the gradients of gamma and beta. Or
 * computed from the result of a forward pass without bias and ReLU, which is written as well: the sum of each channel
 * and that of its squares. */
enum conv_after {
    CONV_AFTER_NOTHING, CONV_AFTER_ADD, CONV_AFTER_DRELU, CONV_AFTER_ADD_DRELU, CONV_AFTER_NORM, CONV_AFTER_STATISTICS
};

#define CONV_NORM_SUMS 5u       /* vectors that CONV_AFTER_NORM writes */

/* FPROP: out = in * weight [+ bias] [, ReLU]. DGRAD: in = the gradient of the input, from out = the gradient of the
 * output. WGRAD: weight = the gradient of the weight, in the value type, from in and out. */
struct conv_shape {
    enum product_pass pass;
    enum precision precision;
    bool bias, relu;            /* forward only; bias has out_channels numbers of the value type */
    enum conv_before before;
    enum conv_after after;
    uint32_t count;
    uint32_t in_channels, in_h, in_w, out_channels, out_h, out_w;
    uint32_t kernel_h, kernel_w, stride_h, stride_w;
    uint32_t pad_top, pad_bottom, pad_left, pad_right;
    uint32_t groups;            /* 1 or more: a filter reads the in_channels / groups channels of its group */
};

/* Where plans are made: on a device (handle), or for a device described by `properties` (cuDNN's DEVICEPROP
 * descriptor): such plans know their workspace but cannot run. */
struct conv_planner {
    const char *name;           /* for messages: "cuda0" */
    cudnnHandle_t handle;       /* NULL: no device */
    cudnnBackendDescriptor_t properties;        /* without a handle */
    size_t workspace_max;       /* most bytes of workspace that cuDNN may ask for; an image that our own kernels pad
                                 * comes in addition */
    const char *cache;          /* folder of the plan cache, NULL: none */
    /* With a handle, to measure the best candidates: scratch of conv_shape_bytes(shape) bytes that they read and
     * write, and a workspace of workspace_max bytes. NULL: the first admissible candidate of the heuristics is used. */
    void *scratch, *workspace;
    cudaStream_t stream;        /* the handle's */
};

/* Device memory of a run, 16-byte aligned, each in memory of its own: cuDNN's fused graphs do not compute in place.
 * What the shape does not have is not read and may be NULL. */
struct conv_operands {
    void *in, *weight, *out;    /* one of them is the result */
    const void *bias;           /* out_channels numbers */
    const void *scale, *shift;  /* of CONV_BEFORE_SCALE_RELU: in_channels numbers of the value type */
    const void *addend;         /* of CONV_AFTER_ADD...: the shape and type of the result */
    const void *relu_out;       /* of CONV_AFTER_...DRELU: the output of the ReLU, of the same shape and type */
    const void *values;         /* of CONV_AFTER_NORM: the input of the normalisation, of the result's shape and type */
    const float *statistics;    /* of it: [2][in_channels]: mean, 1 / sqrt(variance + epsilon) */
    const float *gamma, *beta;  /* of it: in_channels numbers */
    float *sums;                /* written by CONV_AFTER_STATISTICS if conv_plan_has_statistics: [2][out_channels]; by
                                 * CONV_AFTER_NORM if conv_plan_has_norm_sums: [CONV_NORM_SUMS][in_channels], first the
                                 * gradient of gamma, then that of beta */
    void *workspace;            /* conv_plan_workspace bytes */
};

struct conv_plan;

static inline bool conv_adds(enum conv_after after)
{
    return after == CONV_AFTER_ADD || after == CONV_AFTER_ADD_DRELU;
}
static inline bool conv_masks(enum conv_after after)
{
    return after == CONV_AFTER_DRELU || after == CONV_AFTER_ADD_DRELU;
}

static inline enum value_type precision_type(enum precision precision)
{
    return precision == PRECISION_FP16 ? VALUE_FP16 : precision == PRECISION_BF16 ? VALUE_BF16 : VALUE_FP32;
}

bool conv_shape_equals(const struct conv_shape *a, const struct conv_shape *b);
/* Bytes of all tensors of the graph, each aligned to 256. */
size_t conv_shape_bytes(const struct conv_shape *shape);
/* Plans the whole shape or, when cuDNN refuses, the convolution alone, followed by kernels of ours: kernel_bias or
 * kernel_relu; kernel_add and kernel_relu_backward; but without statistics and what follows for a normalisation, for
 * which there is no kernel here. 0; -ENOTSUP when no engine supports the shape (logged with the reasons, unless
 * `quiet`), also when none computes `before`, which has no kernel; or a negative errno (logged). Afterwards only the
 * planner's handle or properties and the name of its cache must stay valid. */
int conv_plan_open(struct conv_plan **plan_out, const struct conv_planner *planner, const struct conv_shape *shape,
                   bool quiet);
/* Another plan with the same engine as `of`: a plan caches the pointers of its last run, so each set of pointers
 * needs its own. They may be closed in any order, all from one thread. 0 or -ENOMEM. */
int conv_plan_share(struct conv_plan **plan_out, struct conv_plan *of);
void conv_plan_close(struct conv_plan *plan);
size_t conv_plan_workspace(const struct conv_plan *plan);
/* Does the plan compute the statistics of its shape? */
bool conv_plan_has_statistics(const struct conv_plan *plan);
/* Does the plan mask its result and sum it for the normalisation of its shape? One that failed to run may
 * no longer. */
bool conv_plan_has_norm_sums(const struct conv_plan *plan);
/* For people: "engine 27, 12.0 MiB workspace, bias apart, cached". Engine 0 is cuDNN's slow generic one: in fp32 a
 * larger workspace_max may avoid it. */
void conv_plan_describe(const struct conv_plan *plan, char *text, size_t text_size);
/* Queues the convolution on the handle's stream. May be captured; allocates nothing if the pointers are those of the
 * last run. A plan that fails to run is replaced once by a plan of another engine (logged) and removed from the cache;
 * a sum or mask that no other engine fuses is then computed by our own kernels. */
int conv_plan_run(struct conv_plan *plan, cudnnHandle_t handle, const struct conv_operands *operands);

#endif
