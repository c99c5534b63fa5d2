/* Tables of names, and their translation. A name is the prefix of a group, a part and a suffix such as ".weight"; a '#'
 * stands for a number, to which the name here may add one: "features.#+2." The first group whose prefix a name has
 * translates it. */
#include "tools/lib/results/tensor_naming.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/names.h"

struct tensor_name_part { const char *theirs, *ours; };
struct tensor_name_group { const char *theirs, *ours; const struct tensor_name_part *parts; };

#define NUMBERS_MAX 4u          /* the most '#' in a prefix */
#define NUMBER_BYTES 8u         /* an upper limit of the digits of one, which is at most NET_LAYERS_MAX and a sum */

/* ---- timm's blocks of EfficientNets and MobileNets, as torchvision numbers their layers ---- */

static const struct tensor_name_part separable[] = {
    { "conv_dw", "0.0" }, { "bn1", "0.1" }, { "conv_pw", "1.0" }, { "bn2", "1.1" }, { NULL, NULL },
};
static const struct tensor_name_part separable_excited[] = {
    { "conv_dw", "0.0" }, { "bn1", "0.1" }, { "se.conv_reduce", "1.fc1" }, { "se.conv_expand", "1.fc2" },
    { "conv_pw", "2.0" }, { "bn2", "2.1" }, { NULL, NULL },
};
static const struct tensor_name_part inverted[] = {
    { "conv_pw", "0.0" }, { "bn1", "0.1" }, { "conv_dw", "1.0" }, { "bn2", "1.1" }, { "conv_pwl", "2.0" },
    { "bn3", "2.1" }, { NULL, NULL },
};
static const struct tensor_name_part inverted_excited[] = {
    { "conv_pw", "0.0" }, { "bn1", "0.1" }, { "conv_dw", "1.0" }, { "bn2", "1.1" }, { "se.conv_reduce", "2.fc1" },
    { "se.conv_expand", "2.fc2" }, { "conv_pwl", "3.0" }, { "bn3", "3.1" }, { NULL, NULL },
};
static const struct tensor_name_part fused[] = {
    { "conv_exp", "0.0" }, { "bn1", "0.1" }, { "conv_pwl", "1.0" }, { "bn2", "1.1" }, { NULL, NULL },
};
/* torchvision's MobileNetV2 has the layers of its last convolution in the block itself. */
static const struct tensor_name_part separable_v2[] = {
    { "conv_dw", "0.0" }, { "bn1", "0.1" }, { "conv_pw", "1" }, { "bn2", "2" }, { NULL, NULL },
};
static const struct tensor_name_part inverted_v2[] = {
    { "conv_pw", "0.0" }, { "bn1", "0.1" }, { "conv_dw", "1.0" }, { "bn2", "1.1" }, { "conv_pwl", "2" },
    { "bn3", "3" }, { NULL, NULL },
};

static const struct tensor_name_part mobilenet_v2_layers[] = {
    { "conv_stem", "features.0.0" }, { "bn1", "features.0.1" }, { "conv_head", "features.18.0" },
    { "bn2", "features.18.1" }, { "classifier", "classifier.1" }, { NULL, NULL },
};

static const struct tensor_name_group timm_mobilenet_v2[] = {
    { "blocks.0.#.", "features.#+1.conv.", separable_v2 },
    { "blocks.1.#.", "features.#+2.conv.", inverted_v2 },
    { "blocks.2.#.", "features.#+4.conv.", inverted_v2 },
    { "blocks.3.#.", "features.#+7.conv.", inverted_v2 },
    { "blocks.4.#.", "features.#+11.conv.", inverted_v2 },
    { "blocks.5.#.", "features.#+14.conv.", inverted_v2 },
    { "blocks.6.#.", "features.#+17.conv.", inverted_v2 },
    { "", "", mobilenet_v2_layers },
    { NULL, NULL, NULL },
};

static const struct tensor_name_part mobilenet_v3_last[] = {
    { "conv", "0" }, { "bn1", "1" }, { NULL, NULL },
};
static const struct tensor_name_part mobilenet_v3_layers[] = {
    { "conv_stem", "features.0.0" }, { "bn1", "features.0.1" }, { "conv_head", "classifier.0" },
    { "classifier", "classifier.3" }, { NULL, NULL },
};

