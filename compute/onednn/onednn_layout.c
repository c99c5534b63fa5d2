/* Which layouts the values between layers and the parameters have. Decided once when
 * the backend is opened, by asking oneDNN for its own choice and by the class of the
 * implementations, never by timing: the answer has to be the same in all towers. */
#include "compute/onednn/onednn_choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NHWC UINT32_MAX         /* as a block: all channels, however many they are */

dnnl_data_type_t nn_type(enum value_type type)
{
    return type == VALUE_BF16 ? dnnl_bf16 : dnnl_f32;
}

nn_md tensor_md(const struct tensor_layout *tensor, uint32_t count, int rank)
{
    const dnnl_data_type_t type = nn_type(tensor->type);
    const dnnl_dim_t dims[] = { count, tensor->shape.channels, tensor->shape.height, tensor->shape.width };
    if (rank == 2)
        return nn_md_tag(2, dims, dnnl_ab, type);
    const dnnl_format_tag_t tag = tensor->is_nhwc       ? dnnl_acdb
                                  : tensor->block == 1  ? dnnl_abcd
                                  : tensor->block == 8  ? dnnl_aBcd8b
                                  : tensor->block == 16 ? dnnl_aBcd16b
                                                      : dnnl_acdb;
    return nn_md_tag(4, dims, tag, type);
}

uint32_t tensor_block_of(nn_md md)
{
    struct nn_layout layout;
    if (nn_md_layout(md, &layout) || layout.rank != 4)
        return 0;
    if (layout.dims[1] == 1 && layout.block_count == 0)
        return 1;
    if (layout.block_count == 1 && layout.block_dims[0] == 1 && (layout.blocks[0] == 8 || layout.blocks[0] == 16))
        return (uint32_t)layout.blocks[0];
    if (layout.block_count != 0)
        return 0;
    if (layout.strides[1] == 1)
        return (uint32_t)layout.dims[1];
    return layout.strides[1] == layout.dims[2] * layout.dims[3] ? 1 : 0;
}

int tensor_rank(const struct tensor_layout *tensor, enum layer_kind kind)
{
    return kind == LAYER_DENSE && tensor_pixels(tensor) == 1 && tensor->shape.channels % tensor->block == 0 ? 2 : 4;
}

int weighted_dims(const struct layer *layer, const struct tensor_layout *in, dnnl_dim_t dims_out[NN_RANK_MAX])
{
    const bool is_conv = layer->kind == LAYER_CONV2D;
    dims_out[0] = layer->out.channels;
    dims_out[1] = layer->in.channels;
    dims_out[2] = is_conv ? layer->kernel_h : layer->in.height;
    dims_out[3] = is_conv ? layer->kernel_w : layer->in.width;
    return tensor_rank(in, layer->kind);
}

int weighted_mds_open(struct weighted_mds *mds, const struct layer *layer, const struct tensor_layout *in,
                      const struct tensor_layout *out, uint32_t count, nn_md weights, nn_md bias)
{
    *mds = (struct weighted_mds){
        .src = tensor_md(in, count, tensor_rank(in, layer->kind)),
        .weights = weights,
        .bias = bias,
        .dst = tensor_md(out, count, layer->kind == LAYER_DENSE ? 2 : 4),
        .factors = nn_md_typed(weights, nn_type(in->type)),
    };
    if (mds->src != NULL && mds->dst != NULL && mds->factors != NULL)
        return 0;
    weighted_mds_close(mds);
    return -ENOMEM;
}

int conv_mds_open(struct weighted_mds *mds, const struct layer *layer, const struct tensor_layout *in,
                  const struct tensor_layout *out, uint32_t count, enum value_type type)
{
    const dnnl_dim_t src[] = { count, layer->in.channels, layer->in.height, layer->in.width };
    const dnnl_dim_t dst[] = { count, layer->out.channels, layer->out.height, layer->out.width };
    const dnnl_dim_t weights[] = { layer->out.channels, layer->in.channels, layer->kernel_h, layer->kernel_w };
    *mds = (struct weighted_mds){
        .src = in != NULL ? tensor_md(in, count, 4) : nn_md_any(4, src, nn_type(type)),
        .factors = nn_md_any(4, weights, nn_type(type)),
        .dst = out != NULL ? tensor_md(out, count, 4) : nn_md_any(4, dst, nn_type(type)),
    };
    if (mds->src != NULL && mds->dst != NULL && mds->factors != NULL)
        return 0;
    weighted_mds_close(mds);
    return -ENOMEM;
}

