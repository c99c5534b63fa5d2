/* What the files of the oneDNN backend share: the backend object, a plan with its
 * buffers and memories, and the values that pass between layers. Private to them.
 *
 * Values between layers lie as [sample][channel block][height][width][block] with
 * block = 1 (nchw), all channels (nhwc), or 8 or 16 (oneDNN's blocked layouts, channels
 * padded with zeros). So every loop of ours is written once for all layouts, and oneDNN
 * is asked which block its convolutions want. What type their numbers have, and how a loop
 * over them is written, says onednn_value.h. */
#ifndef PIPETRAIN_ONEDNN_PLAN_H
#define PIPETRAIN_ONEDNN_PLAN_H

#include "compute/backend.h"
#include "compute/dropout.h"
#include "compute/onednn/onednn_api.h"
#include "compute/onednn/onednn_value.h"

struct backend {
    struct backend_base base;
    struct backend_spec spec;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    enum value_type type;       /* of all values and their gradients */
    bool *goes_back;            /* by value: it has a gradient in training */
    uint32_t *blocks;           /* of value v */
    bool is_nhwc;               /* all values have all channels together */
    nn_md *stored;              /* by parameter: how it lies in the arenas, constant after open */
    const struct arenas *arenas;        /* lent */
    struct backend_memory memory;       /* of the arenas, lent */
    size_t noted_bytes;         /* values larger than this are not kept as ReLU masks, see relu_note */
    size_t slice_bytes;         /* of a value that is made in slices, see value_slice */
    char *pool;                 /* one block of memory for all plans: only one runs at a time */
    size_t pool_bytes;          /* of it as it is */
    size_t pool_needed;         /* by the plans made so far */
};

enum place_kind { PLACE_BUFFER, PLACE_WEIGHTS, PLACE_GRADIENTS };

/* Where an operand lies: `offset` bytes into a buffer of the plan, or a parameter's range of an arena. */
struct place { enum place_kind kind; uint32_t index; size_t offset; };

struct plan_memory { dnnl_memory_t memory; struct place place; };

/* How a value lies, its gradient alike. */
struct tensor_layout {
    enum value_type type;
    struct shape shape;
    uint32_t block;
    bool is_nhwc;               /* oneDNN is told so also where a block of 8 or 16 is all channels */
    uint32_t width;             /* the front of a wider value, all of whose channels lie together: how many it has;
                                 * 0: all other values */
};

struct plan {
    struct plan_base base;
    struct tensor_layout *tensors;      /* by value */
    void **states;              /* by head, owned by its row of the layer table */
    struct plan_memory *memories;
    uint32_t memory_count, memory_room;
    uint32_t scratch;           /* buffer: scratchpad of every primitive, in turn */
    uint32_t labels;            /* buffer: struct mixed_label of every sample */
    const char *bound;          /* the pool that the memories point into */
    uint32_t epoch;
    uint64_t first_position;
    struct backend_result result;
};

static inline struct backend *plan_backend(const struct plan *plan)
{
    return plan->base.backend;
}
static inline const struct layer *plan_layer(const struct plan *plan, uint32_t layer)
{
    return &plan->base.net->layers[layer];
}

/* A buffer of a row's own, not used at any time yet. 0 or -ENOMEM. */
static inline int plan_buffer(struct plan *plan, size_t bytes, uint32_t *buffer_out)
{
    return value_plan_buffer(&plan->base.values, bytes, buffer_out);
}
/* The buffer holds something in these phases of the head, and between. */
void plan_use(struct plan *plan, uint32_t buffer, uint32_t head, enum value_phase first, enum value_phase last);
/* Valid while the plan runs. */
static inline void *plan_data(const struct plan *plan, uint32_t buffer)
{
    return plan_backend(plan)->pool + plan->base.values.buffers[buffer].offset;
}
/* A oneDNN memory at a place, owned by the plan. 0 or a negative errno. */
int plan_memory(struct plan *plan, nn_md md, struct place place, dnnl_memory_t *memory_out);

