/* The weight gradient of a convolution with few input channels, usually the first layer. oneDNN's kernels work on
 * blocks of 8 or 16 input channels and waste most of their work on one or three (AVX2, one channel: 8 times as long).
 * Here every thread goes through its samples and keeps the sums of several window positions times 8 output channels in
 * registers. The ReLU mask of the gradient is applied on the way when no other layer reads that gradient.
 *
 * The sums of threads are added in the order of the threads: the same number of threads gives the same bits. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"

#define CHANNELS_MAX 4u
#define GROUP_MAX 9u            /* window positions whose sums are kept in registers */

struct first_conv {
    enum value_type type;
    uint32_t position_count;    /* input channels x kernel height x kernel width */
    uint32_t padded_h, padded_w;
    size_t image_floats;        /* floats of one padded image, [channel][row][column] */
    size_t sum_floats;          /* floats of the sums of one thread: [output channel / 8][position, then bias][8] */
    uint32_t images, sums;      /* buffers: [thread] */
    bool with_relu;
    uint32_t relu_mask;         /* buffer of the ReLU mask; BUFFER_NONE: the values are the mask */
    struct nn_layout stored;    /* layout of the stored weights */
    uint32_t *offsets;          /* [position]: offset in the padded image */
};

bool first_conv_fits(const struct layer *layer, const struct tensor_layout *in, const struct tensor_layout *out)
{
    return layer->kind == LAYER_CONV2D && layer->groups == 1 && layer->in.channels <= CHANNELS_MAX &&
           (in->block == 1 || in->block == layer->in.channels) && out->block % LANES == 0;
}

static int offsets_init(struct first_conv *first, const struct layer *layer)
{
    first->offsets = calloc(first->position_count, sizeof(*first->offsets));
    if (first->offsets == NULL)
        return -ENOMEM;
    uint32_t *offset = first->offsets;
    for (uint32_t c = 0; c < layer->in.channels; c++)
        for (uint32_t y = 0; y < layer->kernel_h; y++)
            for (uint32_t x = 0; x < layer->kernel_w; x++)
                *offset++ = (c * first->padded_h + y) * first->padded_w + x;
    return 0;
}

static int buffers_init(struct plan *plan, uint32_t layer, struct first_conv *first)
{
    const size_t threads = plan_backend(plan)->spec.threads;
    const int rc = plan_scratch(plan, layer, threads * first->image_floats * sizeof(float), PASS_PARAMETERS,
                                PASS_PARAMETERS, &first->images);
    return rc != 0 ? rc : plan_scratch(plan, layer, threads * first->sum_floats * sizeof(float), PASS_PARAMETERS,
                                       PASS_PARAMETERS, &first->sums);
}

int first_conv_open(struct plan *plan, uint32_t layer, bool with_relu, uint32_t relu_mask,
                    struct first_conv **first_out)
{
    const struct layer *about = plan_layer(plan, layer);
    const struct tensor_layout *out = out_tensor(plan, layer);
    struct first_conv *first = calloc(1, sizeof(*first));
    if (first == NULL)
        return -ENOMEM;
    *first_out = first;
    first->type = plan_type(plan);
    first->with_relu = with_relu;
    first->relu_mask = relu_mask;
    first->position_count = about->in.channels * about->kernel_h * about->kernel_w;
    first->padded_h = about->in.height + about->pad_top + about->pad_bottom;
    first->padded_w = about->in.width + about->pad_left + about->pad_right;
    first->image_floats = (size_t)about->in.channels * first->padded_h * first->padded_w;
    first->sum_floats = tensor_blocks(out) * out->block * (first->position_count + 1);
    int rc = nn_md_layout(plan_backend(plan)->stored[about->parameters[PARAMETER_WEIGHT]], &first->stored);
    if (rc == 0)
        rc = offsets_init(first, about);
    return rc ? rc : buffers_init(plan, layer, first);
}