void weighted_mds_close(struct weighted_mds *mds)
{
    nn_md_release(mds->src);
    nn_md_release(mds->dst);
    nn_md_release(mds->factors);
    *mds = (struct weighted_mds){ 0 };
}

/* A window that has one place across never strides: any stride that makes no second place is the same convolution. */
static void narrow_stride(struct nn_op *op, const struct layer *layer)
{
    const int64_t columns = layer->in.width, missing = (int64_t)layer->kernel_w - columns - layer->pad_left;
    if (op->kind != NN_CONVOLUTION || layer->out.width != 1 || layer->stride_w <= columns)
        return;
    op->strides[1] = columns;
    op->pad_after[1] = missing > 0 ? missing : 0;
}

void weighted_op(struct nn_op *op, const struct layer *layer, const struct weighted_mds *mds, struct weighted_how how)
{
    *op = (struct nn_op){
        .kind = layer->kind == LAYER_CONV2D ? NN_CONVOLUTION : NN_INNER_PRODUCT,
        .direction = how.direction,
        .winograd = how.winograd,
        .training = how.training,
        .line = how.line,
        .sums = how.with_sum,
        .relu = how.with_relu,
        .src = mds->src,
        .weights = how.direction == NN_BACKWARD_WEIGHTS ? mds->weights : mds->factors,
        .bias = mds->bias,
        .dst = mds->dst,
        .strides = { layer->stride_h, layer->stride_w },
        .kernel = { layer->kernel_h, layer->kernel_w },
        .pad_before = { layer->pad_top, layer->pad_left },
        .pad_after = { layer->pad_bottom, layer->pad_right },
    };
    narrow_stride(op, layer);
}

/* What is decided for the whole net. */
struct layouts {
    struct backend *backend;
    const struct net *net;
    struct fusion fusion;
    uint32_t uniform;           /* the block of all values but the image, where branches meet; 0: each its own */
};

static bool with_relu(const struct layouts *layouts, uint32_t layer)
{
    return fusion_has(&layouts->fusion, layer, LAYER_RELU);
}

static uint32_t next_conv(const struct net *net, uint32_t layer)
{
    for (uint32_t i = layer + 1; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_CONV2D)
            return i;
    return net->layer_count;
}

/* Blocks to try for a convolution's result, best first, 0 where there is none; the next
 * convolution's wish comes first: the deeper one has more to compute. */
enum { RESULTS = 6 };

static void find_results(const struct layouts *layouts, uint32_t layer, uint32_t results[RESULTS])
{
    const struct backend *const backend = layouts->backend;
    const struct layer *const conv = &layouts->net->layers[layer];
    const uint32_t next = next_conv(layouts->net, layer), channels = conv->out.channels;
    uint32_t unused, own_wish, next_wish = 0;
    if (layouts->uniform != 0) {
        results[0] = layouts->uniform == NHWC ? channels : layouts->uniform;
        return;
    }
    conv_wish(backend, conv, with_relu(layouts, layer), &unused, &own_wish);
    if (next < layouts->net->layer_count)
        conv_wish(backend, &layouts->net->layers[next], with_relu(layouts, next), &next_wish, &unused);
    /* All channels together means all of this convolution's. */
    if (next < layouts->net->layer_count && next_wish == layouts->net->layers[next].in.channels)
        next_wish = channels;
    const uint32_t found[RESULTS] = { next_wish, own_wish, 16, 8, channels, 1 };
    memcpy(results, found, sizeof(found));
}

