/* Shared by the files of the oneDNN backend, private to them: the backend object, plans with their buffers and
 * memories, and the layouts of values.
 *
 * Values are stored as [sample][channel block][height][width][block] with block = 1 (nchw), all channels (nhwc), or
 * 8 or 16 (oneDNN's blocked layouts, channels padded with zeros). So each of our loops is written once for all
 * layouts, and oneDNN chooses the block that suits its convolutions. onednn_value.h has the types of values and the
 * pattern of a loop over them. */
#ifndef PIPETRAIN_ONEDNN_PLAN_H
#define PIPETRAIN_ONEDNN_PLAN_H

#include "compute/backend.h"
#include "compute/dropout.h"
#include "compute/onednn/onednn_api.h"
#include "compute/onednn/onednn_value.h"
#include "compute/team.h"

struct backend {
    struct backend_base base;
    struct backend_spec spec;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    enum value_type type;       /* type of all values and gradients */
    bool *needs_grad;           /* [value]: it has a gradient in training */
    uint32_t *blocks;           /* [value] */
    bool is_nhwc;               /* all values are nhwc */
    nn_md *stored;              /* [parameter]: its layout in the arenas, constant after open */
    const struct arenas *arenas;        /* lent */
    struct backend_memory memory;       /* the arenas' memory, lent */
    size_t large_value_bytes;   /* larger values keep their ReLU mask as bytes, see relu_store_mask */
    size_t sub_batch_bytes;         /* target size of a sub-batch, see value_sub_batch */
    size_t pool_bytes;          /* bytes of base.pool */
};

enum place_kind { PLACE_BUFFER, PLACE_WEIGHTS, PLACE_GRADIENTS };

/* Where an operand is stored: `offset` bytes into a buffer of the plan, or a parameter's range of an arena. */
struct place { enum place_kind kind; uint32_t index; size_t offset; };

struct plan_memory { dnnl_memory_t memory; struct place place; };

/* The layout of a value and of its gradient. */
struct tensor_layout {
    enum value_type type;
    struct shape shape;
    uint32_t block;
    bool is_nhwc;               /* nhwc; passed to oneDNN as such even when all channels are one block of 8 or 16 */
    uint32_t width;             /* if the value is stored in the first channels of a wider value (nhwc): the channels of
                                 * that value; else 0 */
};

struct plan {
    struct plan_base base;
    struct tensor_layout *tensors;         /* by value */
    struct plan_memory *memories;
    uint32_t memory_count, memory_room;
    uint32_t scratch;           /* buffer: the scratchpad that all primitives share */
    uint32_t labels;            /* buffer: struct mixed_label per sample */
    const char *bound;          /* the block that the oneDNN memories point into */
    uint32_t epoch;
    uint64_t first_position;
    struct backend_result result;
};

static inline struct backend *plan_backend(const struct plan *plan)
{
    return plan->base.backend;
}

/* Adds a buffer, not used at any time yet. 0 or -ENOMEM. */
static inline int plan_buffer(struct plan *plan, size_t bytes, uint32_t *buffer_out)
{
    return value_memory_buffer(&plan->base.values, bytes, buffer_out);
}
/* A oneDNN memory object, owned by the plan. 0 or a negative errno. */
int plan_memory(struct plan *plan, nn_md md, struct place place, dnnl_memory_t *memory_out);
/* Points all oneDNN memories into the plan's block of the pool, which may have moved. 0 or a negative errno. */
int plan_bind_memories(struct plan *plan);

static inline enum value_type plan_type(const struct plan *plan)
{
    return plan_backend(plan)->type;
}
/* The layout of input `k` of a group, and of its result. */
static inline const struct tensor_layout *in_tensor(const struct plan *plan, uint32_t head, uint32_t k)
{
    return &plan->tensors[plan_input(&plan->base, head, k)];
}
static inline const struct tensor_layout *out_tensor(const struct plan *plan, uint32_t head)
{
    return &plan->tensors[plan_output(&plan->base, head)];
}
/* The layer's parameter in the arena of weights, and its gradient; NULL when it has none of the kind. */
float *plan_weights(const struct plan *plan, uint32_t layer, enum parameter_kind kind);
float *plan_weight_gradients(const struct plan *plan, uint32_t layer, enum parameter_kind kind);

