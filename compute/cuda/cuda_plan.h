/* What the files of the CUDA backend share: the backend object, a plan, and how values lie.
 * Private to them.
 *
 * Values between layers lie as [sample][height][width][stored channels] of the precision's
 * value type. Padding channels are zero everywhere: every kernel and library call writes all
 * stored channels, from weights and biases whose padding is zero. But the fronts of a wider value
 * (compute/plan/values.h) have its rows, and in backward the next channels where their padding was:
 * what reads those makes nothing of them, as their parameters and their results' gradients are zero. */
#ifndef PIPETRAIN_CUDA_PLAN_H
#define PIPETRAIN_CUDA_PLAN_H

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "compute/backend.h"
#include "compute/cuda/cublaslt_dense.h"
#include "compute/cuda/cuda_graph.h"
#include "compute/cuda/cudnn/cudnn_conv.h"
#include "compute/cuda/kernels.h"

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
    cudnnHandle_t cudnn;                /* NULL: no convolutions */
    struct dense_library *dense;        /* NULL: no dense layers */
    struct event *done;                 /* what blocking copies wait for */
    uint64_t *broken;                   /* device memory: what find_nonfinite found */
    void *bounce;                       /* pinned memory they go through */
    const struct arenas *arenas;        /* lent */
    struct backend_memory memory;       /* lent, NULLs until bind */
    void *shadow;                       /* 16-bit types: all weights once more, as that type */
    struct loss_scale *scale;           /* fp16: device memory, else NULL */
    void *pool;                         /* one block of memory for all plans: only one runs at a time */
    void *workspace;                    /* likewise, of the call that runs */
    size_t pool_bytes, workspace_bytes, shadow_bytes;
    struct conv_entry *convs;           /* equal convolutions are planned once */
    uint32_t conv_count, conv_room;
    struct plan *plans;                 /* all that are open, by `next` */
    bool *ends;                         /* by layer, NULL until segment(): no more plans from then on */
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
    void **states;                      /* by layer, owned by the layer's kind */
    uint32_t labels, step, result;      /* buffers: struct mixed_label per sample, struct step_values and
                                         * struct backend_result */
    size_t workspace_bytes;             /* needed */
    bool has_loss;                      /* one is planned: further ones add to its result */
    bool is_ready;                      /* has run once where its memory is now */
    struct conv_planner planner;        /* while it is made */
    bool is_measuring;                  /* cuda_measuring_begin was called */
    struct recording *forward;          /* NULL: queued call by call */
    struct segment *segments;           /* training */
    uint32_t segment_count;
};

static inline const struct net *plan_net(const struct plan *plan)
{
    return plan->base.net;
}
static inline const struct layer *plan_layer(const struct plan *plan, uint32_t layer)
{
    return &plan->base.net->layers[layer];
}

/* Where a buffer lies, NULL for BUFFER_NONE. Valid while a step is queued, and as long as no
 * further plan is made. */
static inline void *cuda_plan_data(const struct plan *plan, uint32_t buffer)
{
    if (buffer == BUFFER_NONE)
        return NULL;
    return (char *)plan->base.backend->pool + plan->base.values.buffers[buffer].offset;
}
/* A buffer of a layer's own, used from one phase of the head to another. */
int cuda_plan_scratch(struct plan *plan, uint32_t head, size_t bytes, enum value_phase from, enum value_phase until,
                      uint32_t *buffer_out);
/* A library call of the plan needs so much workspace. */
void cuda_plan_workspace(struct plan *plan, size_t bytes);

/* Channels, features or units with their padding. */
static inline uint32_t channels_stored(uint32_t channels)
{
    return (channels + 7) / 8 * 8;
}

/* Values by their number. */
static inline uint32_t value_stored(const struct plan *plan, uint32_t value)
{
    return channels_stored(plan_shape(&plan->base, value).channels);
}
/* Numbers from pixel to pixel. */
static inline uint32_t value_stride(const struct plan *plan, uint32_t value)
{
    return value_stored(plan, plan->base.values.values[value].widest);
}
static inline size_t value_pixels(const struct plan *plan, uint32_t value)
{
    const struct shape shape = plan_shape(&plan->base, value);
    return (size_t)shape.height * shape.width;
}
/* Numbers of one sample, and of all, padding included; and pixels of all. */
static inline size_t value_count(const struct plan *plan, uint32_t value)
{
    return value_pixels(plan, value) * value_stored(plan, value);
}
static inline size_t value_counts(const struct plan *plan, uint32_t value)
{
    return plan->base.count * value_count(plan, value);
}
static inline size_t value_rows(const struct plan *plan, uint32_t value)
{
    return plan->base.count * value_pixels(plan, value);
}

