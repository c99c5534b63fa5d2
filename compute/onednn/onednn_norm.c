/* Batch normalisation, with the addition and the ReLU, or the other activation, that are fused into it.
 *
 * Forward takes two passes over memory: sums per channel, then everything else. Mean and squared distances of a plane
 * (one channel block of one sample) are computed while it is in the cache and merged over samples by the rule of Chan,
 * Golub and LeVeque (1983) in double: as exact as two passes, as fast as one. The sums of threads are merged in the
 * order of the threads, so the same number of threads gives the same bits. Statistics that an earlier normalisation of
 * the same values has computed are reused: in a densely connected block only those of the new channels are computed.
 *
 * Backward takes two passes as well: sums per channel, then the gradient of the values. Several normalisations of the
 * same values share mean and deviation, and the gradient of each has two terms: scale * gradient, which is known at
 * once, and slope * (value - mean) + offset, which is known after the sums. So the backward of each takes one pass,
 * which computes the sums and adds the first term. The second terms are deferred, summed per channel: the normalisation
 * that computed the statistics, whose backward is the last, adds them. */
#include "compute/onednn/onednn_plan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "compute/onednn/onednn_activation.h"
#include "compute/onednn/onednn_norm_loops.h"
#include "compute/team.h"

#define VECTOR 16u              /* channels */

struct norm {
    const struct layer *layer;
    size_t blocks;
    struct norm_plane plane;
    bool adds_skip, relu;
    const struct layer *activation;     /* another one than ReLU; NULL: none. Backward computes its derivatives from the
                                         * values again, once: the gradient of the result is multiplied by them in
                                         * place. */
    size_t channels;            /* including the padding of the last block */
    uint32_t sums;              /* buffer: [thread][channel], struct channel_sums */
    uint32_t scratch;           /* buffer: [thread], two floats per channel of a block */
    uint32_t lines;             /* buffer: COEFFICIENTS floats per channel, of the last forward */
    uint32_t moments;           /* buffer: struct channel_sums per channel, when another normalisation reuses them */
    uint32_t mask;            /* buffer: norm_mask_words per plane: which results are above 0; BUFFER_NONE: the results
                               * themselves serve as the mask */
    struct norm *before;        /* training: an earlier normalisation of the same value, or of its first channels; NULL:
                                 * none */
    size_t known;               /* channels whose statistics `before` has computed */
    uint32_t sub_batch;             /* samples that are computed at a time, see value_sub_batch; 0: all */
    uint32_t deferred;              /* buffer: struct deferred_gradient per channel of the widest value, shared by
                                     * all normalisations of it; BUFFER_NONE: nothing is deferred */
    bool starts_sum;            /* the first of them in backward: it overwrites the deferred sums */
};

/* The deferred part of the gradient of a channel's values, summed over their normalisations: slope * (value - mean)
 * + offset. */
struct deferred_gradient { float slope, offset; };

/* Forward: mean and sum of squared distances from it, of one thread's values. Backward: sums of gradients and of
 * gradients times distances. */
struct channel_sums { double first, second; };

enum coefficient { MEAN, SCALE, SHIFT, INVERSE, SLOPE, OFFSET, COEFFICIENTS };

/* One coefficient of all channels. */
static float *coefficient(const struct plan *plan, const struct norm *norm, enum coefficient which)
{
    return (float *)plan_data(plan, norm->lines) + which * norm->channels;
}

/* The coefficients of one channel block. */
static struct norm_line line_of(const struct plan *plan, const struct norm *norm, size_t block)
{
    const size_t first = block * norm->plane.block;
    return (struct norm_line){ coefficient(plan, norm, MEAN) + first, coefficient(plan, norm, SCALE) + first,
                              coefficient(plan, norm, SHIFT) + first };
}

static struct channel_sums *sums_of(const struct plan *plan, const struct norm *norm, uint32_t member)
{
    return (struct channel_sums *)plan_data(plan, norm->sums) + member * norm->channels;
}

