/* Every convolution of every model has a plan, for devices that are only described to cuDNN: in every precision and
 * pass, by an engine within the rules, without copies of its inputs. Equal convolutions are planned once. A run
 * plans a few passes and precisions of each, in turn; with the argument `all` all of them, for all batches and
 * devices. Needs no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cuda_plan.h"
#include "compute/model.h"
#include "tests/cuda/cudnn_planning_fixture.h"
#include "tests/helpers/test.h"

struct planned {
    struct conv_shape shape;    /* forward, in fp32, of one sample */
    bool reads_image;
    bool is_folded;             /* forward only: in evaluation, fused with normalisation and ReLU */
    char what[96];
};

static struct planned *convs;
static size_t conv_count, conv_room;
static bool plans_all;
#define SAMPLE 25u      /* one in this many, so that passes and precisions take turns */

/* ---- the convolutions ---- */

/* The layer of this kind that reads the other one, else 0. */
static uint32_t reader_of(const struct net *net, uint32_t layer, enum layer_kind kind)
{
    for (uint32_t i = layer + 1; i < net->layer_count; i++)
        if (net->layers[i].kind == kind && net->layers[i].inputs[0] == layer)
            return i;
    return 0;
}

static struct conv_shape shape_of(const struct net *net, uint32_t index)
{
    const struct layer *const layer = &net->layers[index];
    return (struct conv_shape){
        .bias = layer_has(layer, PARAMETER_BIAS), .relu = reader_of(net, index, LAYER_RELU) > 0, .count = 1,
        .in_channels = channels_stored(layer->in.channels), .in_h = layer->in.height, .in_w = layer->in.width,
        .out_channels = channels_stored(layer->out.channels), .out_h = layer->out.height, .out_w = layer->out.width,
        .kernel_h = layer->kernel_h, .kernel_w = layer->kernel_w,
        .stride_h = layer->stride_h, .stride_w = layer->stride_w,
        .pad_top = layer->pad_top, .pad_bottom = layer->pad_bottom,
        .pad_left = layer->pad_left, .pad_right = layer->pad_right, .groups = groups_stored(layer),
    };
}

static bool equals(const struct conv_shape *a, const struct conv_shape *b)
{
    return a->bias == b->bias && a->relu == b->relu && a->in_channels == b->in_channels && a->in_h == b->in_h &&
           a->in_w == b->in_w && a->out_channels == b->out_channels && a->out_h == b->out_h && a->out_w == b->out_w &&
           a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w && a->stride_h == b->stride_h &&
           a->stride_w == b->stride_w && a->pad_top == b->pad_top && a->pad_bottom == b->pad_bottom &&
           a->pad_left == b->pad_left && a->pad_right == b->pad_right && a->groups == b->groups;
}

static void add_conv(const struct planned *conv)
{
    for (size_t i = 0; i < conv_count; i++)
        if (equals(&convs[i].shape, &conv->shape) && convs[i].reads_image == conv->reads_image &&
            convs[i].is_folded == conv->is_folded)
            return;
    if (conv_count == conv_room) {
        conv_room = conv_room * 2 + 64;
        convs = realloc(convs, conv_room * sizeof(*convs));
        assert_non_null(convs);
    }
    convs[conv_count++] = *conv;
}

static void add_layer(const struct net *net, uint32_t index)
{
    const uint32_t norm = reader_of(net, index, LAYER_BATCH_NORM);
    struct planned conv = { .shape = shape_of(net, index), .reads_image = net->layers[index].inputs[0] == NET_INPUT };
    snprintf(conv.what, sizeof(conv.what), "%.40s %.50s", net->model, net->layers[index].name);
    add_conv(&conv);
    if (norm == 0 || reader_of(net, norm, LAYER_RELU) == 0)
        return;
    conv.shape.bias = conv.shape.relu = conv.is_folded = true;
    add_conv(&conv);
}

static int find_convs(void **state)
{
    const struct model_options options = { .dropout = true, .auxiliary = true };
    (void)state;
    for (const struct model *model = model_table; model->name != NULL; model++) {
        struct net *net;
        assert_int_equal(model_open(&net, model->name, &options), 0);
        for (uint32_t i = 0; i < net->layer_count; i++)
            if (net->layers[i].kind == LAYER_CONV2D)
                add_layer(net, i);
        net_close(net);
    }
    return 0;
}

static int forget_convs(void **state)
{
    (void)state;
    free(convs);
    return 0;
}

/* ---- their plans ---- */

/* Bytes read and written, without the weights. */
static size_t value_bytes_of(const struct conv_shape *shape)
{
    const size_t in = (size_t)shape->in_channels * shape->in_h * shape->in_w;
    const size_t out = (size_t)shape->out_channels * shape->out_h * shape->out_w;
    return (in + out) * shape->count * value_bytes(precision_type(shape->precision));
}

/* 32-bit values are often convolved by engines that copy them into another layout: exactly almost always, on tensor
 * cores of sm_90 with asymmetric padding. Many copies do not fit, and elsewhere not every exact convolution has such
 * an engine. */
static bool has_fast_engine(int device, const struct conv_shape *shape)
{
    const bool is_even = shape->pad_top == shape->pad_bottom && shape->pad_left == shape->pad_right;
    const bool is_small = value_bytes_of(shape) < WORKSPACE_MAX / 2;
    return shape->precision == PRECISION_FP32   ? is_small && is_even && device == SM_90
           : shape->precision == PRECISION_TF32 ? is_small || (is_even && device == SM_90)
                                                : true;
}

/* Engines for groups of more than one channel need up to 1.4 times the values for the gradient of the input. */
static void plan_conv(int device, const struct planned *conv, enum product_pass pass, enum precision precision,
                      uint32_t count)
{
    struct conv_shape shape = conv->shape;
    shape.pass = pass;
    shape.precision = precision;
    shape.count = count;
    shape.bias = shape.bias && pass == FPROP;
    shape.relu = shape.relu && pass == FPROP;
    const size_t workspace = assert_plans(device, &shape, has_fast_engine(device, &shape), conv->what);
    if (device == SM_90 && count >= 32 && precision != PRECISION_FP32)
        assert_true(workspace < value_bytes_of(&shape) * (shape.groups > 1 ? 2 : 1));
}

/* One in `of`. */
static void plan_convs(int device, uint32_t count, size_t of)
{
    size_t number = 0;
    for (size_t i = 0; i < conv_count; i++)
        for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
            for (int precision = 0; precision < PRECISION_COUNT; precision++) {
                if ((pass == DGRAD && convs[i].reads_image) ||
                    (pass != FPROP && convs[i].is_folded))
                    continue;
                if (number++ % of == 0)
                    plan_conv(device, &convs[i], pass, precision, count);
            }
}

TEST(every_convolution_of_every_model_has_a_plan_without_a_copy)
{
    static const uint32_t counts[] = { 1, 32, 256 };
    if (!plans_all)
        plan_convs(SM_90, 128, SAMPLE);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && plans_all; i++)
        plan_convs(SM_90, counts[i], 1);
}

TEST(every_convolution_of_every_model_has_a_plan_on_other_devices)
{
    static const int others[] = { SM_80, SM_100, SM_120 };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        plan_convs(others[i], 128, plans_all ? 1 : sizeof(others) / sizeof(others[0]) * SAMPLE);
}

int main(int argc, char **argv)
{
    plans_all = argc == 2 && strcmp(argv[1], "all") == 0;
    if (!described_devices_open()) {
        fprintf(stderr, "cuDNN cannot plan here\n");
        return 77;
    }
    const int failed = tests_run(find_convs, forget_convs);
    described_devices_close();
    return failed;
}
