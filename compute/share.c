/* Finds the head of a net, and builds the share of a tower from the whole net. Called while a run is being set up. */
#include "compute/share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/schedule.h"

/* ---- the head ---- */

static bool is_of_head(enum layer_kind kind)
{
    return kind == LAYER_DENSE || kind == LAYER_RELU || kind == LAYER_DROPOUT || kind == LAYER_SOFTMAX_LOSS;
}

/* The first dense layer of the chain that ends in the loss. NET_INPUT: the chain has none. */
static uint32_t find_first(const struct net *net)
{
    uint32_t first = NET_INPUT;
    for (uint32_t i = net->layer_count; i-- > 0 && is_of_head(net->layers[i].kind);) {
        if (net->layers[i].kind == LAYER_DENSE)
            first = i;
        if (net->layers[i].inputs[0] != i - 1)
            break;
    }
    return first;
}

static bool is_trained_before(const struct net *net, uint32_t layer)
{
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (net->parameters[i].layer < layer && parameter_is_updated(&net->parameters[i]))
            return true;
    return false;
}

static int add_stage(struct head *head, const struct net *net, uint32_t first, struct unsupported_reason *reason)
{
    const struct layer *const dense = &net->layers[first];
    uint32_t end = first + 1;
    while (net->layers[end].kind == LAYER_RELU || net->layers[end].kind == LAYER_DROPOUT)
        end++;
    if (head->stage_count == HEAD_STAGES_MAX)
        return unsupported_reason_set(reason, -EINVAL, "parts", "more than %u dense layers at the end of the network",
                                      HEAD_STAGES_MAX);
    if (dense->out.channels % head->parts != 0)
        return unsupported_reason_set(reason, -EINVAL, "parts", "layer '%.47s' has %u units, which %u parts do not divide",
                                      dense->name, dense->out.channels, head->parts);
    head->stages[head->stage_count++] = (struct head_stage){
        .first = first, .end = end, .inputs = (uint32_t)shape_count(dense->in), .units = dense->out.channels,
        .sends_gradient = is_trained_before(net, first),
    };
    return 0;
}

int head_find(struct head *head_out, const struct net *net, uint32_t parts, struct unsupported_reason *reason)
{
    const uint32_t first = find_first(net);
    *head_out = (struct head){ .parts = parts, .first = first };
    if (parts == 0 || parts > SHARE_PARTS_MAX)
        return unsupported_reason_set(reason, -EINVAL, "parts", "%u is not from 1 to %u", parts, SHARE_PARTS_MAX);
    if (first == NET_INPUT)
        return unsupported_reason_set(reason, -EINVAL, "parts", "the network does not end in a dense layer, so there is "
                                      "nothing to divide");
    head_out->features = (uint32_t)shape_count(net->layers[first].in);
    int rc = 0;
    for (uint32_t i = first; i < net->layer_count && rc == 0; i++)
        if (net->layers[i].kind == LAYER_DENSE)
            rc = add_stage(head_out, net, i, reason);
    return rc;
}

bool head_parts_fit(uint32_t parts, uint32_t towers)
{
    return schedule_slices_fit(parts, towers);
}

struct part_range head_own_parts(uint32_t parts, uint32_t towers, uint32_t tower)
{
    const uint32_t count = parts / towers;
    return (struct part_range){ tower * count, count };
}

/* ---- the ranges of a share ---- */

/* Layers of one part of a stage: LAYER_RECEIVE, those of the whole net, LAYER_SEND or LAYER_PART_LOSS. */
static uint32_t chain_length(const struct head *head, uint32_t stage)
{
    return head->stages[stage].end - head->stages[stage].first + 2;
}

struct layer_range share_trunk(const struct head *head)
{
    return (struct layer_range){ 0, head->first + 1 };
}

struct layer_range share_stage(const struct head *head, struct part_range own, uint32_t stage, uint32_t part)
{
    uint32_t first = share_trunk(head).end;
    for (uint32_t s = 0; s < stage; s++)
        first += own.count * chain_length(head, s);
    first += part * chain_length(head, stage);
    return (struct layer_range){ first, first + chain_length(head, stage) };
}

/* ---- building a share ---- */

struct builder {
    struct net *share;
    const struct net *whole;
    const struct head *head;
};

static struct layer *add_layer(struct builder *builder, uint32_t whole_index, uint32_t part)
{
    struct net *const share = builder->share;
    share->share->layers[share->layer_count] = whole_index;
    share->share->parts[share->layer_count] = part;
    return &share->layers[share->layer_count++];
}

/* Add part `part` of `parts` of a parameter, whose first dimension is divided. Returns its index. */
static uint32_t add_parameter(struct builder *builder, uint32_t whole_index, uint32_t layer, uint32_t part,
                              uint32_t parts)
{
    struct net *const share = builder->share;
    const uint32_t index = share->parameter_count++;
    struct parameter *const parameter = &share->parameters[index];
    *parameter = builder->whole->parameters[whole_index];
    parameter->layer = layer;
    parameter->dims[0] /= parts;
    parameter->count /= parts;
    share->share->parameters[index] = whole_index;
    share->share->firsts[index] = part * parameter->count;
    share->share->is_part[index] = layer > builder->head->first;
    return index;
}