static float *scratch_of(const struct plan *plan, const struct norm *norm, uint32_t member)
{
    return (float *)plan_data(plan, norm->scratch) + member * 2 * norm->plane.block;
}

/* Plane `plane` of the result or the added input, or of their gradients. */
static void *result_plane(const struct norm *norm, const void *values, size_t plane)
{
    return value_at(norm->plane.type, values, plane * norm->plane.pixels * norm->plane.block);
}

/* Plane `plane` of the normalised values, or of their gradient. */
static void *value_plane(const struct norm *norm, const void *values, size_t plane)
{
    return value_at(norm->plane.type, values, plane * norm->plane.pixels * norm->plane.stride);
}

/* Plane `plane` of the mask; NULL: none. */
static uint32_t *mask_plane(const struct norm *norm, uint32_t *mask, size_t plane)
{
    assert(mask == NULL || norm_can_mask(norm->plane));
    return mask != NULL ? mask + plane * norm_mask_words(norm->plane) : NULL;
}

static uint32_t *norm_mask_of(const struct plan *plan, const struct norm *norm)
{
    return norm->mask != BUFFER_NONE ? plan_data(plan, norm->mask) : NULL;
}

/* ---- plan ---- */

static struct norm_plane plane_of_tensor(const struct plan *plan, const struct tensor_layout *in)
{
    return (struct norm_plane){ .type = plan_type(plan), .pixels = tensor_pixels(in), .block = in->block,
                                .stride = tensor_step(in) };
}

/* Does backward need a mask of the results above 0, because they depend on more than the values? */
static bool needs_mask(const struct plan *plan, uint32_t layer)
{
    return plan->base.training && plan_has_sum(plan, layer) && plan_has_relu(plan, layer);
}

/* Is the mask stored as bits? The bits are in the order of the normalised values, because the results may have other
 * channel blocks where there is one pixel. */
static bool has_mask_bits(const struct plan *plan, uint32_t layer)
{
    return needs_mask(plan, layer) && norm_can_mask(plane_of_tensor(plan, in_tensor(plan, layer, 0)));
}

static void norm_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .in_until = PASS_INPUTS,
        .out_until = needs_mask(plan, layer) && !has_mask_bits(plan, layer) ? PASS_PARAMETERS : PASS_FORWARD,
        .out_sign = true,
        .in_place = !plan->base.training,
        .gradient_in_place = true,
        .adds = true,
        .reads_fronts = !plan_has_sum(plan, layer),
    };
}

static int open_norm_buffers(struct plan *plan, uint32_t layer, struct norm *norm)
{
    const size_t threads = plan_backend(plan)->spec.threads;
    const enum pass until = plan->base.training ? PASS_PARAMETERS : PASS_FORWARD;
    int rc = plan_scratch(plan, layer, threads * norm->channels * sizeof(struct channel_sums), PASS_FORWARD, until,
                          &norm->sums);
    if (rc == 0)
        rc = plan_scratch(plan, layer, threads * 2 * norm->plane.block * sizeof(float), PASS_FORWARD, until,
                          &norm->scratch);
    if (rc == 0)
        rc = plan_scratch(plan, layer, COEFFICIENTS * norm->channels * sizeof(float), PASS_FORWARD,
                          plan->base.training ? PASS_INPUTS : PASS_FORWARD, &norm->lines);
    return rc;
}

static int open_mask(struct plan *plan, uint32_t layer, struct norm *norm)
{
    if (!has_mask_bits(plan, layer))
        return 0;
    const size_t words = plan->base.count * norm->blocks * norm_mask_words(norm->plane);
    return plan_scratch(plan, layer, words * sizeof(uint32_t), PASS_FORWARD, PASS_PARAMETERS, &norm->mask);
}

/* The number of known channels, rounded so that new channels fill whole vectors: some known channels are measured
 * again. */
static size_t known_channels(const struct norm *norm, const struct norm *before)
{
    const size_t known = before->layer->out.channels, all = norm->layer->out.channels;
    const size_t more = (all - known + VECTOR - 1) / VECTOR * VECTOR;
    return known == all || more > all ? known : all - more;
}

