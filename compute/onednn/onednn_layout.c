/* Which layouts the values between layers and the parameters have. Decided once when
 * the backend is opened, by asking oneDNN for its own choice and by the class of the
 * implementations, never by timing: the answer has to be the same in all towers. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

nn_md edge_md(const struct edge *edge, uint32_t count, int rank)
{
    const dnnl_dim_t dims[] = { count, edge->shape.channels, edge->shape.height, edge->shape.width };
    if (rank == 2)
        return nn_md_tag(2, dims, dnnl_ab);
    const dnnl_format_tag_t tag = edge->block == 1    ? dnnl_abcd
                                  : edge->block == 8  ? dnnl_aBcd8b
                                  : edge->block == 16 ? dnnl_aBcd16b
                                                      : dnnl_acdb;
    return nn_md_tag(4, dims, tag);
}

uint32_t edge_block_of(nn_md md)
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

int edge_rank(const struct edge *edge, enum layer_kind kind)
{
    return kind == LAYER_DENSE && edge_pixels(edge) == 1 && edge->shape.channels % edge->block == 0 ? 2 : 4;
}

int weighted_dims(const struct layer *layer, const struct edge *in, dnnl_dim_t dims_out[NN_RANK_MAX])
{
    const bool is_conv = layer->kind == LAYER_CONV2D;
    dims_out[0] = layer->out.channels;
    dims_out[1] = layer->in.channels;
    dims_out[2] = is_conv ? layer->kernel_h : layer->in.height;
    dims_out[3] = is_conv ? layer->kernel_w : layer->in.width;
    return edge_rank(in, layer->kind);
}

int weighted_mds_open(struct weighted_mds *mds, const struct layer *layer, const struct edge *in,
                      const struct edge *out, uint32_t count, nn_md weights, nn_md bias)
{
    *mds = (struct weighted_mds){
        .src = edge_md(in, count, edge_rank(in, layer->kind)),
        .weights = weights,
        .bias = bias,
        .dst = edge_md(out, count, layer->kind == LAYER_DENSE ? 2 : 4),
    };
    if (mds->src != NULL && mds->dst != NULL)
        return 0;
    weighted_mds_close(mds);
    return -ENOMEM;
}

void weighted_mds_close(struct weighted_mds *mds)
{
    nn_md_release(mds->src);
    nn_md_release(mds->dst);
    *mds = (struct weighted_mds){ 0 };
}

void weighted_op(struct nn_op *op, const struct layer *layer, const struct weighted_mds *mds,
                 enum nn_direction direction, bool training)
{
    *op = (struct nn_op){
        .kind = layer->kind == LAYER_CONV2D ? NN_CONVOLUTION : NN_INNER_PRODUCT,
        .direction = direction,
        .training = training,
        .relu = direction == NN_FORWARD && layer->relu,
        .src = mds->src, .weights = mds->weights, .bias = mds->bias, .dst = mds->dst,
        .strides = { layer->stride_h, layer->stride_w },
        .kernel = { layer->kernel_h, layer->kernel_w },
        .pad_before = { layer->pad_top, layer->pad_left },
        .pad_after = { layer->pad_bottom, layer->pad_right },
    };
}

/* What is being decided about one layer with weights. */
struct choice {
    struct backend *backend;
    const struct layer *layer;
    struct edge in, out;
    bool has_data;              /* backward goes on below it */
};

/* The descriptor of the weights that oneDNN prefers in one direction, given the layouts of
 * src and dst; NULL when there is no implementation that is not "ref". */
static nn_md weights_wish(const struct choice *choice, const struct weighted_mds *mds, enum nn_direction direction)
{
    const dnnl_engine_t engine = choice->backend->engine;
    dnnl_primitive_desc_t forward = NULL, pd = NULL;
    struct nn_op op;
    nn_md wish = NULL;
    weighted_op(&op, choice->layer, mds, NN_FORWARD, true);
    if (pd_find(engine, &op, NULL, &forward) == PD_NONE)
        return NULL;
    if (direction == NN_FORWARD) {
        wish = nn_md_of(forward, DNNL_ARG_WEIGHTS);
    } else {
        weighted_op(&op, choice->layer, mds, direction, true);
        if (pd_find(engine, &op, forward, &pd) < PD_REF)
            wish = nn_md_of(pd, DNNL_ARG_WEIGHTS);
        if (pd != NULL)
            dnnl_primitive_desc_destroy(pd);
    }
    dnnl_primitive_desc_destroy(forward);
    return wish;
}

