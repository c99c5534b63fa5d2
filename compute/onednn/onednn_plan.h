/* What the files of the oneDNN backend share: the backend object, a plan with its
 * buffers and memories, and the values that pass between layers. Private to them.
 *
 * Values between layers lie as [sample][channel block][height][width][block] with
 * block = 1 (nchw), all channels (nhwc), or 8 or 16 (oneDNN's blocked layouts, channels
 * padded with zeros). So every loop of ours is written once for all layouts, and oneDNN
 * is asked which block its convolutions want. */
#ifndef PIPETRAIN_ONEDNN_PLAN_H
#define PIPETRAIN_ONEDNN_PLAN_H

#include "compute/backend.h"
#include "compute/dropout.h"
#include "compute/lifetime.h"
#include "compute/onednn/onednn_api.h"

struct backend {
    struct backend_base base;
    struct backend_spec spec;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    uint32_t first_weighted;    /* first layer with parameters; backward ends there */
    uint32_t *blocks;           /* of edge e: what layer e reads, what layer e - 1 made */
    nn_md *stored;              /* by parameter: how it lies in the arenas, constant after open */
    const struct arena *arena;  /* lent */
    float *weights, *gradients;
    size_t noted_bytes;         /* values larger than this are not kept as ReLU masks, see relu_note */
    char *pool;                 /* one block of memory for all plans: only one runs at a time */
    size_t pool_bytes;
};

enum place_kind { PLACE_BUFFER, PLACE_WEIGHTS, PLACE_GRADIENTS };

/* Where an operand lies: a buffer of the plan, or a parameter's range of an arena. */
struct place { enum place_kind kind; uint32_t index; };

struct plan_memory { dnnl_memory_t memory; struct place place; };

/* Values between two layers. Layers that work in place share their input's buffers. */
struct edge {
    struct shape shape;
    uint32_t block;
    uint32_t value, gradient;   /* buffers */
};

struct plan {
    struct plan_base base;
    struct edge *edges;         /* layer_count + 1: edge i is read by layer i, edge 0 is the input */
    void **states;              /* by layer, owned by the layer's kind */
    struct lifetime *buffers;
    uint32_t buffer_count, buffer_room;
    struct plan_memory *memories;
    uint32_t memory_count, memory_room;
    uint32_t scratch;           /* buffer: scratchpad of every primitive, in turn */
    uint32_t labels;            /* buffer: int32_t of every sample */
    const char *bound;          /* the pool that the memories point into */
    size_t bytes;
    uint32_t epoch;
    uint64_t first_position;
    struct backend_result result;
    void (*layer_done)(void *arg, uint32_t layer);
    void *layer_done_arg;
};

static inline struct backend *plan_backend(const struct plan *plan)
{
    return plan->base.backend;
}
static inline const struct layer *plan_layer(const struct plan *plan, uint32_t layer)
{
    return &plan_backend(plan)->spec.net->layers[layer];
}

/* The clock of lifetimes: forward of every layer, then from the last to the first
 * the gradient of its weights, then that of its input. */
static inline uint32_t time_forward(uint32_t layer)
{
    return layer;
}
static inline uint32_t time_weights(const struct plan *plan, uint32_t layer)
{
    const uint32_t count = plan_backend(plan)->spec.net->layer_count;
    return count + 2 * (count - 1 - layer);
}
static inline uint32_t time_data(const struct plan *plan, uint32_t layer)
{
    return time_weights(plan, layer) + 1;
}

#define BUFFER_NONE UINT32_MAX
/* A new buffer, not used at any time yet. 0 or -ENOMEM. */
int plan_buffer(struct plan *plan, size_t bytes, uint32_t *buffer_out);
/* The buffer holds something at `time`, and from and to every other time named. */
void plan_use(struct plan *plan, uint32_t buffer, uint32_t time);
/* Used for itself during the whole step. */
void plan_use_always(struct plan *plan, uint32_t buffer);
/* Valid while the plan runs. */
static inline void *plan_data(const struct plan *plan, uint32_t buffer)
{
    return plan_backend(plan)->pool + plan->buffers[buffer].offset;
}
/* A oneDNN memory at a place, owned by the plan. 0 or a negative errno. */
int plan_memory(struct plan *plan, nn_md md, struct place place, dnnl_memory_t *memory_out);
/* Whether backward needs the gradient of edge `edge`. */
static inline bool plan_has_gradient(const struct plan *plan, uint32_t edge)
{
    return plan->base.training && edge > plan_backend(plan)->first_weighted;
}
/* Give edge layer + 1 buffers of its own / those of edge `layer`. */
int plan_edge_open(struct plan *plan, uint32_t edge);
void plan_edge_share(struct plan *plan, uint32_t layer);
static inline float *plan_value(const struct plan *plan, uint32_t edge)
{
    return plan_data(plan, plan->edges[edge].value);
}
static inline float *plan_gradient(const struct plan *plan, uint32_t edge)
{
    return plan_data(plan, plan->edges[edge].gradient);
}