/* Marks the deferred gradient, and the gradient that it is added to, as in use during both backward passes of the
 * layer. */
static void use_deferred(struct plan *plan, uint32_t layer, struct norm *norm, uint32_t deferred)
{
    norm->deferred = deferred;
    plan_use(plan, deferred, layer, PASS_PARAMETERS, PASS_INPUTS);
    plan_use(plan, plan_flow(&plan->base, layer, 0)->buffer, layer, PASS_PARAMETERS, PASS_INPUTS);
}

static bool can_defer(const struct plan *plan, uint32_t layer)
{
    const struct norm *const norm = plan->base.states[layer];
    return !norm->adds_skip && plan_flow(&plan->base, layer, 0)->buffer != BUFFER_NONE;
}

/* Opens the buffer of deferred gradients, for all channels of the widest value. */
static int open_deferred_buffer(struct plan *plan, uint32_t layer, uint32_t *buffer_out)
{
    const struct norm *const norm = plan->base.states[layer];
    const struct tensor_layout *const in = in_tensor(plan, layer, 0);
    const size_t channels = in->width != 0 ? in->width : norm->channels;
    return plan_buffer(plan, channels * sizeof(struct deferred_gradient), buffer_out);
}

/* Normalisations of the same values share one buffer of deferred gradients. */
static int open_deferred(struct plan *plan, uint32_t layer, uint32_t head_before)
{
    struct norm *const norm = plan->base.states[layer], *const before = plan->base.states[head_before];
    uint32_t deferred = before->deferred;
    if (!can_defer(plan, layer) || !can_defer(plan, head_before))
        return 0;
    const int rc = deferred != BUFFER_NONE ? 0 : open_deferred_buffer(plan, layer, &deferred);
    if (rc != 0)
        return rc;
    use_deferred(plan, head_before, before, deferred);
    use_deferred(plan, layer, norm, deferred);
    before->starts_sum = false;
    norm->starts_sum = true;
    return 0;
}

/* Reuses the statistics of an earlier normalisation of the same values, which are kept until forward of this
 * normalisation. */
static int open_shared(struct plan *plan, uint32_t layer, struct norm *norm)
{
    const uint32_t head = plan->base.training ? plan_norm_before(&plan->base, layer) : NET_INPUT;
    if (head == NET_INPUT)
        return 0;
    struct norm *const before = norm->before = plan->base.states[head];
    norm->known = known_channels(norm, before);
    const size_t bytes = before->channels * sizeof(struct channel_sums);
    const int rc = before->moments != BUFFER_NONE
                       ? 0 : plan_scratch(plan, head, bytes, PASS_FORWARD, PASS_FORWARD, &before->moments);
    if (rc != 0)
        return rc;
    plan_use(plan, before->moments, layer, PASS_FORWARD, PASS_FORWARD);
    return open_deferred(plan, layer, head);
}

/* With sub-batches, values are normalised when the result is read, and again in its backward: values and coefficients
 * must live until then, also where nothing before this layer is trained. */
static void extend_lifetimes(struct plan *plan, uint32_t layer, const struct norm *norm)
{
    const struct value_memory *const values = &plan->base.values;
    const uint32_t reader = fusion_only_reader(&plan->base.fusion, plan_output(&plan->base, layer));
    const enum pass last = value_memory_needs_grad(values, reader) ? PASS_PARAMETERS : PASS_FORWARD;
    plan_use(plan, norm->lines, reader, PASS_FORWARD, last);
    plan_use(plan, values->values[plan_input(&plan->base, layer, 0)].buffer, reader, PASS_FORWARD, last);
    if (plan->base.training && can_defer(plan, layer))
        plan_use(plan, plan_flow(&plan->base, layer, 0)->buffer, reader, PASS_INPUTS, PASS_INPUTS);
}

/* With sub-batches, scale * gradient is added during backward of the reader of the result, so the other term is
 * deferred. */
