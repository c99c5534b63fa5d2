/* The layers of residual branches, by loops of ours: layer normalisation; a factor per channel and stochastic depth,
 * with the addition that is fused into them.
 *
 * Loops go over strips: pixels of one sample whose channels fit into the first-level cache, so that several passes over
 * a strip read memory once. A backward that has parameters computes the gradient of the input in the same pass as
 * theirs. It sums the gradients of parameters in parts of the batch, whose number depends on shapes only, and then adds
 * the parts in order: the result does not depend on the number of threads. */
#include "compute/onednn/onednn_plan.h"

#include <math.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"

#define STRIP_PIXELS 32u        /* most pixels of a strip */
#define STRIP_NUMBERS 4096u     /* most numbers, where a strip has several pixels: values and gradients fit together */
#define PARTS_MAX 64u
#define PART_PIXELS 64u         /* fewest pixels of a part, where there are several */

/* ---- strips ---- */

struct strips {
    enum value_type type;
    const struct tensor_layout *tensor;
    size_t channels, blocks, block, step;
    size_t length;              /* pixels of a strip; the last of a sample may have fewer */
    size_t per_sample, count;   /* strips */
    size_t parts;               /* ranges of strips whose gradients of parameters are summed separately */
};

/* Pixels [pixel, pixel + count) of a sample. */
struct strip { size_t sample, pixel, count; };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct strips strips_of(const struct plan *plan, uint32_t layer)
{
    const struct tensor_layout *const tensor = out_tensor(plan, layer);
    const size_t pixels = tensor_pixels(tensor), samples = plan->base.count;
    struct strips strips = {
        .type = plan_type(plan), .tensor = tensor, .channels = tensor->shape.channels, .blocks = tensor_blocks(tensor),
        .block = tensor->block, .step = tensor_step(tensor),
        .length = larger(1, smaller(STRIP_PIXELS, STRIP_NUMBERS / tensor->shape.channels)) };
    strips.per_sample = (pixels + strips.length - 1) / strips.length;
    strips.count = samples * strips.per_sample;
    strips.parts = smaller(PARTS_MAX, larger(1, samples * pixels / PART_PIXELS));
    strips.parts = smaller(strips.parts, strips.count);
    return strips;
}

static struct strip strip_at(const struct strips *strips, size_t index)
{
    const size_t pixel = index % strips->per_sample * strips->length;
    return (struct strip){ index / strips->per_sample, pixel,
                           smaller(strips->length, tensor_pixels(strips->tensor) - pixel) };
}

/* The index of the first number of a channel block in the strip's first pixel. */
static size_t block_at(const struct strips *strips, const struct strip *strip, size_t block)
{
    return strip->sample * tensor_count(strips->tensor) + tensor_at(strips->tensor, block * strips->block, strip->pixel);
}

/* The channels of a block, without padding. */
static size_t block_channels(const struct strips *strips, size_t block)
{
    return smaller(strips->block, strips->channels - block * strips->block);
}

ALWAYS_INLINE void clear_numbers(enum value_type type, void *values, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        value_write(type, values, i, 0.0f);
}

/* ---- sums of the gradients of parameters ---- */

/* The sums of a part: those of `kinds` parameters, one after the other. */
static float *part_sums(const struct plan *plan, uint32_t buffer, const struct strips *strips, size_t kinds, size_t part)
{
    return (float *)plan_data(plan, buffer) + part * kinds * strips->channels;
}

static int open_sums(struct plan *plan, uint32_t layer, const struct strips *strips, size_t kinds, uint32_t *buffer_out)
{
    return plan_scratch(plan, layer, strips->parts * kinds * strips->channels * sizeof(float), PASS_PARAMETERS,
                        PASS_PARAMETERS, buffer_out);
}

