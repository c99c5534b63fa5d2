/* Chooses, when the backend is opened, the layouts of values and parameters and the convolutions that use Winograd's
 * algorithm. oneDNN is asked for its own choice, and layouts are compared by the class of implementations that oneDNN
 * has for them; nothing is timed, because all towers must decide alike. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NHWC UINT32_MAX         /* a block size that means: all channels */

/* ---- descriptors of values and of layers with weights ---- */

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

/* With groups, [group][output channel of the group][input channel of the group][height][width]. */
static int conv_dims(const struct layer *layer, dnnl_dim_t dims_out[NN_RANK_MAX])
{
    const bool has_groups = layer->groups > 1;
    dnnl_dim_t *const dims = dims_out + has_groups;
    dims_out[0] = layer->groups;
    dims[0] = layer->out.channels / layer->groups;
    dims[1] = layer->in.channels / layer->groups;
    dims[2] = layer->kernel_h;
    dims[3] = layer->kernel_w;
    return 4 + has_groups;
}

int weighted_dims(const struct layer *layer, const struct tensor_layout *in, dnnl_dim_t dims_out[NN_RANK_MAX])
{
    if (layer->kind == LAYER_CONV2D)
        return conv_dims(layer, dims_out);
    dims_out[0] = layer->out.channels;
    dims_out[1] = layer->in.channels;
    dims_out[2] = layer->in.height;
    dims_out[3] = layer->in.width;
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
    dnnl_dim_t weights[NN_RANK_MAX];
    const int rank = conv_dims(layer, weights);
    *mds = (struct weighted_mds){
        .src = in != NULL ? tensor_md(in, count, 4) : nn_md_any(4, src, nn_type(type)),
        .factors = nn_md_any(rank, weights, nn_type(type)),
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

/* With one output column the stride has no effect: a smaller stride is the same convolution. */
static void narrow_stride(struct nn_op *op, const struct layer *layer)
{
    const int64_t columns = layer->in.width, missing = (int64_t)layer->kernel_w - columns - layer->pad_left;
    if (op->kind != NN_CONVOLUTION || layer->out.width != 1 || layer->stride_w <= columns)
        return;
    op->strides[1] = columns;
    op->pad_after[1] = missing > 0 ? missing : 0;
}

void weighted_op(struct nn_op *op, const struct layer *layer, const struct weighted_mds *mds,
                 struct weighted_options how)
{
    *op = (struct nn_op){
        .kind = layer->kind == LAYER_CONV2D ? NN_CONVOLUTION : NN_INNER_PRODUCT,
        .direction = how.direction,
        .winograd = how.winograd,
        .training = how.training,
        .line = how.line,
        .sums = how.with_sum,
        .relu = how.with_relu,
        .eltwise = how.eltwise,
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

/* ---- Winograd's algorithm ----
 *
 * F(4 x 4, 3 x 3): tiles of 4 x 4 results from 6 x 6 inputs take 36 multiplications for each pair of channels instead
 * of 144 (Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks"). */

enum { TILE = 4, TILE_PRODUCTS = 36, VECTOR = 16 };

/* Cost of transforming one value, or one weight, into or out of the Winograd domain, in multiplications: 0.4 ns
 * (weights 0.6 ns) of a core that does 57 multiplications in a nanosecond (Zen 4, oneDNN 2.6). */
#define VALUE_COST 24.0
#define WEIGHT_COST 34.0
#define LEAST_GAIN 1.1

static double round_to_vectors(uint32_t channels)
{
    return (double)((channels + VECTOR - 1) / VECTOR * VECTOR);
}

/* Can Winograd's algorithm compute the shape? oneDNN has it without groups only, and 2.6 computes a wrong gradient of
 * the input where the padding above differs from that below. */
static bool has_winograd_shape(const struct layer *layer)
{
    return layer->kind == LAYER_CONV2D && layer->groups == 1 && layer->kernel_h == 3 && layer->kernel_w == 3 &&
           layer->stride_h == 1 && layer->stride_w == 1 && layer->pad_top == layer->pad_bottom;
}

/* The rows (or columns) of all windows along one axis that are inside the image: padding is not multiplied. */
static double positions_inside(uint32_t out, uint32_t before, uint32_t after)
{
    return 3.0 * out - before - after;
}

static double direct_cost(const struct layer *layer, uint32_t count)
{
    return count * positions_inside(layer->out.height, layer->pad_top, layer->pad_bottom) *
           positions_inside(layer->out.width, layer->pad_left, layer->pad_right) * layer->in.channels *
           round_to_vectors(layer->out.channels);
}

static double winograd_cost(const struct layer *layer, uint32_t count)
{
    const double in = round_to_vectors(layer->in.channels), out = round_to_vectors(layer->out.channels);
    const double tiles = (double)count * ((layer->out.height + TILE - 1) / TILE) *
                         ((layer->out.width + TILE - 1) / TILE);
    return TILE_PRODUCTS * (tiles * in * out + VALUE_COST * tiles * (in + out) + WEIGHT_COST * in * out);
}

/* For one vector of output channels the transforms take about as long as computing directly: with 28 to 148 input
 * channels and 12 outputs 0.9 to 1.7 times as long (Zen 5, 64 images of 32 x 32). */
static bool has_few_outputs(const struct layer *layer)
{
    return layer->out.channels <= VECTOR;
}

size_t winograd_workspace(const struct backend *backend, const struct layer *layer, uint32_t count, double *saved_out)
{
    if (!has_winograd_shape(layer) || backend->type != VALUE_FP32 || backend->spec.convolution == CONVOLUTION_DIRECT)
        return 0;
    const bool is_asked = backend->spec.convolution == CONVOLUTION_WINOGRAD;
    if (has_few_outputs(layer) && !is_asked)
        return 0;
    const double direct = direct_cost(layer, count), winograd = is_asked ? 0 : winograd_cost(layer, count);
    if (saved_out != NULL)
        *saved_out = direct - winograd;
    return direct > winograd * LEAST_GAIN ? backend_workspace(&backend->spec) : 0;
}

/* The most bytes of scratchpad that the forward pass or, if with_data, the gradient of the input needs; SIZE_MAX: one
 * of them has no kernel. */
static size_t scratch_bytes(const struct backend *backend, const struct layer *layer, const struct weighted_mds *mds,
                            bool with_data)
{
    size_t most = 0;
    for (int i = NN_FORWARD; i <= (with_data ? NN_BACKWARD_DATA : NN_FORWARD); i++) {
        const struct weighted_options how = { .direction = (enum nn_direction)i, .winograd = SIZE_MAX,
                                              .training = true };
        struct nn_op op;
        weighted_op(&op, layer, mds, how);
        const size_t bytes = pd_winograd_bytes(backend->engine, &op);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint32_t winograd_samples(const struct backend *backend, const struct layer *layer, const struct tensor_layout *in,
                          const struct tensor_layout *out, uint32_t count, bool with_data)
{
    for (uint32_t samples = count;; samples = (samples + 1) / 2) {
        const size_t room = winograd_workspace(backend, layer, samples, NULL);
        struct weighted_mds mds;
        if (room == 0 || conv_mds_open(&mds, layer, in, out, samples, VALUE_FP32) != 0)
            return 0;
        const size_t bytes = scratch_bytes(backend, layer, &mds, with_data);
        weighted_mds_close(&mds);
        if (bytes <= room)
            return samples;
        if (bytes == SIZE_MAX || samples == 1)
            return 0;
    }
}

/* ---- the layouts around one layer with weights ---- */

/* One layer with weights, whose layouts are being chosen. */
struct choice {
    struct backend *backend;
    const struct layer *layer;
    struct tensor_layout in, out;
    bool has_data;              /* the gradient of the input is needed */
    bool with_relu;             /* ReLU is fused: the class of an implementation may depend on it */
};

#define CHOICE_CLASS 100u       /* weight of the worst class in a score */

/* The descriptor of a layer's bias; NULL when the layer has no bias or memory ran out, which bias_is_made
 * distinguishes. */
static nn_md bias_any(const struct layer *layer)
{
    const dnnl_dim_t outputs = layer->out.channels;
    return layer_has(layer, PARAMETER_BIAS) ? nn_md_any(1, &outputs, dnnl_f32) : NULL;
}

static bool bias_is_made(const struct layer *layer, nn_md bias)
{
    return bias != NULL || !layer_has(layer, PARAMETER_BIAS);
}

/* Descriptors of a layer with weights, and the descriptors that `mds` borrows. */
struct choice_mds { struct weighted_mds mds; nn_md any, bias; };

static void choice_mds_close(struct choice_mds *of)
{
    weighted_mds_close(&of->mds);
    nn_md_release(of->any);
    nn_md_release(of->bias);
}

/* Opens the descriptors for `count` samples, with the weights stored as `weights`, or in any layout (NULL). 0 or
 * -ENOMEM. */
static int choice_mds_open(const struct choice *choice, uint32_t count, nn_md weights, struct choice_mds *of)
{
    dnnl_dim_t dims[NN_RANK_MAX];
    const int rank = weighted_dims(choice->layer, &choice->in, dims);
    *of = (struct choice_mds){ .any = nn_md_any(rank, dims, dnnl_f32), .bias = bias_any(choice->layer) };
    if (of->any != NULL && bias_is_made(choice->layer, of->bias) &&
        weighted_mds_open(&of->mds, choice->layer, &choice->in, &choice->out, count,
                          weights != NULL ? weights : of->any, of->bias) == 0)
        return 0;
    choice_mds_close(of);
    return -ENOMEM;
}

/* The samples per call for which layouts are compared. */
static uint32_t samples_per_call(const struct choice *choice)
{
    const uint32_t count = choice->backend->spec.local_max;
    const uint32_t samples = winograd_samples(choice->backend, choice->layer, &choice->in, &choice->out, count,
                                              choice->has_data);
    return samples != 0 ? samples : count;
}

static struct weighted_options options_of(const struct choice *choice, enum nn_direction direction)
{
    const struct backend *const backend = choice->backend;
    return (struct weighted_options){
        .direction = direction, .training = true, .with_relu = direction == NN_FORWARD && choice->with_relu,
        .winograd = winograd_workspace(backend, choice->layer, backend->spec.local_max, NULL) };
}

/* The layout that oneDNN prefers for the weights in one direction, given the layouts of src and dst; NULL when oneDNN
 * has only a reference implementation. */
static nn_md preferred_weights(const struct choice *choice, const struct weighted_mds *mds, enum nn_direction direction)
{
    const dnnl_engine_t engine = choice->backend->engine;
    dnnl_primitive_desc_t forward = NULL, pd = NULL;
    struct nn_op op;
    nn_md preferred = NULL;
    weighted_op(&op, choice->layer, mds, options_of(choice, NN_FORWARD));
    const enum pd_class class = pd_find(engine, &op, NULL, &forward);
    if (class == PD_NONE)
        return NULL;
    if (class == PD_REF && choice->layer->groups > 1) {
        dnnl_primitive_desc_destroy(forward);
        return NULL;
    }
    if (direction == NN_FORWARD) {
        preferred = nn_md_of(forward, DNNL_ARG_WEIGHTS);
    } else {
        weighted_op(&op, choice->layer, mds, options_of(choice, direction));
        if (pd_find(engine, &op, forward, &pd) < PD_REF)
            preferred = nn_md_of(pd, direction == NN_BACKWARD_WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS);
        if (pd != NULL)
            dnnl_primitive_desc_destroy(pd);
    }
    dnnl_primitive_desc_destroy(forward);
    return preferred;
}

/* The score of these layouts, lower is better: the worst class of the three directions, then the sum of the classes. */
static uint32_t score_mds(const struct choice *choice, const struct weighted_mds *mds)
{
    const dnnl_engine_t engine = choice->backend->engine;
    dnnl_primitive_desc_t forward = NULL;
    struct nn_op op;
    weighted_op(&op, choice->layer, mds, options_of(choice, NN_FORWARD));
    uint32_t worst = pd_find(engine, &op, NULL, &forward), sum = worst;
    if (worst == PD_NONE)
        return UINT32_MAX;
    for (int i = NN_BACKWARD_DATA; i <= NN_BACKWARD_WEIGHTS; i++) {
        const enum nn_direction direction = (enum nn_direction)i;
        if ((direction == NN_BACKWARD_DATA && !choice->has_data) ||
            (direction == NN_BACKWARD_WEIGHTS && (layer_is_depthwise(choice->layer) ||
                                                  first_conv_fits(choice->layer, &choice->in, &choice->out))))
            continue;
        weighted_op(&op, choice->layer, mds, options_of(choice, direction));
        const uint32_t class = pd_class_of_best(engine, &op, forward);
        sum += class;
        worst = class > worst ? class : worst;
    }
    dnnl_primitive_desc_destroy(forward);
    return worst * CHOICE_CLASS + sum;
}

/* The score with the weights stored as `weights`, or in any layout (NULL); UINT32_MAX when there is no
 * implementation. */
static uint32_t choice_score(const struct choice *choice, nn_md weights)
{
    struct choice_mds of;
    if (choice_mds_open(choice, samples_per_call(choice), weights, &of) != 0)
        return UINT32_MAX;
    const uint32_t score = score_mds(choice, &of.mds);
    choice_mds_close(&of);
    return score;
}

/* The channel blocks that oneDNN itself chooses for a convolution's source and result, 0 when we do not support
 * them; returns the class of the implementation. */
static enum pd_class preferred_blocks(const struct backend *backend, const struct layer *layer, bool with_relu,
                                      uint32_t *src_out, uint32_t *dst_out)
{
    const uint32_t samples = winograd_samples(backend, layer, NULL, NULL, backend->spec.local_max, true);
    const uint32_t count = samples != 0 ? samples : backend->spec.local_max;
    nn_md bias = bias_any(layer);
    struct weighted_mds mds;
    dnnl_primitive_desc_t pd = NULL;
    enum pd_class class = PD_NONE;
    *src_out = *dst_out = 0;
    if (conv_mds_open(&mds, layer, NULL, NULL, count, backend->type) == 0 && bias_is_made(layer, bias)) {
        struct nn_op op;
        mds.bias = bias;
        weighted_op(&op, layer, &mds,
                    (struct weighted_options){ .direction = NN_FORWARD, .training = true, .with_relu = with_relu,
                                           .winograd = winograd_workspace(backend, layer, count, NULL) });
        class = pd_find(backend->engine, &op, NULL, &pd);
    }
    if (class != PD_NONE) {
        nn_md src_md = nn_md_of(pd, DNNL_ARG_SRC), dst_md = nn_md_of(pd, DNNL_ARG_DST);
        if (src_md != NULL && dst_md != NULL) {
            *src_out = tensor_block_of(src_md);
            *dst_out = tensor_block_of(dst_md);
        }
        nn_md_release(src_md);
        nn_md_release(dst_md);
        dnnl_primitive_desc_destroy(pd);
    }
    nn_md_release(bias);
    weighted_mds_close(&mds);
    return class;
}

/* Weights in the same order as the source's values, with groups in that of the model file: always possible, and matrix
 * products read them without a reorder. */
static nn_md weights_plain(const struct choice *choice)
{
    dnnl_dim_t dims[NN_RANK_MAX];
    struct tensor_layout like = choice->in;
    const int rank = weighted_dims(choice->layer, &choice->in, dims);
    if (rank != 4)
        return nn_md_tag(rank, dims, rank == 2 ? dnnl_ab : dnnl_abcde, dnnl_f32);
    like.type = VALUE_FP32;
    like.shape.height = (uint32_t)dims[2];
    like.shape.width = (uint32_t)dims[3];
    return tensor_md(&like, (uint32_t)dims[0], 4);
}

/* Must the weights be stored plainly? oneDNN 2.6 computes the data gradient wrongly when several threads share a sum
 * over many units and weights in its own layout have 32 inputs or fewer. */
static bool needs_plain_weights(const struct layer *layer)
{
    return layer->kind == LAYER_DENSE && shape_count(layer->in) < 64;
}

enum { WEIGHT_LAYOUTS = 3 };

/* Finds candidate layouts for the weights, best first; NULL where there is none. */
static int find_weight_layouts(const struct choice *choice, nn_md candidates[WEIGHT_LAYOUTS])
{
    const bool is_fp32 = choice->in.type == VALUE_FP32, is_free = !needs_plain_weights(choice->layer);
    struct choice_mds of;
    const int rc = choice_mds_open(choice, samples_per_call(choice), NULL, &of);
    if (rc != 0)
        return rc;
    if (is_free)
        candidates[0] = preferred_weights(choice, &of.mds, is_fp32 ? NN_FORWARD : NN_BACKWARD_WEIGHTS);
    if (is_free && is_fp32 && choice->layer->kind == LAYER_DENSE)
        candidates[1] = preferred_weights(choice, &of.mds, NN_BACKWARD_DATA);
    candidates[2] = weights_plain(choice);
    choice_mds_close(&of);
    return 0;
}

/* Chooses the layout in which the weights are stored, which the caller releases: the layout that oneDNN prefers for
 * forward, unless another candidate has a better score over the three directions. A convolution's weights are small, so
 * reordering them in each step is cheaper than a forward that cannot use them directly. With bf16 values, forward and
 * the gradient of the input read bf16 copies made in each step anyway, each in its own layout, so the layout preferred
 * for the fp32 weight gradient counts. */
static int choose_weights(const struct choice *choice, nn_md *stored_out)
{
    nn_md candidates[WEIGHT_LAYOUTS] = { NULL };
    const int rc = find_weight_layouts(choice, candidates);
    int best = -1;
    uint32_t best_score = 0;
    for (int i = 0; i < WEIGHT_LAYOUTS; i++) {
        if (candidates[i] == NULL || (best >= 0 && choice->layer->kind == LAYER_CONV2D))
            continue;
        const uint32_t found = choice_score(choice, candidates[i]);
        if (best < 0 || found < best_score) {
            best = i;
            best_score = found;
        }
    }
    for (int i = 0; i < WEIGHT_LAYOUTS; i++)
        if (i != best)
            nn_md_release(candidates[i]);
    if (best >= 0)
        *stored_out = candidates[best];
    return rc ? rc : best >= 0 ? 0 : -ENOMEM;
}

/* ---- the layouts of the whole network ---- */

/* The choice for the whole network. */
struct layouts {
    struct backend *backend;
    const struct net *net;
    struct fusion fusion;
    uint32_t uniform;           /* networks with branches: the block of all values but the image; 0: each value has
                                 * its own */
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

/* Candidate blocks for a convolution's result, best first, 0 where there is none. The next convolution's preference
 * comes first, because deeper convolutions have more to compute. */
enum { RESULTS = 6 };

static void find_results(const struct layouts *layouts, uint32_t layer, uint32_t results[RESULTS])
{
    const struct backend *const backend = layouts->backend;
    const struct layer *const conv = &layouts->net->layers[layer];
    const uint32_t next = next_conv(layouts->net, layer), channels = conv->out.channels;
    uint32_t unused, own_block, next_block = 0;
    if (layouts->uniform != 0) {
        results[0] = layouts->uniform == NHWC ? channels : layouts->uniform;
        return;
    }
    preferred_blocks(backend, conv, with_relu(layouts, layer), &unused, &own_block);
    if (next < layouts->net->layer_count)
        preferred_blocks(backend, &layouts->net->layers[next], with_relu(layouts, next), &next_block, &unused);
    /* A block of all channels of the next convolution is a block of all channels of this result. */
    if (next < layouts->net->layer_count && next_block == layouts->net->layers[next].in.channels)
        next_block = channels;
    const uint32_t found[RESULTS] = { next_block, own_block, 16, 8, channels, 1 };
    memcpy(results, found, sizeof(found));
}

/* Chooses the pair of blocks with the best score for a convolution; of equal scores the first. */
static void choose_conv_blocks(const struct layouts *layouts, uint32_t layer, struct choice *choice)
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

static uint32_t block_requested(enum layout layout, uint32_t channels)
{
    return layout == LAYOUT_NHWC ? channels : layout == LAYOUT_NCHW ? 1 : 0;
}

/* The block of the result of a layer without weights: that of its input; a block of all channels becomes one of all
 * channels of the result. */
static uint32_t block_inherited(const struct layouts *layouts, const struct choice *choice)
{
    const uint32_t channels = choice->out.shape.channels;
    if (channels == choice->in.shape.channels)
        return choice->in.block;
    if (layouts->uniform == NHWC || layouts->backend->spec.layout == LAYOUT_NHWC)
        return channels;
    return choice->in.block == 8 || choice->in.block == 16 || choice->in.block == 1 ? choice->in.block : channels;
}

/* Chooses the blocks of the values around one layer. The block of the image is undecided (0) until the first layer that
 * reads it. */
static void choose_blocks(const struct layouts *layouts, uint32_t layer, struct choice *choice)
{
    const enum layout asked = layouts->backend->spec.layout;
    if (choice->layer->kind == LAYER_CONV2D && asked == LAYOUT_AUTO) {
        choose_conv_blocks(layouts, layer, choice);
        return;
    }
    if (choice->in.block == 0)
        choice->in.block = asked == LAYOUT_NCHW ? 1 : choice->in.shape.channels;
    if (choice->layer->kind == LAYER_DENSE)
        choice->out.block = choice->out.shape.channels;
    else if (choice->layer->kind == LAYER_CONV2D)
        choice->out.block = block_requested(asked, choice->out.shape.channels);
    else
        choice->out.block = block_inherited(layouts, choice);
}

/* Chooses the layouts of a layer's parameters. All parameters except weights are stored as plain vectors. */
static int choose_parameters(struct backend *backend, const struct choice *choice)
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
    return choose_weights(choice, &backend->stored[choice->layer->parameters[PARAMETER_WEIGHT]]);
}

static bool has_branches(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].input_count > 1)
            return true;
    return false;
}

/* The convolution with the most multiplications among those that do not read the image, whose layout does not determine
 * that of other values. */
static uint32_t largest_conv(const struct net *net)
{
    uint32_t most = net->layer_count;
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_CONV2D && net->layers[i].inputs[0] != NET_INPUT &&
            (most == net->layer_count || net->layers[i].macs > net->layers[most].macs))
            most = i;
    return most;
}

/* A convolution between NHWC values. */
static struct choice nhwc_choice(const struct layouts *layouts, uint32_t layer)
{
    const struct layer *const conv = &layouts->net->layers[layer];
    const enum value_type type = layouts->backend->type;
    return (struct choice){
        .backend = layouts->backend, .layer = conv, .has_data = true, .with_relu = with_relu(layouts, layer),
        .in = { type, conv->in, conv->in.channels, true, 0 }, .out = { type, conv->out, conv->out.channels, true, 0 },
    };
}

/* Does oneDNN use its brgemm kernels (batches of small matrix products) for NHWC? They are at least as fast as those
 * for blocked layouts in all directions, and faster with few channels. */
static bool has_brgconv(const struct layouts *layouts, uint32_t layer)
{
    const struct choice choice = nhwc_choice(layouts, layer);
    dnnl_primitive_desc_t pd = NULL;
    struct choice_mds of;
    struct nn_op op;
    if (choice_mds_open(&choice, layouts->backend->spec.local_max, NULL, &of) != 0)
        return false;
    weighted_op(&op, choice.layer, &of.mds, (struct weighted_options){ .direction = NN_FORWARD, .training = true,
                                                                       .with_relu = choice.with_relu });
    const bool found = pd_find(layouts->backend->engine, &op, NULL, &pd) == PD_FAST &&
                       strstr(nn_pd_name(pd), "brgconv") != NULL;
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    choice_mds_close(&of);
    return found;
}

/* Are there concatenations of concatenations, as in densely connected blocks? In NHWC such a value grows in place,
 * without a copy. */
static bool has_growing_concats(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const uint32_t first = net->layers[i].kind == LAYER_CONCAT ? net->layers[i].inputs[0] : NET_INPUT;
        if (first != NET_INPUT && net->layers[first].kind == LAYER_CONCAT)
            return true;
    }
    return false;
}

/* Does oneDNN have fast NHWC kernels for a convolution in all directions? */
static bool has_fast_nhwc(const struct layouts *layouts, uint32_t layer)
{
    const struct choice choice = nhwc_choice(layouts, layer);
    return choice_score(&choice, NULL) / CHOICE_CLASS <= PD_FAST;
}

#define SAVING_SHARE 0.03       /* share of the multiplications of all convolutions */

/* In blocked layouts, values that could grow in place are copied again and again. Acceptable when all samples fit
 * into the scratchpad of Winograd's algorithm at once, because then the values are small. */
static bool copies_are_small(const struct layouts *layouts, uint32_t layer)
{
    const struct backend *const backend = layouts->backend;
    const uint32_t count = backend->spec.local_max;
    return !has_growing_concats(layouts->net) ||
           winograd_samples(backend, &layouts->net->layers[layer], NULL, NULL, count, true) == count;
}

/* The block that Winograd's algorithm prefers, when it saves enough of the network's work; or 0. */
static uint32_t find_winograd(const struct layouts *layouts)
{
    const struct backend *const backend = layouts->backend;
    const struct net *const net = layouts->net;
    double all = 0, saved = 0, one, most = 0;
    uint32_t best = net->layer_count, source, result;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        all += (double)net->layers[i].macs * backend->spec.local_max;
        if (winograd_workspace(backend, &net->layers[i], backend->spec.local_max, &one) == 0)
            continue;
        saved += one;
        best = one > most ? i : best;
        most = one > most ? one : most;
    }
    if (best == net->layer_count || saved < all * SAVING_SHARE || !copies_are_small(layouts, best) ||
        preferred_blocks(backend, &net->layers[best], with_relu(layouts, best), &source, &result) != PD_WINOGRAD)
        return 0;
    return source;
}

/* In networks with branches all values share one layout: the requested one; or the one that Winograd's algorithm
 * prefers; or NHWC, if the largest convolution has brgemm kernels for it, or if values grow in place and that
 * convolution has fast kernels for it; or the layout that the largest convolution prefers. */
static uint32_t find_uniform(const struct layouts *layouts)
{
    const uint32_t layer = largest_conv(layouts->net);
    const enum layout asked = layouts->backend->spec.layout;
    uint32_t source, unused;
    if (!has_branches(layouts->net) || layer == layouts->net->layer_count || asked == LAYOUT_NCHW)
        return 0;
    if (asked == LAYOUT_NHWC)
        return NHWC;
    const uint32_t winograd = find_winograd(layouts);
    if (winograd != 0)
        return winograd;
    if (has_brgconv(layouts, layer) || (has_growing_concats(layouts->net) && has_fast_nhwc(layouts, layer)))
        return NHWC;
    const struct layer *const conv = &layouts->net->layers[layer];
    preferred_blocks(layouts->backend, conv, with_relu(layouts, layer), &source, &unused);
    return source == conv->in.channels && source != 8 && source != 16 ? NHWC : source;
}

/* Chooses the layouts around one layer that reads values. */
static int choose_layer(struct layouts *layouts, uint32_t i)
{
    struct backend *const backend = layouts->backend;
    const struct layer *const layer = &layouts->net->layers[i];
    uint32_t *const in_block = &backend->blocks[layer->inputs[0] + 1];
    struct choice choice = {
        .backend = backend, .layer = layer, .has_data = backend->needs_grad[layer->inputs[0] + 1],
        .with_relu = with_relu(layouts, i),
        .in = { .type = backend->type, .shape = layer->in, .block = *in_block, .is_nhwc = backend->is_nhwc },
        .out = { .type = backend->type, .shape = layer->out, .is_nhwc = backend->is_nhwc },
    };
    choose_blocks(layouts, i, &choice);
    *in_block = choice.in.block;
    backend->blocks[i + 1] = choice.out.block;
    backend->needs_grad[i + 1] = layer_is_trained(layer);
    for (uint32_t k = 0; k < layer->input_count; k++)
        backend->needs_grad[i + 1] |= backend->needs_grad[layer->inputs[k] + 1];
    return choose_parameters(backend, &choice);
}

/* LAYER_RECEIVE reads no value; its numbers have one pixel and are rows, as those of a dense layer. */
static void choose_received(struct layouts *layouts, uint32_t i)
{
    const struct layer *const layer = &layouts->net->layers[i];
    layouts->backend->blocks[i + 1] = layer->out.channels;
    layouts->backend->needs_grad[i + 1] = !layer->is_frozen;
}

static int choose_layouts(struct layouts *layouts)
{
    int rc = 0;
    layouts->backend->is_nhwc = layouts->uniform == NHWC;
    for (uint32_t i = 0; i < layouts->net->layer_count && rc == 0; i++)
        if (layouts->net->layers[i].input_count > 0)
            rc = choose_layer(layouts, i);
        else
            choose_received(layouts, i);
    return rc;
}

/* Do two blocks of the same shape have the same order in memory? */
static bool same_order(const struct layer *layer, uint32_t a, uint32_t b)
{
    const bool is_row = layer->in.height == 1 && layer->in.width == 1;
    return a == b || (is_row && layer->in.channels % a == 0 && layer->in.channels % b == 0);
}

/* May input k have another layout than the first input? The second input of a multiply may if it has one pixel, because
 * its numbers are then in the order of the channels in every layout. */
static bool has_own_layout(const struct net *net, const struct layer *layer, uint32_t k)
{
    const uint32_t input = layer->inputs[k];
    const struct shape shape = input == NET_INPUT ? net->input : net->layers[input].out;
    return layer->kind == LAYER_CONCAT ||
           (layer->kind == LAYER_MULTIPLY && shape_count(shape) != shape_count(layer->in));
}

/* Do the inputs of every addition and multiplication have the same layout? */
static bool additions_match(const struct backend *backend, const struct net *net)
{
    const uint32_t *const blocks = backend->blocks;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *const layer = &net->layers[i];
        for (uint32_t k = 1; k < layer->input_count; k++)
            if (!has_own_layout(net, layer, k) &&
                !same_order(layer, blocks[layer->inputs[0] + 1], blocks[layer->inputs[k] + 1]))
                return false;
    }
    return true;
}