static int open_sub_batches(struct plan *plan, uint32_t layer, struct norm *norm)
{
    norm->sub_batch = value_sub_batch(plan, plan_output(&plan->base, layer));
    if (norm->sub_batch == 0)
        return 0;
    extend_lifetimes(plan, layer, norm);
    if (norm->deferred != BUFFER_NONE || !plan->base.training || !can_defer(plan, layer))
        return 0;
    uint32_t deferred;
    const int rc = open_deferred_buffer(plan, layer, &deferred);
    if (rc != 0)
        return rc;
    use_deferred(plan, layer, norm, deferred);
    norm->starts_sum = true;
    return 0;
}

static const struct layer *fused_activation(const struct plan *plan, uint32_t layer)
{
    const uint32_t found = plan_find(plan, layer, LAYER_ACTIVATION);
    return found != NET_INPUT ? plan_layer(plan, found) : NULL;
}

static int norm_plan(struct plan *plan, uint32_t layer)
{
    const struct tensor_layout *const in = in_tensor(plan, layer, 0);
    struct norm *const norm = plan->base.states[layer];
    *norm = (struct norm){
        .layer = plan_layer(plan, layer),
        .blocks = tensor_blocks(in),
        .plane = plane_of_tensor(plan, in),
        .adds_skip = plan_has_sum(plan, layer),
        .relu = plan_has_relu(plan, layer),
        .activation = fused_activation(plan, layer),
        .channels = tensor_blocks(in) * in->block,
        .moments = BUFFER_NONE,
        .deferred = BUFFER_NONE,
        .mask = BUFFER_NONE,
    };
    int rc = open_norm_buffers(plan, layer, norm);
    if (rc == 0)
        rc = open_mask(plan, layer, norm);
    if (rc == 0)
        rc = open_shared(plan, layer, norm);
    return rc == 0 ? open_sub_batches(plan, layer, norm) : rc;
}

/* ---- forward ---- */

struct norm_work {
    const struct plan *plan;
    const struct norm *norm;
    const void *values, *skip;
    void *result;               /* forward */
    uint32_t *mask;             /* mask bits of the result; NULL: none */
    void *gradient;             /* backward: the gradient of the result */
    void *to;                   /* backward: the gradient of the values */
    bool adds, mask_by_line;
};

/* Merges a plane of `pixels` numbers per channel into the sums of `before` planes. */
static void merge_plane(struct channel_sums *of, double before, double pixels, double mean, double squares)
{
    const double step = mean - of->first, total = before + 1;
    of->first += step / total;
    of->second += squares + step * step * pixels * before / total;
}

static void measure_plane(struct norm_plane plane, const void *values, float *scratch, struct channel_sums *sums,
                          size_t planes_before)
{
    float *const mean = scratch, *const squares = scratch + plane.block;
    memset(scratch, 0, 2 * plane.block * sizeof(*scratch));
    norm_add_sums(plane, values, mean);
    for (size_t c = 0; c < plane.block; c++)
        mean[c] /= (float)plane.pixels;
    norm_add_squares(plane, values, mean, squares);
    for (size_t c = 0; c < plane.block; c++)
        merge_plane(&sums[c], (double)planes_before, (double)plane.pixels, mean[c], squares[c]);
}

/* Measures the channels whose statistics are not known. Statistics of only some channels are known only where all
 * channels share one block. */
static void measure_unknown(const struct norm *norm, const void *values, float *scratch, struct channel_sums *sums,
                            size_t planes_before)
{
    struct norm_plane plane = norm->plane;
    plane.block -= norm->known;
    measure_plane(plane, value_at(plane.type, values, norm->known), scratch, sums + norm->known, planes_before);
}

static void measure_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct norm_work *const work = arg;
    const struct norm *const norm = work->norm;
    struct channel_sums *const sums = sums_of(work->plan, norm, member);
    float *const scratch = scratch_of(work->plan, norm, member);
    memset(sums, 0, norm->channels * sizeof(*sums));
    for (size_t i = first; i < end; i++)
        for (size_t b = 0; b < norm->blocks; b++)
            measure_unknown(norm, value_plane(norm, work->values, i * norm->blocks + b), scratch,
                            sums + b * norm->plane.block, i - first);
}