/* The best pair of blocks for a convolution: of those with the best score, the first. */
static void conv_choose(const struct layouts *layouts, uint32_t layer, struct choice *choice)
{
    const struct layer *const conv = choice->layer;
    const uint32_t given = choice->in.block;
    const bool is_open = given == 0, is_nhwc = layouts->uniform == NHWC;
    const uint32_t sources[] = { given, is_open && !is_nhwc ? 1 : 0, is_open ? conv->in.channels : 0 };
    uint32_t results[RESULTS] = { 0 };
    uint32_t best = UINT32_MAX, best_in = !is_open ? given : is_nhwc ? conv->in.channels : 1, best_out = 1;
    find_results(layouts, layer, results);
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++)
        for (size_t r = 0; r < RESULTS; r++) {
            if (sources[s] == 0 || results[r] == 0)
                continue;
            choice->in.block = sources[s];
            choice->out.block = results[r];
            const uint32_t found = choice_score(choice, NULL);
            if (found < best) {
                best = found;
                best_in = sources[s];
                best_out = results[r];
            }
        }
    choice->in.block = best_in;
    choice->out.block = layouts->uniform != 0 ? results[0] : best_out;
}

static uint32_t block_asked(enum layout layout, uint32_t channels)
{
    return layout == LAYOUT_NHWC ? channels : layout == LAYOUT_NCHW ? 1 : 0;
}

/* What is neither convolution nor dense keeps its input's block, but for all channels that become more. */
static uint32_t block_kept(const struct layouts *layouts, const struct choice *choice)
{
    const uint32_t channels = choice->out.shape.channels;
    if (channels == choice->in.shape.channels)
        return choice->in.block;
    if (layouts->uniform == NHWC || layouts->backend->spec.layout == LAYOUT_NHWC)
        return channels;
    return choice->in.block == 8 || choice->in.block == 16 || choice->in.block == 1 ? choice->in.block : channels;
}

/* Blocks of the values around one layer; that of the image is open (0) for the first that reads it. */
static void blocks_choose(const struct layouts *layouts, uint32_t layer, struct choice *choice)
{
    const enum layout asked = layouts->backend->spec.layout;
    if (choice->layer->kind == LAYER_CONV2D && asked == LAYOUT_AUTO) {
        conv_choose(layouts, layer, choice);
        return;
    }
    if (choice->in.block == 0)
        choice->in.block = asked == LAYOUT_NCHW ? 1 : choice->in.shape.channels;
    if (choice->layer->kind == LAYER_DENSE)
        choice->out.block = choice->out.shape.channels;
    else if (choice->layer->kind == LAYER_CONV2D)
        choice->out.block = block_asked(asked, choice->out.shape.channels);
    else
        choice->out.block = block_kept(layouts, choice);
}

/* Everything but weights lies as it is counted. */
static int parameters_choose(struct backend *backend, const struct choice *choice)
{
    for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        const uint32_t parameter = choice->layer->parameters[kind];
        const dnnl_dim_t channels = choice->layer->out.channels;
        if (parameter == NET_NO_PARAMETER || kind == PARAMETER_WEIGHT)
            continue;
        backend->stored[parameter] = nn_md_tag(1, &channels, dnnl_a, dnnl_f32);
        if (backend->stored[parameter] == NULL)
            return -ENOMEM;
    }
    if (!layer_has(choice->layer, PARAMETER_WEIGHT))
        return 0;
    return weights_choose(choice, &backend->stored[choice->layer->parameters[PARAMETER_WEIGHT]]);
}

static bool meets(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].input_count > 1)
            return true;
    return false;
}

/* Of those between layers: what reads the image wants it as it comes, which says nothing of other values. */
static uint32_t largest_conv(const struct net *net)
{
    uint32_t most = net->layer_count;
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_CONV2D && net->layers[i].inputs[0] != NET_INPUT &&
            (most == net->layer_count || net->layers[i].macs > net->layers[most].macs))
            most = i;
    return most;
}

/* Does oneDNN take its kernels of small matrix products for NHWC? They are at least as fast as those
 * for blocks in all directions, and faster where channels are few. */
