/* Dense layers through cuBLASLt. Row-major: in [count][features], weight [units][features],
 * out [count][units]; features and units are the stored (padded) numbers, multiples of 8.
 * Results are the same in every run. Used from the tower's thread. */
#ifndef PIPETRAIN_CUBLASLT_DENSE_H
#define PIPETRAIN_CUBLASLT_DENSE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"
#include "compute/cuda/kernels.h"

enum dense_pass {
    DENSE_FORWARD,              /* out = in * weight^T + bias [, ReLU], by the product's epilogue */
    DENSE_DATA_GRADIENT,        /* in_gradient = out_gradient * weight */
    DENSE_WEIGHT_GRADIENT,      /* weight_gradient (fp32) = out_gradient^T * in, and with bias the bias'
                                 * gradient (fp32) = column sums of out_gradient */
    DENSE_PASS_COUNT
};

struct dense_shape {
    enum dense_pass pass;
    enum precision precision;   /* activations and weights are of its value type */
    bool bias;                  /* forward and weight gradient */
    bool relu;                  /* forward only */
    uint32_t count, features, units;
};

struct dense_library;           /* cuBLASLt, loaded when the first tower opens, and a handle of this tower */
struct dense_plan;

#define DENSE_WORKSPACE (32u << 20)     /* bytes, as advised for Hopper */

/* Load cuBLASLt (its 540 MB take 50 ms to relocate, so only runs that use it do) and open a
 * handle on the current device. `name` is for messages. 0, -ENOENT (not found, logged with the
 * loader's reason), -ENOMEM, -EIO. */
int dense_library_open(struct dense_library **library_out, const char *name);
void dense_library_close(struct dense_library *library);

/* The heuristics' first algorithm that is as exact as the precision asks and repeats its
 * results, kept for the plan's life; the product uses at most workspace_max bytes beside its
 * operands. When the library refuses the epilogue, the product is planned without it and
 * kernels of ours do the rest: the caller sees no difference but in dense_plan_describe (and
 * 16-bit outputs are rounded once more). The library is lent. 0 or a negative errno (logged). */
int dense_plan_open(struct dense_plan **plan_out, struct dense_library *library, const struct dense_shape *shape,
                    size_t workspace_max);
void dense_plan_close(struct dense_plan *plan);
size_t dense_plan_workspace(const struct dense_plan *plan);
/* For people, e.g. "algorithm 66, 4.0 MiB workspace, bias and relu fused". */
void dense_plan_describe(const struct dense_plan *plan, char *text, size_t text_size);
/* Queue on `stream`. Arguments by what they are, whatever the pass reads or writes:
 * forward reads in, weight, bias and writes out; data gradient reads out, weight and writes
 * in; weight gradient reads out, in and writes weight_gradient, bias_gradient. Others are
 * NULL. All are 16-byte aligned. Allocates nothing and may be captured, after it ran once:
 * the library loads a kernel when it is first used. */
struct dense_operands {
    void *in, *out;
    const void *weight;
    const void *bias;           /* of the value type */
    float *weight_gradient, *bias_gradient;
    void *workspace;            /* dense_plan_workspace bytes */
};
int dense_plan_run(struct dense_plan *plan, cudaStream_t stream, const struct dense_operands *operands);

#endif