static void apply_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct norm_work *const work = arg;
    const struct norm *const norm = work->norm;
    (void)member;
    for (size_t i = first; i < end; i++)
        for (size_t b = 0; b < norm->blocks; b++) {
            const size_t plane = i * norm->blocks + b;
            if (norm->activation != NULL)
                norm_activate(norm->plane, line_of(work->plan, norm, b), norm->activation,
                              value_plane(norm, work->values, plane), result_plane(norm, work->result, plane));
            else
                norm_apply(norm->plane, line_of(work->plan, norm, b), value_plane(norm, work->values, plane),
                           work->skip != NULL ? result_plane(norm, work->skip, plane) : NULL, norm->relu,
                           result_plane(norm, work->result, plane), mask_plane(norm, work->mask, plane));
        }
}

/* The number of samples that team_run passes to a member. */
static size_t samples_of_member(const struct plan *plan, uint32_t member)
{
    const size_t threads = plan_backend(plan)->spec.threads, count = plan->base.count;
    return count * (member + 1) / threads - count * member / threads;
}

/* Mean and squared distances of a channel, over all threads. */
static struct channel_sums merge_threads(const struct plan *plan, const struct norm *norm, size_t channel)
{
    const double pixels = (double)norm->plane.pixels;
    struct channel_sums all = { 0, 0 };
    double planes = 0;
    for (uint32_t member = 0; member < plan_backend(plan)->spec.threads; member++) {
        const struct channel_sums *const part = sums_of(plan, norm, member) + channel;
        const double more = (double)samples_of_member(plan, member), step = part->first - all.first;
        if (more == 0)
            continue;
        all.first += step * more / (planes + more);
        all.second += part->second + step * step * pixels * planes * more / (planes + more);
        planes += more;
    }
    return all;
}

static void set_coefficients(const struct plan *plan, const struct norm *norm, uint32_t layer, size_t c, double mean,
                             double variance)
{
    const float *const gamma = plan_weights(plan, layer, PARAMETER_GAMMA);
    const float *const beta = plan_weights(plan, layer, PARAMETER_BETA);
    const double inverse = 1.0 / sqrt(variance + norm->layer->epsilon);
    coefficient(plan, norm, MEAN)[c] = (float)mean;
    coefficient(plan, norm, INVERSE)[c] = (float)inverse;
    coefficient(plan, norm, SCALE)[c] = (float)(inverse * (gamma != NULL ? gamma[c] : 1.0));
    coefficient(plan, norm, SHIFT)[c] = beta[c];
}

static void update_running(const struct plan *plan, const struct norm *norm, uint32_t layer, size_t c, double mean,
                           double squares, double count)
{
    float *const running_mean = plan_weights(plan, layer, PARAMETER_RUNNING_MEAN);
    float *const running_variance = plan_weights(plan, layer, PARAMETER_RUNNING_VARIANCE);
    const double decay = norm->layer->decay, unbiased = squares / (count > 1 ? count - 1 : 1);
    running_mean[c] = (float)(decay * running_mean[c] + (1 - decay) * mean);
    running_variance[c] = (float)(decay * running_variance[c] + (1 - decay) * unbiased);
}

static struct channel_sums *moments_of(const struct plan *plan, const struct norm *norm)
{
    return norm->moments != BUFFER_NONE ? plan_data(plan, norm->moments) : NULL;
}

static void compute_coefficients(const struct plan *plan, const struct norm *norm, uint32_t layer)
{
    const double count = (double)plan->base.count * (double)norm->plane.pixels;
    const struct channel_sums *const known = norm->before != NULL ? moments_of(plan, norm->before) : NULL;
    struct channel_sums *const moments = moments_of(plan, norm);
    memset(plan_data(plan, norm->lines), 0, COEFFICIENTS * norm->channels * sizeof(float));
    for (size_t c = 0; c < norm->layer->out.channels; c++) {
        const struct channel_sums sums = c < norm->known ? known[c] : merge_threads(plan, norm, c);
        if (moments != NULL)
            moments[c] = sums;
        set_coefficients(plan, norm, layer, c, sums.first, sums.second / count);
        update_running(plan, norm, layer, c, sums.first, sums.second, count);
    }
}

