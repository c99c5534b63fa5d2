/* Which layers are computed as one: a head and, folded into it, layers behind it that do
 * something to its result on the way. Found by one pass over the graph from the rules of a
 * backend; what a backend's row of the head computes is the whole group. Between the layers of
 * a group there are no values. Evaluation leaves out what only auxiliary losses read.
 *
 * Values have numbers: 0 is the image, i + 1 what layer i makes. */
#ifndef PIPETRAIN_FUSION_H
#define PIPETRAIN_FUSION_H

#include "compute/net.h"

#define FUSION_TAIL_MAX 3u
#define GROUP_INPUTS_MAX (LAYER_INPUTS_MAX + FUSION_TAIL_MAX)

enum rule_use { RULE_ALWAYS, RULE_TRAINING, RULE_EVALUATION };

/* Layers of the kinds `tail`, one behind the other, may be folded into one of kind `head`. */
struct fusion_rule {
    enum layer_kind head;
    uint32_t tail_count;
    enum layer_kind tail[FUSION_TAIL_MAX];
    enum rule_use use;
};

#define FUSION_LEFT_OUT UINT32_MAX

/* A head and what is folded into it. */
struct group {
    uint32_t head;              /* the layer that does this one's work: itself when it is a head;
                                 * FUSION_LEFT_OUT: evaluation does without it */
    /* Of heads: */
    uint32_t tail_count, tail[FUSION_TAIL_MAX];     /* layers, in order */
    uint32_t input_count, inputs[GROUP_INPUTS_MAX]; /* values: the head's, then what the tail adds */
    uint32_t output;            /* value */
};

struct fusion {
    const struct net *net;      /* lent */
    struct group *groups;       /* by layer */
    uint32_t *readers;          /* by value: groups' inputs that name it; 0 inside a group */
};

/* Rules come in the order of preference: for every head the first that applies. A layer is
 * folded only if nobody else reads what it reads, and what else it reads is made before the
 * head. 0 or -ENOMEM. */
int fusion_open(struct fusion *fusion, const struct net *net, const struct fusion_rule *rules, uint32_t rule_count,
                bool training);
void fusion_close(struct fusion *fusion);

static inline bool fusion_is_head(const struct fusion *fusion, uint32_t layer)
{
    return fusion->groups[layer].head == layer;
}
/* Is a layer of this kind folded into the group? */
bool fusion_has(const struct fusion *fusion, uint32_t head, enum layer_kind kind);
/* The one head that reads the value, or NET_INPUT when several or none do. */
uint32_t fusion_only_reader(const struct fusion *fusion, uint32_t value);

#endif
