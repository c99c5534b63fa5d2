/* Batch normalisation with what is folded into it, a sum and a ReLU, forward, in two passes over memory: sums by
 * channel, then everything else. The mean of a plane and the squares around
 * it are taken while the plane is in the cache, and put together over samples by Chan's rule
 * (Chan, Golub, LeVeque 1983) in double: as exact as two passes, as fast as one.
 *
 * Threads' sums are added in thread order: the same bits for the same threads. What an earlier normalisation of
 * the same values has measured is not measured again: in a densely connected block only new channels are. */
#include <math.h>
#include <string.h>

#include "compute/onednn/onednn_norm.h"
#include "compute/onednn/onednn_plan.h"
#include "compute/team.h"

struct norm_work {
    const struct plan *plan;
    const struct norm *norm;
    const void *values, *skip;
    void *result;
    uint32_t *passed;           /* bits of the result; NULL: there are none */
};

/* One more plane of `pixels` numbers per channel joins those of `before` planes. */
static void join_plane(struct channel_sums *of, double before, double pixels, double mean, double squares)
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
        join_plane(&sums[c], (double)planes_before, (double)plane.pixels, mean[c], squares[c]);
}

/* What is behind the known channels of a plane, which are none unless all channels lie together. */
static void measure_new(const struct norm *norm, const void *values, float *scratch, struct channel_sums *sums,
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
    struct channel_sums *const sums = norm_sums_of(work->plan, norm, member);
    float *const scratch = norm_scratch_of(work->plan, norm, member);
    memset(sums, 0, norm->channels * sizeof(*sums));
    for (size_t i = first; i < end; i++)
        for (size_t b = 0; b < norm->blocks; b++)
            measure_new(norm, norm_value_plane(norm, work->values, i * norm->blocks + b), scratch,
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
            norm_apply(norm->plane, norm_line_of(work->plan, norm, b), norm_value_plane(norm, work->values, plane),
                       work->skip != NULL ? norm_plane_of(norm, work->skip, plane) : NULL, norm->relu,
                       norm_plane_of(norm, work->result, plane), norm_bits_of(norm, work->passed, plane));
        }
}

/* How many samples team_run gives to a member. */
static size_t share_of(const struct plan *plan, uint32_t member)
{
    const size_t threads = plan_backend(plan)->spec.threads, count = plan->base.count;
    return count * (member + 1) / threads - count * member / threads;
}

/* The mean of a channel and its squared distances, over all threads. */
static struct channel_sums join_threads(const struct plan *plan, const struct norm *norm, size_t channel)
{
    const double pixels = (double)norm->plane.pixels;
    struct channel_sums all = { 0, 0 };
    double planes = 0;
    for (uint32_t member = 0; member < plan_backend(plan)->spec.threads; member++) {
        const struct channel_sums *const part = norm_sums_of(plan, norm, member) + channel;
        const double more = (double)share_of(plan, member), step = part->first - all.first;
        if (more == 0)
            continue;
        all.first += step * more / (planes + more);
        all.second += part->second + step * step * pixels * planes * more / (planes + more);
        planes += more;
    }
    return all;
}

static void set_line(const struct plan *plan, const struct norm *norm, uint32_t layer, size_t c, double mean,
                     double variance)
{
    const float *const gamma = plan_weights(plan, layer, PARAMETER_GAMMA);
    const float *const beta = plan_weights(plan, layer, PARAMETER_BETA);
    const double inverse = 1.0 / sqrt(variance + norm->layer->epsilon);
    norm_coefficient(plan, norm, MEAN)[c] = (float)mean;
    norm_coefficient(plan, norm, INVERSE)[c] = (float)inverse;
    norm_coefficient(plan, norm, SCALE)[c] = (float)(inverse * (gamma != NULL ? gamma[c] : 1.0));
    norm_coefficient(plan, norm, SHIFT)[c] = beta[c];
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

static void find_lines(const struct plan *plan, const struct norm *norm, uint32_t layer)
{
    const double count = (double)plan->base.count * (double)norm->plane.pixels;
    const struct channel_sums *const known = norm->before != NULL ? moments_of(plan, norm->before) : NULL;
    struct channel_sums *const moments = moments_of(plan, norm);
    memset(plan_data(plan, norm->lines), 0, COEFFICIENTS * norm->channels * sizeof(float));
    for (size_t c = 0; c < norm->layer->out.channels; c++) {
        const struct channel_sums sums = c < norm->known ? known[c] : join_threads(plan, norm, c);
        if (moments != NULL)
            moments[c] = sums;
        set_line(plan, norm, layer, c, sums.first, sums.second / count);
        update_running(plan, norm, layer, c, sums.first, sums.second, count);
    }
}

static void take_running(const struct plan *plan, const struct norm *norm, uint32_t layer)
{
    const float *const mean = plan_weights(plan, layer, PARAMETER_RUNNING_MEAN);
    const float *const variance = plan_weights(plan, layer, PARAMETER_RUNNING_VARIANCE);
    memset(plan_data(plan, norm->lines), 0, COEFFICIENTS * norm->channels * sizeof(float));
    for (size_t c = 0; c < norm->layer->out.channels; c++)
        set_line(plan, norm, layer, c, mean[c], variance[c]);
}

void norm_forward_slice(const struct plan *plan, uint32_t layer, struct slice slice, void *result)
{
    const struct norm *const norm = plan->states[layer];
    const void *const values = plan_value(plan, plan_input(&plan->base, layer, 0));
    struct norm_work work = {
        .plan = plan,
        .norm = norm,
        .values = norm_value_plane(norm, values, slice.first * norm->blocks),
        .skip = norm->adds_skip ? plan_value(plan, plan_input(&plan->base, layer, 1)) : NULL,
        .result = result,
        .passed = norm_passed_of(plan, norm),
    };
    team_run(plan_backend(plan)->spec.threads, slice.count, 1, apply_samples, &work);
}

static void measure(const struct plan *plan, const struct norm *norm, uint32_t layer)
{
    struct norm_work work = { .plan = plan, .norm = norm,
                              .values = plan_value(plan, plan_input(&plan->base, layer, 0)) };
    if (norm->known < norm->layer->out.channels)
        team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, measure_samples, &work);
    find_lines(plan, norm, layer);
}

static int norm_forward(struct plan *plan, uint32_t layer)
{
    const struct norm *const norm = plan->states[layer];
    if (plan->base.training)
        measure(plan, norm, layer);
    else
        take_running(plan, norm, layer);
    if (norm->slice == 0)
        norm_forward_slice(plan, layer, (struct slice){ 0, plan->base.count },
                           plan_value(plan, plan_output(&plan->base, layer)));
    return 0;
}

const struct layer_ops onednn_batch_norm_ops = {
    .use = norm_use,
    .plan = norm_plan,
    .forward = norm_forward,
    .backward_parameters = norm_backward_parameters,
    .backward_inputs = norm_backward_inputs,
    .release = norm_release,
};