static void use_running_statistics(const struct plan *plan, const struct norm *norm, uint32_t layer)
{
    const float *const mean = plan_weights(plan, layer, PARAMETER_RUNNING_MEAN);
    const float *const variance = plan_weights(plan, layer, PARAMETER_RUNNING_VARIANCE);
    memset(plan_data(plan, norm->lines), 0, COEFFICIENTS * norm->channels * sizeof(float));
    for (size_t c = 0; c < norm->layer->out.channels; c++)
        set_coefficients(plan, norm, layer, c, mean[c], variance[c]);
}

void norm_forward_sub_batch(const struct plan *plan, uint32_t layer, struct sub_batch sub_batch, void *result)
{
    const struct norm *const norm = plan->base.states[layer];
    const void *const values = in_value(plan, layer, 0);
    struct norm_work work = {
        .plan = plan,
        .norm = norm,
        .values = value_plane(norm, values, sub_batch.first * norm->blocks),
        .skip = norm->adds_skip ? in_value(plan, layer, 1) : NULL,
        .result = result,
        .mask = norm_mask_of(plan, norm),
    };
    plan_run(plan, sub_batch.count, 1, apply_samples, &work);
    struct tensor_layout results = *in_tensor(plan, layer, 0);
    results.width = 0;
    if (norm->activation != NULL && activation_moves_zero(norm->activation))
        tensor_clear_padding(&results, result, sub_batch.count);
}

static void measure(const struct plan *plan, const struct norm *norm, uint32_t layer)
{
    struct norm_work work = { .plan = plan, .norm = norm, .values = in_value(plan, layer, 0) };
    if (norm->known < norm->layer->out.channels)
        plan_run(plan, plan->base.count, 1, measure_samples, &work);
    compute_coefficients(plan, norm, layer);
}

static int norm_forward(struct plan *plan, uint32_t layer)
{
    const struct norm *const norm = plan->base.states[layer];
    if (plan->base.training)
        measure(plan, norm, layer);
    else
        use_running_statistics(plan, norm, layer);
    if (norm->sub_batch == 0)
        norm_forward_sub_batch(plan, layer, (struct sub_batch){ 0, plan->base.count }, out_value(plan, layer));
    return 0;
}

/* ---- backward ---- */

static struct norm_work backward_work(const struct plan *plan, uint32_t layer)
{
    const struct norm *const norm = plan->base.states[layer];
    const uint32_t value = plan_output(&plan->base, layer);
    return (struct norm_work){
        .plan = plan,
        .norm = norm,
        .values = in_value(plan, layer, 0),
        .skip = norm->adds_skip && norm->relu && norm->mask == BUFFER_NONE ? plan_value(plan, value) : NULL,
        .mask = norm_mask_of(plan, norm),
        .gradient = plan_gradient(plan, value),
        .mask_by_line = norm->relu && !norm->adds_skip,
    };
}

/* Computes the sums of one plane. If work->to is not NULL, also writes scale * gradient there, or adds it if
 * work->adds. A norm that adds a skip and has a ReLU masks the gradient by its mask bits; without bits, by its result,
 * which is in work->skip. */
static void sum_plane(const struct norm_work *work, size_t plane, size_t block, float *scratch)
{
    const struct norm *const norm = work->norm;
    const struct norm_line line = line_of(work->plan, norm, block);
    const void *const values = value_plane(norm, work->values, plane);
    void *const gradient = result_plane(norm, work->gradient, plane);
    float *const products = scratch + norm->plane.block;
    const struct norm_mask mask = { work->mask_by_line,
                                    work->skip != NULL ? result_plane(norm, work->skip, plane) : NULL,
                                    mask_plane(norm, work->mask, plane), norm->activation };
    if (work->to != NULL)
        norm_sum_and_scale(norm->plane, line, mask, values, gradient, scratch, products, work->adds,
                           value_plane(norm, work->to, plane));
    else
        norm_sum_products(norm->plane, line, mask, values, gradient, scratch, products);
}

