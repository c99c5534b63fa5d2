/* What the files of the CUDA backend share: the backend object, a plan with its buffers, and
 * the values that pass between layers. Private to them.
 *
 * Values between layers lie as [sample][height][width][stored channels] of the precision's
 * value type. Padding channels are zero everywhere: every kernel and library call writes all
 * stored channels, from weights and biases whose padding is zero. */
#ifndef PIPETRAIN_CUDA_PLAN_H
#define PIPETRAIN_CUDA_PLAN_H

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "compute/backend.h"
#include "compute/cuda/cublaslt_dense.h"
#include "compute/cuda/cuda_graph.h"
#include "compute/cuda/cudnn/cudnn_conv.h"
#include "compute/cuda/kernels.h"
#include "compute/lifetime.h"

/* A convolution of any of the backend's plans. Layers run plans that share this one. */
struct conv_entry {
    struct conv_shape shape;
    struct conv_plan *plan;
};

struct backend {
    struct backend_base base;
    struct backend_spec spec;
    const char *name;                   /* of the device, for messages */
    cudaStream_t stream;                /* of spec.compute */
    enum value_type type;
    uint32_t first_weighted;            /* first layer with parameters; backward ends there */
    cudnnHandle_t cudnn;                /* NULL: no convolutions */
    struct dense_library *dense;        /* NULL: no dense layers */
    struct event *done;                 /* what blocking copies wait for */
    void *bounce;                       /* pinned memory they go through */
    const struct arena *arena;          /* lent, as both arenas */
    float *weights, *gradients;
    void *shadow;                       /* 16-bit types: all weights once more, as that type */
    struct loss_scale *scale;           /* fp16: device memory, else NULL */
    char *pool;                         /* one block of memory for all plans: only one runs at a time */
    void *workspace;                    /* likewise, of the call that runs */
    size_t pool_bytes, workspace_bytes;
    size_t pool_needed, workspace_needed;       /* by the plans made so far */
    size_t untold_bytes;                /* taken, and not yet part of a plan_bytes */
    struct conv_entry *convs;           /* equal convolutions are planned once */
    uint32_t conv_count, conv_room;
    struct plan *plans;                 /* all that are open, by `next` */
    bool *ends;                         /* by layer, NULL until segment(): no more plans from then on */
};

/* Values between two layers. Layers that work in place share their input's buffers. */
struct edge {
    struct shape shape;
    uint32_t stored;                    /* channels */
    uint32_t value, gradient;           /* buffers */
};

/* What is computed between two calls of layer_done: backward of layers first down to last. */
struct segment {
    uint32_t first, last;
    bool is_end;                        /* layer_done follows */
    struct recording *recording;        /* NULL: queued call by call */
};

struct plan {
    struct plan_base base;
    struct plan *next;
    struct edge *edges;                 /* layer_count + 1: edge i is read by layer i, edge 0 is the image */
    void **states;                      /* by layer, owned by the layer's kind */
    struct lifetime *buffers;
    uint32_t buffer_count, buffer_room;
    uint32_t labels, values, result;    /* buffers: int32_t per sample, struct step_values, struct backend_result */
    size_t pool_bytes, workspace_bytes; /* needed */
    size_t bytes;                       /* by which the backend's memory grew for it */
    struct conv_planner planner;        /* while it is made */
    struct recording *forward;          /* NULL: queued call by call */
    struct segment *segments;           /* training */
    uint32_t segment_count;
};

static inline const struct net *plan_net(const struct plan *plan)
{
    return plan->base.backend->spec.net;
}
static inline const struct layer *plan_layer(const struct plan *plan, uint32_t layer)
{
    return &plan_net(plan)->layers[layer];
}

/* The clock of lifetimes: forward of every layer, then from the last to the first the
 * gradients of its parameters, then that of its input. */
static inline uint32_t time_forward(uint32_t layer)
{
    return layer;
}
static inline uint32_t time_weights(const struct plan *plan, uint32_t layer)
{
    const uint32_t count = plan_net(plan)->layer_count;
    return count + 2 * (count - 1 - layer);
}
static inline uint32_t time_data(const struct plan *plan, uint32_t layer)
{
    return time_weights(plan, layer) + 1;
}

/* A new buffer, not used at any time yet. 0 or -ENOMEM. */
int cuda_plan_buffer(struct plan *plan, size_t bytes, uint32_t *buffer_out);
/* The buffer holds something at `time`, and from and to every other time named. */
void cuda_plan_use(struct plan *plan, uint32_t buffer, uint32_t time);
/* Valid while a step is queued, and as long as no plan is made. */
static inline void *cuda_plan_data(const struct plan *plan, uint32_t buffer)
{
    return plan->base.backend->pool + plan->buffers[buffer].offset;
}
/* A library call of the plan needs so much workspace. */
void cuda_plan_workspace(struct plan *plan, size_t bytes);