static inline enum value_type plan_type(const struct plan *plan)
{
    return plan_backend(plan)->type;
}
static inline void *plan_value(const struct plan *plan, uint32_t value)
{
    return plan_data(plan, plan->base.values.values[value].buffer);
}
static inline void *plan_gradient(const struct plan *plan, uint32_t value)
{
    return plan_data(plan, plan->base.values.values[value].gradient);
}
/* The tensor of input `k` of a group, and of its result. */
static inline const struct tensor_layout *in_tensor(const struct plan *plan, uint32_t head, uint32_t k)
{
    return &plan->tensors[plan_input(&plan->base, head, k)];
}
static inline const struct tensor_layout *out_tensor(const struct plan *plan, uint32_t head)
{
    return &plan->tensors[plan_output(&plan->base, head)];
}
/* A parameter of the layer in an arena; NULL when it has none of the kind. */
float *plan_weights(const struct plan *plan, uint32_t layer, enum parameter_kind kind);
float *plan_weight_gradients(const struct plan *plan, uint32_t layer, enum parameter_kind kind);

/* How it lies there; NULL alike. */
nn_md plan_stored(const struct plan *plan, uint32_t layer, enum parameter_kind kind);

/* Sizes of an tensor. */
static inline size_t tensor_blocks(const struct tensor_layout *tensor)
{
    return (tensor->shape.channels + tensor->block - 1) / tensor->block;
}
static inline size_t tensor_pixels(const struct tensor_layout *tensor)
{
    return (size_t)tensor->shape.height * tensor->shape.width;
}
/* From a pixel to the next one, in numbers. */
static inline size_t tensor_step(const struct tensor_layout *tensor)
{
    return tensor->width != 0 ? tensor->width : tensor->block;
}
/* Numbers of one sample, padding included, or, of a front, those of the wider value. */
static inline size_t tensor_count(const struct tensor_layout *tensor)
{
    return tensor_blocks(tensor) * tensor_step(tensor) * tensor_pixels(tensor);
}
/* The type of values as oneDNN calls it. */
dnnl_data_type_t nn_type(enum value_type type);
/* oneDNN's view of `count` samples; rank 2 only when there is one pixel. */
nn_md tensor_md(const struct tensor_layout *tensor, uint32_t count, int rank);
/* The block of a rank 4 descriptor, or 0 when it is none of ours. */
uint32_t tensor_block_of(nn_md md);
/* Where pixel `pixel` of channel `channel` of a sample lies. */
static inline size_t tensor_at(const struct tensor_layout *tensor, size_t channel, size_t pixel)
{
    return (channel / tensor->block * tensor_pixels(tensor) + pixel) * tensor_step(tensor) + channel % tensor->block;
}
/* 2 when a dense layer reads the tensor as rows of numbers, else 4. */
int tensor_rank(const struct tensor_layout *tensor, enum layer_kind kind);

/* One operand of a primitive. */
struct operand { int arg; nn_md md; struct place place; };

/* A primitive with what it needs around it: reorders of inputs, itself, reorders of
 * outputs, run in this order. */
#define CALL_RUNS_MAX 8
#define CALL_OPERANDS_MAX (CALL_RUNS_MAX - 1)
struct nn_run { dnnl_primitive_t primitive; int arg_count; dnnl_exec_arg_t args[8]; };
struct nn_call {
    dnnl_primitive_desc_t pd;
    uint32_t copies[CALL_OPERANDS_MAX]; /* by operand: the buffer of its reordered copy, or BUFFER_NONE */
    uint32_t run_count;
    struct nn_run runs[CALL_RUNS_MAX];
};