static const struct tensor_name_group timm_mobilenet_v3_large[] = {
    { "blocks.0.#.", "features.#+1.block.", separable },
    { "blocks.1.#.", "features.#+2.block.", inverted },
    { "blocks.2.#.", "features.#+4.block.", inverted_excited },
    { "blocks.3.#.", "features.#+7.block.", inverted },
    { "blocks.4.#.", "features.#+11.block.", inverted_excited },
    { "blocks.5.#.", "features.#+13.block.", inverted_excited },
    { "blocks.6.0.", "features.16.", mobilenet_v3_last },
    { "", "", mobilenet_v3_layers },
    { NULL, NULL, NULL },
};

static const struct tensor_name_part efficientnet_b0_layers[] = {
    { "conv_stem", "features.0.0" }, { "bn1", "features.0.1" }, { "conv_head", "features.8.0" },
    { "bn2", "features.8.1" }, { "classifier", "classifier.1" }, { NULL, NULL },
};

static const struct tensor_name_group timm_efficientnet_b0[] = {
    { "blocks.0.#.", "features.1.#.block.", separable_excited },
    { "blocks.#.#.", "features.#+1.#.block.", inverted_excited },
    { "", "", efficientnet_b0_layers },
    { NULL, NULL, NULL },
};

static const struct tensor_name_part plain[] = {
    { "conv", "0.0" }, { "bn1", "0.1" }, { NULL, NULL },
};
static const struct tensor_name_part efficientnet_v2_s_layers[] = {
    { "conv_stem", "features.0.0" }, { "bn1", "features.0.1" }, { "conv_head", "features.7.0" },
    { "bn2", "features.7.1" }, { "classifier", "classifier.1" }, { NULL, NULL },
};

static const struct tensor_name_group timm_efficientnet_v2_s[] = {
    { "blocks.0.#.", "features.1.#.block.", plain },
    { "blocks.1.#.", "features.2.#.block.", fused },
    { "blocks.2.#.", "features.3.#.block.", fused },
    { "blocks.#.#.", "features.#+1.#.block.", inverted_excited },
    { "", "", efficientnet_v2_s_layers },
    { NULL, NULL, NULL },
};

/* ---- timm's other networks ---- */

static const struct tensor_name_part regnet_block[] = {
    { "conv1.conv", "f.a.0" }, { "conv1.bn", "f.a.1" }, { "conv2.conv", "f.b.0" }, { "conv2.bn", "f.b.1" },
    { "se.fc1", "f.se.fc1" }, { "se.fc2", "f.se.fc2" }, { "conv3.conv", "f.c.0" }, { "conv3.bn", "f.c.1" },
    { "downsample.conv", "proj.0" }, { "downsample.bn", "proj.1" }, { NULL, NULL },
};

static const struct tensor_name_part regnet_layers[] = {
    { "stem.conv", "stem.0" }, { "stem.bn", "stem.1" }, { "head.fc", "fc" }, { NULL, NULL },
};

static const struct tensor_name_group timm_regnet[] = {
    { "s1.b#.", "trunk_output.block1.block1-#-1.", regnet_block },
    { "s2.b#.", "trunk_output.block2.block2-#-1.", regnet_block },
    { "s3.b#.", "trunk_output.block3.block3-#-1.", regnet_block },
    { "s4.b#.", "trunk_output.block4.block4-#-1.", regnet_block },
    { "", "", regnet_layers },
    { NULL, NULL, NULL },
};

static const struct tensor_name_part convnext_block[] = {
    { "conv_dw", "block.0" }, { "norm", "block.2" }, { "mlp.fc1", "block.3" }, { "mlp.fc2", "block.5" },
    { "gamma", "layer_scale" }, { NULL, NULL },
};
static const struct tensor_name_part convnext_downsample[] = { { "0", "0" }, { "1", "1" }, { NULL, NULL } };

static const struct tensor_name_part convnext_layers[] = {
    { "stem.0", "features.0.0" }, { "stem.1", "features.0.1" }, { "head.norm", "classifier.0" },
    { "head.fc", "classifier.2" }, { NULL, NULL },
};

static const struct tensor_name_group timm_convnext[] = {
    { "stages.0.blocks.#.", "features.1.#.", convnext_block },
    { "stages.1.blocks.#.", "features.3.#.", convnext_block },
    { "stages.2.blocks.#.", "features.5.#.", convnext_block },
    { "stages.3.blocks.#.", "features.7.#.", convnext_block },
    { "stages.1.downsample.", "features.2.", convnext_downsample },
    { "stages.2.downsample.", "features.4.", convnext_downsample },
    { "stages.3.downsample.", "features.6.", convnext_downsample },
    { "", "", convnext_layers },
    { NULL, NULL, NULL },
};