/* How bad these layouts are: the worst class first, then the sum over the directions. */
static uint32_t score_mds(const struct choice *choice, const struct weighted_mds *mds)
{
    const dnnl_engine_t engine = choice->backend->engine;
    dnnl_primitive_desc_t forward = NULL;
    struct nn_op op;
    weighted_op(&op, choice->layer, mds, NN_FORWARD, true);
    uint32_t worst = pd_find(engine, &op, NULL, &forward), sum = worst;
    if (worst == PD_NONE)
        return UINT32_MAX;
    for (int i = NN_BACKWARD_DATA; i <= NN_BACKWARD_WEIGHTS; i++) {
        const enum nn_direction direction = (enum nn_direction)i;
        dnnl_primitive_desc_t pd = NULL;
        if ((direction == NN_BACKWARD_DATA && !choice->has_data) ||
            (direction == NN_BACKWARD_WEIGHTS && first_conv_fits(choice->layer, &choice->in, &choice->out)))
            continue;
        weighted_op(&op, choice->layer, mds, direction, true);
        const uint32_t class = pd_find(engine, &op, forward, &pd);
        if (pd != NULL)
            dnnl_primitive_desc_destroy(pd);
        sum += class;
        worst = class > worst ? class : worst;
    }
    dnnl_primitive_desc_destroy(forward);
    return worst * 100 + sum;
}

/* Score of the layouts with the weights `weights`, or with weights in any layout. */
static uint32_t score(const struct choice *choice, nn_md weights)
{
    dnnl_dim_t dims[NN_RANK_MAX];
    const dnnl_dim_t outputs = choice->layer->out.channels;
    const int rank = weighted_dims(choice->layer, &choice->in, dims);
    nn_md any = nn_md_any(rank, dims), bias = nn_md_any(1, &outputs);
    struct weighted_mds mds;
    uint32_t result = UINT32_MAX;
    if (any != NULL && bias != NULL &&
        weighted_mds_open(&mds, choice->layer, &choice->in, &choice->out, choice->backend->spec.slice_max,
                          weights != NULL ? weights : any, bias) == 0) {
        result = score_mds(choice, &mds);
        weighted_mds_close(&mds);
    }
    nn_md_release(any);
    nn_md_release(bias);
    return result;
}

/* The blocks oneDNN itself would take for a convolution's source and result. */
static void conv_wish(const struct backend *backend, const struct layer *layer, uint32_t *src_out,
                      uint32_t *dst_out)
{
    const uint32_t count = backend->spec.slice_max;
    const dnnl_dim_t src[] = { count, layer->in.channels, layer->in.height, layer->in.width };
    const dnnl_dim_t dst[] = { count, layer->out.channels, layer->out.height, layer->out.width };
    const dnnl_dim_t weights[] = { layer->out.channels, layer->in.channels, layer->kernel_h, layer->kernel_w };
    struct weighted_mds mds = { nn_md_any(4, src), nn_md_any(4, weights), nn_md_any(1, dst + 1), nn_md_any(4, dst) };
    dnnl_primitive_desc_t pd = NULL;
    struct nn_op op;
    weighted_op(&op, layer, &mds, NN_FORWARD, true);
    *src_out = *dst_out = 0;
    if (mds.src != NULL && mds.weights != NULL && mds.bias != NULL && mds.dst != NULL &&
        pd_find(backend->engine, &op, NULL, &pd) != PD_NONE) {
        nn_md src_md = nn_md_of(pd, DNNL_ARG_SRC), dst_md = nn_md_of(pd, DNNL_ARG_DST);
        if (src_md != NULL && dst_md != NULL) {
            *src_out = edge_block_of(src_md);
            *dst_out = edge_block_of(dst_md);
        }
        nn_md_release(src_md);
        nn_md_release(dst_md);
        dnnl_primitive_desc_destroy(pd);
    }
    nn_md_release(mds.weights);
    nn_md_release(mds.bias);
    weighted_mds_close(&mds);
}

static const struct layer *next_conv(const struct net *net, uint32_t layer)
{
    for (uint32_t i = layer + 1; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_CONV2D)
            return &net->layers[i];
    return NULL;
}

/* The best pair of blocks for a convolution: of those with the best score, the first.
 * The next convolution's wish comes first: the deeper one has more to compute. */
static void conv_choose(const struct backend *backend, uint32_t layer, struct choice *choice)
{
    const struct net *net = backend->spec.net;
    const struct layer *conv = choice->layer, *next = next_conv(net, layer);
    uint32_t unused, own_wish, next_wish = 0;
    conv_wish(backend, conv, &unused, &own_wish);
    if (next != NULL)
        conv_wish(backend, next, &next_wish, &unused);
    /* All channels together means all of this convolution's. */
    if (next != NULL && next_wish == next->in.channels)
        next_wish = conv->out.channels;
    const uint32_t sources[] = { choice->in.block, choice->in.block ? 0 : 1, choice->in.block ? 0 : conv->in.channels };
    const uint32_t results[] = { next_wish, own_wish, 16, 8, conv->out.channels, 1 };
    uint32_t best = UINT32_MAX, best_in = sources[0] ? sources[0] : 1, best_out = 1;
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++)
        for (size_t r = 0; r < sizeof(results) / sizeof(results[0]); r++) {
            if (sources[s] == 0 || results[r] == 0)
                continue;
            choice->in.block = sources[s];
            choice->out.block = results[r];
            const uint32_t found = score(choice, NULL);
            if (found < best) {
                best = found;
                best_in = sources[s];
                best_out = results[r];
            }
        }
    choice->in.block = best_in;
    choice->out.block = best_out;
}

