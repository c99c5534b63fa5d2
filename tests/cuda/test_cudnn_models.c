/* Every convolution of every model has a plan, for devices that are only described to cuDNN: in every precision and
 * pass, by an engine within the rules, without copies of its inputs. Equal convolutions are planned once. A run
 * plans a few passes and precisions of each, in turn. With arguments, MODEL [BATCH DEVICE], it plans all of them for
 * this model, or for `all`, and for this batch and device (sm_90) or all of a table. Needs no GPU. */
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
#define SAMPLE 25u      /* one in this many, so that passes and precisions take turns */

/* What the arguments ask for. Without them one convolution in SAMPLE is planned, of every model. */
static struct { const char *model; uint32_t count; int device; } asked = { .device = DEVICE_COUNT };

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
        if (asked.model != NULL && strcmp(asked.model, "all") != 0 && strcmp(asked.model, model->name) != 0)
            continue;
        assert_int_equal(model_open(&net, model->name, &options), 0);
        for (uint32_t i = 0; i < net->layer_count; i++)
            if (net->layers[i].kind == LAYER_CONV2D)
                add_layer(net, i);
        net_close(net);
    }
    if (convs == NULL)
        fprintf(stderr, "no convolution in a model called %s\n", asked.model);
    return convs != NULL ? 0 : -1;
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

#define OWN_BYTES ((size_t)1 << 20)

/* Values that a group holds for one pixel in a copy: cuDNN's engines for tensor cores want a power of two. */
static uint32_t width_copied(uint32_t channels)
{
    uint32_t width = 8;
    while (width < channels)
        width *= 2;
    return width;
}

/* Bytes read and written, and of the weights in fp32, with the groups padded so: a depthwise convolution, with groups
 * of one channel, is copied in eight times its bytes. And some for the engine's own use, which is small. */
static size_t copy_bytes_of(const struct conv_shape *shape)
{
    const uint32_t in = width_copied(shape->in_channels / shape->groups);
    const uint32_t out = width_copied(shape->out_channels / shape->groups);
    struct conv_shape copy = *shape;
    copy.in_channels = shape->groups * in;
    copy.out_channels = shape->groups * out;
    const size_t weight_bytes = (size_t)copy.out_channels * in * shape->kernel_h * shape->kernel_w * sizeof(float);
    return value_bytes_of(&copy) + weight_bytes + OWN_BYTES;
}

/* 32-bit values are often convolved by engines that copy them into another layout: exactly almost always, on tensor
 * cores of sm_90 with asymmetric padding. So are those of groups, of every type. Many copies do not fit, and elsewhere
 * not every exact convolution has such an engine. */
static bool has_fast_engine(int device, const struct conv_shape *shape)
{
    const bool is_even = shape->pad_top == shape->pad_bottom && shape->pad_left == shape->pad_right;
    const bool is_small = value_bytes_of(shape) < WORKSPACE_MAX / 2;
    const bool fits = shape->groups == 1 || copy_bytes_of(shape) < WORKSPACE_MAX;
    return shape->precision == PRECISION_FP32   ? is_small && is_even && device == SM_90
           : shape->precision == PRECISION_TF32 ? is_small || (fits && is_even && device == SM_90)
                                                : fits;
}

/* Without groups no values are copied. */
static bool is_within_bounds(int device, const struct conv_shape *shape, size_t workspace)
{
    if (device != SM_90 || shape->count < 32 || shape->precision == PRECISION_FP32)
        return true;
    return workspace < (shape->groups == 1 ? value_bytes_of(shape) : copy_bytes_of(shape));
}

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
    if (!is_within_bounds(device, &shape, workspace))
        fail_msg("%s: %zu bytes of workspace for %zu of values, %zu when copied", conv->what, workspace,
                 value_bytes_of(&shape), copy_bytes_of(&shape));
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

TEST(every_convolution_of_every_model_has_a_plan)
{
    static const struct { int device; uint32_t count; size_t of; } some[] = {
        { SM_90, 128, SAMPLE }, { SM_80, 128, 3 * SAMPLE }, { SM_100, 128, 3 * SAMPLE }, { SM_120, 128, 3 * SAMPLE },
    }, all[] = {
        { SM_90, 1, 1 }, { SM_90, 32, 1 }, { SM_90, 256, 1 }, { SM_80, 128, 1 }, { SM_100, 128, 1 }, { SM_120, 128, 1 },
    };
    if (asked.device != DEVICE_COUNT) {
        plan_convs(asked.device, asked.count, 1);
        return;
    }
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]) && asked.model == NULL; i++)
        plan_convs(some[i].device, some[i].count, some[i].of);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && asked.model != NULL; i++)
        plan_convs(all[i].device, all[i].count, all[i].of);
}

static bool read_arguments(int argc, char **argv)
{
    char *end = NULL;
    if (argc == 1)
        return true;
    asked.model = argv[1];
    if (argc == 2)
        return true;
    if (argc == 4) {
        asked.count = (uint32_t)strtoul(argv[2], &end, 10);
        asked.device = described_device(argv[3]);
    }
    return argc == 4 && *end == '\0' && asked.count > 0 && asked.device != DEVICE_COUNT;
}

int main(int argc, char **argv)
{
    if (!read_arguments(argc, argv)) {
        fprintf(stderr, "usage: %s [MODEL|all [BATCH sm_75|sm_80|sm_90|sm_100|sm_120]]\n", argv[0]);
        return 2;
    }
    if (!described_devices_open()) {
        fprintf(stderr, "cuDNN cannot plan here\n");
        return 77;
    }
    const int failed = tests_run(find_convs, forget_convs);
    described_devices_close();
    return failed;
}
