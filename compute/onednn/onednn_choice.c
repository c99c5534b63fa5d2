/* Judging the layouts around one layer with weights: by what oneDNN has for them. */
#include "compute/onednn/onednn_choice.h"

#include <errno.h>
#include <string.h>

/* The shape of a layer's bias, which it may not have. */
nn_md bias_any(const struct layer *layer)
{
    const dnnl_dim_t outputs = layer->out.channels;
    return layer_has(layer, PARAMETER_BIAS) ? nn_md_any(1, &outputs, dnnl_f32) : NULL;
}

bool bias_is_made(const struct layer *layer, nn_md bias)
{
    return bias != NULL || !layer_has(layer, PARAMETER_BIAS);
}

/* Samples at a time, by which the layouts around a layer are judged. */
static uint32_t samples_of(const struct choice *choice)
{
    const uint32_t count = choice->backend->spec.slice_max;
    const uint32_t samples = winograd_samples(choice->backend, choice->layer, &choice->in, &choice->out, count,
                                              choice->has_data);
    return samples != 0 ? samples : count;
}

static struct weighted_how how_of(const struct choice *choice, enum nn_direction direction)
{
    const struct backend *const backend = choice->backend;
    return (struct weighted_how){ .direction = direction, .training = true,
                                  .winograd = winograd_room(backend, choice->layer, backend->spec.slice_max, NULL),
                                  .with_relu = direction == NN_FORWARD && choice->with_relu };
}

/* The descriptor of the weights that oneDNN prefers in one direction, given the layouts of
 * src and dst; NULL when there is no implementation that is not "ref". */