static uint32_t block_asked(enum layout layout, uint32_t channels)
{
    return layout == LAYOUT_NHWC ? channels : layout == LAYOUT_NCHW ? 1 : 0;
}

/* Blocks of the edges around one layer; that of edge 0 is open (0) for the first layer. */
static void blocks_choose(struct backend *backend, uint32_t layer, struct choice *choice)
{
    const enum layout asked = backend->spec.layout;
    if (choice->layer->kind == LAYER_CONV2D && asked == LAYOUT_AUTO) {
        conv_choose(backend, layer, choice);
        return;
    }
    if (choice->in.block == 0)
        choice->in.block = asked == LAYOUT_NCHW ? 1 : choice->in.shape.channels;
    if (choice->layer->kind == LAYER_DENSE)
        choice->out.block = choice->out.shape.channels;
    else if (choice->layer->kind == LAYER_CONV2D)
        choice->out.block = block_asked(asked, choice->out.shape.channels);
    else
        choice->out.block = choice->in.block;
}

/* Weights in the order of the source's own values: always possible, and what matrix
 * products read as they are. */
static nn_md weights_plain(const struct choice *choice)
{
    dnnl_dim_t dims[NN_RANK_MAX];
    struct edge like = choice->in;
    const int rank = weighted_dims(choice->layer, &choice->in, dims);
    if (rank == 2)
        return nn_md_tag(2, dims, dnnl_ab);
    like.shape.height = (uint32_t)dims[2];
    like.shape.width = (uint32_t)dims[3];
    return edge_md(&like, (uint32_t)dims[0], 4);
}

enum { WISHES = 3 };

/* The layouts the weights could be stored in, best first; NULL where there is none. */
static int wishes_open(const struct choice *choice, nn_md wishes[WISHES])
{
    dnnl_dim_t dims[NN_RANK_MAX];
    const dnnl_dim_t outputs = choice->layer->out.channels;
    const int rank = weighted_dims(choice->layer, &choice->in, dims);
    nn_md any = nn_md_any(rank, dims), bias = nn_md_any(1, &outputs);
    struct weighted_mds mds;
    int rc = -ENOMEM;
    if (any != NULL && bias != NULL)
        rc = weighted_mds_open(&mds, choice->layer, &choice->in, &choice->out, choice->backend->spec.slice_max, any,
                               bias);
    if (rc == 0) {
        wishes[0] = weights_wish(choice, &mds, NN_FORWARD);
        if (choice->layer->kind == LAYER_DENSE)
            wishes[1] = weights_wish(choice, &mds, NN_BACKWARD_DATA);
        wishes[2] = weights_plain(choice);
        weighted_mds_close(&mds);
    }
    nn_md_release(any);
    nn_md_release(bias);
    return rc;
}

/* How the weights are stored: oneDNN's wish for forward, unless another one fits the
 * three directions better. A convolution's small weights are rather reordered in a step
 * than stored as its forward does not want them. */
static int weights_choose(const struct choice *choice, nn_md *stored_out)
{
    nn_md wishes[WISHES] = { NULL };
    const int rc = wishes_open(choice, wishes);
    int best = -1;
    uint32_t best_score = 0;
    for (int i = 0; i < WISHES; i++) {
        if (wishes[i] == NULL || (best >= 0 && choice->layer->kind == LAYER_CONV2D))
            continue;
        const uint32_t found = score(choice, wishes[i]);
        if (best < 0 || found < best_score) {
            best = i;
            best_score = found;
        }
    }
    for (int i = 0; i < WISHES; i++)
        if (i != best)
            nn_md_release(wishes[i]);
    if (best >= 0)
        *stored_out = wishes[best];
    return rc ? rc : best >= 0 ? 0 : -ENOMEM;
}

static int parameters_choose(struct backend *backend, const struct choice *choice)
{
    const dnnl_dim_t outputs = choice->layer->out.channels;
    nn_md *bias = &backend->stored[choice->layer->bias];
    *bias = nn_md_tag(1, &outputs, dnnl_a);
    return *bias != NULL ? weights_choose(choice, &backend->stored[choice->layer->weight]) : -ENOMEM;
}

int layouts_choose(struct backend *backend)
{
    const struct net *net = backend->spec.net;
    int rc = 0;
    backend->blocks[0] = 0;
    for (uint32_t i = 0; i < net->layer_count && rc == 0; i++) {
        struct choice choice = {
            .backend = backend, .layer = &net->layers[i], .has_data = i > backend->first_weighted,
            .in = { .shape = net->layers[i].in, .block = backend->blocks[i] },
            .out = { .shape = net->layers[i].out },
        };
        blocks_choose(backend, i, &choice);
        backend->blocks[i] = choice.in.block;
        backend->blocks[i + 1] = choice.out.block;
        if (choice.layer->weight != NET_NO_PARAMETER)
            rc = parameters_choose(backend, &choice);
    }
    return rc;
}