static bool has_brgconv(const struct layouts *layouts, uint32_t layer)
{
    const struct layer *const conv = &layouts->net->layers[layer];
    const enum value_type type = layouts->backend->type;
    const struct tensor_layout in = { type, conv->in, conv->in.channels, true, 0 };
    const struct tensor_layout out = { type, conv->out, conv->out.channels, true, 0 };
    dnnl_dim_t dims[NN_RANK_MAX];
    nn_md weights = nn_md_any(weighted_dims(conv, &in, dims), dims, dnnl_f32), bias = bias_any(conv);
    dnnl_primitive_desc_t pd = NULL;
    struct weighted_mds mds;
    struct nn_op op;
    bool found = false;
    if (weights != NULL && bias_is_made(conv, bias) &&
        weighted_mds_open(&mds, conv, &in, &out, layouts->backend->spec.slice_max, weights, bias) == 0) {
        weighted_op(&op, conv, &mds, (struct weighted_how){ .direction = NN_FORWARD, .training = true,
                                                              .with_relu = with_relu(layouts, layer) });
        found = pd_find(layouts->backend->engine, &op, NULL, &pd) == PD_FAST &&
                strstr(nn_pd_name(pd), "brgconv") != NULL;
        weighted_mds_close(&mds);
    }
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    nn_md_release(weights);
    nn_md_release(bias);
    return found;
}

/* Are there concatenations that put more behind what one before them has put together, as in densely connected blocks?
 * With all channels together such values grow where they are, and without a copy. */
static bool grows(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const uint32_t first = net->layers[i].kind == LAYER_CONCAT ? net->layers[i].inputs[0] : NET_INPUT;
        if (first != NET_INPUT && net->layers[first].kind == LAYER_CONCAT)
            return true;
    }
    return false;
}

/* Has oneDNN fast kernels of a convolution for NHWC, in all directions? */
static bool has_fast_nhwc(const struct layouts *layouts, uint32_t layer)
{
    const struct layer *const conv = &layouts->net->layers[layer];
    const enum value_type type = layouts->backend->type;
    const struct choice choice = {
        .backend = layouts->backend, .layer = conv, .has_data = true, .with_relu = with_relu(layouts, layer),
        .in = { type, conv->in, conv->in.channels, true, 0 }, .out = { type, conv->out, conv->out.channels, true, 0 },
    };
    return choice_score(&choice, NULL) / CHOICE_CLASS <= PD_FAST;
}

#define SAVING_SHARE 0.03       /* of all that the convolutions multiply */

/* In blocks, values that could grow where they are are copied again and again. Is that little memory: no more samples
 * than Winograd's algorithm has scratch memory for at once? */
static bool may_copy(const struct layouts *layouts, uint32_t layer)
{
    const struct backend *const backend = layouts->backend;
    const uint32_t count = backend->spec.slice_max;
    return !grows(layouts->net) ||
           winograd_samples(backend, &layouts->net->layers[layer], NULL, NULL, count, true) == count;
}

/* The block that Winograd's algorithm wants, when it saves enough of the net's work; or 0. */
static uint32_t find_winograd(const struct layouts *layouts)
{
    const struct backend *const backend = layouts->backend;
    const struct net *const net = layouts->net;
    double all = 0, saved = 0, one, most = 0;
    uint32_t best = net->layer_count, source, result;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        all += (double)net->layers[i].macs * backend->spec.slice_max;
        if (winograd_room(backend, &net->layers[i], backend->spec.slice_max, &one) == 0)
            continue;
        saved += one;
        best = one > most ? i : best;
        most = one > most ? one : most;
    }
    if (best == net->layer_count || saved < all * SAVING_SHARE || !may_copy(layouts, best) ||
        conv_wish(backend, &net->layers[best], with_relu(layouts, best), &source, &result) != PD_WINOGRAD)
        return 0;
    return source;
}

/* Where branches meet, all values lie alike: as is asked for; or as Winograd's algorithm wants them; or in NHWC where
 * the convolution with most to compute has kernels of small matrix products, or where values grow and that convolution
 * has fast kernels; or as that convolution asks for. */