static nn_md weights_wish(const struct choice *choice, const struct weighted_mds *mds, enum nn_direction direction)
{
    const dnnl_engine_t engine = choice->backend->engine;
    dnnl_primitive_desc_t forward = NULL, pd = NULL;
    struct nn_op op;
    nn_md wish = NULL;
    weighted_op(&op, choice->layer, mds, how_of(choice, NN_FORWARD));
    if (pd_find(engine, &op, NULL, &forward) == PD_NONE)
        return NULL;
    if (direction == NN_FORWARD) {
        wish = nn_md_of(forward, DNNL_ARG_WEIGHTS);
    } else {
        weighted_op(&op, choice->layer, mds, how_of(choice, direction));
        if (pd_find(engine, &op, forward, &pd) < PD_REF)
            wish = nn_md_of(pd, direction == NN_BACKWARD_WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS);
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
    weighted_op(&op, choice->layer, mds, how_of(choice, NN_FORWARD));
    uint32_t worst = pd_find(engine, &op, NULL, &forward), sum = worst;
    if (worst == PD_NONE)
        return UINT32_MAX;
    for (int i = NN_BACKWARD_DATA; i <= NN_BACKWARD_WEIGHTS; i++) {
        const enum nn_direction direction = (enum nn_direction)i;
        if ((direction == NN_BACKWARD_DATA && !choice->has_data) ||
            (direction == NN_BACKWARD_WEIGHTS && first_conv_fits(choice->layer, &choice->in, &choice->out)))
            continue;
        weighted_op(&op, choice->layer, mds, how_of(choice, direction));
        const uint32_t class = pd_class_of_best(engine, &op, forward);
        sum += class;
        worst = class > worst ? class : worst;
    }
    dnnl_primitive_desc_destroy(forward);
    return worst * CHOICE_CLASS + sum;
}

/* Score of the layouts with the weights `weights`, or with weights in any layout. */
uint32_t choice_score(const struct choice *choice, nn_md weights)
{
    dnnl_dim_t dims[NN_RANK_MAX];
    const int rank = weighted_dims(choice->layer, &choice->in, dims);
    nn_md any = nn_md_any(rank, dims, dnnl_f32), bias = bias_any(choice->layer);
    struct weighted_mds mds;
    uint32_t result = UINT32_MAX;
    if (any != NULL && bias_is_made(choice->layer, bias) &&
        weighted_mds_open(&mds, choice->layer, &choice->in, &choice->out,
                                         samples_of(choice), weights != NULL ? weights : any, bias) == 0) {
        result = score_mds(choice, &mds);
        weighted_mds_close(&mds);
    }
    nn_md_release(any);
    nn_md_release(bias);
    return result;
}

/* The blocks oneDNN itself would take for a convolution's source and result. */
enum pd_class conv_wish(const struct backend *backend, const struct layer *layer, bool with_relu, uint32_t *src_out,
                        uint32_t *dst_out)
{
    const uint32_t together = winograd_samples(backend, layer, NULL, NULL, backend->spec.slice_max, true);
    const uint32_t count = together != 0 ? together : backend->spec.slice_max;
    nn_md bias = bias_any(layer);
    struct weighted_mds mds;
    dnnl_primitive_desc_t pd = NULL;
    enum pd_class class = PD_NONE;
    *src_out = *dst_out = 0;
    if (conv_mds_open(&mds, layer, NULL, NULL, count, backend->type) == 0 && bias_is_made(layer, bias)) {
        struct nn_op op;
        mds.bias = bias;
        weighted_op(&op, layer, &mds,
                    (struct weighted_how){ .direction = NN_FORWARD, .training = true, .with_relu = with_relu,
                                           .winograd = winograd_room(backend, layer, count, NULL) });
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

/* Weights in the order of the source's own values: always possible, and what matrix
 * products read as they are. */
static nn_md weights_plain(const struct choice *choice)
{
    dnnl_dim_t dims[NN_RANK_MAX];
    struct tensor_layout like = choice->in;
    const int rank = weighted_dims(choice->layer, &choice->in, dims);
    if (rank == 2)
        return nn_md_tag(2, dims, dnnl_ab, dnnl_f32);
    like.type = VALUE_FP32;
    like.shape.height = (uint32_t)dims[2];
    like.shape.width = (uint32_t)dims[3];
    return tensor_md(&like, (uint32_t)dims[0], 4);
}

/* Has the layer so few inputs that its weights are plain? oneDNN 2.6 fails where several threads share the sum over
 * many units that a data gradient is, with weights in its own layout for 32 inputs or less. */
static bool is_narrow(const struct layer *layer)
{
    return layer->kind == LAYER_DENSE && shape_count(layer->in) < 64;
}

enum { WISHES = 3 };

/* The layouts the weights could be stored in, best first; NULL where there is none. */
static int wishes_open(const struct choice *choice, nn_md wishes[WISHES])
{
    dnnl_dim_t dims[NN_RANK_MAX];
    const int rank = weighted_dims(choice->layer, &choice->in, dims);
    nn_md any = nn_md_any(rank, dims, dnnl_f32), bias = bias_any(choice->layer);
    struct weighted_mds mds;
    int rc = -ENOMEM;
    if (any != NULL && bias_is_made(choice->layer, bias))
        rc = weighted_mds_open(&mds, choice->layer, &choice->in, &choice->out, samples_of(choice), any, bias);
    if (rc == 0) {
        const bool is_fp32 = choice->in.type == VALUE_FP32, is_free = !is_narrow(choice->layer);
        if (is_free)
            wishes[0] = weights_wish(choice, &mds, is_fp32 ? NN_FORWARD : NN_BACKWARD_WEIGHTS);
        if (is_free && is_fp32 && choice->layer->kind == LAYER_DENSE)
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
 * than stored as its forward does not want them. Where values are bf16, forward and the
 * gradient of the input each read a bf16 copy in a layout of its own, made in each step:
 * so the wish of the weights' gradient counts, which is fp32 as they are. */
int weights_choose(const struct choice *choice, nn_md *stored_out)
{
    nn_md wishes[WISHES] = { NULL };
    const int rc = wishes_open(choice, wishes);
    int best = -1;
    uint32_t best_score = 0;
    for (int i = 0; i < WISHES; i++) {
        if (wishes[i] == NULL || (best >= 0 && choice->layer->kind == LAYER_CONV2D))
            continue;
        const uint32_t found = choice_score(choice, wishes[i]);
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