/* The stored layout of the layer's parameter; NULL when it has none of the kind. */
nn_md plan_stored(const struct plan *plan, uint32_t layer, enum parameter_kind kind);

/* Sizes of a value in its layout. */
static inline size_t tensor_blocks(const struct tensor_layout *tensor)
{
    return (tensor->shape.channels + tensor->block - 1) / tensor->block;
}
static inline size_t tensor_pixels(const struct tensor_layout *tensor)
{
    return (size_t)tensor->shape.height * tensor->shape.width;
}
/* The distance between adjacent pixels of a channel block, in numbers. */
static inline size_t tensor_step(const struct tensor_layout *tensor)
{
    return tensor->width != 0 ? tensor->width : tensor->block;
}
/* The numbers of one sample with padding; if the value is part of a wider one, those of the wider one. */
static inline size_t tensor_count(const struct tensor_layout *tensor)
{
    return tensor_blocks(tensor) * tensor_step(tensor) * tensor_pixels(tensor);
}
/* Write zeros to the channels that fill the last block, of all pixels of these samples. */
void tensor_clear_padding(const struct tensor_layout *tensor, void *values, size_t samples);
/* oneDNN's data type. */
dnnl_data_type_t nn_type(enum value_type type);
/* oneDNN's descriptor of `count` samples; rank 2 only with one pixel. */
nn_md tensor_md(const struct tensor_layout *tensor, uint32_t count, int rank);
/* The channel block of a rank 4 descriptor; 0 when the descriptor has another layout than those of struct
 * tensor_layout. */
uint32_t tensor_block_of(nn_md md);
/* Offset of a channel's pixel in a sample. */
static inline size_t tensor_at(const struct tensor_layout *tensor, size_t channel, size_t pixel)
{
    return (channel / tensor->block * tensor_pixels(tensor) + pixel) * tensor_step(tensor) + channel % tensor->block;
}
/* 2 when a dense layer reads the value as rows of numbers, else 4. */
int tensor_rank(const struct tensor_layout *tensor, enum layer_kind kind);

/* One operand of a primitive. */
struct operand { int arg; nn_md md; struct place place; };

/* A primitive with the reorders around it, run in this order: reorders of inputs, the primitive, reorders of
 * outputs. */
#define CALL_RUNS_MAX 8
#define CALL_OPERANDS_MAX (CALL_RUNS_MAX - 1)
struct nn_run { dnnl_primitive_t primitive; int arg_count; dnnl_exec_arg_t args[8]; };
struct nn_call {
    dnnl_primitive_desc_t pd;
    uint32_t copies[CALL_OPERANDS_MAX]; /* [operand]: buffer of its reordered copy, or BUFFER_NONE */
    uint32_t run_count;
    struct nn_run runs[CALL_RUNS_MAX];
};

/* Classes of implementations, fastest first. */
enum pd_class { PD_WINOGRAD, PD_FAST, PD_GEMM, PD_REF, PD_NONE };
/* Is the implementation of this name, in oneDNN `major`.x, known to compute this convolution wrongly (table in
 * onednn_call.c)? Then the next one is used. After weighted_op a stride is wider than the image only with explicit
 * padding and several output columns. */
bool nn_op_is_broken(const struct nn_op *op, const char *implementation, int major);
/* The first implementation of the best class for exactly these descriptors. With op->winograd, a direct one when
 * there is none by Winograd's algorithm. The caller destroys *pd_out, which is set unless the class is PD_NONE. */
enum pd_class pd_find(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward,
                      dnnl_primitive_desc_t *pd_out);
/* Scratchpad bytes of oneDNN's Winograd kernel for the convolution; SIZE_MAX: there is none. */
size_t pd_winograd_bytes(dnnl_engine_t engine, const struct nn_op *op);
/* Only the class of pd_find. */
enum pd_class pd_class_of_best(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward);
/* The class that call_open finds for forward: with reorders of operands, too. */
enum pd_class pd_class_of_call(dnnl_engine_t engine, const struct nn_op *op);
/* Creates the best primitive for `op` and `operands`, to run in a pass of the head: with exactly these layouts, or,
 * when that gives a better class, with layouts of oneDNN's choice and reorders around it. -ENOTSUP (logged) when there
 * are only reference implementations and the settings exclude them. first_call (NULL: none): another call with the same
 * operands in the same pass; both share the memory of reordered copies. */
