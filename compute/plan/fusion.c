/* Finds the groups in one pass over the graph, from the first layer to the last. Called when a plan is made. */
#include "compute/plan/fusion.h"

#include <errno.h>
#include <stdlib.h>

#define UNDECIDED (UINT32_MAX - 1)      /* head of a layer that is neither omitted nor in a group yet */

static bool is_loss(const struct net *net, struct layer_range range, uint32_t layer, bool training)
{
    const enum layer_kind kind = net->layers[layer].kind;
    return layer + 1 == range.end || kind == LAYER_SEND || kind == LAYER_PART_LOSS ||
           (training && kind == LAYER_AUXILIARY_LOSS);
}

/* Find the layers that are computed, from the losses backward: a layer is computed if a computed layer reads it. */
static void find_needed(struct fusion *fusion, struct layer_range range, bool training)
{
    for (uint32_t i = 0; i < fusion->net->layer_count; i++)
        fusion->groups[i].head = FUSION_LEFT_OUT;
    for (uint32_t i = range.end; i-- > range.first;) {
        const struct layer *const layer = &fusion->net->layers[i];
        const bool is_needed = is_loss(fusion->net, range, i, training) || fusion->readers[i + 1] > 0;
        fusion->groups[i].head = is_needed ? UNDECIDED : FUSION_LEFT_OUT;
        for (uint32_t k = 0; k < layer->input_count && is_needed; k++)
            fusion->readers[layer->inputs[k] + 1]++;
    }
}

static uint32_t find_reader(const struct fusion *fusion, uint32_t layer)
{
    const struct net *const net = fusion->net;
    for (uint32_t i = layer + 1; i < net->layer_count; i++)
        for (uint32_t k = 0; k < net->layers[i].input_count && fusion->groups[i].head != FUSION_LEFT_OUT; k++)
            if (net->layers[i].inputs[k] == layer)
                return i;
    return net->layer_count;
}

/* Are all inputs of `layer`, except the result of the group so far, computed before the head? */
static bool is_ready(const struct net *net, uint32_t layer, uint32_t last, uint32_t head)
{
    const struct layer *const made = &net->layers[layer];
    for (uint32_t k = 0; k < made->input_count; k++)
        if (made->inputs[k] != last && made->inputs[k] != NET_INPUT && made->inputs[k] >= head)
            return false;
    return true;
}

/* Find the tail of `head` by the rule. False when the rule does not apply. */
static bool find_tail(const struct fusion *fusion, uint32_t head, const struct fusion_rule *rule, uint32_t *tail)
{
    const struct net *const net = fusion->net;
    uint32_t last = head;
    for (uint32_t t = 0; t < rule->tail_count; t++) {
        if (fusion->readers[last + 1] != 1)
            return false;
        const uint32_t next = find_reader(fusion, last);
        if (next == net->layer_count || net->layers[next].kind != rule->tail[t] || !is_ready(net, next, last, head))
            return false;
        tail[t] = last = next;
    }
    return true;
}

static void add_inputs(struct group *group, const struct layer *layer, uint32_t but)
{
    for (uint32_t k = 0; k < layer->input_count; k++)
        if (layer->inputs[k] != but || but == NET_INPUT)
            group->inputs[group->input_count++] = layer->inputs[k] + 1;
}

static void make_group(struct fusion *fusion, uint32_t head, uint32_t tail_count, const uint32_t *tail)
{
    struct group *const group = &fusion->groups[head];
    uint32_t last = head;
    *group = (struct group){ .head = head, .tail_count = tail_count };
    add_inputs(group, &fusion->net->layers[head], NET_INPUT);
    for (uint32_t t = 0; t < tail_count; t++) {
        group->tail[t] = tail[t];
        fusion->groups[tail[t]].head = head;
        add_inputs(group, &fusion->net->layers[tail[t]], last);
        fusion->readers[last + 1] = 0;
        last = tail[t];
    }
    group->output = last + 1;
}

static void fuse(struct fusion *fusion, uint32_t head, const struct fusion_rule *rules, uint32_t rule_count,
                 bool training)
{
    const enum rule_use others = training ? RULE_EVALUATION : RULE_TRAINING;
    uint32_t tail[FUSION_TAIL_MAX];
    for (uint32_t r = 0; r < rule_count; r++)
        if (rules[r].head == fusion->net->layers[head].kind && rules[r].use != others &&
            find_tail(fusion, head, &rules[r], tail)) {
            make_group(fusion, head, rules[r].tail_count, tail);
            return;
        }
    make_group(fusion, head, 0, NULL);
}

int fusion_open(struct fusion *fusion, const struct net *net, struct layer_range range,
                const struct fusion_rule *rules, uint32_t rule_count, bool training)
{
    *fusion = (struct fusion){
        .net = net,
        .groups = calloc(net->layer_count, sizeof(*fusion->groups)),
        .readers = calloc((size_t)net->layer_count + 1, sizeof(*fusion->readers)),
    };
    if (fusion->groups == NULL || fusion->readers == NULL) {
        fusion_close(fusion);
        return -ENOMEM;
    }
    find_needed(fusion, range, training);
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (fusion->groups[i].head == UNDECIDED)
            fuse(fusion, i, rules, rule_count, training);
    return 0;
}

void fusion_close(struct fusion *fusion)
{
    free(fusion->groups);
    free(fusion->readers);
    *fusion = (struct fusion){ 0 };
}

uint32_t fusion_find(const struct fusion *fusion, uint32_t head, enum layer_kind kind)
{
    const struct group *const group = &fusion->groups[head];
    for (uint32_t t = 0; t < group->tail_count; t++)
        if (fusion->net->layers[group->tail[t]].kind == kind)
            return group->tail[t];
    return NET_INPUT;
}

uint32_t fusion_only_reader(const struct fusion *fusion, uint32_t value)
{
    if (fusion->readers[value] != 1)
        return NET_INPUT;
    for (uint32_t i = value; i < fusion->net->layer_count; i++) {
        const struct group *const group = &fusion->groups[i];
        for (uint32_t k = 0; group->head == i && k < group->input_count; k++)
            if (group->inputs[k] == value)
                return i;
    }
    return NET_INPUT;
}
