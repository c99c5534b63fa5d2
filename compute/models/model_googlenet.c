/* GoogLeNet (Inception v1, Szegedy et al. 2014) as tf_cnn_benchmarks has it: no normalisation, no dropout, no
 * auxiliary heads; every convolution has a bias and a ReLU (doc/models.md). Names are torchvision's, without the
 * ".conv" that its convolutions have beside a normalisation. */
#include <stdio.h>

#include "compute/models/models.h"
#include "compute/models/parts.h"

/* The filters of a module's four branches, in the order in which they are put behind each other. */
struct module {
    const char *name;
    uint32_t one;               /* 1x1 */
    uint32_t reduce3, three;    /* 1x1, 3x3 */
    uint32_t reduce5, five;     /* 1x1, 5x5 */
    uint32_t projection;        /* max pool, 1x1 */
    const char *pool;           /* behind the module, halving the image; NULL: none */
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

/* Layers <name> and <name>.relu. */
static uint32_t conv(struct draft *draft, const char *name, uint32_t from, uint32_t filters, struct window window)
{
    char relu[24];
    snprintf(relu, sizeof(relu), "%s.relu", name);
    return part_relu(draft, relu, part_conv_bias(draft, name, from, filters, window));
}

static uint32_t inception(struct draft *draft, const struct module *module, uint32_t from)
{
    const uint32_t one = conv(draft, "branch1", from, module->one, window_same(1, 1));
    uint32_t three = conv(draft, "branch2.0", from, module->reduce3, window_same(1, 1));
    three = conv(draft, "branch2.1", three, module->three, window_same(3, 1));
    uint32_t five = conv(draft, "branch3.0", from, module->reduce5, window_same(1, 1));
    five = conv(draft, "branch3.1", five, module->five, window_same(5, 1));
    const uint32_t pool = part_max_pool(draft, "branch4.0", from, window_same(3, 1));
    const uint32_t projection = conv(draft, "branch4.1", pool, module->projection, window_same(1, 1));
    return part_concat(draft, "concat", (const uint32_t[]){ one, three, five, projection }, 4);
}

static uint32_t stem(struct draft *draft)
{
    uint32_t at = conv(draft, "conv1", NET_INPUT, 64, window_same(7, 2));
    at = part_max_pool(draft, "maxpool1", at, window_same(3, 2));
    at = conv(draft, "conv2", at, 64, window_same(1, 1));
    at = conv(draft, "conv3", at, 192, window_same(3, 1));
    return part_max_pool(draft, "maxpool2", at, window_same(3, 2));
}

void model_build_googlenet(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct draft draft = draft_of(net, options, &style_benchmarks);
    uint32_t at = stem(&draft);
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        struct draft inside = draft_in(&draft, "%s.", modules[i].name);
        at = inception(&inside, &modules[i], at);
        if (modules[i].pool != NULL)
            at = part_max_pool(&draft, modules[i].pool, at, window_same(3, 2));
    }
    part_classes(&draft, "fc", part_mean(&draft, "avgpool", at));
}