void first_conv_close(struct first_conv *first)
{
    if (first == NULL)
        return;
    free(first->offsets);
    free(first);
}

/* The arguments of the kernel for one sample and 8 output channels. */
struct kernel_args {
    const float *image;         /* padded */
    const void *gradients;
    const uint8_t *relu_mask;   /* mask of the gradients; NULL: none */
    const void *values;         /* mask by values > 0; NULL: none */
    const uint32_t *offsets;    /* offsets of the positions of this group */
    uint32_t out_h, out_w, pixel_step;      /* floats from pixel to pixel of the gradient */
    uint32_t row_step, column_step;         /* floats in the image from one output position to the next */
    bool with_bias;
};

/* sums[position][8] += the products of `count` positions; with_bias also the bias' sum. */
ALWAYS_INLINE void group_add(enum value_type type, const struct kernel_args *args, uint32_t count, lanes *restrict sums,
                             lanes *restrict bias)
{
    lanes sum[GROUP_MAX], bias_sum = { 0 };
    for (uint32_t i = 0; i < count; i++)
        sum[i] = (lanes){ 0 };
    for (uint32_t row = 0; row < args->out_h; row++) {
        const float *image = args->image + (size_t)row * args->row_step;
        size_t at = (size_t)row * args->out_w * args->pixel_step;
        for (uint32_t column = 0; column < args->out_w; column++, at += args->pixel_step) {
            lanes gradient, value;
            lanes_read(type, args->gradients, at, LANES, &gradient);
            if (args->relu_mask != NULL) {
                lane_bytes relu_mask;
                LANES_LOAD(relu_mask, args->relu_mask + at, LANES);
                gradient = LANES_SELECT(__builtin_convertvector(relu_mask, lane_bits) != 0, gradient, (lanes){ 0 });
            } else if (args->values != NULL) {
                lanes_read(type, args->values, at, LANES, &value);
                gradient = LANES_SELECT(value > 0.0f, gradient, (lanes){ 0 });
            }
            for (uint32_t i = 0; i < count; i++)
                sum[i] += gradient * image[args->offsets[i]];
            bias_sum += gradient;
            image += args->column_step;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        sums[i] += sum[i];
    if (args->with_bias)
        *bias += bias_sum;
}

/* All positions, in groups of sizes that the compiler knows. */
VECTOR_LOOPS
static void positions_add(const struct first_conv *first, struct kernel_args *args, float *sums_out)
{
    lanes *sums = __builtin_assume_aligned(sums_out, sizeof(lanes));
    lanes *bias = sums + first->position_count;
    uint32_t done = 0;
    while (done < first->position_count) {
        const uint32_t left = first->position_count - done;
        const uint32_t count = left >= 9 ? 9 : left >= 3 ? 3 : 1;
        args->offsets = first->offsets + done;
        args->with_bias = done == 0;
        if (count == 9)
            FOR_TYPE(first->type, group_add, args, 9, sums + done, bias);
        else if (count == 3)
            FOR_TYPE(first->type, group_add, args, 3, sums + done, bias);
        else
            FOR_TYPE(first->type, group_add, args, 1, sums + done, bias);
        done += count;
    }
}

struct first_work {
    struct plan *plan;
    const struct first_conv *first;
    uint32_t layer;
};

/* Copies one sample into the padded image, channel by channel. The padding stays zero: only the inside is written. */
static void image_pad(const struct first_conv *first, const struct layer *layer, const struct tensor_layout *in,
                      const void *values, float *image)
{
    const size_t pixels = tensor_pixels(in), step = in->block;
    for (uint32_t c = 0; c < layer->in.channels; c++) {
        size_t at = in->block == 1 ? c * pixels : c;
        for (uint32_t y = 0; y < layer->in.height; y++) {
            float *to = image + ((size_t)c * first->padded_h + y + layer->pad_top) * first->padded_w + layer->pad_left;
            for (uint32_t x = 0; x < layer->in.width; x++, at += step)
                to[x] = value_read(first->type, values, at);
        }
    }
}

static void samples_add(void *arg, uint32_t member, size_t begin, size_t end)
{
    const struct first_work *work = arg;
    const struct first_conv *first = work->first;
    const struct plan *plan = work->plan;
    const struct layer *layer = plan_layer(plan, work->layer);
    const uint32_t from = plan_input(&plan->base, work->layer, 0), to = plan_output(&plan->base, work->layer);
    const struct tensor_layout *in = &plan->tensors[from], *out = &plan->tensors[to];
    const size_t plane = tensor_pixels(out) * out->block;
    const bool has_mask = first->relu_mask != BUFFER_NONE;
    const uint8_t *relu_mask = first->with_relu && has_mask ? plan_data(plan, first->relu_mask) : NULL;
    const void *values = first->with_relu && !has_mask ? plan_value(plan, to) : NULL;
    float *image = (float *)plan_data(plan, first->images) + member * first->image_floats;
    float *sums = (float *)plan_data(plan, first->sums) + member * first->sum_floats;
    struct kernel_args args = {
        .image = image, .out_h = layer->out.height, .out_w = layer->out.width, .pixel_step = out->block,
        .row_step = layer->stride_h * first->padded_w, .column_step = layer->stride_w,
    };
    for (size_t i = begin; i < end; i++) {
        image_pad(first, layer, in, value_at(first->type, plan_value(plan, from), i * tensor_count(in)), image);
        for (size_t channel = 0; channel < tensor_blocks(out) * out->block; channel += LANES) {
            const size_t at = i * tensor_count(out) + channel / out->block * plane + channel % out->block;
            args.gradients = value_at(first->type, plan_gradient(plan, to), at);
            args.relu_mask = relu_mask != NULL ? relu_mask + at : NULL;
            args.values = values != NULL ? value_at(first->type, values, at) : NULL;
            positions_add(first, &args, sums + channel * (first->position_count + 1));
        }
    }
}

static float sum_find(const struct plan *plan, const struct first_conv *first, uint32_t channel, uint32_t position)
{
    const float *sums = plan_data(plan, first->sums);
    const size_t at = channel / LANES * LANES * (first->position_count + 1) + position * LANES + channel % LANES;
    float sum = sums[at];
    for (uint32_t member = 1; member < plan_backend(plan)->spec.threads; member++)
        sum += sums[member * first->sum_floats + at];
    return sum;
}

static void gradients_write(const struct plan *plan, const struct first_conv *first, uint32_t layer)
{
    const struct layer *about = plan_layer(plan, layer);
    float *weights = plan_weight_gradients(plan, layer, PARAMETER_WEIGHT);
    float *bias = plan_weight_gradients(plan, layer, PARAMETER_BIAS);
    const uint32_t window = about->kernel_h * about->kernel_w;
    for (uint32_t o = 0; o < about->out.channels; o++) {
        for (uint32_t position = 0; position < first->position_count; position++) {
            const dnnl_dim_t index[NN_RANK_MAX] = { o, position / window, position % window / about->kernel_w,
                                                    position % about->kernel_w };
            size_t at = 0;
            for (int dim = 0; dim < NN_RANK_MAX; dim++)
                at += nn_layout_offset(&first->stored, dim, index[dim]);
            weights[at] = sum_find(plan, first, o, position);
        }
        if (bias != NULL)
            bias[o] = sum_find(plan, first, o, first->position_count);
    }
}

void first_conv_run(struct plan *plan, const struct first_conv *first, uint32_t layer)
{
    struct first_work work = { plan, first, layer };
    const size_t threads = plan_backend(plan)->spec.threads;
    memset(plan_data(plan, first->images), 0, threads * first->image_floats * sizeof(float));
    memset(plan_data(plan, first->sums), 0, threads * first->sum_floats * sizeof(float));
    team_run((uint32_t)threads, plan->base.count, 1, samples_add, &work);
    gradients_write(plan, first, layer);
}
