/* Shared by the files of the CUDA backend, private to them: the backend object, plans, and the layout of values.
 *
 * Values are stored as [sample][height][width][stored channels] of the precision's value type. Padding channels are
 * zero: every kernel and library call writes all stored channels, from weights and biases whose padding is zero. Values
 * that are stored in the first channels of a wider value (compute/plan/values.h) are the exception: their pixels are as
 * far apart as its pixels, and in backward its next channels are in place of their padding. Readers multiply those
 * channels by zeros, because the parameters and the gradients of their results are zero there. */
#ifndef PIPETRAIN_CUDA_PLAN_H
#define PIPETRAIN_CUDA_PLAN_H

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "compute/backend.h"
#include "compute/cuda/cublaslt_dense.h"
#include "compute/cuda/cudnn_conv.h"
#include "compute/cuda/kernels.h"

/* A convolution that the backend's plans contain. The plans of layers share the engine of `plan`. */
struct conv_entry {
    struct conv_shape shape;
    struct conv_plan *plan;
};

/* The side stream: where weight gradients are recorded that run beside data gradients (cuda_side.c). */
struct side {
    struct stream *stream;              /* used while steps are recorded; NULL: no plan uses it */
    struct event *event;                /* the last fork from the backend's stream, then the end of the work */
    cudnnHandle_t cudnn;                /* NULL: the network has no convolutions */
    size_t workspace_at;                /* offset of its workspace in the backend's */
    bool is_recording;                  /* steps are being recorded; else all is queued on the backend's stream */
    bool is_open;                       /* the backend's stream has not waited for the event yet */
};

struct backend {
    struct backend_base base;
    struct backend_spec spec;
    const char *name;                   /* the device's, for messages */
    cudaStream_t stream;                /* the stream of spec.compute */
    enum value_type type;
    cudnnHandle_t cudnn;                /* NULL: the network has no convolutions */
    cudnnHandle_t *compilers;           /* [compiler_count]: the plans of some convolutions are made with them */
    uint32_t compiler_count;
    struct dense_library *dense;        /* NULL: the network has no dense layers */
    struct event *done;                 /* the event that blocking copies wait for */
    uint64_t *broken;                   /* device memory: result of find_nonfinite */
    void *bounce;                       /* pinned memory that blocking copies go through */
    const struct arenas *arenas;        /* lent */
    struct backend_memory memory;       /* lent, NULLs until bind */
    void *shadow;                       /* 16-bit types: a copy of all weights in that type */
    float *class_weights;               /* device memory, [classes]; NULL: all 1 */
    double class_weight_total;          /* their sum, if there are any */
    struct loss_scale *scale;           /* device memory; NULL unless the type is fp16 or steps may be skipped */
    void *workspace;                    /* memory of library calls: of one on the stream, and after that of one on the
                                         * side stream */
    struct side side;
    size_t pool_bytes, workspace_bytes, shadow_bytes;
    struct conv_entry *convs;           /* equal convolutions are planned once */
    uint32_t conv_count, conv_room;
    struct plan *plans;                 /* all open plans, linked by `next` */
    bool *ends;                         /* [layer]; NULL until segment(), after which no more plans are made */
};

/* The backward work between two calls of layer_done: layers first down to last. */
struct segment {
    uint32_t first, last;
    bool is_end;                        /* layer_done is called afterwards */
    cudaGraphExec_t recording;          /* NULL: queued call by call */
};

