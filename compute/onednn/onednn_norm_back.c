/* Batch normalisation backward, with the mask of a ReLU, in two passes over memory: sums by channel, then what is
 * given back to the values. Threads' sums are added in thread order, as forward.
 *
 * Several normalisations of the same values, as in a densely connected block, have one mean and one std, and what
 * each gives back is scale * gradient, known at once, and slope * (value - mean) + offset, known when it has summed. So
 * each takes one pass, which sums and gives back the former; the latter are added up by channel, and paid to the
 * values by the one that measured them, which goes backward last. */
#include <string.h>

#include "compute/onednn/onednn_norm.h"
#include "compute/onednn/onednn_plan.h"
#include "compute/team.h"

struct norm_work {
    const struct plan *plan;
    const struct norm *norm;
    const void *values, *skip;
    uint32_t *passed;           /* bits of the result; NULL: there are none */
    void *gradient;             /* of the result */
    void *to;                   /* of the values */
    bool adds, by_line;
};

static struct norm_work backward_work(const struct plan *plan, uint32_t layer)
{
    const struct norm *const norm = plan->states[layer];
    const uint32_t value = plan_output(&plan->base, layer);
    return (struct norm_work){
        .plan = plan,
        .norm = norm,
        .values = plan_value(plan, plan_input(&plan->base, layer, 0)),
        .skip = norm->adds_skip && norm->relu && norm->passed == BUFFER_NONE ? plan_value(plan, value) : NULL,
        .passed = norm_passed_of(plan, norm),
        .gradient = plan_gradient(plan, value),
        .by_line = norm->relu && !norm->adds_skip,
    };
}

/* A plane's products, and, with `to`, what is known of its gradient. With a skip and a ReLU, `skip` is the result
 * unless there are bits: what is above 0 in it passes. */
static void sum_plane(const struct norm_work *work, size_t plane, size_t block, float *scratch)
{
    const struct norm *const norm = work->norm;
    const struct norm_line line = norm_line_of(work->plan, norm, block);
    const void *const values = norm_value_plane(norm, work->values, plane);
    void *const gradient = norm_plane_of(norm, work->gradient, plane);
    float *const products = scratch + norm->plane.block;
    if (work->to != NULL) {
        norm_pass_products(norm->plane, line, work->by_line, values, gradient, scratch, products, work->adds,
                           norm_value_plane(norm, work->to, plane));
        return;
    }
    const struct norm_mask mask = { work->by_line,
                                   work->skip != NULL ? norm_plane_of(norm, work->skip, plane) : NULL,
                                   norm_bits_of(norm, work->passed, plane) };
    norm_add_products(norm->plane, line, mask, values, gradient, scratch, products);
}

static void sum_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct norm_work *const work = arg;
    const struct norm *const norm = work->norm;
    const size_t block = norm->plane.block;
    struct channel_sums *const sums = norm_sums_of(work->plan, norm, member);
    float *const scratch = norm_scratch_of(work->plan, norm, member);
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

static void begin_sums(const struct plan *plan, const struct norm *norm)
{
    for (uint32_t member = 0; member < plan_backend(plan)->spec.threads; member++)
        memset(norm_sums_of(plan, norm, member), 0, norm->channels * sizeof(struct channel_sums));
}

static void set_gradients(const struct plan *plan, const struct norm *norm, uint32_t layer)
{
    const double count = (double)plan->base.count * (double)norm->plane.pixels;
    float *const gamma = plan_weight_gradients(plan, layer, PARAMETER_GAMMA);
    float *const beta = plan_weight_gradients(plan, layer, PARAMETER_BETA);
    for (size_t c = 0; c < norm->layer->out.channels; c++) {
        double gradient = 0, product = 0;
        for (uint32_t member = 0; member < plan_backend(plan)->spec.threads; member++) {
            gradient += norm_sums_of(plan, norm, member)[c].first;
            product += norm_sums_of(plan, norm, member)[c].second;
        }
        const double inverse = norm_coefficient(plan, norm, INVERSE)[c], scale = norm_coefficient(plan, norm, SCALE)[c];
        beta[c] = (float)gradient;
        if (gamma != NULL)
            gamma[c] = (float)(product * inverse);
        norm_coefficient(plan, norm, SLOPE)[c] = (float)(-scale * inverse * inverse * product / count);
        norm_coefficient(plan, norm, OFFSET)[c] = (float)(-scale * gradient / count);
    }
}

static bool owes(const struct norm *norm)
{
    return norm->owed != BUFFER_NONE;
}

/* Does one before this one owe the same values? */
static bool joins(const struct norm *norm)
{
    return norm->before != NULL && norm->before->owed == norm->owed;
}