static const struct tensor_name_part vgg_layers[] = {
    { "pre_logits.fc1", "classifier.0" }, { "pre_logits.fc2", "classifier.3" }, { "head.fc", "classifier.6" },
    { NULL, NULL },
};

static const struct tensor_name_group timm_vgg[] = {
    { "", "", vgg_layers },
    { NULL, NULL, NULL },
};

/* The DenseNet files that torchvision publishes have these older names; torchvision itself renames them on loading. */
static const struct tensor_name_part densenet_layer[] = {
    { "norm.1", "norm1" }, { "norm.2", "norm2" }, { "conv.1", "conv1" }, { "conv.2", "conv2" }, { NULL, NULL },
};

static const struct tensor_name_group older_densenet[] = {
    { "features.denseblock#.denselayer#.", "features.denseblock#.denselayer#.", densenet_layer },
    { NULL, NULL, NULL },
};

#define TO_SAME "s/\\(stride 2 padding\\) [0-9]/\\1 same/"
#define EPSILON(from, to) "s/epsilon " from "/epsilon " to "/"

const struct tensor_naming tensor_namings[] = {
    { "timm", "mobilenet_v2", timm_mobilenet_v2, { { .name = "mobilenetv2_100" } } },
    { "timm", "mobilenet_v3_large", timm_mobilenet_v3_large, {
        { "mobilenetv3_large_100", 1e-5f, false, EPSILON("0.001", "1e-05") },
        { "tf_mobilenetv3_large_100", 1e-3f, true, TO_SAME } } },
    { "timm", "efficientnet_b0", timm_efficientnet_b0, {
        { "efficientnet_b0", 1e-5f, false, NULL },
        { "tf_efficientnet_b0", 1e-3f, true, TO_SAME "; " EPSILON("1e-05", "0.001") } } },
    { "timm", "efficientnet_v2_s", timm_efficientnet_v2_s, {
        { "efficientnetv2_s", 1e-5f, false, EPSILON("0.001", "1e-05") },
        { "tf_efficientnetv2_s", 1e-3f, true, TO_SAME } } },
    { "timm", "regnet_y_1_6gf", timm_regnet, { { .name = "regnety_016" } } },
    { "timm", "convnext_tiny", timm_convnext, { { .name = "convnext_tiny" } } },
    { "timm", NULL, timm_vgg, { { .name = NULL } } },
    { "the files that torchvision downloads", NULL, older_densenet, { { .name = NULL } } },
    { .owner = NULL },
};

/* ---- translation ---- */

/* Match a prefix and read its numbers. Returns the rest of the name, or NULL. */
static const char *match_prefix(const char *prefix, const char *name, unsigned long numbers_out[NUMBERS_MAX])
{
    uint32_t count = 0;
    for (; *prefix != '\0'; prefix++) {
        if (*prefix != '#') {
            if (*name++ != *prefix)
                return NULL;
            continue;
        }
        char *end;
        if (!isdigit((unsigned char)*name) || (numbers_out[count++] = strtoul(name, &end, 10)) > NET_LAYERS_MAX)
            return NULL;
        name = end;
    }
    return name;
}

/* Is it the end of a name, or its last word: ".weight"? */
static bool is_suffix(const char *text)
{
    return *text == '\0' || (*text == '.' && strchr(text + 1, '.') == NULL);
}

/* Write a prefix with the numbers in place of its '#', and what follows it. */
static void write_name(const char *prefix, const unsigned long *numbers, const char *part, const char *suffix,
                       char name_out[TENSOR_NAMING_BYTES])
{
    size_t used = 0;
    while (*prefix != '\0' && used + NUMBER_BYTES < TENSOR_NAMING_BYTES) {
        if (*prefix != '#') {
            name_out[used++] = *prefix++;
            continue;
        }
        const bool is_sum = (prefix[1] == '+' || prefix[1] == '-') && isdigit((unsigned char)prefix[2]);
        char *end = (char *)prefix + 1;
        const long more = is_sum ? strtol(end, &end, 10) : 0;
        used += (size_t)snprintf(name_out + used, TENSOR_NAMING_BYTES - used, "%ld", (long)*numbers++ + more);
        prefix = end;
    }
    snprintf(name_out + used, TENSOR_NAMING_BYTES - used, "%s%s", part, suffix);
}