struct plan {
    struct plan_base base;
    struct plan *next;
    uint32_t labels, step, result;      /* buffers: struct mixed_label per sample (BUFFER_NONE: the plan does not read
                                         * the image), struct step_values, struct backend_result */
    size_t workspace_bytes;             /* bytes that this plan needs */
    size_t side_bytes;                  /* the same for calls on the side stream */
    uint32_t side_count;                /* weight gradients on the side stream */
    bool has_loss;                      /* a loss is planned; further losses add to its result */
    /* [layer]: batch normalisations whose result is stored, because cuDNN has no plan for a convolution that computes
     * it; NULL in a plan that is only counted, which is taken to have all plans. */
    bool *stored_norms;
    bool has_refused;                   /* one was added while the plan was made, which has to be made again */
    bool is_ready;                      /* has run once since its memory was allocated */
    struct conv_planner planner;        /* used while the plan is made */
    bool is_measuring;                  /* cuda_measuring_begin was called */
    cudaGraphExec_t forward;            /* NULL: queued call by call */
    struct segment *segments;           /* [segment_count], training only */
    uint32_t segment_count;
};

static inline const struct net *plan_net(const struct plan *plan)
{
    return plan->base.net;
}

/* Enlarges the workspace of the plan, or of its side stream, to the bytes that a library call needs. */
void cuda_plan_workspace(struct plan *plan, bool on_side, size_t bytes);

/* The number of channels, features or units including padding. */
static inline uint32_t channels_stored(uint32_t channels)
{
    return (channels + 7) / 8 * 8;
}

/* The groups of a convolution, including those of padding: padded channels and filters are whole groups more. 0: they
 * are not, and cannot be computed. */
static inline uint32_t groups_stored(const struct layer *layer)
{
    const uint32_t channels = layer->in.channels / layer->groups, filters = layer->out.channels / layer->groups;
    const uint32_t in = channels_stored(layer->in.channels), out = channels_stored(layer->out.channels);
    if (layer->groups == 1)
        return 1;
    return in % channels == 0 && out % filters == 0 && in / channels == out / filters ? in / channels : 0;
}

/* Does the convolution add as many zeros after an image as before it? A GPU has shown that cuDNN's weight gradients add
 * those before it on both sides, without an error; so nothing that no GPU has run is fused into other convolutions. */
static inline bool pads_evenly(const struct layer *layer)
{
    return layer->pad_top == layer->pad_bottom && layer->pad_left == layer->pad_right;
}

/* The number of stored channels of a value. */
static inline uint32_t value_stored(const struct plan *plan, uint32_t value)
{
    return channels_stored(plan_shape(&plan->base, value).channels);
}
/* The distance between adjacent pixels, in numbers. */
static inline uint32_t value_stride(const struct plan *plan, uint32_t value)
{
    return value_stored(plan, plan->base.values.values[value].widest);
}
static inline size_t value_pixels(const struct plan *plan, uint32_t value)
{
    const struct shape shape = plan_shape(&plan->base, value);
    return (size_t)shape.height * shape.width;
}
/* The numbers, with padding, of one sample and of all samples; and the pixels of all samples. */
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

/* Copies or adds the gradient at `from` to the gradient of input k. */
int cuda_flow_pass(struct plan *plan, uint32_t head, uint32_t k, const void *from);

/* Addresses of a layer's parameter, NULL when the layer has none of the kind: the fp32 weights; the weights in the
 * value type (with 16-bit types in the shadow); the gradient; a running statistic. */
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
int cuda_values(struct plan *plan, uint32_t layer, float *values_out);
/* cuda_plan.c: */
int cuda_plan_open(struct backend *backend, const struct plan_spec *spec, struct plan **plan_out);
void cuda_plan_close(struct plan *plan);
/* cuda_memory.c: */
void cuda_memory_needs(const struct backend *backend, struct backend_needs *needs_out);
int cuda_memory_allocate(struct backend *backend);
/* cuda_share.c: */
int cuda_part_weigh(struct plan *plan, uint32_t first, uint32_t count);
int cuda_part_answers(struct plan *plan, uint32_t first, uint32_t count, struct answer *answers_out);
int cuda_send_nothing(struct backend *backend, float *numbers, size_t count, struct mixed_label *labels, uint32_t rows);
/* cuda_segment.c: */
int cuda_plan_forward(struct plan *plan);
int cuda_plan_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg);
int cuda_plan_segment(struct backend *backend, const bool *ends);