static void owe(const struct plan *plan, const struct norm *norm)
{
    struct norm_owed *const owed = plan_data(plan, norm->owed);
    const float *const slope = norm_coefficient(plan, norm, SLOPE);
    const float *const offset = norm_coefficient(plan, norm, OFFSET);
    for (size_t c = 0; c < norm->channels; c++) {
        const struct norm_owed before = norm->is_last ? (struct norm_owed){ 0, 0 } : owed[c];
        owed[c] = (struct norm_owed){ before.slope + slope[c], before.offset + offset[c] };
    }
}

static void set_flow(const struct plan *plan, uint32_t layer, struct norm_work *work)
{
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    work->to = plan_data(plan, flow->buffer);
    work->adds = flow->adds;
}

void norm_backward_slice(const struct plan *plan, uint32_t layer, struct slice slice, void *gradient)
{
    struct norm_work work = backward_work(plan, layer);
    const size_t before = slice.first * work.norm->blocks;
    if (slice.first == 0)
        begin_sums(plan, work.norm);
    if (owes(work.norm))
        set_flow(plan, layer, &work);
    work.gradient = gradient;
    work.values = norm_value_plane(work.norm, work.values, before);
    work.to = work.to != NULL ? norm_value_plane(work.norm, work.to, before) : NULL;
    team_run(plan_backend(plan)->spec.threads, slice.count, 1, sum_samples, &work);
}

/* In slices the sums are there. */
int norm_backward_parameters(struct plan *plan, uint32_t layer)
{
    const struct norm *const norm = plan->states[layer];
    if (norm->slice == 0)
        norm_backward_slice(plan, layer, (struct slice){ 0, plan->base.count },
                            plan_gradient(plan, plan_output(&plan->base, layer)));
    set_gradients(plan, norm, layer);
    if (owes(norm))
        owe(plan, norm);
    return 0;
}

static void give_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct norm_work *const work = arg;
    const struct norm *const norm = work->norm;
    (void)member;
    for (size_t i = first; i < end; i++)
        for (size_t b = 0; b < norm->blocks; b++) {
            const size_t plane = i * norm->blocks + b, channel = b * norm->plane.block;
            const struct norm_slope slope = { norm_coefficient(work->plan, norm, SLOPE) + channel,
                                             norm_coefficient(work->plan, norm, OFFSET) + channel };
            norm_give_back(norm->plane, norm_line_of(work->plan, norm, b), slope, work->by_line,
                           norm_value_plane(norm, work->values, plane), norm_plane_of(norm, work->gradient, plane),
                           work->adds, norm_value_plane(norm, work->to, plane));
        }
}

/* Channels that are paid by one before are in front of those of this one, or lie in vectors with them. */
static void pay_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct norm_work *const work = arg;
    const struct norm *const norm = work->norm;
    const size_t paid = joins(norm) ? norm->known : 0;
    struct norm_plane plane = norm->plane;
    (void)member;
    plane.block -= paid;
    for (size_t i = first; i < end; i++)
        for (size_t b = 0; b < norm->blocks; b++) {
            const size_t at = i * norm->blocks + b, channel = b * norm->plane.block + paid;
            const struct norm_slope slope = { norm_coefficient(work->plan, norm, SLOPE) + channel,
                                             norm_coefficient(work->plan, norm, OFFSET) + channel };
            norm_pay(plane, norm_coefficient(work->plan, norm, MEAN) + channel, slope,
                     value_at(plane.type, norm_value_plane(norm, work->values, at), paid),
                     value_at(plane.type, norm_value_plane(norm, work->to, at), paid));
        }
}

/* What all normalisations owe to the channels that no one before this one pays. */
static void pay(const struct plan *plan, struct norm_work *work)
{
    const struct norm *const norm = work->norm;
    const struct norm_owed *const owed = plan_data(plan, norm->owed);
    const size_t paid = joins(norm) ? norm->before->layer->out.channels : 0;
    if (paid == norm->layer->out.channels)
        return;
    for (size_t c = 0; c < norm->channels; c++) {
        norm_coefficient(plan, norm, SLOPE)[c] = c < paid ? 0 : owed[c].slope;
        norm_coefficient(plan, norm, OFFSET)[c] = c < paid ? 0 : owed[c].offset;
    }
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, pay_samples, work);
}

int norm_backward_inputs(struct plan *plan, uint32_t layer)
{
    struct norm_work work = backward_work(plan, layer);
    const struct norm *const norm = work.norm;
    if (plan_flow(&plan->base, layer, 0)->buffer != BUFFER_NONE)
        set_flow(plan, layer, &work);
    if (owes(norm))
        pay(plan, &work);
    else if (work.to != NULL)
        team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, give_samples, &work);
    if (norm->adds_skip)
        gradient_hand_on(plan, work.gradient, plan_flow(&plan->base, layer, 1),
                         value_total(plan, plan_output(&plan->base, layer)));
    return 0;
}
