/* Batch normalisation folded into the convolution in front of it: evaluation knows its factor and its shift
 * before the convolution begins. Where the primitive can, it applies them to its results on their way to memory;
 * else they are put into a copy of the weights, made for each batch, as nobody says when weights change. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <math.h>

#include "compute/team.h"
#include "compute/vector.h"

#define PADDING_MAX 64u         /* channels that fill the last block of weights: their weights are 0 */

static uint32_t folded_layer(const struct plan *plan, uint32_t head)
{
    const struct group *const group = plan_group(&plan->base, head);
    for (uint32_t t = 0; t < group->tail_count; t++)
        if (plan_layer(plan, group->tail[t])->kind == LAYER_BATCH_NORM)
            return group->tail[t];
    return NET_INPUT;
}

static int forward_buffer(struct plan *plan, uint32_t head, size_t bytes, uint32_t *buffer_out)
{
    const int rc = plan_buffer(plan, bytes, buffer_out);
    if (rc == 0)
        plan_use(plan, *buffer_out, head, PHASE_FORWARD, PHASE_FORWARD);
    return rc;
}

int folded_norm_open(struct plan *plan, uint32_t head, struct folded_norm *folded)
{
    const dnnl_dim_t channels = plan_layer(plan, head)->out.channels, dims[] = { 1, channels, 1, 1 };
    const size_t bytes = ((size_t)channels + PADDING_MAX) * sizeof(float);
    *folded = (struct folded_norm){ .layer = folded_layer(plan, head), .head = head };
    if (!folded_norm_has(folded))
        return 0;
    folded->line = nn_md_tag(4, dims, dnnl_abcd, dnnl_f32);
    folded->bias = nn_md_tag(1, &channels, dnnl_a, dnnl_f32);
    int rc = folded->line != NULL && folded->bias != NULL ? 0 : -ENOMEM;
    if (rc == 0)
        rc = forward_buffer(plan, head, bytes, &folded->factors);
    return rc != 0 ? rc : forward_buffer(plan, head, bytes, &folded->shifts);
}

void folded_norm_close(struct folded_norm *folded)
{
    nn_md_release(folded->line);
    nn_md_release(folded->bias);
    folded->line = folded->bias = NULL;
}

/* gamma may be NULL: 1. */
struct norm_numbers { const float *mean, *variance, *gamma, *beta; double epsilon; };

VECTOR_LOOPS
static void find_lines(struct norm_numbers of, size_t channels, float *restrict factors, float *restrict shifts)
{
    for (size_t c = 0; c < channels; c++)
        factors[c] = (float)(1.0 / sqrt((double)of.variance[c] + of.epsilon));
    for (size_t c = 0; c < channels && of.gamma != NULL; c++)
        factors[c] *= of.gamma[c];
    for (size_t c = 0; c < channels; c++)
        shifts[c] = of.beta[c] - of.mean[c] * factors[c];
    for (size_t c = channels; c < channels + PADDING_MAX; c++)
        factors[c] = 0;
}

/* ---- weights that take the factors ---- */

/* The weights of one block of output channels lie together in most layouts: false where they do not. */
static bool find_runs(const struct nn_layout *layout, size_t weights, struct channel_runs *runs_out)
{
    size_t inner = 1;
    *runs_out = (struct channel_runs){ .block = 1, .run = (size_t)layout->strides[0] };
    for (int i = layout->block_count - 1; i >= 0; i--) {
        if (layout->block_dims[i] == 0)
            *runs_out = (struct channel_runs){ .block = (size_t)layout->blocks[i], .apart = inner,
                                               .run = (size_t)layout->strides[0] };
        inner *= (size_t)layout->blocks[i];
    }
    if (runs_out->block == 1)
        runs_out->apart = runs_out->run;
    runs_out->count = (size_t)layout->padded[0] / runs_out->block;
    return runs_out->count * runs_out->run == weights;
}

VECTOR_LOOPS
static void multiply_vectors(const struct channel_runs *runs, const float *restrict factors, const float *restrict from,
                             float *restrict to)
{
    for (size_t at = 0; at < runs->run; at += runs->block)
        for (size_t c = 0; c < runs->block; c++)
            to[at + c] = from[at + c] * factors[c];
}

VECTOR_LOOPS
static void multiply_stretches(const struct channel_runs *runs, const float *restrict factors,
                               const float *restrict from, float *restrict to)
{
    for (size_t at = 0; at < runs->run; at += runs->apart) {
        const float factor = factors[at / runs->apart % runs->block];
        for (size_t i = at; i < at + runs->apart; i++)
            to[i] = from[i] * factor;
    }
}

struct multiply_work {
    const struct channel_runs *runs;
    const float *factors, *from;
    float *to;
};

static void multiply_runs(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct multiply_work *const work = arg;
    const struct channel_runs *const runs = work->runs;
    (void)member;
    for (size_t r = first; r < end; r++)
        (runs->apart == 1 ? multiply_vectors : multiply_stretches)(
            runs, work->factors + r * runs->block, work->from + r * runs->run, work->to + r * runs->run);
}

int folded_norm_into_weights(struct plan *plan, nn_md weights, struct folded_norm *folded)
{
    struct nn_layout layout;
    if (nn_md_layout(weights, &layout) != 0 ||
        !find_runs(&layout, nn_md_bytes(weights) / sizeof(float), &folded->runs))
        return -ENOTSUP;
    const int rc = forward_buffer(plan, folded->head, nn_md_bytes(weights), &folded->weights);
    if (rc != 0)
        return rc;
    nn_md_release(folded->line);
    folded->line = NULL;
    return 0;
}

static void multiply_weights(const struct plan *plan, const struct folded_norm *folded)
{
    struct multiply_work work = {
        .runs = &folded->runs,
        .factors = plan_data(plan, folded->factors),
        .from = plan_weights(plan, folded->head, PARAMETER_WEIGHT),
        .to = plan_data(plan, folded->weights),
    };
    team_run(plan_backend(plan)->spec.threads, folded->runs.count, 1, multiply_runs, &work);
}

static void shift_bias(const struct plan *plan, const struct folded_norm *folded)
{
    const float *const bias = plan_weights(plan, folded->head, PARAMETER_BIAS);
    const float *const factors = plan_data(plan, folded->factors);
    float *const shifts = plan_data(plan, folded->shifts);
    for (size_t c = 0; c < plan_layer(plan, folded->head)->out.channels && bias != NULL; c++)
        shifts[c] += bias[c] * factors[c];
}

/* ---- a batch ---- */

void folded_norm_find(const struct plan *plan, const struct folded_norm *folded)
{
    const struct norm_numbers of = {
        .mean = plan_weights(plan, folded->layer, PARAMETER_RUNNING_MEAN),
        .variance = plan_weights(plan, folded->layer, PARAMETER_RUNNING_VARIANCE),
        .gamma = plan_weights(plan, folded->layer, PARAMETER_GAMMA),
        .beta = plan_weights(plan, folded->layer, PARAMETER_BETA),
        .epsilon = plan_layer(plan, folded->layer)->epsilon,
    };
    find_lines(of, plan_layer(plan, folded->layer)->out.channels, plan_data(plan, folded->factors),
               plan_data(plan, folded->shifts));
    if (folded->line != NULL)
        return;
    multiply_weights(plan, folded);
    shift_bias(plan, folded);
}