/* How fast a primitive can be expected to be, best first. */
enum pd_class { PD_WINOGRAD, PD_FAST, PD_GEMM, PD_REF, PD_NONE };
/* Whether the implementation of this name, in oneDNN `major`.x, is known to compute this convolution wrongly (a table
 * in onednn_call.c): it is never chosen then, and the next one is. After weighted_op only explicit padding, with
 * several output columns, leads to a stride that is wider than the image. */
bool nn_op_is_broken(const struct nn_op *op, const char *implementation, int major);
/* The first implementation of the best class for exactly these descriptors; op->winograd: one that computes
 * directly, when there is none by Winograd's algorithm. The caller destroys *pd_out, which is set unless the
 * class is PD_NONE. */
enum pd_class pd_find(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward,
                      dnnl_primitive_desc_t *pd_out);
/* The scratch memory of oneDNN's kernel by Winograd's algorithm for the convolution; SIZE_MAX: there is none. */
size_t pd_winograd_bytes(dnnl_engine_t engine, const struct nn_op *op);
/* pd_find without the implementation. */
enum pd_class pd_class_of_best(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward);
/* Make the best primitive for `op` and `operands` in a phase of the head: with exactly these layouts,
 * or with layouts of oneDNN's choice and reorders around it when that is a better
 * class. Logs and returns -ENOTSUP when only a "ref" one exists and they are refused.
 * beside: another call of the same operands in the same phase, whose copies share their memory with those of this one;
 * or NULL. */
int call_open(struct plan *plan, struct nn_call *call, uint32_t layer, const struct nn_op *op,
              const_dnnl_primitive_desc_t forward, const struct operand *operands, uint32_t operand_count,
              enum value_phase phase, const struct nn_call *beside);
void call_close(struct nn_call *call);
int call_run(const struct plan *plan, const struct nn_call *call);
/* "jit:avx2", with "+2 reorders" when there are some. */
void call_describe(const struct nn_call *call, char *text, size_t text_size);

/* The descriptors of a layer with weights, as its primitives get them; weights and bias
 * (NULL: none) are lent from the backend (or of no layout yet), src and dst owned. */
struct weighted_mds {
    nn_md src, weights, bias, dst;
    nn_md factors;              /* the weights as products of values read them, owned; weights itself is fp32 */
};
int weighted_mds_open(struct weighted_mds *mds, const struct layer *layer, const struct tensor_layout *in,
                      const struct tensor_layout *out, uint32_t count, nn_md weights, nn_md bias);
/* Those of a convolution alone, without a bias, and the weights in any layout; in, out NULL: these values, too. */
int conv_mds_open(struct weighted_mds *mds, const struct layer *layer, const struct tensor_layout *in,
                  const struct tensor_layout *out, uint32_t count, enum value_type type);
void weighted_mds_close(struct weighted_mds *mds);
/* The logical dimensions of its weights as the primitive sees them; returns the rank. */
int weighted_dims(const struct layer *layer, const struct tensor_layout *in, dnnl_dim_t dims_out[NN_RANK_MAX]);
/* Forward: `line` as in struct nn_op; with_sum: what is in the result's place is added. */
struct weighted_how { enum nn_direction direction; size_t winograd; bool training, with_relu, with_sum; nn_md line; };
/* The primitive of a layer with weights. Where a result is one column wide, its stride is no larger than the width of
 * the input: the same convolution, and one that oneDNN computes rightly in bf16 (nn_op_is_broken). */
void weighted_op(struct nn_op *op, const struct layer *layer, const struct weighted_mds *mds, struct weighted_how how);

/* The scratch memory that Winograd's algorithm may take for this convolution of `count` samples; 0: it is to be
 * computed directly. And how many multiplications, or what takes as long, it saves (all, where it is asked for);
 * saved_out may be NULL. */
size_t winograd_room(const struct backend *backend, const struct layer *layer, uint32_t count, double *saved_out);
/* So many of `count` samples are computed by it at a time, forward and, with_data, for the gradient of the input: all,
 * or half of them, or half of that, until its scratch memory holds them; 0: it is not to be, or oneDNN has no kernel
 * for values that lie as `in` and `out` do (NULL: as the kernel wants). The gradient of the weights, the sum over all
 * samples, is not looked at: where all have no room it is computed directly. */