/* Queues one of our own kernels for a layer: kernel(stream, type, ...). Needs stage/cuda/cuda_call.h. */
#define LAYER_KERNEL(plan, kernel, ...) \
    CUDA_CALL((plan)->base.backend->name, \
              kernel((plan)->base.backend->stream, (plan)->base.backend->type, __VA_ARGS__))

/* Does the plan read the image? Plans of a share's head do not. */
static inline bool cuda_plan_has_image(const struct plan *plan)
{
    return plan->base.values.values[0].buffer != BUFFER_NONE;
}

/* Does segment() record the plan's steps as CUDA graphs? */
bool cuda_plan_is_recorded(const struct plan *plan);
/* Does it take longer to queue a step of the plan call by call than to compute it? */
bool cuda_plan_is_small(const struct plan *plan);

/* The side stream (cuda_side.c). The weight gradient and the data gradient of a layer read the same gradient and write
 * different memory. Where neither of them fills a device, they run at the same time: when a step is recorded, the
 * weight gradient is captured on a second stream, which forks after the ReLU's mask and the bias gradient, and which
 * the first stream waits for before it forks again and at the end of the segment. The side stream has its own
 * workspace and cuDNN handle, and the memory that the weight gradient reads and writes stays in use until the wait.
 * Steps that are queued call by call use the same memory and handle on one stream, so both give the same bits.
 *
 * A layer uses it when the plan is small and recorded, both gradients are wanted, and each takes at most 0.6 billion
 * multiply-accumulates for all samples. This depends on the network and the settings alone, so that memory can be
 * counted without a device. */
bool cuda_side_is_wanted(const struct plan *plan, uint32_t head);
/* While such a layer is planned: marks the buffers that its weight gradient uses. BUFFER_NONE: none. */
void cuda_side_plan(struct plan *plan, uint32_t head, const uint32_t *buffers, uint32_t count);
/* Opens what is missing of backend->side. 0 or a negative errno (logged). */
int cuda_side_open(struct backend *backend);
void cuda_side_close(struct backend *backend);
/* Calls queue(plan, head) with the handle and the workspace of the side stream in place of the backend's and, while
 * steps are recorded, its stream. 0 or a negative errno. */
int cuda_side_run(struct plan *plan, uint32_t head, int (*queue)(struct plan *plan, uint32_t head));
/* The backend's stream waits for the side stream, if it has not yet. 0 or a negative errno. */
int cuda_side_join(struct backend *backend);
/* Before the first and after the last recording. 0 or a negative errno (logged). */
int cuda_side_record(struct backend *backend, bool is_recording);

/* Queues the input step for `count` samples of pixels and labels in device memory, which are NULL for a plan that does
 * not read the image. */
int cuda_input(struct plan *plan, uint32_t count, const struct backend_input *input);

/* Copies to device memory and waits until it is done. 0 or a negative errno. */
int cuda_store_write(struct backend *backend, void *to, const void *from, size_t bytes);
/* Waits for all queued work. 0, -ECANCELED or a negative errno. */
int cuda_store_wait(struct backend *backend);
/* Bytes of the pinned memory that blocking copies go through. */
#define BOUNCE_BYTES ((size_t)1 << 20)

/* Prepares the measurement of a convolution or a dense layer while a plan is made, if the spec asks for it: allocates
 * the memory at the first call, if the device has enough, and fills the first `bytes` with numbers. 0 or a negative
 * errno. */
int cuda_measuring_begin(struct plan *plan, size_t bytes);
void cuda_measuring_end(struct plan *plan);

/* Makes a segment for every layer with parameters that is an end. 0 or -ENOMEM. */
int cuda_segments_open(struct plan *plan);
void cuda_segments_close(struct plan *plan);

/* Convolutions and dense layers (cuda_weighted.c), and a text about one of them. cuda_weighted_scratch: bytes
 * that measuring them reads and writes. */