VECTOR_LOOPS
static void add_floats(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* Adds up the parts of parameter `kind` of `kinds`. */
static void add_parts(const struct plan *plan, uint32_t buffer, const struct strips *strips, size_t kinds, size_t kind,
                      float *gradient)
{
    memset(gradient, 0, strips->channels * sizeof(*gradient));
    for (size_t i = 0; i < strips->parts; i++)
        add_floats(gradient, part_sums(plan, buffer, strips, kinds, i) + kind * strips->channels, strips->channels);
}

/* The strips of a part. */
static size_t part_begin(const struct strips *strips, size_t part)
{
    return strips->count * part / strips->parts;
}

/* The gradient of the first input is written with those of the parameters. */
static void use_gradient_early(struct plan *plan, uint32_t layer)
{
    plan_use(plan, plan_flow(&plan->base, layer, 0)->buffer, layer, PASS_PARAMETERS, PASS_PARAMETERS);
}

/* ---- layer_norm ---- */

struct layer_norm {
    uint32_t lines;             /* buffer: struct pixel_line per pixel; training only */
    uint32_t sums;              /* buffer: the parts' gradients of gamma and beta; training only */
};

/* normalised = (value - mean) * scale */
struct pixel_line { float mean, scale; };

struct layer_norm_work {
    const struct plan *plan;
    struct strips strips;
    const float *gamma, *beta;
    float epsilon;
    const void *values;
    void *result;
    struct pixel_line *lines;   /* [sample][pixel]; NULL: evaluation */
    const void *gradient;       /* of the result */
    void *to;                   /* the gradient of the values; NULL: it is not needed */
    bool adds;
    uint32_t sums;              /* buffer */
};

static void layer_norm_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)layer;
    *use_out = (struct value_use){ .in_until = PASS_PARAMETERS, .in_place = !plan->base.training,
                                   .gradient_in_place = true, .adds = true };
}

static int layer_norm_plan(struct plan *plan, uint32_t layer)
{
    struct layer_norm *const state = plan->base.states[layer];
    const struct strips strips = strips_of(plan, layer);
    const size_t pixels = plan->base.count * tensor_pixels(strips.tensor);
    *state = (struct layer_norm){ BUFFER_NONE, BUFFER_NONE };
    if (!plan->base.training)
        return 0;
    use_gradient_early(plan, layer);
    const int rc = plan_scratch(plan, layer, pixels * sizeof(struct pixel_line), PASS_FORWARD, PASS_PARAMETERS,
                                &state->lines);
    return rc != 0 ? rc : open_sums(plan, layer, &strips, 2, &state->sums);
}

#define CHAINS 4u               /* sums that do not wait for each other */

ALWAYS_INLINE float sum_lanes(const lanes *numbers)
{
    const lanes n = *numbers;
    return ((n[0] + n[4]) + (n[2] + n[6])) + ((n[1] + n[5]) + (n[3] + n[7]));
}

/* Adds `count` numbers, or with `squares` their squared distances from the mean, to the lanes of *sum. */
ALWAYS_INLINE void add_numbers(enum value_type type, const void *values, size_t at, size_t count, bool squares,
                               float mean, lanes *sum)
{
    lanes total[CHAINS] = { *sum }, x;
    size_t c = 0;
    for (; c + CHAINS * LANES <= count; c += CHAINS * LANES)
        for (size_t k = 0; k < CHAINS; k++) {
            lanes_read(type, values, at + c + k * LANES, LANES, &x);
            total[k] += squares ? (x - mean) * (x - mean) : x;
        }
    for (; c + LANES <= count; c += LANES) {
        lanes_read(type, values, at + c, LANES, &x);
        total[0] += squares ? (x - mean) * (x - mean) : x;
    }
    for (; c < count; c++) {
        const float number = value_read(type, values, at + c), distance = number - mean;
        total[0][c % LANES] += squares ? distance * distance : number;
    }
    *sum = (total[0] + total[1]) + (total[2] + total[3]);
}