static uint32_t find_uniform(const struct layouts *layouts)
{
    const uint32_t layer = largest_conv(layouts->net);
    const enum layout asked = layouts->backend->spec.layout;
    uint32_t source, unused;
    if (!meets(layouts->net) || layer == layouts->net->layer_count || asked == LAYOUT_NCHW)
        return 0;
    if (asked == LAYOUT_NHWC)
        return NHWC;
    const uint32_t winograd = find_winograd(layouts);
    if (winograd != 0)
        return winograd;
    if (has_brgconv(layouts, layer) || (grows(layouts->net) && has_fast_nhwc(layouts, layer)))
        return NHWC;
    const struct layer *const conv = &layouts->net->layers[layer];
    conv_wish(layouts->backend, conv, with_relu(layouts, layer), &source, &unused);
    return source == conv->in.channels && source != 8 && source != 16 ? NHWC : source;
}

static int choose_all(struct layouts *layouts)
{
    struct backend *const backend = layouts->backend;
    int rc = 0;
    backend->is_nhwc = layouts->uniform == NHWC;
    for (uint32_t i = 0; i < layouts->net->layer_count && rc == 0; i++) {
        const struct layer *const layer = &layouts->net->layers[i];
        uint32_t *const in_block = &backend->blocks[layer->inputs[0] + 1];
        struct choice choice = {
            .backend = backend, .layer = layer, .has_data = backend->goes_back[layer->inputs[0] + 1],
            .with_relu = with_relu(layouts, i),
            .in = { .type = backend->type, .shape = layer->in, .block = *in_block, .is_nhwc = backend->is_nhwc },
            .out = { .type = backend->type, .shape = layer->out, .is_nhwc = backend->is_nhwc },
        };
        blocks_choose(layouts, i, &choice);
        *in_block = choice.in.block;
        backend->blocks[i + 1] = choice.out.block;
        backend->goes_back[i + 1] = layer_is_trained(layer);
        for (uint32_t k = 0; k < layer->input_count; k++)
            backend->goes_back[i + 1] |= backend->goes_back[layer->inputs[k] + 1];
        rc = parameters_choose(backend, &choice);
    }
    return rc;
}

/* Numbers of the same shape in the same order: the blocks are equal, or make no difference. */
static bool lie_alike(const struct layer *layer, uint32_t a, uint32_t b)
{
    const bool is_row = layer->in.height == 1 && layer->in.width == 1;
    return a == b || (is_row && layer->in.channels % a == 0 && layer->in.channels % b == 0);
}

/* What is added to something lies as that does. */
static bool meets_alike(const struct layouts *layouts)
{
    const uint32_t *const blocks = layouts->backend->blocks;
    for (uint32_t i = 0; i < layouts->net->layer_count; i++) {
        const struct layer *const layer = &layouts->net->layers[i];
        for (uint32_t k = 1; k < layer->input_count && layer->kind != LAYER_CONCAT; k++)
            if (!lie_alike(layer, blocks[layer->inputs[0] + 1], blocks[layer->inputs[k] + 1]))
                return false;
    }
    return true;
}

static void forget_choices(struct layouts *layouts)
{
    struct backend *const backend = layouts->backend;
    for (uint32_t i = 0; i < layouts->net->parameter_count; i++) {
        nn_md_release(backend->stored[i]);
        backend->stored[i] = NULL;
    }
    backend->blocks[0] = 0;
}

enum layout layout_asked(enum layout layout, enum value_type type, enum instructions instructions)
{
    const bool has_amx = type == VALUE_BF16 && instructions == INSTRUCTIONS_AMX;
    return layout == LAYOUT_AUTO && has_amx ? LAYOUT_NHWC : layout;
}

int layouts_choose(struct backend *backend)
{
    backend->spec.layout = layout_asked(backend->spec.layout, backend->type, nn_instructions());
    struct layouts layouts = { .backend = backend, .net = backend->spec.net };
    int rc = fusion_open(&layouts.fusion, layouts.net, onednn_rules, onednn_rule_count, true);
    if (rc != 0)
        return rc;
    layouts.uniform = find_uniform(&layouts);
    rc = choose_all(&layouts);
    /* Where the image or a dense layer meets a convolution: with all channels together all do. */
    if (rc == 0 && !meets_alike(&layouts)) {
        forget_choices(&layouts);
        layouts.uniform = NHWC;
        rc = choose_all(&layouts);
    }
    fusion_close(&layouts.fusion);
    return rc;
}
