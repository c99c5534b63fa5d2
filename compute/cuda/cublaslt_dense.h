/* Dense layers by cuBLASLt. Row-major: in [count][features], weight [units][features], out [count][units]; features
 * and units include padding to multiples of 8. Results are the same in every run. Used from the tower's thread. */
#ifndef PIPETRAIN_CUBLASLT_DENSE_H
#define PIPETRAIN_CUBLASLT_DENSE_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"
#include "compute/cuda/kernels.h"

/* The functions of cuBLASLt that are used, as FUNCTION(name). They are loaded when needed: linking the library would
 * cost every run the relocation of its 540 MB (50 ms). */
#define CUBLASLT_FUNCTIONS(FUNCTION)            \
    FUNCTION(cublasLtGetVersion)                \
    FUNCTION(cublasLtGetStatusString)           \
    FUNCTION(cublasLtCreate)                    \
    FUNCTION(cublasLtDestroy)                   \
    FUNCTION(cublasLtMatmulDescCreate)          \
    FUNCTION(cublasLtMatmulDescDestroy)         \
    FUNCTION(cublasLtMatmulDescSetAttribute)    \
    FUNCTION(cublasLtMatrixLayoutCreate)        \
    FUNCTION(cublasLtMatrixLayoutDestroy)       \
    FUNCTION(cublasLtMatmulPreferenceCreate)    \
    FUNCTION(cublasLtMatmulPreferenceDestroy)   \
    FUNCTION(cublasLtMatmulPreferenceSetAttribute)  \
    FUNCTION(cublasLtMatmulAlgoGetHeuristic)    \
    FUNCTION(cublasLtMatmulAlgoCheck)           \
    FUNCTION(cublasLtMatmulAlgoConfigGetAttribute)  \
    FUNCTION(cublasLtMatmul)

/* Members have the names and types of the functions. */
#define CUBLASLT_MEMBER(name) __typeof__(&name) name;
struct cublaslt_api { CUBLASLT_FUNCTIONS(CUBLASLT_MEMBER) };
#undef CUBLASLT_MEMBER

/* The functions, valid until the process ends, from any thread. NULL when the library or a function is missing: the
 * first call logs the loader's reason. */
const struct cublaslt_api *cublaslt_api_find(void);

/* FPROP: out = in * weight^T + bias [, ReLU], in the product's epilogue. DGRAD: in_gradient = out_gradient * weight.
 * WGRAD: weight_gradient (fp32) = out_gradient^T * in, and with bias the bias' gradient (fp32) = column sums of
 * out_gradient. */
struct dense_shape {
    enum product_pass pass;
    enum precision precision;   /* activations and weights have its value type */
    bool bias;                  /* forward and weight gradient */
    bool relu;                  /* forward only */
    uint32_t count, features, units;
};

struct dense_library;           /* cuBLASLt and a handle of this tower */
struct dense_plan;

#define DENSE_WORKSPACE (32u << 20)     /* bytes, as NVIDIA recommends for Hopper */

/* Loads cuBLASLt and opens a handle on the current device. `name` is for messages. 0, -ENOENT (not found, logged),
 * -ENOMEM or -EIO. */
int dense_library_open(struct dense_library **library_out, const char *name);
void dense_library_close(struct dense_library *library);

/* How the algorithm is chosen. */
struct dense_planner {
    size_t workspace_max;       /* most bytes that a product uses in addition to its operands */
    /* To measure the heuristics' first PLAN_CANDIDATES_MAX algorithms: memory of dense_shape_bytes(shape) bytes that
     * they read and write, and a workspace of workspace_max bytes. NULL: the first algorithm is used. */
    void *scratch, *workspace;
    cudaStream_t stream;        /* nothing else should run on the device while they are measured */
    const char *cache;          /* folder of the plan cache (plan_cache.h) for measured choices, NULL: none */
};

/* Bytes of all operands, each aligned to 256. */
size_t dense_shape_bytes(const struct dense_shape *shape);
/* Chooses among the heuristics' algorithms that are reproducible and as exact as the precision demands. If cuBLASLt has
 * no such algorithm with the epilogue, the product is planned without the epilogue and our own kernels follow; 16-bit
 * outputs are then rounded twice. The library is lent. 0 or a negative errno (logged). */
int dense_plan_open(struct dense_plan **plan_out, struct dense_library *library, const struct dense_shape *shape,
                    const struct dense_planner *planner);
void dense_plan_close(struct dense_plan *plan);
size_t dense_plan_workspace(const struct dense_plan *plan);
/* For people: "algorithm 66, 4.0 MiB workspace, bias and relu fused, measured, cached". */
void dense_plan_describe(const struct dense_plan *plan, char *text, size_t text_size);
/* Queues the product on `stream`. Forward reads in, weight, bias and writes out; the data gradient reads out, weight
 * and writes in; the weight gradient reads out, in and writes weight_gradient, bias_gradient. The other pointers are
 * NULL. All are 16-byte aligned. Allocates nothing; may be captured after it has run once, because the library loads a
 * kernel at first use. */
struct dense_operands {
    void *in, *out;
    const void *weight;
    const void *bias;           /* numbers of the value type */
    float *weight_gradient, *bias_gradient;
    void *workspace;            /* dense_plan_workspace bytes */
};
int dense_plan_run(struct dense_plan *plan, cudaStream_t stream, const struct dense_operands *operands);

#endif