bool tensor_naming_translate(const struct tensor_naming *naming, const char *name,
                             char name_out[TENSOR_NAMING_BYTES])
{
    const struct tensor_name_group *group = naming->groups;
    unsigned long numbers[NUMBERS_MAX] = { 0 };
    const char *rest = NULL;
    while (group->theirs != NULL && (rest = match_prefix(group->theirs, name, numbers)) == NULL)
        group++;
    for (const struct tensor_name_part *part = group->parts; rest != NULL && part->theirs != NULL; part++) {
        const size_t bytes = strlen(part->theirs);
        if (strncmp(rest, part->theirs, bytes) != 0 || !is_suffix(rest + bytes))
            continue;
        write_name(group->ours, numbers, part->ours, rest + bytes, name_out);
        return true;
    }
    return false;
}

/* ---- the naming of a file ---- */

static bool is_of_net(const struct tensor_naming *naming, const struct net *net, const char *name)
{
    char translated[TENSOR_NAMING_BYTES];
    return net_parameter_find(net, tensor_naming_translate(naming, name, translated) ? translated : name) != NULL;
}

bool tensor_naming_knows(const struct net *net, const char *name)
{
    bool is_known = false;
    for (const struct tensor_naming *naming = tensor_namings; naming->owner != NULL && !is_known; naming++)
        is_known = is_of_net(naming, net, name);
    return is_known;
}

const struct tensor_naming *tensor_naming_find(const struct safetensors_index *index, const struct net *net)
{
    const struct tensor_naming *found = NULL;
    size_t most = 0;
    for (size_t i = 0; i < index->count; i++)
        most += net_parameter_find(net, index->tensors[i].name) != NULL;
    for (const struct tensor_naming *naming = tensor_namings; naming->owner != NULL; naming++) {
        size_t count = 0;
        for (size_t i = 0; i < index->count; i++)
            count += is_of_net(naming, net, index->tensors[i].name);
        if (count > most) {
            most = count;
            found = naming;
        }
    }
    return found;
}

/* ---- networks ---- */

static void pad_axis(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride, uint32_t *before, uint32_t *after)
{
    const uint32_t reach = (out - 1) * stride + kernel, total = reach > in ? reach - in : 0;
    *before = total / 2;
    *after = total - total / 2;
}

void tensor_variant_apply(const struct tensor_variant *variant, struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++) {
        struct layer *const layer = &net->layers[i];
        if (layer->kind == LAYER_BATCH_NORM && variant->epsilon > 0)
            layer->epsilon = variant->epsilon;
        if (layer->kind != LAYER_CONV2D || !variant->pads_same)
            continue;
        pad_axis(layer->in.height, layer->out.height, layer->kernel_h, layer->stride_h, &layer->pad_top,
                 &layer->pad_bottom);
        pad_axis(layer->in.width, layer->out.width, layer->kernel_w, layer->stride_w, &layer->pad_left,
                 &layer->pad_right);
    }
}

/* ---- other programs ---- */

static const struct { const char *pattern, *owner; } strangers[] = {
    { "*embeddings.patch_embeddings.weight", "Hugging Face transformers" },
    { "*embeddings.convolution.weight", "Hugging Face transformers" },
    { "*embedder.embedder.convolution.weight", "Hugging Face transformers" },
    { "*conv_stem.first_conv.convolution.weight", "Hugging Face transformers" },
    { "*conv_stem.convolution.weight", "Hugging Face transformers" },
    { "*_depthwise_conv.weight", "efficientnet_pytorch, whose networks have TensorFlow's padding" },
    { "*downsample_layers.0.0.weight", "ConvNeXt's authors" },
    { "*s1.b1.f.a.weight", "pycls" },
    { "*.depthwise_conv.conv.weight", "OpenMMLab" },
    { "*/kernel*", "Keras, whose kernels have the order H, W, in, out" },
    { "*/moving_variance*", "Keras, whose kernels have the order H, W, in, out" },
    { "*/vars/0", "Keras, whose kernels have the order H, W, in, out" },
};

const char *tensor_naming_stranger(const char *name)
{
    for (size_t i = 0; i < sizeof(strangers) / sizeof(*strangers); i++)
        if (pattern_matches(strangers[i].pattern, name))
            return strangers[i].owner;
    return NULL;
}