ALWAYS_INLINE void measure_strip(enum value_type type, const struct layer_norm_work *work, const struct strip *strip,
                                 struct pixel_line *lines_out)
{
    const struct strips *const strips = &work->strips;
    const float share = 1.0f / (float)strips->channels;
    lanes sums[STRIP_PIXELS] = { { 0 } }, squares[STRIP_PIXELS] = { { 0 } };
    for (size_t b = 0; b < strips->blocks; b++)
        for (size_t p = 0, at = block_at(strips, strip, b); p < strip->count; p++, at += strips->step)
            add_numbers(type, work->values, at, block_channels(strips, b), false, 0.0f, &sums[p]);
    for (size_t p = 0; p < strip->count; p++)
        lines_out[p].mean = sum_lanes(&sums[p]) * share;
    for (size_t b = 0; b < strips->blocks; b++)
        for (size_t p = 0, at = block_at(strips, strip, b); p < strip->count; p++, at += strips->step)
            add_numbers(type, work->values, at, block_channels(strips, b), true, lines_out[p].mean, &squares[p]);
    for (size_t p = 0; p < strip->count; p++)
        lines_out[p].scale = 1.0f / sqrtf(sum_lanes(&squares[p]) * share + work->epsilon);
}

ALWAYS_INLINE void normalise_pixel(enum value_type type, const struct layer_norm_work *work, size_t at, size_t count,
                                   size_t channel, struct pixel_line line)
{
    const float *const gamma = work->gamma + channel, *const beta = work->beta + channel;
    lanes x, factor, shift;
    size_t c = 0;
    for (; c + LANES <= count; c += LANES) {
        lanes_read(type, work->values, at + c, LANES, &x);
        LANES_LOAD(factor, gamma + c, LANES);
        LANES_LOAD(shift, beta + c, LANES);
        const lanes result = (x - line.mean) * line.scale * factor + shift;
        lanes_write(type, work->result, at + c, LANES, &result);
    }
    for (; c < count; c++) {
        const float normalised = (value_read(type, work->values, at + c) - line.mean) * line.scale;
        value_write(type, work->result, at + c, normalised * gamma[c] + beta[c]);
    }
    clear_numbers(type, work->result, at + count, at + work->strips.block);
}

ALWAYS_INLINE void normalise_strip(enum value_type type, const struct layer_norm_work *work, const struct strip *strip)
{
    const struct strips *const strips = &work->strips;
    struct pixel_line own[STRIP_PIXELS];
    const size_t pixels = tensor_pixels(strips->tensor);
    struct pixel_line *const lines =
        work->lines != NULL ? work->lines + strip->sample * pixels + strip->pixel : own;
    measure_strip(type, work, strip, lines);
    for (size_t b = 0; b < strips->blocks; b++)
        for (size_t p = 0, at = block_at(strips, strip, b); p < strip->count; p++, at += strips->step)
            normalise_pixel(type, work, at, block_channels(strips, b), b * strips->block, lines[p]);
}

VECTOR_LOOPS
static void normalise_strips(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct layer_norm_work *const work = arg;
    (void)member;
    for (size_t i = first; i < end; i++) {
        const struct strip strip = strip_at(&work->strips, i);
        FOR_TYPE(work->strips.type, normalise_strip, work, &strip);
    }
}

static struct layer_norm_work layer_norm_work_of(const struct plan *plan, uint32_t layer)
{
    const struct layer_norm *const state = plan->base.states[layer];
    return (struct layer_norm_work){
        .plan = plan,
        .strips = strips_of(plan, layer),
        .gamma = plan_weights(plan, layer, PARAMETER_GAMMA),
        .beta = plan_weights(plan, layer, PARAMETER_BETA),
        .epsilon = plan_layer(plan, layer)->epsilon,
        .values = in_value(plan, layer, 0),
        .lines = plan_data(plan, state->lines),
        .sums = state->sums,
    };
}

static int layer_norm_forward(struct plan *plan, uint32_t layer)
{
    struct layer_norm_work work = layer_norm_work_of(plan, layer);
    work.result = out_value(plan, layer);
    plan_run(plan, work.strips.count, 1, normalise_strips, &work);
    return 0;
}

/* The means over the channels of a pixel of gamma * gradient, and of these times the normalised values. */
struct pixel_means { float gradient, product; };

