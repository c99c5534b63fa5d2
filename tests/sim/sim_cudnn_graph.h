/* Shared by the files of the simulated cuDNN: descriptors, which contain copies of the descriptors that they consist
 * of. */
#ifndef PIPETRAIN_SIM_CUDNN_GRAPH_H
#define PIPETRAIN_SIM_CUDNN_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/sim.h"

#define SIM_RANK 4                      /* dimensions of every tensor: N,C,H,W or K,C,R,S */
#define SIM_OPERATIONS_MAX 8
#define SIM_NOTES_MAX 4
#define SIM_LINE 4                      /* operations that compute a normalised value */
#define SIM_FACTORS 3
#define SIM_RESULTS_MAX 12
#define SIM_POINTERS_MAX 16

struct sim_tensor {
    cudnnDataType_t type;
    int64_t dims[SIM_RANK], dim_count, strides[SIM_RANK], stride_count;
    int64_t id, alignment;
    bool is_virtual;
};

/* Height, then width. */
struct sim_window {
    cudnnDataType_t compute;
    cudnnConvolutionMode_t mode;
    int64_t rank, dilations[2], strides[2], before[2], after[2];
    int64_t dilation_count, stride_count, before_count, after_count;
};

struct sim_pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute;
};

/* A convolution, which computes one of x, w and y from the other two; or a pointwise operation, which computes y from x
 * and perhaps b. The descriptor of a pointwise gradient has dy, x and dx; finalised, these are in x, b and y. */
struct sim_operation {
    cudnnBackendDescriptorType_t type;
    struct sim_window window;
    struct sim_pointwise pointwise;
    cudnnGenStatsMode_t statistics;     /* of an operation that computes sums of x: their kind and precision */
    cudnnDataType_t compute;
    struct sim_tensor x, w, b, y, dy, dx, sum, squares;
    struct sim_tensor mean, inverse, scale, factors[SIM_FACTORS];   /* of a normalisation; its gradients are in sum
                                                                     * (scale) and squares (bias) */
    bool has_b;
    float alpha, beta;
};

/* Pointwise operations on x, one convolution, pointwise operations on its result: each reads the result of the one
 * before it. The last operation may compute statistics of the result; `count` is without it, once the graph is
 * finalised. */
struct sim_operations {
    cudnnHandle_t handle;
    struct sim_operation operations[SIM_OPERATIONS_MAX];
    int64_t count, engine_count;
    int64_t convolution;        /* its index */
    bool has_statistics;        /* by operations[count] */
    bool has_norm;              /* the same: sums for a normalisation; the gradient of a ReLU before it reads what
                                 * `line` computes from the values of the normalisation */
    struct sim_operation line[SIM_LINE];
};

struct sim_engine {
    struct sim_operations graph;
    int64_t index;
    cudnnBackendNumericalNote_t notes[SIM_NOTES_MAX];
    cudnnBackendBehaviorNote_t behavior[SIM_NOTES_MAX];
    int64_t note_count, behavior_count;
};

struct sim_config { struct sim_engine engine; };

struct sim_heuristics {
    struct sim_operations graph;
    cudnnBackendHeurMode_t mode;
    int64_t results[SIM_RESULTS_MAX], result_count;     /* engines, best first */
};

struct sim_plan {
    struct sim_config config;
    cudnnHandle_t handle;
    int64_t workspace;
};

struct sim_pack {
    int64_t ids[SIM_POINTERS_MAX], id_count, pointer_count;
    void *pointers[SIM_POINTERS_MAX], *workspace;
};

union sim_body {
    struct sim_tensor tensor;
    struct sim_window window;
    struct sim_pointwise pointwise;
    struct sim_operation operation;
    struct sim_operations graph;
    struct sim_engine engine;
    struct sim_config config;
    struct sim_heuristics heuristics;
    struct sim_plan plan;
    struct sim_pack pack;
};

struct sim_descriptor {
    uint32_t magic;
    cudnnBackendDescriptorType_t type;
    bool final;
    uint64_t given[2];          /* bit i: attribute i of the table was set */
    char *text;                 /* of a plan, or NULL */
    int64_t text_bytes;
    union sim_body body;
};

/* Returns `status`, and sets the message of cudnnGetLastErrorString for this thread. */
cudnnStatus_t sim_cudnn_fail(cudnnStatus_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* sim_enter for cuDNN's functions. */
cudnnStatus_t sim_cudnn_enter(const char *function);
#define SIM_CUDNN_ENTER() SIM_ENTER_WITH(sim_cudnn_enter, cudnnStatus_t)

/* Adds to the number of live handles and descriptors. */
void sim_cudnn_count(int change);
unsigned sim_cudnn_refused(void);

/* Device and stream of a handle. Ends the test when it is not a handle. */
int sim_handle_device(cudnnHandle_t handle);
cudaStream_t sim_handle_stream(cudnnHandle_t handle);

/* NULL when it is not a descriptor of that type. */
struct sim_descriptor *sim_descriptor_of(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
/* Was the attribute set? */
bool sim_descriptor_has(const struct sim_descriptor *descriptor, cudnnBackendAttributeName_t name);
/* Checks the attributes and computes what follows from them. All required attributes are set. */
cudnnStatus_t sim_descriptor_finalize(struct sim_descriptor *descriptor);

size_t sim_element_bytes(cudnnDataType_t type);
size_t sim_tensor_bytes(const struct sim_tensor *tensor);
/* The tensor that the operation writes. */
const struct sim_tensor *sim_operation_result(const struct sim_operation *operation);
/* The tensor that the graph writes to memory: the result of the last operation but for statistics. */
const struct sim_tensor *sim_operations_result(const struct sim_operations *graph);

/* The operation that computes statistics; NULL: there is none. */
static inline const struct sim_operation *sim_statistics_of(const struct sim_operations *graph)
{
    return graph->has_statistics ? &graph->operations[graph->count] : NULL;
}
/* The operation that sums a gradient for a normalisation; NULL: there is none. */
static inline const struct sim_operation *sim_norm_of(const struct sim_operations *graph)
{
    return graph->has_norm ? &graph->operations[graph->count] : NULL;
}
/* Does the graph compute more than a convolution? */
static inline bool sim_is_fused(const struct sim_operations *graph)
{
    return graph->count > 1 || graph->has_statistics;
}

/* ---- sim_cudnn_engine.c ---- */

bool sim_engine_exists(int64_t index);
/* Fills in the notes. */
void sim_engine_describe(struct sim_engine *engine);
/* Fills in the proposals. */
cudnnStatus_t sim_heuristics_find(struct sim_heuristics *heuristics);
/* Fills up to `capacity` descriptors of the caller with configurations. With capacity 0 the count is only an upper
 * bound, as in the real library. */
cudnnStatus_t sim_heuristics_results(const struct sim_heuristics *heuristics, int64_t capacity, int64_t *count_out,
                                     cudnnBackendDescriptor_t *descriptors);
/* Makes the plan from its configuration or its JSON text. */
cudnnStatus_t sim_plan_finish(struct sim_descriptor *plan);

#endif