static void discard_choices(struct layouts *layouts)
{
    struct backend *const backend = layouts->backend;
    for (uint32_t i = 0; i < layouts->net->parameter_count; i++) {
        nn_md_release(backend->stored[i]);
        backend->stored[i] = NULL;
    }
    backend->blocks[0] = 0;
}

enum layout layout_for_auto(enum layout layout, enum value_type type, enum instructions instructions)
{
    const bool has_amx = type == VALUE_BF16 && instructions == INSTRUCTIONS_AMX;
    return layout == LAYOUT_AUTO && has_amx ? LAYOUT_NHWC : layout;
}

int layouts_choose(struct backend *backend)
{
    backend->spec.layout = layout_for_auto(backend->spec.layout, backend->type, nn_instructions());
    struct layouts layouts = { .backend = backend, .net = backend_net(&backend->spec, true) };
    int rc = fusion_open(&layouts.fusion, layouts.net, all_layers(layouts.net), onednn_rules, onednn_rule_count,
                         true);
    if (rc != 0)
        return rc;
    layouts.uniform = find_uniform(&layouts);
    rc = choose_layouts(&layouts);
    /* The image or a dense layer may have been given another layout than the value it is added to: use NHWC for all.
     * Values of one pixel in training may have several in evaluation. */
    if (rc == 0 && (!additions_match(backend, layouts.net) || !additions_match(backend, backend->spec.net))) {
        discard_choices(&layouts);
        layouts.uniform = NHWC;
        rc = choose_layouts(&layouts);
    }
    fusion_close(&layouts.fusion);
    return rc;
}