ALWAYS_INLINE void add_products(enum value_type type, const struct layer_norm_work *work, size_t at, size_t count,
                                size_t channel, struct pixel_line line, lanes *gradients, lanes *products)
{
    const float *const gamma = work->gamma + channel;
    lanes g[2] = { *gradients }, p[2] = { *products }, x, gradient, factor;
    size_t c = 0;
    for (; c + LANES <= count; c += LANES) {
        lanes_read(type, work->values, at + c, LANES, &x);
        lanes_read(type, work->gradient, at + c, LANES, &gradient);
        LANES_LOAD(factor, gamma + c, LANES);
        const lanes scaled = gradient * factor;
        g[c / LANES % 2] += scaled;
        p[c / LANES % 2] += scaled * (x - line.mean);
    }
    for (; c < count; c++) {
        const float scaled = value_read(type, work->gradient, at + c) * gamma[c];
        g[0][c % LANES] += scaled;
        p[0][c % LANES] += scaled * (value_read(type, work->values, at + c) - line.mean);
    }
    *gradients = g[0] + g[1];
    *products = p[0] + p[1];
}

ALWAYS_INLINE void find_means(enum value_type type, const struct layer_norm_work *work, const struct strip *strip,
                              const struct pixel_line *lines, struct pixel_means *means_out)
{
    const struct strips *const strips = &work->strips;
    const float share = 1.0f / (float)strips->channels;
    lanes gradients[STRIP_PIXELS] = { { 0 } }, products[STRIP_PIXELS] = { { 0 } };
    for (size_t b = 0; b < strips->blocks; b++)
        for (size_t p = 0, at = block_at(strips, strip, b); p < strip->count; p++, at += strips->step)
            add_products(type, work, at, block_channels(strips, b), b * strips->block, lines[p], &gradients[p],
                         &products[p]);
    for (size_t p = 0; p < strip->count; p++)
        means_out[p] = (struct pixel_means){ sum_lanes(&gradients[p]) * share,
                                             sum_lanes(&products[p]) * lines[p].scale * share };
}

/* Adds the gradients of gamma and beta of a pixel to their sums, and writes the gradient of its values. */
ALWAYS_INLINE void pass_pixel(enum value_type type, const struct layer_norm_work *work, size_t at, size_t count,
                              size_t channel, struct pixel_line line, struct pixel_means means, float *gamma_sums,
                              float *beta_sums)
{
    const float *const gamma = work->gamma + channel;
    lanes x, gradient, factor, sum, products, before;
    size_t c = 0;
    for (; c + LANES <= count; c += LANES) {
        lanes_read(type, work->values, at + c, LANES, &x);
        lanes_read(type, work->gradient, at + c, LANES, &gradient);
        LANES_LOAD(factor, gamma + c, LANES);
        LANES_LOAD(sum, beta_sums + channel + c, LANES);
        LANES_LOAD(products, gamma_sums + channel + c, LANES);
        const lanes normalised = (x - line.mean) * line.scale;
        sum += gradient;
        products += gradient * normalised;
        LANES_STORE(beta_sums + channel + c, sum, LANES);
        LANES_STORE(gamma_sums + channel + c, products, LANES);
        if (work->to == NULL)
            continue;
        lanes passed = (gradient * factor - means.gradient - normalised * means.product) * line.scale;
        if (work->adds) {
            lanes_read(type, work->to, at + c, LANES, &before);
            passed += before;
        }
        lanes_write(type, work->to, at + c, LANES, &passed);
    }
    for (; c < count; c++) {
        const float own = value_read(type, work->gradient, at + c);
        const float normalised = (value_read(type, work->values, at + c) - line.mean) * line.scale;
        const float passed = (own * gamma[c] - means.gradient - normalised * means.product) * line.scale;
        beta_sums[channel + c] += own;
        gamma_sums[channel + c] += own * normalised;
        if (work->to != NULL)
            value_write(type, work->to, at + c, work->adds ? value_read(type, work->to, at + c) + passed : passed);
    }
    if (work->to != NULL)
        clear_numbers(type, work->to, at + count, at + work->strips.block);
}

ALWAYS_INLINE void pass_strip(enum value_type type, const struct layer_norm_work *work, const struct strip *strip,
                              float *gamma_sums, float *beta_sums)
{
    const struct strips *const strips = &work->strips;
    const struct pixel_line *const lines = work->lines + strip->sample * tensor_pixels(strips->tensor) + strip->pixel;
    struct pixel_means means[STRIP_PIXELS];
    find_means(type, work, strip, lines, means);
    for (size_t b = 0; b < strips->blocks; b++)
        for (size_t p = 0, at = block_at(strips, strip, b); p < strip->count; p++, at += strips->step)
            pass_pixel(type, work, at, block_channels(strips, b), b * strips->block, lines[p], means[p], gamma_sums,
                       beta_sums);
}