extern const struct layer_ops cuda_weighted_ops;
/* The buffer of the sums that the convolution computes for the batch normalisation after it (cuda_norm_source), as
 * kernel_norm_from_sums reads them, once it is planned; BUFFER_NONE: it computes none. */
uint32_t cuda_conv_sums(const struct plan *plan, uint32_t conv);
/* The buffer of the sums that its data gradient computes for the batch normalisation inside of it (cuda_norm_inside),
 * as kernel_norm_means reads them, once it is planned; BUFFER_NONE: it computes none, or its plan failed to run. */
uint32_t cuda_conv_norm_sums(const struct plan *plan, uint32_t conv);
void cuda_weighted_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);
size_t cuda_weighted_scratch(const struct plan *plan);
/* Makes the plans of all convolutions of the plan that cuDNN compiles, in several threads. Called when the flows of the
 * plan are known. 0 or a negative errno (logged). */
int cuda_convs_compile(struct plan *plan);
void cuda_convs_close(struct backend *backend);
/* Stores forward the mask of the group's ReLU? After an addition, unless the gradient comes masked. */
static inline bool cuda_norm_has_mask(const struct plan *plan, uint32_t head)
{
    return plan_has_sum(plan, head) && plan_has_relu(plan, head) && !plan_output_is_masked(&plan->base, head);
}
/* Batch normalisation (cuda_norm.c) and losses (cuda_loss.c). */
extern const struct layer_ops cuda_batch_norm_ops, cuda_softmax_loss_ops;
/* The convolution that should sum its result for the statistics of the batch normalisation (spec.batch_statistics);
 * NET_INPUT: none. To be called in training, by the functions that plan the memory of values. */
uint32_t cuda_norm_source(const struct plan *plan, uint32_t norm);
/* The batch normalisation and ReLU whose result the convolution computes from their input, because it is not stored
 * (value_use.out_absent); NET_INPUT: none. To be called by the functions that plan the memory of values. */
uint32_t cuda_norm_inside(const struct plan *plan, uint32_t conv);
/* The batch normalisation whose result this one computes, and adds to its own, because it is not stored; NET_INPUT:
 * none. To be called by the functions that plan the memory of values. */
uint32_t cuda_norm_added(const struct plan *plan, uint32_t norm);
/* The values, statistics and parameters of a normalisation inside of a convolution, for the data gradient of the
 * convolution, once memory is placed. */
void cuda_norm_operands(const struct plan *plan, uint32_t norm, struct conv_operands *operands);
/* The buffer of its scale and, after it, its shift (kernel_norm_line), once it is planned; BUFFER_NONE: no convolution
 * computes its result. */
uint32_t cuda_norm_line(const struct plan *plan, uint32_t norm);
/* Activations and products (cuda_activation.c), and the activation of a layer for the kernels. */
extern const struct layer_ops cuda_activation_ops, cuda_multiply_ops;
struct curve cuda_curve_of(const struct plan *plan, uint32_t index);
/* Layers of shares (cuda_share.c). cuda_part_sum queues the result of samples first .. first + count - 1 to
 * plan->result and, if weight_sum is not NULL, the sum of their class weights to it. */
extern const struct layer_ops cuda_send_ops, cuda_receive_ops, cuda_part_loss_ops;
int cuda_part_sum(struct plan *plan, uint32_t first, uint32_t count, float *weight_sum);
/* Residual branches (cuda_residual.c). */
extern const struct layer_ops cuda_layer_norm_ops, cuda_scale_ops, cuda_stochastic_depth_ops;

/* This backend's part of plan_base (cuda_plan.c). */
extern const struct plan_ops cuda_plan_ops;
/* All layers by kind (cuda_layers.c), and a text for people about one layer of a plan. */
extern const struct layer_ops *const cuda_layer_table[LAYER_ROW_COUNT];
void cuda_layer_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);

#endif