/* Add a layer of the whole net, or a part of its channels. It reads the layer before it, unless it is of the trunk. */
static void add_whole(struct builder *builder, uint32_t whole_index, uint32_t part, uint32_t parts)
{
    const uint32_t index = builder->share->layer_count;
    struct layer *const layer = add_layer(builder, whole_index, part);
    *layer = builder->whole->layers[whole_index];
    if (whole_index >= builder->head->first) {
        layer->inputs[0] = index - 1;
        layer->in = builder->share->layers[index - 1].out;
        layer->out.channels /= parts;
        layer->macs /= parts;
    }
    for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        if (layer_has(layer, kind))
            layer->parameters[kind] = add_parameter(builder, layer->parameters[kind], index, part, parts);
}

/* A layer of a kind that only shares have, with the name of its kind and `name`. */
static struct layer *add_own(struct builder *builder, enum layer_kind kind, const char *name, uint32_t part)
{
    struct layer *const layer = add_layer(builder, NET_INPUT, part);
    *layer = (struct layer){ .kind = kind, .loss_weight = 1.0f };
    snprintf(layer->name, sizeof(layer->name), "%s %.36s", layer_kind_name(kind), name);
    for (uint32_t i = 0; i < PARAMETER_KIND_COUNT; i++)
        layer->parameters[i] = NET_NO_PARAMETER;
    return layer;
}

/* LAYER_SEND or LAYER_PART_LOSS, which reads `from`. */
static void add_end(struct builder *builder, enum layer_kind kind, const char *name, uint32_t from, uint32_t part)
{
    const struct shape shape = from == NET_INPUT ? builder->share->input : builder->share->layers[from].out;
    struct layer *const layer = add_own(builder, kind, name, part);
    layer->input_count = 1;
    layer->inputs[0] = from;
    layer->in = layer->out = shape;
}

static void add_trunk(struct builder *builder)
{
    const uint32_t first = builder->head->first;
    for (uint32_t i = 0; i < first; i++)
        add_whole(builder, i, 0, 1);
    add_end(builder, LAYER_SEND, "features", builder->whole->layers[first].inputs[0], 0);
}

static void add_chain(struct builder *builder, uint32_t stage, uint32_t part)
{
    const struct head *const head = builder->head;
    const struct head_stage *const made = &head->stages[stage];
    const char *const name = builder->whole->layers[made->first].name;
    const bool is_last = stage + 1 == head->stage_count;
    struct layer *const receive = add_own(builder, LAYER_RECEIVE, name, part);
    receive->in = receive->out = (struct shape){ made->inputs, 1, 1 };
    receive->is_frozen = !made->sends_gradient;
    for (uint32_t i = made->first; i < made->end; i++)
        add_whole(builder, i, part, head->parts);
    add_end(builder, is_last ? LAYER_PART_LOSS : LAYER_SEND, name, builder->share->layer_count - 1, part);
}

static int alloc_share(struct net **share_out, const struct net *whole, uint32_t layers, uint32_t parameters)
{
    struct net *const share = calloc(1, sizeof(*share));
    if (share == NULL)
        return -ENOMEM;
    *share = *whole;
    share->layers = calloc(layers, sizeof(*share->layers));
    share->parameters = calloc(parameters + 1, sizeof(*share->parameters));
    share->share = calloc(1, sizeof(*share->share));
    if (share->share != NULL)
        *share->share = (struct net_share){
            .layers = calloc(layers, sizeof(*share->share->layers)),
            .parts = calloc(layers, sizeof(*share->share->parts)),
            .parameters = calloc(parameters + 1, sizeof(*share->share->parameters)),
            .firsts = calloc(parameters + 1, sizeof(*share->share->firsts)),
            .is_part = calloc(parameters + 1, sizeof(*share->share->is_part)),
        };
    const struct net_share *const from = share->share;
    if (share->layers == NULL || share->parameters == NULL || from == NULL || from->layers == NULL ||
        from->parts == NULL || from->parameters == NULL || from->firsts == NULL || from->is_part == NULL) {
        net_close(share);
        return -ENOMEM;
    }
    share->layer_count = share->parameter_count = 0;
    *share_out = share;
    return 0;
}

static void add_totals(struct net *share)
{
    share->trainable_count = share->frozen_count = 0;
    share->macs = 0;
    for (uint32_t i = 0; i < share->parameter_count; i++) {
        const struct parameter *const parameter = &share->parameters[i];
        share->trainable_count += parameter->is_trained ? parameter->count : 0;
        share->frozen_count += parameter->is_frozen ? parameter->count : 0;
    }
    for (uint32_t i = 0; i < share->layer_count; i++)
        share->macs += share->layers[i].macs;
}

int share_open(struct net **share_out, const struct net *whole, const struct head *head, struct part_range own)
{
    const uint32_t layers = share_stage(head, own, head->stage_count - 1, own.count - 1).end;
    struct builder builder = { .whole = whole, .head = head };
    const int rc = alloc_share(&builder.share, whole, layers, whole->parameter_count * own.count);
    if (rc != 0)
        return rc;
    add_trunk(&builder);
    for (uint32_t stage = 0; stage < head->stage_count; stage++)
        for (uint32_t part = 0; part < own.count; part++)
            add_chain(&builder, stage, own.first + part);
    add_totals(builder.share);
    *share_out = builder.share;
    return 0;
}
