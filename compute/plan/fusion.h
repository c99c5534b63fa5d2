/* Operator fusion: groups of layers that a backend computes as one. A group is a head and a tail of layers after it,
 * whose operations are applied to the head's result before it is stored; the values between them do not exist. The
 * rules of a backend say which kinds it can fuse. Evaluation omits layers that only auxiliary losses read.
 *
 * Values have numbers: 0 is the image, i + 1 the output of layer i. */
#ifndef PIPETRAIN_FUSION_H
#define PIPETRAIN_FUSION_H

#include "compute/net.h"

#define FUSION_TAIL_MAX 3u
#define GROUP_INPUTS_MAX (LAYER_INPUTS_MAX + FUSION_TAIL_MAX)

enum rule_use { RULE_ALWAYS, RULE_TRAINING, RULE_EVALUATION };

/* A chain of layers of the kinds `tail` may be fused with a layer of kind `head` before them. */
struct fusion_rule {
    enum layer_kind head;
    uint32_t tail_count;
    enum layer_kind tail[FUSION_TAIL_MAX];
    enum rule_use use;
};

#define FUSION_LEFT_OUT UINT32_MAX

/* Layers first .. end - 1 of a net, which read nothing of the layers before and end in a loss or LAYER_SEND. */
struct layer_range { uint32_t first, end; };

static inline struct layer_range all_layers(const struct net *net)
{
    return (struct layer_range){ 0, net->layer_count };
}

/* A group. */
struct group {
    uint32_t head;              /* the head of this layer's group, which may be the layer itself; FUSION_LEFT_OUT:
                                 * evaluation omits the layer, or it is not in the range */
    /* Set for heads only: */
    uint32_t tail_count, tail[FUSION_TAIL_MAX];     /* layers, in order */
    uint32_t input_count, inputs[GROUP_INPUTS_MAX]; /* values: the head's inputs, then further inputs of the tail */
    uint32_t output;            /* value */
};

struct fusion {
    const struct net *net;      /* lent */
    struct group *groups;       /* by layer */
    uint32_t *readers;          /* by value: the number of inputs of groups that read it; 0 for a value inside of a
                                 * group */
};

/* Find the groups of the layers of `range`; the others are left out. For every head the first rule that applies is used.
 * A layer is fused only if it is the only reader of the value before it, and its other inputs are computed before the
 * head. 0 or -ENOMEM. */
int fusion_open(struct fusion *fusion, const struct net *net, struct layer_range range,
                const struct fusion_rule *rules, uint32_t rule_count, bool training);
void fusion_close(struct fusion *fusion);

static inline bool fusion_is_head(const struct fusion *fusion, uint32_t layer)
{
    return fusion->groups[layer].head == layer;
}
/* The first layer of this kind in the tail of the group; NET_INPUT: there is none. */
uint32_t fusion_find(const struct fusion *fusion, uint32_t head, enum layer_kind kind);
static inline bool fusion_has(const struct fusion *fusion, uint32_t head, enum layer_kind kind)
{
    return fusion_find(fusion, head, kind) != NET_INPUT;
}
/* The only head that reads the value, or NET_INPUT when none or several do. */
uint32_t fusion_only_reader(const struct fusion *fusion, uint32_t value);

#endif
