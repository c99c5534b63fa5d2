/* A thin layer over cuDNN's backend API: descriptors, and operation graphs of convolutions. All calls of cuDNN go
 * through here: the place that detects an error logs what failed, where and why. From the tower's thread. */
#ifndef PIPETRAIN_CUDNN_GRAPH_H
#define PIPETRAIN_CUDNN_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

#include "stage/heartbeat.h"

/* Returns 0, or logs "NAME: CALL: TEXT (status)" with cuDNN's last message and returns -ENOTSUP (not supported),
 * -ENOMEM, -EINVAL (our mistake), -ENODEV (no library or driver), else -EIO. */
int cudnn_check(cudnnStatus_t status, const char *name, const char *call);

/* CUDNN_CALL("cuda0", cudnnCreate(&handle)): checked, and marked in the thread's heartbeat. */
#define CUDNN_CALL(name, call) cudnn_check(HEARTBEAT_CALL(#call, call), (name), #call)

/* For calls that may fail because there is an alternative: if cuDNN does not support the configuration or rejects it as
 * invalid, the result is -ENOTSUP with the message in *refusal, and nothing is logged. */
struct cudnn_refusal { char text[256]; };
int cudnn_try(cudnnStatus_t status, const char *name, const char *call, struct cudnn_refusal *refusal);

/* Attributes have their exact type; descriptors are passed as pointers to them. 0 or a negative errno, logged. */
int descriptor_open(cudnnBackendDescriptor_t *descriptor_out, const char *name, cudnnBackendDescriptorType_t type);
void descriptor_close(cudnnBackendDescriptor_t descriptor);     /* NULL: nothing */
int descriptor_set(cudnnBackendDescriptor_t descriptor, const char *name, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t count, const void *values);
/* Reads at most `capacity` values; *count_out (NULL: not wanted) is set to the number of values that the attribute
 * has. */
int descriptor_get(cudnnBackendDescriptor_t descriptor, const char *name, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count_out, void *values);
/* As cudnn_try. */
int descriptor_finalize(cudnnBackendDescriptor_t descriptor, const char *name, struct cudnn_refusal *refusal);

/* The same for the plan of an engine; also -ENOEXEC, with the message in *refusal, when the driver cannot load the
 * engine's compiled kernels. */
int descriptor_finalize_plan(cudnnBackendDescriptor_t descriptor, const char *name, struct cudnn_refusal *refusal);

/* Binds device pointers to the unique ids of tensors for execution. */
int pointers_bind(cudnnBackendDescriptor_t *pack_out, const char *name, int64_t count, const int64_t *ids,
                  const void *const *pointers, void *workspace);

/* An operation graph and its parts. After the first failure the functions below do nothing, so a graph can be built
 * without checks and `status` is checked once at the end. */
#define GRAPH_PARTS_MAX 40u

struct cudnn_graph {
    const char *name;           /* for messages; lent */
    int status;                 /* the errno of the first failure, or 0; -ENOTSUP as for descriptor_finalize */
    struct cudnn_refusal refusal;
    uint32_t part_count;
    cudnnBackendDescriptor_t parts[GRAPH_PARTS_MAX];    /* owned; the last is the graph */
};

/* A tensor of 4 dimensions (images N,C,H,W, filters K,C,R,S), channels innermost in memory. */
struct graph_tensor {
    int64_t id;                 /* unique in the graph; pointers are bound to it */
    cudnnDataType_t type;
    int64_t dims[4];
    bool internal;              /* virtual: never stored in memory */
};

/* Height, then width. */
struct graph_window { int64_t pad_before[2], pad_after[2], strides[2]; };

void graph_init(struct cudnn_graph *graph, const char *name);
void graph_release(struct cudnn_graph *graph);
cudnnBackendDescriptor_t graph_add_tensor(struct cudnn_graph *graph, const struct graph_tensor *tensor);
/* type: of the operation, forward, data or filter gradient. */
cudnnBackendDescriptor_t graph_add_convolution(struct cudnn_graph *graph, cudnnBackendDescriptorType_t type,
                                               const struct graph_window *window, cudnnBackendDescriptor_t in,
                                               cudnnBackendDescriptor_t filter, cudnnBackendDescriptor_t out);
/* out = mode(in, second), element by element in fp32. `second` has the dimensions of `in` or 1, where it is repeated;
 * NULL: the mode has one input. For CUDNN_POINTWISE_RELU_BWD, which has other attributes, `in` is the gradient of the
 * ReLU's output and `second` the output. */
cudnnBackendDescriptor_t graph_add_pointwise(struct cudnn_graph *graph, cudnnPointwiseMode_t mode,
                                             cudnnBackendDescriptor_t in, cudnnBackendDescriptor_t second,
                                             cudnnBackendDescriptor_t out);
/* The sum of each channel of `in` and that of its squares, in fp32: tensors of 1,C,1,1. */
cudnnBackendDescriptor_t graph_add_statistics(struct cudnn_graph *graph, cudnnBackendDescriptor_t in,
                                              cudnnBackendDescriptor_t sum, cudnnBackendDescriptor_t squares);
/* Of a batch normalisation: its input; mean, 1 / deviation and gamma, in fp32: tensors of 1,C,1,1. */
struct norm_tensors { cudnnBackendDescriptor_t values, mean, inverse, gamma; };
/* sums: fp32 tensors of 1,C,1,1: the gradients of gamma and beta from the gradient of the result; and the factors of
 * the gradient and of the values and the term from which cuDNN computes the gradient of the input. */
cudnnBackendDescriptor_t graph_add_norm_sums(struct cudnn_graph *graph, const struct norm_tensors *norm,
                                             cudnnBackendDescriptor_t gradient, const cudnnBackendDescriptor_t sums[5]);
/* Makes the last part: the graph of the operations. handle NULL: no device. */
cudnnBackendDescriptor_t graph_finish(struct cudnn_graph *graph, cudnnHandle_t handle, int64_t operation_count,
                                      cudnnBackendDescriptor_t *operations);
static inline cudnnBackendDescriptor_t graph_whole(const struct cudnn_graph *graph)
{
    return graph->parts[graph->part_count - 1];
}

#endif
