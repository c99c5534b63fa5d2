/* cuDNN's backend API in fewer words: descriptors, and operation graphs of convolutions.
 * The one way of calling cuDNN: the first place that sees an error says what failed, where
 * and why, and gets a negative errno. From the tower's thread. */
#ifndef PIPETRAIN_CUDNN_GRAPH_H
#define PIPETRAIN_CUDNN_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

#include "stage/heartbeat.h"

/* 0, or: logs "NAME: CALL: TEXT (status)" with cuDNN's own last message and returns -ENOTSUP
 * (cuDNN cannot do it), -ENOMEM, -EINVAL (our mistake), -ENODEV (no library, no driver), else
 * -EIO. */
int cudnn_check(cudnnStatus_t status, const char *name, const char *call);

/* CUDNN_CALL("cuda0", cudnnCreate(&handle)), marked in the thread's heartbeat */
#define CUDNN_CALL(name, call) cudnn_check(HEARTBEAT_CALL(#call, call), (name), #call)

/* For calls that may be refused because there may be another way: what cuDNN does not
 * support, or calls a mistake, is -ENOTSUP, told in *refusal and not logged. */
struct cudnn_refusal { char text[256]; };
int cudnn_try(cudnnStatus_t status, const char *name, const char *call, struct cudnn_refusal *refusal);

/* Attributes are passed with their exact type, descriptors as pointers to them. 0 or a
 * negative errno, logged. */
int descriptor_open(cudnnBackendDescriptor_t *descriptor_out, const char *name, cudnnBackendDescriptorType_t type);
void descriptor_close(cudnnBackendDescriptor_t descriptor);     /* NULL: nothing */
int descriptor_set(cudnnBackendDescriptor_t descriptor, const char *name, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t count, const void *values);
/* At most `capacity` values into `values`; *count_out (NULL: not wanted) how many there are. */
int descriptor_get(cudnnBackendDescriptor_t descriptor, const char *name, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count_out, void *values);
/* By cudnn_try. */
int descriptor_finalize(cudnnBackendDescriptor_t descriptor, const char *name, struct cudnn_refusal *refusal);

/* Bind pointers (device memory) to the first `count` unique ids 1, 2, 3... for execution. */
int pointers_bind(cudnnBackendDescriptor_t *pack_out, const char *name, int64_t count, const void *const *pointers,
                  void *workspace);

/* An operation graph and all it is built from. After the first failure the functions below do
 * nothing, so that a graph may be built in one go and `status` looked at in the end. */
#define GRAPH_PARTS_MAX 16u

struct cudnn_graph {
    const char *name;           /* for messages; lent */
    int status;                 /* of the first failure, or 0; -ENOTSUP as descriptor_finalize's */
    struct cudnn_refusal refusal;
    uint32_t part_count;
    cudnnBackendDescriptor_t parts[GRAPH_PARTS_MAX];    /* owned; the last is the graph */
};

/* A tensor of 4 dimensions (images N,C,H,W, filters K,C,R,S), channels innermost in memory. */
struct graph_tensor {
    int64_t id;                 /* what run-time pointers are bound to; unique in the graph */
    cudnnDataType_t type;
    int64_t dims[4];
    bool internal;              /* never reaches memory */
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
cudnnBackendDescriptor_t graph_add_bias(struct cudnn_graph *graph, cudnnBackendDescriptor_t in,
                                        cudnnBackendDescriptor_t bias, cudnnBackendDescriptor_t out);
cudnnBackendDescriptor_t graph_add_relu(struct cudnn_graph *graph, cudnnBackendDescriptor_t in,
                                        cudnnBackendDescriptor_t out);
/* The last part: the graph of the operations. handle NULL: for no device. */
cudnnBackendDescriptor_t graph_finish(struct cudnn_graph *graph, cudnnHandle_t handle, int64_t operation_count,
                                      cudnnBackendDescriptor_t *operations);
static inline cudnnBackendDescriptor_t graph_whole(const struct cudnn_graph *graph)
{
    return graph->parts[graph->part_count - 1];
}

#endif