VECTOR_LOOPS
static void pass_parts(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct layer_norm_work *const work = arg;
    const struct strips *const strips = &work->strips;
    (void)member;
    for (size_t part = first; part < end; part++) {
        float *const gamma_sums = part_sums(work->plan, work->sums, strips, 2, part);
        memset(gamma_sums, 0, 2 * strips->channels * sizeof(*gamma_sums));
        for (size_t i = part_begin(strips, part); i < part_begin(strips, part + 1); i++) {
            const struct strip strip = strip_at(strips, i);
            FOR_TYPE(strips->type, pass_strip, work, &strip, gamma_sums, gamma_sums + strips->channels);
        }
    }
}

static int layer_norm_backward(struct plan *plan, uint32_t layer)
{
    const struct layer_norm *const state = plan->base.states[layer];
    struct layer_norm_work work = layer_norm_work_of(plan, layer);
    work.gradient = out_gradient(plan, layer);
    work.to = in_gradient(plan, layer, 0);
    work.adds = plan_flow(&plan->base, layer, 0)->adds;
    plan_run(plan, work.strips.parts, 1, pass_parts, &work);
    add_parts(plan, state->sums, &work.strips, 2, 0, plan_weight_gradients(plan, layer, PARAMETER_GAMMA));
    add_parts(plan, state->sums, &work.strips, 2, 1, plan_weight_gradients(plan, layer, PARAMETER_BETA));
    return 0;
}

const struct layer_ops onednn_layer_norm_ops = {
    .use = layer_norm_use,
    .state_bytes = sizeof(struct layer_norm),
    .plan = layer_norm_plan,
    .forward = layer_norm_forward,
    .backward_parameters = layer_norm_backward,
};

/* ---- scale and stochastic_depth, with the addition after them ---- */

struct branch {
    bool drops;
    struct dropout dropout;     /* where it drops */
    uint32_t sums;              /* buffer: the parts' gradients of gamma; training only */
};

/* A pass over samples: to = [addend +] factor * gamma * from, where the factor is that of the sample. */
struct branch_work {
    const struct plan *plan;
    struct strips strips;
    const struct dropout *dropout;      /* NULL: the factor is 1 */
    const float *gamma;         /* NULL: 1 */
    const void *from, *addend;  /* addend NULL: none; may be `to` */
    void *to;                   /* may be `from`; NULL: only the sums are computed */
    const void *values;         /* backward of a scale: its input */
    uint32_t sums;              /* buffer */
};

static float sample_factor(const struct branch_work *work, size_t sample)
{
    const struct plan *const plan = work->plan;
    return work->dropout != NULL ? dropout_sample_factor(work->dropout, plan->epoch, plan->first_position + sample)
                                 : 1.0f;
}

static void scale_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)head;
    *use_out = (struct value_use){ .in_until = PASS_PARAMETERS, .in_place = !plan->base.training,
                                   .gradient_in_place = true, .adds = true };
}

static void depth_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    const bool has_sum = plan_has_sum(plan, head);
    *use_out = (struct value_use){ .in_place = true, .keeps_sign = !has_sum,
                                   .is_identity = !plan->base.training && !has_sum,
                                   .gradient_in_place = true, .adds = true };
}

static int branch_plan(struct plan *plan, uint32_t head)
{
    struct branch *const state = plan->base.states[head];
    const struct strips strips = strips_of(plan, head);
    const uint32_t depth = plan_find(plan, head, LAYER_STOCHASTIC_DEPTH);
    *state = (struct branch){ .drops = plan->base.training && depth != NET_INPUT, .sums = BUFFER_NONE };
    if (state->drops)
        dropout_init(&state->dropout, plan_backend(plan)->spec.seed, net_random_stream(plan->base.net, depth),
                     plan_layer(plan, depth)->rate);
    if (!plan->base.training || !layer_has(plan_layer(plan, head), PARAMETER_GAMMA))
        return 0;
    use_gradient_early(plan, head);
    return open_sums(plan, head, &strips, 1, &state->sums);
}