uint32_t winograd_samples(const struct backend *backend, const struct layer *layer, const struct tensor_layout *in,
                          const struct tensor_layout *out, uint32_t count, bool with_data);

/* The layout that is asked for where `auto` has to follow the instructions that oneDNN takes and the type of the
 * values: with AMX oneDNN's convolutions in bf16 read all channels together, in blocks they do without AMX. */
enum layout layout_asked(enum layout layout, enum value_type type, enum instructions instructions);
/* Fill in backend->blocks and backend->stored for slices of spec.slice_max samples: by
 * rule, so that all towers and all runs on one machine decide alike. */
int layouts_choose(struct backend *backend);

/* How weights lie by output channel: `count` runs of `run` weights, in each of which the channel changes after
 * `apart` of them and comes again after `block` channels. */
struct channel_runs { size_t block, apart, run, count; };

/* Batch normalisation folded into the convolution in front of it, in evaluation (onednn_folded.c): a factor
 * and a shift by channel, which the primitive applies to its results; or the weights are multiplied by the factors
 * first, and the shifts are the bias. */
struct folded_norm {
    uint32_t layer;             /* the normalisation; NET_INPUT: there is none */
    uint32_t head;              /* the convolution */
    uint32_t factors, shifts;   /* buffers */
    nn_md line;                 /* of each of the two, for the primitive; NULL: the weights take the factors */
    nn_md bias;                 /* of the shifts as the bias */
    uint32_t weights;           /* buffer of the multiplied weights */
    struct channel_runs runs;   /* of the weights */
};
static inline bool folded_norm_has(const struct folded_norm *folded)
{
    return folded->layer != NET_INPUT;
}
static inline bool folded_norm_is_in_weights(const struct folded_norm *folded)
{
    return folded_norm_has(folded) && folded->line == NULL;
}
/* Nothing but whether there is one, and its buffers. 0 or -ENOMEM. */
int folded_norm_open(struct plan *plan, uint32_t head, struct folded_norm *folded);
/* From now on the weights take the factors. 0, -ENOMEM, or -ENOTSUP where they lie in a way that is not known. */
int folded_norm_into_weights(struct plan *plan, nn_md weights, struct folded_norm *folded);
void folded_norm_close(struct folded_norm *folded);
/* From the parameters and the running statistics as they are now. */
void folded_norm_find(const struct plan *plan, const struct folded_norm *folded);

/* Slices (onednn_slices.c): a normalised value that one convolution reads is made a few samples at a time, which a
 * cache holds, and its gradient alike: neither is ever there as a whole. The samples of a slice, or 0: the value is
 * made at once. Decided by sizes, so that all towers decide alike. */
uint32_t value_slice(const struct plan *plan, uint32_t value);
/* What of the batch is worked off together. */
struct slice { uint32_t first, count; };
/* Of a normalisation `head`: these samples of its result, to `result`; and their `gradient` goes to its sums and, where
 * it owes the rest, to the gradient of its values. Slices come in order, backward before the row of the head; one that
 * is not made in slices takes the whole batch as one. */
void norm_forward_slice(const struct plan *plan, uint32_t head, struct slice slice, void *result);
void norm_backward_slice(const struct plan *plan, uint32_t head, struct slice slice, void *gradient);

/* What runs for some samples of the batch, and all parts of a layer with weights, in order: more than one where what
 * it reads is made in slices, or where Winograd's algorithm has no room for all samples. In the latter case the first
 * part makes the gradient of the weights of all of them. */