/* Give edge layer + 1 buffers of its own / those of edge `layer`. */
int cuda_edge_open(struct plan *plan, uint32_t edge);
void cuda_edge_share(struct plan *plan, uint32_t layer);
/* Whether backward needs the gradient of edge `edge`. */
static inline bool edge_has_gradient(const struct plan *plan, uint32_t edge)
{
    return plan->base.training && edge > plan->base.backend->first_weighted;
}
static inline void *edge_value(const struct plan *plan, uint32_t edge)
{
    return cuda_plan_data(plan, plan->edges[edge].value);
}
static inline void *edge_gradient(const struct plan *plan, uint32_t edge)
{
    return cuda_plan_data(plan, plan->edges[edge].gradient);
}
static inline size_t edge_pixels(const struct edge *edge)
{
    return (size_t)edge->shape.height * edge->shape.width;
}
/* Numbers of one sample, padding included. */
static inline size_t edge_count(const struct edge *edge)
{
    return edge_pixels(edge) * edge->stored;
}

/* Rows of struct backend_ops, by file. cuda_store.c: */
int cuda_store_counts(struct backend *backend, size_t *stored_counts);
int cuda_store_pack(struct backend *backend, uint32_t parameter, const float *plain, float *stored);
int cuda_store_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain);
int cuda_store_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain);
/* cuda_plan.c: */
int cuda_plan_open(struct backend *backend, uint32_t count, bool training, struct plan **plan_out);
void cuda_plan_close(struct plan *plan);
/* cuda_segment.c: */
int cuda_plan_forward(struct plan *plan);
int cuda_plan_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg);
int cuda_plan_segment(struct backend *backend, const bool *ends);

/* Does segment() record the plan's steps? */
bool cuda_plan_is_recorded(const struct plan *plan);

/* Copy to device memory and wait until it is there. 0 or a negative errno. */
int cuda_store_write(struct backend *backend, void *to, const void *from, size_t bytes);
/* Wait for all that is queued. 0, -ECANCELED or a negative errno. */
int cuda_store_wait(struct backend *backend);
/* Bytes of the pinned memory such copies go through. */
#define BOUNCE_BYTES ((size_t)1 << 20)

/* One segment per layer with parameters that is an end. 0 or -ENOMEM. */
int cuda_segments_open(struct plan *plan);
void cuda_segments_close(struct plan *plan);

/* Channels, features or units with their padding. */
static inline uint32_t channels_stored(uint32_t channels)
{
    return (channels + 7) / 8 * 8;
}
/* Where a product reads a parameter: in the arena, or for 16-bit types in its shadow. */
static inline const void *parameter_value(const struct backend *backend, uint32_t parameter)
{
    const size_t offset = backend->arena->ranges[parameter].offset;
    if (backend->shadow == NULL)
        return backend->weights + offset;
    return (const char *)backend->shadow + offset * value_bytes(backend->type);
}
static inline float *parameter_gradient(const struct backend *backend, uint32_t parameter)
{
    return backend->gradients + backend->arena->ranges[parameter].offset;
}

/* Layers with parameters (cuda_weighted.c): their output's buffers and the uses of those and
 * of their input's; a buffer for the time of the parameters' gradients; the one of the bias'
 * gradient. */
#define NO_BUFFER UINT32_MAX
int cuda_output_open(struct plan *plan, uint32_t layer);
int cuda_scratch_open(struct plan *plan, uint32_t layer, size_t bytes, uint32_t *buffer_out);
int cuda_partials_open(struct plan *plan, uint32_t layer, uint32_t *buffer_out);
int cuda_bias_gradient_run(struct plan *plan, uint32_t index, uint32_t partials);
/* Pixels of all samples. */
size_t cuda_row_count(const struct plan *plan, uint32_t edge);

/* Convolutions (cuda_conv2d.c). Scratch: bytes that measuring them reads and writes. */
extern const struct layer_ops cuda_conv2d_ops;
void cuda_conv2d_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);
size_t cuda_conv2d_scratch(const struct plan *plan);
void cuda_convs_close(struct backend *backend);
/* Dense layers (cuda_dense.c). */
extern const struct layer_ops cuda_dense_ops;
void cuda_dense_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);

/* All layers by kind (cuda_layers.c), and a line about one of a plan. */
extern const struct layer_ops *const cuda_layer_table[LAYER_KIND_COUNT];
void cuda_layer_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);

#endif
