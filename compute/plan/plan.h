/* The part of a plan that all backends share, and how a plan runs: the groups of its network in order, forward and
 * backward, each by the backend's row for the kind of its head. */
#ifndef PIPETRAIN_PLAN_H
#define PIPETRAIN_PLAN_H

#include "compute/plan/values.h"

struct backend;                 /* each implementation's starts with a struct backend_base */
struct plan;                    /* each backend's starts with a struct plan_base */
struct mixed_label;

/* Which layers a plan computes, and of how many samples. */
struct plan_spec {
    uint32_t count;             /* samples, >= 1 */
    bool training;
    struct layer_range range;   /* end 0: all layers of the net */
    /* Plans of the same block share memory: only one of them is between its forward and its backward at a time. */
    uint32_t block;
};

/* Memory outside of the plans, in device memory, that connects the plans of a share (compute/share.h). Numbers are fp32,
 * [part][sample][number]: the numbers of a sample are divided among `parts` equal parts. Lent from before the first
 * forward. */
struct outside {
    /* Of LAYER_RECEIVE: what it reads; and where backward writes the gradient, in the same form (NULL: it is not
     * wanted). */
    const float *received;
    float *received_gradient;
    uint32_t received_parts;
    float *sent;                /* of LAYER_SEND: forward writes it, and backward reads its gradient there; one part */
    /* Labels: the plan that reads the image writes those of its samples, LAYER_PART_LOSS reads those of its. */
    struct mixed_label *labels;
    /* Of LAYER_PART_LOSS, [part][sample]: forward writes those of part `part`; backward and results read those of all
     * `stat_parts` parts. */
    struct part_stats *stats;
    uint32_t part, stat_parts;
};

/* What LAYER_PART_LOSS finds out about the logits of a sample in its part of the classes; the softmax over all classes
 * follows from these of all parts. */
struct part_stats {
    float largest;              /* the largest logit; NaN if one is NaN */
    uint32_t predicted;         /* its class in the whole net: the first of equals */
    double sum;                 /* of exp(logit - largest) */
    double target;              /* sum of target probability * class weight * logit */
};

struct backend_base {
    const struct backend_ops *ops;
    void *pool;                 /* memory of the buffers of all plans, block by block */
    size_t *block_ends;         /* [block_count]: bytes from the start of the pool to the end of a block */
    uint32_t block_count;
};

/* The bytes of the pool that all plans made so far need. */
size_t backend_pool_bytes(const struct backend_base *base);
/* Free what plans have added to it. */
void backend_base_release(struct backend_base *base);

/* A row of a backend's layer table: how the backend computes groups whose head is of one kind. All functions receive
 * the head and return 0 or a negative errno. */
struct layer_ops {
    /* How groups of the kind use values. */
    struct value_use uses;
    /* If groups of the kind use values differently: set *use_out, which is `uses` at the call, to the use by this
     * group. Called before plan. NULL: all groups are alike. */
    void (*use)(const struct plan *plan, uint32_t head, struct value_use *use_out);
    /* Size of the group's entry in plan_base.states, which is all 0 before plan; 0: it has none. */
    size_t state_bytes;
    /* Prepare everything that depends only on shapes. NULL: nothing. */
    int (*plan)(struct plan *plan, uint32_t head);
    int (*forward)(struct plan *plan, uint32_t head);
    /* Compute the gradients of its parameters. NULL: it has none. */
    int (*backward_parameters)(struct plan *plan, uint32_t head);
    /* Compute the gradients of its inputs as plan->values.flows says; called when one is needed. NULL: forward has
     * written them, or the group is an identity. */
    int (*backward_inputs)(struct plan *plan, uint32_t head);
    /* Free what the state owns, even when plan failed halfway. NULL: nothing. */
    void (*release)(struct plan *plan, uint32_t head);
};

/* The functions and tables that a backend provides for its plans. */
struct plan_ops {
    const struct layer_ops *const *layers;      /* by kind */
    const struct fusion_rule *rules;
    uint32_t rule_count;
    /* Bytes of a value (0: the image) for all samples of the plan, or 0 when they are too many. */
    size_t (*value_bytes)(const struct plan *plan, uint32_t value);
    /* Add buffers that belong to no layer, before the layers are planned. NULL: none. */
    int (*begin)(struct plan *plan);
    /* Add the gradient of `value` in buffer `from` to the one in buffer `to`. */
    int (*add)(struct plan *plan, uint32_t value, uint32_t from, uint32_t to);
    /* Fill a range of the values' block with PLAN_POISON. NULL: the block is host memory. */
    int (*poison)(struct plan *plan, size_t offset, size_t bytes);
};

/* A byte of NaNs in all types of values. Tests fill unused memory with it, to prove that nothing reads it. */
#define PLAN_POISON 0xff

struct plan_base {
    struct backend *backend;
    const struct plan_ops *ops;
    const struct net *net;
    uint32_t count;             /* samples */
    bool training;
    struct layer_range range;
    uint32_t block;             /* as in struct plan_spec */
    struct outside outside;     /* set by the tower, if the net is a share */
    bool keeps_embedding;       /* spec.keeps_embedding (backend.h) */
    struct fusion fusion;
    struct value_memory values;
    void **states;              /* [head]: the state of the group, used by its row from plan to release; NULL: none */
    uint32_t answers;           /* buffer: a struct answer per sample, written by the loss; BUFFER_NONE in training */
    bool has_run;               /* forward, or in training backward, has ended once */
    void *poisoned;             /* the values' block, when unused memory is poisoned after each group; else NULL */
};