ALWAYS_INLINE void scale_pixel(enum value_type type, const struct branch_work *work, size_t at, size_t count,
                               const float *gamma, float factor)
{
    const void *const from = work->from, *const addend = work->addend;
    void *const to = work->to;
    lanes x, by, more;
    size_t c = 0;
    for (; c + LANES <= count; c += LANES) {
        lanes_read(type, from, at + c, LANES, &x);
        LANES_LOAD(by, gamma + c, LANES);
        lanes result = x * (by * factor);
        if (addend != NULL) {
            lanes_read(type, addend, at + c, LANES, &more);
            result += more;
        }
        lanes_write(type, to, at + c, LANES, &result);
    }
    for (; c < count; c++) {
        const float result = value_read(type, from, at + c) * (gamma[c] * factor);
        value_write(type, to, at + c, addend != NULL ? value_read(type, addend, at + c) + result : result);
    }
    clear_numbers(type, to, at + count, at + work->strips.block);
}

/* A strip of a pass without gamma, or of a dropped sample: whole blocks, with their padding. */
ALWAYS_INLINE void pass_numbers(enum value_type type, const struct branch_work *work, size_t first, size_t end,
                                float factor)
{
    const void *const from = work->from, *const addend = work->addend;
    void *const to = work->to;
    if (factor == 0.0f && addend == to)
        return;
    if (factor == 0.0f && addend == NULL)
        memset(value_at(type, to, first), 0, (end - first) * value_size(type));
    else if (factor == 0.0f)
        memcpy(value_at(type, to, first), value_at(type, addend, first), (end - first) * value_size(type));
    else if (addend == NULL) {
        INDEPENDENT_ITERATIONS
        for (size_t i = first; i < end; i++)
            value_write(type, to, i, value_read(type, from, i) * factor);
    } else {
        INDEPENDENT_ITERATIONS
        for (size_t i = first; i < end; i++)
            value_write(type, to, i, value_read(type, addend, i) + value_read(type, from, i) * factor);
    }
}

ALWAYS_INLINE void branch_strip(enum value_type type, const struct branch_work *work, const struct strip *strip,
                                float factor)
{
    const struct strips *const strips = &work->strips;
    for (size_t b = 0; b < strips->blocks; b++) {
        const size_t at = block_at(strips, strip, b), count = block_channels(strips, b);
        if (work->gamma == NULL || factor == 0.0f)
            pass_numbers(type, work, at, at + strip->count * strips->step, factor);
        else
            for (size_t p = 0; p < strip->count; p++)
                scale_pixel(type, work, at + p * strips->step, count, work->gamma + b * strips->block, factor);
    }
}

VECTOR_LOOPS
static void branch_strips(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct branch_work *const work = arg;
    (void)member;
    for (size_t i = first; i < end; i++) {
        const struct strip strip = strip_at(&work->strips, i);
        const float factor = sample_factor(work, strip.sample);
        FOR_TYPE(work->strips.type, branch_strip, work, &strip, factor);
    }
}

static struct branch_work branch_work_of(const struct plan *plan, uint32_t head)
{
    const struct branch *const state = plan->base.states[head];
    return (struct branch_work){
        .plan = plan,
        .strips = strips_of(plan, head),
        .dropout = state->drops ? &state->dropout : NULL,
        .gamma = plan_weights(plan, head, PARAMETER_GAMMA),
        .sums = state->sums,
    };
}

static int branch_forward(struct plan *plan, uint32_t head)
{
    struct branch_work work = branch_work_of(plan, head);
    work.from = in_value(plan, head, 0);
    work.addend = plan_has_sum(plan, head) ? in_value(plan, head, 1) : NULL;
    work.to = out_value(plan, head);
    if (work.dropout == NULL && work.gamma == NULL && work.addend == NULL)
        return 0;
    plan_run(plan, work.strips.count, 1, branch_strips, &work);
    return 0;
}

/* Sets the pass from the gradient of the result to that of the first input. */
static void set_branch_gradients(const struct plan *plan, uint32_t head, struct branch_work *work)
{
    work->from = out_gradient(plan, head);
    work->to = in_gradient(plan, head, 0);
    work->addend = plan_flow(&plan->base, head, 0)->adds ? work->to : NULL;
}