int call_open(struct plan *plan, struct nn_call *call, uint32_t layer, const struct nn_op *op,
              const_dnnl_primitive_desc_t forward, const struct operand *operands, uint32_t operand_count,
              enum pass pass, const struct nn_call *first_call);
void call_close(struct nn_call *call);
int call_run(const struct plan *plan, const struct nn_call *call);
/* For people: "jit:avx2", with "+2 reorders" when there are some. */
void call_describe(const struct nn_call *call, char *text, size_t text_size);

/* Descriptors of a layer with weights. weights and bias (NULL: none) are lent from the backend, or have no layout
 * yet; src, dst and factors are owned. */
struct weighted_mds {
    nn_md src, weights, bias, dst;
    nn_md factors;              /* the weights as the primitives read them; `weights` itself is fp32 */
};
int weighted_mds_open(struct weighted_mds *mds, const struct layer *layer, const struct tensor_layout *in,
                      const struct tensor_layout *out, uint32_t count, nn_md weights, nn_md bias);
/* weighted_mds_open for a convolution without bias, with weights in any layout; where `in` or `out` is NULL, that value
 * is in any layout, too. */
int conv_mds_open(struct weighted_mds *mds, const struct layer *layer, const struct tensor_layout *in,
                  const struct tensor_layout *out, uint32_t count, enum value_type type);
void weighted_mds_close(struct weighted_mds *mds);
/* The logical dimensions of the weights; returns the rank. */
int weighted_dims(const struct layer *layer, const struct tensor_layout *in, dnnl_dim_t dims_out[NN_RANK_MAX]);
/* Forward only: with_sum (dst is added), line and eltwise, as in struct nn_op. */
struct weighted_options {
    enum nn_direction direction;
    size_t winograd;
    bool training, with_relu, with_sum;
    nn_md line;
    struct nn_eltwise eltwise;
};
/* The primitive of a layer with weights. Where the result has one column, the stride is reduced to at most the width
 * of the input: the same convolution, but one that oneDNN computes correctly in bf16 (nn_op_is_broken). */
void weighted_op(struct nn_op *op, const struct layer *layer, const struct weighted_mds *mds,
                 struct weighted_options how);

/* Scratchpad bytes that Winograd's algorithm may use for this convolution of `count` samples; 0: compute directly.
 * *saved_out (NULL: not wanted): the multiplications it saves, or all of them when the settings ask for it. */
size_t winograd_workspace(const struct backend *backend, const struct layer *layer, uint32_t count, double *saved_out);
/* The samples per call with Winograd's algorithm: `count`, halved until forward and, with_data, the gradient of the
 * input fit into its scratchpad; 0: the algorithm is not used, or has no kernel for the layouts of `in` and `out`
 * (NULL: any). The weight gradient, which sums over all samples, is not considered: without enough scratchpad it is
 * computed directly. */
uint32_t winograd_samples(const struct backend *backend, const struct layer *layer, const struct tensor_layout *in,
                          const struct tensor_layout *out, uint32_t count, bool with_data);

/* Resolves `auto` where it depends on instructions and type: with AMX, oneDNN's bf16 convolutions want nhwc, without
 * it blocks. */
enum layout layout_for_auto(enum layout layout, enum value_type type, enum instructions instructions);
/* Fills in backend->blocks and backend->stored for sub-batches of spec.local_max samples, by rules that depend only on
 * shapes and machine, so that all towers and runs decide alike. */
int layouts_choose(struct backend *backend);

/* How many samples of a normalised value are computed and consumed at a time (onednn_weighted.c); 0: all of them, and
 * the value is stored as a whole. Decided by sizes, so that all towers decide alike. */
uint32_t value_sub_batch(const struct plan *plan, uint32_t value);
/* Samples of the batch that are computed together. Sub-batches come in order; without splitting the batch is one. */
struct sub_batch { uint32_t first, count; };
/* Computes these samples of the result of the batch normalisation `head`. */
void norm_forward_sub_batch(const struct plan *plan, uint32_t head, struct sub_batch sub_batch, void *result);
/* Adds the gradient of these samples of the result to the head's sums and, when a part of its input's gradient is
 * deferred (onednn_norm.c), the other part to that gradient. For all sub-batches before the head's own row. */
void norm_backward_sub_batch(const struct plan *plan, uint32_t head, struct sub_batch sub_batch, void *gradient);