/* Of a group: input k and the result; the result's gradient, and where that of input k goes. */
static inline void *in_value(const struct plan *plan, uint32_t head, uint32_t k)
{
    return cuda_plan_data(plan, plan->base.values.values[plan_input(&plan->base, head, k)].buffer);
}
static inline void *out_value(const struct plan *plan, uint32_t head)
{
    return cuda_plan_data(plan, plan->base.values.values[plan_output(&plan->base, head)].buffer);
}
static inline void *out_gradient(const struct plan *plan, uint32_t head)
{
    return cuda_plan_data(plan, plan->base.values.values[plan_output(&plan->base, head)].gradient);
}
static inline void *in_gradient(const struct plan *plan, uint32_t head, uint32_t k)
{
    return cuda_plan_data(plan, plan_flow(&plan->base, head, k)->buffer);
}
/* The gradient of input k is what stands at `from`: to where it goes. */
int cuda_flow_pass(struct plan *plan, uint32_t head, uint32_t k, const void *from);
/* Is a ReLU part of the group? */
static inline bool has_relu(const struct plan *plan, uint32_t head)
{
    return fusion_has(&plan->base.fusion, head, LAYER_RELU);
}

/* Where a parameter of a layer lies; NULL when it has none of the kind: as fp32, as what a
 * product reads (16-bit types: in the shadow), its gradient, and a statistic. */
const float *parameter_weights(const struct plan *plan, uint32_t layer, enum parameter_kind kind);
const void *parameter_value(const struct plan *plan, uint32_t layer, enum parameter_kind kind);
float *parameter_gradient(const struct plan *plan, uint32_t layer, enum parameter_kind kind);
float *parameter_statistic(const struct plan *plan, uint32_t layer, enum parameter_kind kind);

/* Rows of struct backend_ops, by file. cuda_store.c: */
int cuda_stored_sizes(struct backend *backend, size_t *stored_counts);
int cuda_store_pack(struct backend *backend, uint32_t parameter, const float *plain, float *stored);
int cuda_store_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain);
int cuda_store_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain);
/* cuda_counts.c: */
int cuda_count_step(const struct backend_spec *spec, uint32_t count, struct step_counts *counts_out);
/* cuda_loss.c: */
int cuda_logits(struct plan *plan, float *logits_out);
/* cuda_plan.c: */
int cuda_plan_open(struct backend *backend, uint32_t count, bool training, struct plan **plan_out);
void cuda_plan_close(struct plan *plan);
/* cuda_memory.c: */
void cuda_memory_needs(const struct backend *backend, struct backend_needs *needs_out);
int cuda_memory_allocate(struct backend *backend);
/* cuda_segment.c: */
int cuda_plan_forward(struct plan *plan);
int cuda_plan_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg);
int cuda_plan_segment(struct backend *backend, const bool *ends);

/* Does segment() record the plan's steps? */
bool cuda_plan_is_recorded(const struct plan *plan);

/* Queue the input step: `count` samples of pixels and labels, device memory. */
int cuda_input(struct plan *plan, uint32_t count, const struct backend_input *input);

/* Copy to device memory and wait until it is there. 0 or a negative errno. */
int cuda_store_write(struct backend *backend, void *to, const void *from, size_t bytes);
/* Wait for all that is queued. 0, -ECANCELED or a negative errno. */
int cuda_store_wait(struct backend *backend);
/* Bytes of the pinned memory such copies go through. */
#define BOUNCE_BYTES ((size_t)1 << 20)

/* While a plan is made: memory in which the planner measures convolutions, when the spec asks for
 * that and the device has it; taken at the first call. 0 or a negative errno. */
int cuda_measuring_begin(struct plan *plan);
void cuda_measuring_end(struct plan *plan);

/* One segment per layer with parameters that is an end. 0 or -ENOMEM. */
int cuda_segments_open(struct plan *plan);
void cuda_segments_close(struct plan *plan);

/* Convolutions and dense layers (cuda_weighted.c): how they use values; the buffer of the bias'
 * gradient; and the pass over the result's gradient with which backward begins: the ReLU's mask
 * and the bias' gradient, as far as the group has them. */
void cuda_weighted_use(const struct plan *plan, uint32_t head, struct value_use *use_out);
int cuda_partials_open(struct plan *plan, uint32_t head, uint32_t *buffer_out);
int cuda_bias_gradient_run(struct plan *plan, uint32_t head, uint32_t partials);

/* Convolutions (cuda_conv2d.c). Scratch: bytes that measuring them reads and writes. */
extern const struct layer_ops cuda_conv2d_ops;
void cuda_conv2d_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);
size_t cuda_conv2d_scratch(const struct plan *plan);
void cuda_convs_close(struct backend *backend);
/* Dense layers (cuda_dense.c). */
extern const struct layer_ops cuda_dense_ops;
void cuda_dense_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);
/* Pools (cuda_pool.c) and batch normalisation (cuda_norm.c). */
extern const struct layer_ops cuda_max_pool_ops, cuda_average_pool_ops, cuda_batch_norm_ops;
/* Layers that put channels elsewhere or look at neighbouring ones (cuda_channels.c), and losses, the
 * last one and auxiliary ones (cuda_loss.c). */
extern const struct layer_ops cuda_pad_channels_ops, cuda_concat_ops, cuda_local_response_norm_ops;
extern const struct layer_ops cuda_softmax_loss_ops;

/* What the shared plan asks of this backend (cuda_plan.c). */
extern const struct plan_ops cuda_plan_ops;
/* All layers by kind (cuda_layers.c), and a line about one of a plan. */
extern const struct layer_ops *const cuda_layer_table[LAYER_KIND_COUNT];
void cuda_layer_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);
/* For rows with nothing else to let go of. */
void cuda_state_release(struct plan *plan, uint32_t layer);

#endif