/* Sizes of an edge. */
static inline size_t edge_blocks(const struct edge *edge)
{
    return (edge->shape.channels + edge->block - 1) / edge->block;
}
static inline size_t edge_pixels(const struct edge *edge)
{
    return (size_t)edge->shape.height * edge->shape.width;
}
/* Floats of one sample, padding included. */
static inline size_t edge_floats(const struct edge *edge)
{
    return edge_blocks(edge) * edge->block * edge_pixels(edge);
}
/* oneDNN's view of `count` samples; rank 2 only when there is one pixel. */
nn_md edge_md(const struct edge *edge, uint32_t count, int rank);
/* The block of a rank 4 descriptor, or 0 when it is none of ours. */
uint32_t edge_block_of(nn_md md);
/* 2 when a dense layer reads the edge as rows of numbers, else 4. */
int edge_rank(const struct edge *edge, enum layer_kind kind);

/* One operand of a primitive. */
struct operand { int arg; nn_md md; struct place place; };

/* A primitive with what it needs around it: reorders of inputs, itself, reorders of
 * outputs, run in this order. */
#define CALL_RUNS_MAX 8
struct nn_run { dnnl_primitive_t primitive; int arg_count; dnnl_exec_arg_t args[8]; };
struct nn_call {
    dnnl_primitive_desc_t pd;
    uint32_t run_count;
    struct nn_run runs[CALL_RUNS_MAX];
};

/* How fast a primitive can be expected to be, best first. */
enum pd_class { PD_FAST, PD_GEMM, PD_REF, PD_NONE };
/* The first implementation of the best class for exactly these descriptors. The
 * caller destroys *pd_out, which is set unless the class is PD_NONE. */
enum pd_class pd_find(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward,
                      dnnl_primitive_desc_t *pd_out);
/* Make the best primitive for `op` and `operands` at `time`: with exactly these layouts,
 * or with layouts of oneDNN's choice and reorders around it when that is a better
 * class. Logs and returns -ENOTSUP when only a "ref" one exists and they are refused. */
int call_open(struct plan *plan, struct nn_call *call, uint32_t layer, const struct nn_op *op,
              const_dnnl_primitive_desc_t forward, const struct operand *operands, uint32_t operand_count,
              uint32_t time);
void call_close(struct nn_call *call);
int call_run(const struct plan *plan, const struct nn_call *call);
/* "jit:avx2", with "+2 reorders" when there are some. */
void call_describe(const struct nn_call *call, char *text, size_t text_size);

/* The descriptors of a layer with weights, as its primitives get them; weights and bias
 * are lent from the backend (or of no layout yet), src and dst owned. */
struct weighted_mds { nn_md src, weights, bias, dst; };
int weighted_mds_open(struct weighted_mds *mds, const struct layer *layer, const struct edge *in,
                      const struct edge *out, uint32_t count, nn_md weights, nn_md bias);
void weighted_mds_close(struct weighted_mds *mds);
/* The logical dimensions of its weights as the primitive sees them; returns the rank. */
int weighted_dims(const struct layer *layer, const struct edge *in, dnnl_dim_t dims_out[NN_RANK_MAX]);
void weighted_op(struct nn_op *op, const struct layer *layer, const struct weighted_mds *mds,
                 enum nn_direction direction, bool training);

/* Fill in backend->blocks and backend->stored for slices of spec.slice_max samples: by
 * rule, so that all towers and all runs on one machine decide alike. */
int layouts_choose(struct backend *backend);

/* The weight gradient of a convolution with few input channels (onednn_first.c). */
struct first_conv;
bool first_conv_fits(const struct layer *layer, const struct edge *in, const struct edge *out);
/* with_relu: the gradient is not masked yet; mask it on the way, by the buffer `active` of
 * relu_note or, when that is BUFFER_NONE, by the values. */
int first_conv_open(struct plan *plan, uint32_t layer, bool with_relu, uint32_t active,
                    struct first_conv **first_out);
void first_conv_close(struct first_conv *first);
void first_conv_run(struct plan *plan, const struct first_conv *first, uint32_t layer);

/* Rows of the layer table. */
extern const struct layer_ops onednn_weighted_ops, onednn_relu_ops, onednn_max_pool_ops, onednn_dropout_ops,
    onednn_loss_ops;
void weighted_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size);

/* The last layer before `layer` that is not a folded ReLU, or NET_NO_LAYER; and the first behind it. */
uint32_t layer_before(const struct net *net, uint32_t layer);
uint32_t layer_behind(const struct net *net, uint32_t layer);
/* Whether all values of edge `layer` come from a ReLU fused into the layer before. */
bool layer_reads_relu(const struct net *net, uint32_t layer);
/* Whether the dropout layer is done by the max-pool layer before it. */
bool dropout_in_pool(const struct plan *plan, uint32_t layer);
/* The dropout mask of sample `sample` in the order of the edge, the first edge_floats bytes
 * of mask_out; as many behind them are used on the way. Elements are counted in C,H,W
 * order, so all backends and layouts drop the same values. */
void edge_mask(const struct plan *plan, const struct edge *edge, const struct dropout *dropout, size_t sample,
               uint8_t *mask_out);
/* gradient = value > 0 ? gradient * scale : 0. */
void relu_mask(const struct plan *plan, uint32_t edge, float scale);
/* Note in a buffer, a byte per value, which values are above 0; mask the gradient by it. */
void relu_note(const struct plan *plan, uint32_t edge, uint32_t active);
void relu_mask_noted(const struct plan *plan, uint32_t edge, uint32_t active);
/* The uint8 pixels of a batch to edge 0. */
void input_convert(const struct plan *plan, const uint8_t *pixels);

#endif