static void sum_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct norm_work *const work = arg;
    const struct norm *const norm = work->norm;
    const size_t block = norm->plane.block;
    struct channel_sums *const sums = sums_of(work->plan, norm, member);
    float *const scratch = scratch_of(work->plan, norm, member);
    for (size_t i = first; i < end; i++)
        for (size_t b = 0; b < norm->blocks; b++) {
            memset(scratch, 0, 2 * block * sizeof(*scratch));
            sum_plane(work, i * norm->blocks + b, b, scratch);
            for (size_t c = 0; c < block; c++) {
                sums[b * block + c].first += scratch[c];
                sums[b * block + c].second += scratch[block + c];
            }
        }
}

static void clear_sums(const struct plan *plan, const struct norm *norm)
{
    for (uint32_t member = 0; member < plan_backend(plan)->spec.threads; member++)
        memset(sums_of(plan, norm, member), 0, norm->channels * sizeof(struct channel_sums));
}

static void set_gradients(const struct plan *plan, const struct norm *norm, uint32_t layer)
{
    const double count = (double)plan->base.count * (double)norm->plane.pixels;
    float *const gamma = plan_weight_gradients(plan, layer, PARAMETER_GAMMA);
    float *const beta = plan_weight_gradients(plan, layer, PARAMETER_BETA);
    for (size_t c = 0; c < norm->layer->out.channels; c++) {
        double gradient = 0, product = 0;
        for (uint32_t member = 0; member < plan_backend(plan)->spec.threads; member++) {
            gradient += sums_of(plan, norm, member)[c].first;
            product += sums_of(plan, norm, member)[c].second;
        }
        const double inverse = coefficient(plan, norm, INVERSE)[c], scale = coefficient(plan, norm, SCALE)[c];
        beta[c] = (float)gradient;
        if (gamma != NULL)
            gamma[c] = (float)(product * inverse);
        coefficient(plan, norm, SLOPE)[c] = (float)(-scale * inverse * inverse * product / count);
        coefficient(plan, norm, OFFSET)[c] = (float)(-scale * gradient / count);
    }
}

static bool defers(const struct norm *norm)
{
    return norm->deferred != BUFFER_NONE;
}

/* Does the normalisation `before` defer to the same buffer? It then completes the channels that both have. */
static bool shares_deferred(const struct norm *norm)
{
    return norm->before != NULL && norm->before->deferred == norm->deferred;
}

static void defer(const struct plan *plan, const struct norm *norm)
{
    struct deferred_gradient *const deferred = plan_data(plan, norm->deferred);
    const float *const slope = coefficient(plan, norm, SLOPE);
    const float *const offset = coefficient(plan, norm, OFFSET);
    for (size_t c = 0; c < norm->channels; c++) {
        const struct deferred_gradient before = norm->starts_sum ? (struct deferred_gradient){ 0, 0 } : deferred[c];
        deferred[c] = (struct deferred_gradient){ before.slope + slope[c], before.offset + offset[c] };
    }
}

static void set_target(const struct plan *plan, uint32_t layer, struct norm_work *work)
{
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    work->to = plan_data(plan, flow->buffer);
    work->adds = flow->adds;
}

void norm_backward_sub_batch(const struct plan *plan, uint32_t layer, struct sub_batch sub_batch, void *gradient)
{
    struct norm_work work = backward_work(plan, layer);
    const size_t before = sub_batch.first * work.norm->blocks;
    if (sub_batch.first == 0)
        clear_sums(plan, work.norm);
    if (defers(work.norm))
        set_target(plan, layer, &work);
    work.gradient = gradient;
    work.values = value_plane(work.norm, work.values, before);
    work.to = work.to != NULL ? value_plane(work.norm, work.to, before) : NULL;
    plan_run(plan, sub_batch.count, 1, sum_samples, &work);
}