struct part { struct slice slice; struct nn_call forward, weights, data; };
struct parts {
    struct part *parts;
    uint32_t count;
    uint32_t source;            /* the head that makes the slices; NET_INPUT: what is read is there as a whole */
    uint32_t again;             /* buffer: a slice of it, made again backward */
    uint32_t more_weights, more_bias;   /* buffers: gradients of a part, to be added to those of the first */
};
static inline bool parts_are_slices(const struct parts *parts)
{
    return parts->source != NET_INPUT;
}
/* Without the calls, which the caller opens. 0 or -ENOMEM; what is there is closed in any case. */
int parts_open(struct plan *plan, uint32_t head, struct parts *parts);
void parts_close(struct parts *parts);
int parts_forward(const struct plan *plan, uint32_t head, const struct parts *parts);
int parts_backward_weights(const struct plan *plan, uint32_t head, const struct parts *parts);
int parts_backward_data(const struct plan *plan, uint32_t head, const struct parts *parts);

/* The weight gradient of a convolution with few input channels (onednn_first.c). */
struct first_conv;
bool first_conv_fits(const struct layer *layer, const struct tensor_layout *in, const struct tensor_layout *out);
/* with_relu: the gradient is not masked yet; mask it on the way, by the buffer `active` of
 * relu_note or, when that is BUFFER_NONE, by the values. */
int first_conv_open(struct plan *plan, uint32_t layer, bool with_relu, uint32_t active, struct first_conv **first_out);
void first_conv_close(struct first_conv *first);
void first_conv_run(struct plan *plan, const struct first_conv *first, uint32_t layer);

/* Rows of the layer table, by file. */
extern const struct layer_ops onednn_weighted_ops, onednn_batch_norm_ops, onednn_relu_ops, onednn_max_pool_ops,
    onednn_average_pool_ops, onednn_dropout_ops, onednn_add_ops, onednn_concat_ops, onednn_pad_channels_ops,
    onednn_response_ops, onednn_loss_ops;
/* What is folded into what. */
extern const struct fusion_rule onednn_rules[];
extern const uint32_t onednn_rule_count;
void weighted_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);

/* Whether all numbers of a value come from a ReLU that is the last of its group. */
bool value_is_relu(const struct plan *plan, uint32_t value);
/* Whether the one group that reads the value masks its gradient by the ReLU that made it. */
bool value_is_masked_above(const struct plan *plan, uint32_t value);
/* Do those who read the value all ask for nothing of it backward, such as sums, concatenations and pools? */
bool value_is_done_forward(const struct plan *plan, uint32_t value);
/* The dropout mask of sample `sample` in the order of the tensor, the first tensor_count bytes
 * of mask_out; as many behind them are used on the way. Elements are counted in C,H,W
 * order, so all backends and layouts drop the same values. */
void tensor_mask(const struct plan *plan, const struct tensor_layout *tensor, const struct dropout *dropout,
                 size_t sample, uint8_t *mask_out);

/* Numbers of all samples. */
static inline size_t value_total(const struct plan *plan, uint32_t value)
{
    return plan->base.count * tensor_count(&plan->tensors[value]);
}
/* A gradient on its way through something that masks it: to[i] (+)= pass ? from[i] * scale : 0,
 * where `pass` is values[i] > 0, active[i] != 0, or always when both are NULL. `to` may be `from`. */
struct gradient_pass {
    const void *from;
    void *to;
    size_t count;
    float scale;
    const void *values;
    const uint8_t *active;
    bool adds;
};
void gradient_run(const struct plan *plan, const struct gradient_pass *pass);
/* All of `from` to where the flow says; nothing when it is not wanted or there already. */
void gradient_hand_on(const struct plan *plan, const void *from, const struct flow *flow, size_t count);
/* Note in a buffer, a byte per number, which of a value are above 0. */
void relu_note(const struct plan *plan, uint32_t value, uint32_t active);
/* onednn_input.c: the uint8 pixels of a batch, mixed where they are to be, to value 0. */
void input_convert(const struct plan *plan, const struct backend_input *input);

#endif