/* Take count, training, range and block from the spec. With backend, ops, net and keeps_embedding set. */
void plan_base_use(struct plan_base *base, const struct plan_spec *spec);
/* After plan_base_use: find the groups, plan values and layers, then assign the offsets in the plan's block of the pool.
 * 0, -EOVERFLOW (a value is too large), or another negative errno. */
int plan_base_open(struct plan_base *base);
/* Let the block be large enough for the plan. 0 or -ENOMEM. */
int plan_base_claim(const struct plan_base *base);
void plan_base_close(struct plan_base *base);

int plan_base_forward(struct plan_base *base);
/* Calls layer_done(arg, layer) as soon as the gradients of a layer's parameters are queued. */
int plan_base_backward(struct plan_base *base, void (*layer_done)(void *arg, uint32_t layer), void *arg);
/* Backward of one head; layer_done may be NULL. */
int plan_base_backward_one(struct plan_base *base, uint32_t head, void (*layer_done)(void *arg, uint32_t layer),
                           void *arg);

/* Address of the plan's block, valid until another plan is made. */
static inline char *plan_block(const struct plan_base *base)
{
    const struct backend_base *const backend = (const struct backend_base *)base->backend;
    return (char *)backend->pool + (base->block > 0 ? backend->block_ends[base->block - 1] : 0);
}
/* Address of a buffer, valid until another plan is made; NULL for BUFFER_NONE. */
static inline void *plan_data(const struct plan *plan, uint32_t buffer)
{
    const struct plan_base *const base = (const struct plan_base *)plan;
    return buffer != BUFFER_NONE ? plan_block(base) + base->values.buffers[buffer].offset : NULL;
}
static inline const struct layer *plan_layer(const struct plan *plan, uint32_t layer)
{
    return &((const struct plan_base *)plan)->net->layers[layer];
}
/* Mark the buffer as in use from pass `first` to pass `last` of the head. */
void plan_use(struct plan *plan, uint32_t buffer, uint32_t head, enum pass first, enum pass last);
/* Add a buffer that is in use from pass `first` to pass `last` of the head. 0 or -ENOMEM. */
int plan_scratch(struct plan *plan, uint32_t head, size_t bytes, enum pass first, enum pass last,
                 uint32_t *buffer_out);

static inline const struct group *plan_group(const struct plan_base *base, uint32_t head)
{
    return &base->fusion.groups[head];
}
/* The value that is input `k` of the group, and the value of its result. */
static inline uint32_t plan_input(const struct plan_base *base, uint32_t head, uint32_t k)
{
    return base->fusion.groups[head].inputs[k];
}
static inline uint32_t plan_output(const struct plan_base *base, uint32_t head)
{
    return base->fusion.groups[head].output;
}
static inline const struct flow *plan_flow(const struct plan_base *base, uint32_t head, uint32_t k)
{
    return &base->values.flows[head][k];
}
/* The first layer of this kind in the group, the head included; NET_INPUT: there is none. */
static inline uint32_t plan_find(const struct plan *plan, uint32_t head, enum layer_kind kind)
{
    return plan_layer(plan, head)->kind == kind ? head
                                                : fusion_find(&((const struct plan_base *)plan)->fusion, head, kind);
}
/* Is a batch normalisation, an addition or a ReLU fused into the group? */
static inline bool plan_has_norm(const struct plan *plan, uint32_t head)
{
    return fusion_has(&((const struct plan_base *)plan)->fusion, head, LAYER_BATCH_NORM);
}
static inline bool plan_has_sum(const struct plan *plan, uint32_t head)
{
    return fusion_has(&((const struct plan_base *)plan)->fusion, head, LAYER_ADD);
}
static inline bool plan_has_relu(const struct plan *plan, uint32_t head)
{
    return fusion_has(&((const struct plan_base *)plan)->fusion, head, LAYER_RELU);
}
/* A value and its gradient. */
static inline void *plan_value(const struct plan *plan, uint32_t value)
{
    return plan_data(plan, ((const struct plan_base *)plan)->values.values[value].buffer);
}
static inline void *plan_gradient(const struct plan *plan, uint32_t value)
{
    return plan_data(plan, ((const struct plan_base *)plan)->values.values[value].gradient);
}
/* Input `k` and the result of a group, the gradient of the result, and where the gradient of input `k` is written. */
static inline void *in_value(const struct plan *plan, uint32_t head, uint32_t k)
{
    return plan_value(plan, plan_input((const struct plan_base *)plan, head, k));
}
static inline void *out_value(const struct plan *plan, uint32_t head)
{
    return plan_value(plan, plan_output((const struct plan_base *)plan, head));
}
static inline void *out_gradient(const struct plan *plan, uint32_t head)
{
    return plan_gradient(plan, plan_output((const struct plan_base *)plan, head));
}
static inline void *in_gradient(const struct plan *plan, uint32_t head, uint32_t k)
{
    return plan_data(plan, plan_flow((const struct plan_base *)plan, head, k)->buffer);
}
/* Is the gradient of the result masked by the ReLU of the group already? */
static inline bool plan_output_is_masked(const struct plan_base *base, uint32_t head)
{
    return base->values.values[plan_output(base, head)].is_masked;
}
/* Is the gradient of any input of the group needed? */
bool plan_has_inputs(const struct plan_base *base, uint32_t head);
/* The last batch normalisation before this one that reads the same value or a front of it; NET_INPUT: none. */
uint32_t plan_norm_before(const struct plan_base *base, uint32_t head);
/* The shape of a value. */
static inline struct shape plan_shape(const struct plan_base *base, uint32_t value)
{
    return value == 0 ? base->net->input : base->net->layers[value - 1].out;
}

#endif
