/* GoogLeNet (Inception v1, Szegedy et al. 2014) as tf_cnn_benchmarks has it: no normalisation, no dropout, no
 * auxiliary heads; every convolution has a bias and a ReLU (doc/models.md). Names are torchvision's, without the
 * ".conv" of torchvision's convolutions, which also have a normalisation. */
#include <stdio.h>

#include "compute/models/builder.h"
#include "compute/models/models.h"

/* The filters of a module's four branches, in the order of concatenation. */
struct module {
    const char *name;
    uint32_t one;               /* 1x1 */
    uint32_t reduce3, three;    /* 1x1, 3x3 */
    uint32_t reduce5, five;     /* 1x1, 5x5 */
    uint32_t projection;        /* max pool, 1x1 */
    const char *pool;           /* after the module, halving the image; NULL: none */
};

static const struct module modules[] = {
    { "inception3a", 64, 96, 128, 16, 32, 32, NULL },
    { "inception3b", 128, 128, 192, 32, 96, 64, "maxpool3" },
    { "inception4a", 192, 96, 208, 16, 48, 64, NULL },
    { "inception4b", 160, 112, 224, 24, 64, 64, NULL },
    { "inception4c", 128, 128, 256, 24, 64, 64, NULL },
    { "inception4d", 112, 144, 288, 32, 64, 64, NULL },
    { "inception4e", 256, 160, 320, 32, 128, 128, "maxpool4" },
    { "inception5a", 256, 160, 320, 32, 128, 128, NULL },
    { "inception5b", 384, 192, 384, 48, 128, 128, NULL },
};

/* Appends the layers <name> and <name>.relu. */
static uint32_t conv(struct builder *builder, const char *name, uint32_t from, uint32_t filters, struct window window)
{
    char relu[24];
    snprintf(relu, sizeof(relu), "%s.relu", name);
    return build_relu(builder, relu, build_conv_bias(builder, name, from, filters, window));
}

static uint32_t inception(struct builder *builder, const struct module *module, uint32_t from)
{
    const uint32_t one = conv(builder, "branch1", from, module->one, window_same(1, 1));
    uint32_t three = conv(builder, "branch2.0", from, module->reduce3, window_same(1, 1));
    three = conv(builder, "branch2.1", three, module->three, window_same(3, 1));
    uint32_t five = conv(builder, "branch3.0", from, module->reduce5, window_same(1, 1));
    five = conv(builder, "branch3.1", five, module->five, window_same(5, 1));
    const uint32_t pool = build_max_pool(builder, "branch4.0", from, window_same(3, 1));
    const uint32_t projection = conv(builder, "branch4.1", pool, module->projection, window_same(1, 1));
    return build_concat(builder, "concat", (const uint32_t[]){ one, three, five, projection }, 4);
}

static uint32_t stem(struct builder *builder)
{
    uint32_t at = conv(builder, "conv1", NET_INPUT, 64, window_same(7, 2));
    at = build_max_pool(builder, "maxpool1", at, window_same(3, 2));
    at = conv(builder, "conv2", at, 64, window_same(1, 1));
    at = conv(builder, "conv3", at, 192, window_same(3, 1));
    return build_max_pool(builder, "maxpool2", at, window_same(3, 2));
}

void model_build_googlenet(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct builder builder = builder_of(net, options, &style_benchmarks);
    uint32_t at = stem(&builder);
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        struct builder inside = builder_within(&builder, "%s.", modules[i].name);
        at = inception(&inside, &modules[i], at);
        if (modules[i].pool != NULL)
            at = build_max_pool(&builder, modules[i].pool, at, window_same(3, 2));
    }
    build_classifier(&builder, "fc", build_global_average(&builder, "avgpool", at));
}
