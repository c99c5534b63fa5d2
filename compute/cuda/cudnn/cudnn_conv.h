/* Convolutions through cuDNN's graph API: one operation graph per (shape, pass, precision),
 * planned once. Tensors are NHWC, filters K,R,S,C; channel counts are the stored (padded)
 * ones. Only engines that give the same bits in every run are used, and in fp32 only those
 * that neither round inputs down nor use tensor cores. Used from the tower's thread. */
#ifndef PIPETRAIN_CUDNN_CONV_H
#define PIPETRAIN_CUDNN_CONV_H

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"
#include "compute/cuda/kernels.h"

enum conv_pass {
    CONV_FORWARD,               /* out = in * weight [+ bias] [, ReLU] */
    CONV_DATA_GRADIENT,         /* in = gradient of the input from out = gradient of the output */
    CONV_WEIGHT_GRADIENT,       /* weight = gradient of the weight from in, out; of the value type */
    CONV_PASS_COUNT
};

struct conv_shape {
    enum conv_pass pass;
    enum precision precision;
    bool bias, relu;            /* forward only; bias is out_channels numbers of the value type */
    uint32_t count;
    uint32_t in_channels, in_h, in_w, out_channels, out_h, out_w;
    uint32_t kernel_h, kernel_w, stride_h, stride_w;
    uint32_t pad_top, pad_bottom, pad_left, pad_right;
};

/* Where plans are made: on a device (handle), or without one for a device described by
 * `properties` (cuDNN's DEVICEPROP descriptor): such plans tell their workspace, and cannot
 * run. */
struct conv_planner {
    const char *name;           /* for messages: "cuda0" */
    cudnnHandle_t handle;       /* NULL: no device */
    cudnnBackendDescriptor_t properties;        /* without a handle */
    size_t workspace_max;       /* plans that ask for more are not taken */
    const char *cache;          /* directory of the plan cache, NULL = none */
    /* With a handle: measure the best candidates. What they read and write while measured is
     * scratch of conv_shape_bytes(shape) bytes beside a workspace of workspace_max bytes;
     * NULL: the heuristics' first admissible candidate is taken. */
    void *scratch, *workspace;
    cudaStream_t stream;        /* the handle's */
};

struct conv_plan;

static inline enum value_type precision_type(enum precision precision)
{
    return precision == PRECISION_FP16 ? VALUE_FP16 : precision == PRECISION_BF16 ? VALUE_BF16 : VALUE_FP32;
}

/* Bytes of all tensors of the graph, each aligned to 256. */
size_t conv_shape_bytes(const struct conv_shape *shape);
/* A plan of cuDNN's for all of it, or, where it refuses, for the product alone, followed by
 * kernel_bias or kernel_relu. 0; -ENOTSUP when no engine takes the shape (logged with what became of the
 * proposals, unless `quiet`: the caller has another way); or a negative errno (logged).
 * `planner` is not needed afterwards but for its handle or properties, and the name of its cache. */
int conv_plan_open(struct conv_plan **plan_out, const struct conv_planner *planner, const struct conv_shape *shape,
                   bool quiet);
/* Another plan for the shape of `of`, by the same engine: a plan remembers the pointers of its
 * last run, so each set of pointers wants one of its own. They are closed in any order, the
 * engine with the last; all from one thread. 0 or -ENOMEM. */
int conv_plan_share(struct conv_plan **plan_out, struct conv_plan *of);
void conv_plan_close(struct conv_plan *plan);
size_t conv_plan_workspace(const struct conv_plan *plan);
/* For people, e.g. "engine 27, 12.0 MiB workspace, bias apart, cached". Engine 0 is cuDNN's
 * last resort, slow: in fp32 a larger workspace_max may do without it. */
void conv_plan_describe(const struct conv_plan *plan, char *text, size_t text_size);
/* Queue on the handle's stream. Pointers are device memory, 16-byte aligned; bias is NULL
 * without one; workspace has conv_plan_workspace bytes. May be captured; allocates nothing with
 * the pointers of the plan's last run. A plan that does not run after all is replaced, once, by one of another engine
 * (logged), and leaves the cache. */
int conv_plan_run(struct conv_plan *plan, cudnnHandle_t handle, void *in, void *weight, const void *bias, void *out,
                  void *workspace);

#endif