/* The weight gradient of a convolution with few input channels (onednn_first.c). with_relu: it also masks the
 * gradient, by the buffer `relu_mask` of relu_store_mask or, when that is BUFFER_NONE, by the values. */
struct first_conv;
bool first_conv_fits(const struct layer *layer, const struct tensor_layout *in, const struct tensor_layout *out);
int first_conv_open(struct plan *plan, uint32_t layer, bool with_relu, uint32_t relu_mask,
                    struct first_conv **first_out);
void first_conv_close(struct first_conv *first);
void first_conv_run(struct plan *plan, const struct first_conv *first, uint32_t layer);

/* Rows of the layer table. */
extern const struct layer_ops onednn_weighted_ops, onednn_batch_norm_ops, onednn_relu_ops, onednn_activation_ops,
    onednn_multiply_ops, onednn_max_pool_ops,
    onednn_average_pool_ops, onednn_dropout_ops, onednn_add_ops, onednn_concat_ops, onednn_pad_channels_ops,
    onednn_response_ops, onednn_loss_ops;
extern const struct layer_ops onednn_layer_norm_ops, onednn_scale_ops, onednn_stochastic_depth_ops;
extern const struct layer_ops onednn_send_ops, onednn_receive_ops, onednn_part_loss_ops;
/* Which layers are fused. */
extern const struct fusion_rule onednn_rules[];
extern const uint32_t onednn_rule_count;
void weighted_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);

/* Is the value the output of a ReLU that ends its group? */
bool value_is_relu(const struct plan *plan, uint32_t value);
/* Does the only group that reads the value mask its gradient by the ReLU that made it? */
bool value_is_masked_above(const struct plan *plan, uint32_t value);
/* Is the value read in forward only, because all its readers are additions, concatenations, pools or the like? */
bool value_is_done_forward(const struct plan *plan, uint32_t value);
/* The dropout mask of a sample in the layout of the value: tensor_count bytes of mask_out; as many after them are
 * scratch. Elements are counted in C,H,W order, so all backends and layouts drop the same values. */
void tensor_mask(const struct plan *plan, const struct tensor_layout *tensor, const struct dropout *dropout,
                 size_t sample, uint8_t *mask_out);

/* Calls team_run on the tower's threads. */
static inline void plan_run(const struct plan *plan, size_t count, size_t grain, team_work work, void *arg)
{
    team_run(plan_backend(plan)->spec.threads, count, grain, work, arg);
}
/* The numbers of all samples of a value. */
static inline size_t value_total(const struct plan *plan, uint32_t value)
{
    return plan->base.count * tensor_count(&plan->tensors[value]);
}
/* An elementwise pass: to[i] = [addend[i] +] (passes ? from[i] * scale : 0), where `passes` is values[i] > 0, mask[i]
 * != 0, or always when both are NULL. Not all combinations exist: mask excludes addend, and without a mask or values
 * the scale is 1. `to` may be `from` or the addend (NULL: none). */
struct elementwise {
    const void *from, *values, *addend;
    const uint8_t *mask;
    void *to;
    float scale;
};
void elementwise_run(const struct plan *plan, size_t count, const struct elementwise *pass);
/* Copies or adds a gradient of `count` numbers to the buffer of the flow, unless it is not needed or already there. */
void gradient_copy(const struct plan *plan, const void *from, const struct flow *flow, size_t count);
/* The result of an activation layer for a value, written over the value. */
void activation_replace(const struct plan *plan, const struct layer *activation, uint32_t value);
/* Stores in the buffer `mask`, a byte per number, which numbers of a value are above 0. */
void relu_store_mask(const struct plan *plan, uint32_t value, uint32_t mask);
/* Converts the uint8 pixels of a batch, mixed where requested, to value 0. */
void input_convert(const struct plan *plan, const struct backend_input *input);

/* Rows of struct backend_ops of other files, see compute/backend.h. */
int onednn_pack(struct backend *backend, uint32_t parameter, const float *plain, float *stored);
int onednn_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain);
int onednn_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain);
int onednn_part_result(struct plan *plan, uint32_t first, uint32_t count, struct backend_result *result_out);
int onednn_part_answers(struct plan *plan, uint32_t first, uint32_t count, struct answer *answers_out);
int onednn_part_weigh(struct plan *plan, uint32_t first, uint32_t count);

#endif