/* With sub-batches, norm_backward_sub_batch has completed the sums already. */
static int norm_backward_parameters(struct plan *plan, uint32_t layer)
{
    const struct norm *const norm = plan->base.states[layer];
    if (norm->sub_batch == 0)
        norm_backward_sub_batch(plan, layer, (struct sub_batch){ 0, plan->base.count }, out_gradient(plan, layer));
    set_gradients(plan, norm, layer);
    if (defers(norm))
        defer(plan, norm);
    return 0;
}

static void gradient_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct norm_work *const work = arg;
    const struct norm *const norm = work->norm;
    (void)member;
    for (size_t i = first; i < end; i++)
        for (size_t b = 0; b < norm->blocks; b++) {
            const size_t plane = i * norm->blocks + b, channel = b * norm->plane.block;
            const struct norm_slope slope = { coefficient(work->plan, norm, SLOPE) + channel,
                                             coefficient(work->plan, norm, OFFSET) + channel };
            norm_input_gradient(norm->plane, line_of(work->plan, norm, b), slope, work->mask_by_line,
                                value_plane(norm, work->values, plane), result_plane(norm, work->gradient, plane),
                                work->adds, value_plane(norm, work->to, plane));
        }
}

/* Adds the deferred gradient. The first `known` channels are left to an earlier normalisation; further channels that it
 * completes, in one vector with new ones, have slope and offset 0. */
static void add_deferred_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct norm_work *const work = arg;
    const struct norm *const norm = work->norm;
    const size_t done = shares_deferred(norm) ? norm->known : 0;
    struct norm_plane plane = norm->plane;
    (void)member;
    plane.block -= done;
    for (size_t i = first; i < end; i++)
        for (size_t b = 0; b < norm->blocks; b++) {
            const size_t at = i * norm->blocks + b, channel = b * norm->plane.block + done;
            const struct norm_slope slope = { coefficient(work->plan, norm, SLOPE) + channel,
                                             coefficient(work->plan, norm, OFFSET) + channel };
            norm_add_line(plane, coefficient(work->plan, norm, MEAN) + channel, slope,
                          value_at(plane.type, value_plane(norm, work->values, at), done),
                          value_at(plane.type, value_plane(norm, work->to, at), done));
        }
}

/* Adds the deferred sums to the channels that no earlier normalisation completes. */
static void add_deferred(const struct plan *plan, struct norm_work *work)
{
    const struct norm *const norm = work->norm;
    const struct deferred_gradient *const deferred = plan_data(plan, norm->deferred);
    const size_t done = shares_deferred(norm) ? norm->before->layer->out.channels : 0;
    if (done == norm->layer->out.channels)
        return;
    for (size_t c = 0; c < norm->channels; c++) {
        coefficient(plan, norm, SLOPE)[c] = c < done ? 0 : deferred[c].slope;
        coefficient(plan, norm, OFFSET)[c] = c < done ? 0 : deferred[c].offset;
    }
    plan_run(plan, plan->base.count, 1, add_deferred_samples, work);
}

static int norm_backward_inputs(struct plan *plan, uint32_t layer)
{
    struct norm_work work = backward_work(plan, layer);
    const struct norm *const norm = work.norm;
    if (plan_flow(&plan->base, layer, 0)->buffer != BUFFER_NONE)
        set_target(plan, layer, &work);
    if (defers(norm))
        add_deferred(plan, &work);
    else if (work.to != NULL)
        plan_run(plan, plan->base.count, 1, gradient_samples, &work);
    if (norm->adds_skip)
        gradient_copy(plan, work.gradient, plan_flow(&plan->base, layer, 1),
                         value_total(plan, plan_output(&plan->base, layer)));
    return 0;
}

const struct layer_ops onednn_batch_norm_ops = {
    .use = norm_use,
    .state_bytes = sizeof(struct norm),
    .plan = norm_plan,
    .forward = norm_forward,
    .backward_parameters = norm_backward_parameters,
    .backward_inputs = norm_backward_inputs,
};