/* Adds the products of gradient and values of a pixel, times the factor, to the sums. */
ALWAYS_INLINE void add_gamma_pixel(enum value_type type, const struct branch_work *work, size_t at, size_t count,
                                   float factor, float *sums)
{
    lanes x, gradient, sum;
    size_t c = 0;
    for (; c + LANES <= count; c += LANES) {
        lanes_read(type, work->values, at + c, LANES, &x);
        lanes_read(type, work->from, at + c, LANES, &gradient);
        LANES_LOAD(sum, sums + c, LANES);
        sum += x * (gradient * factor);
        LANES_STORE(sums + c, sum, LANES);
    }
    for (; c < count; c++)
        sums[c] += value_read(type, work->values, at + c) * (value_read(type, work->from, at + c) * factor);
}

/* The sums of a strip and the gradient of its values, which may overwrite that of the result. */
ALWAYS_INLINE void scale_back_strip(enum value_type type, const struct branch_work *work, const struct strip *strip,
                                    float factor, float *sums)
{
    const struct strips *const strips = &work->strips;
    for (size_t b = 0; b < strips->blocks && factor != 0.0f; b++)
        for (size_t p = 0, at = block_at(strips, strip, b); p < strip->count; p++, at += strips->step) {
            const size_t count = block_channels(strips, b), channel = b * strips->block;
            add_gamma_pixel(type, work, at, count, factor, sums + channel);
            if (work->to != NULL)
                scale_pixel(type, work, at, count, work->gamma + channel, factor);
        }
    if (work->to != NULL && factor == 0.0f)
        branch_strip(type, work, strip, factor);
}

VECTOR_LOOPS
static void scale_back_parts(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct branch_work *const work = arg;
    const struct strips *const strips = &work->strips;
    (void)member;
    for (size_t part = first; part < end; part++) {
        float *const sums = part_sums(work->plan, work->sums, strips, 1, part);
        memset(sums, 0, strips->channels * sizeof(*sums));
        for (size_t i = part_begin(strips, part); i < part_begin(strips, part + 1); i++) {
            const struct strip strip = strip_at(strips, i);
            const float factor = sample_factor(work, strip.sample);
            FOR_TYPE(strips->type, scale_back_strip, work, &strip, factor, sums);
        }
    }
}

static int scale_backward_parameters(struct plan *plan, uint32_t head)
{
    struct branch_work work = branch_work_of(plan, head);
    work.values = in_value(plan, head, 0);
    set_branch_gradients(plan, head, &work);
    plan_run(plan, work.strips.parts, 1, scale_back_parts, &work);
    add_parts(plan, work.sums, &work.strips, 1, 0, plan_weight_gradients(plan, head, PARAMETER_GAMMA));
    return 0;
}

static void pass_skip(const struct plan *plan, uint32_t head)
{
    if (plan_has_sum(plan, head))
        gradient_copy(plan, out_gradient(plan, head), plan_flow(&plan->base, head, 1),
                      value_total(plan, plan_output(&plan->base, head)));
}

static int scale_backward_inputs(struct plan *plan, uint32_t head)
{
    pass_skip(plan, head);
    return 0;
}

static int depth_backward_inputs(struct plan *plan, uint32_t head)
{
    struct branch_work work = branch_work_of(plan, head);
    set_branch_gradients(plan, head, &work);
    if (work.to != NULL)
        plan_run(plan, work.strips.count, 1, branch_strips, &work);
    pass_skip(plan, head);
    return 0;
}

const struct layer_ops onednn_scale_ops = {
    .use = scale_use,
    .state_bytes = sizeof(struct branch),
    .plan = branch_plan,
    .forward = branch_forward,
    .backward_parameters = scale_backward_parameters,
    .backward_inputs = scale_backward_inputs,
};

const struct layer_ops onednn_stochastic_depth_ops = {
    .use = depth_use,
    .state_bytes = sizeof(struct branch),
    .plan = branch_plan,
    .forward = branch_forward,
    .backward_inputs = depth_backward_inputs,
};
