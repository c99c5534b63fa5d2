/* Names of other programs: each parameter of a model has one, and files with these names are loaded, or refused with a
 * network that fits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/model.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/lib/results/initial_weights.h"
#include "tools/lib/results/tensor_naming.h"
#include "tools/lib/results/weights_agree.h"

enum { STAGES = 7 };

/* How timm writes the names of a network: stages of blocks with some of these parts, and the other layers. */
static const struct network {
    const char *model, *stage, *block;
    unsigned first, depths[STAGES];
    const char *parts[16], *layers[16];
} networks[] = {
    { "mobilenet_v2", "blocks.", ".", 0, { 1, 2, 3, 4, 3, 3, 1 },
      { "conv_pw", "bn1", "conv_dw", "bn2", "conv_pwl", "bn3" },
      { "conv_stem", "bn1", "conv_head", "bn2", "classifier" } },
    { "mobilenet_v3_large", "blocks.", ".", 0, { 1, 2, 3, 4, 2, 3, 1 },
      { "conv_pw", "bn1", "conv_dw", "bn2", "se.conv_reduce", "se.conv_expand", "conv_pwl", "bn3", "conv" },
      { "conv_stem", "bn1", "conv_head", "classifier" } },
    { "efficientnet_b0", "blocks.", ".", 0, { 1, 2, 2, 3, 3, 4, 1 },
      { "conv_pw", "bn1", "conv_dw", "bn2", "se.conv_reduce", "se.conv_expand", "conv_pwl", "bn3" },
      { "conv_stem", "bn1", "conv_head", "bn2", "classifier" } },
    { "efficientnet_v2_s", "blocks.", ".", 0, { 2, 4, 4, 6, 9, 15 },
      { "conv", "conv_exp", "conv_pw", "bn1", "conv_dw", "bn2", "se.conv_reduce", "se.conv_expand", "conv_pwl", "bn3" },
      { "conv_stem", "bn1", "conv_head", "bn2", "classifier" } },
    { "regnet_y_1_6gf", "s", ".b", 1, { 2, 6, 17, 2 },
      { "conv1.conv", "conv1.bn", "conv2.conv", "conv2.bn", "se.fc1", "se.fc2", "conv3.conv", "conv3.bn",
        "downsample.conv", "downsample.bn" },
      { "stem.conv", "stem.bn", "head.fc" } },
    { "convnext_tiny", "stages.", ".blocks.", 0, { 3, 3, 9, 3 },
      { "conv_dw", "norm", "mlp.fc1", "mlp.fc2", "gamma" },
      { "stem.0", "stem.1", "stages.1.downsample.0", "stages.1.downsample.1", "stages.2.downsample.0",
        "stages.2.downsample.1", "stages.3.downsample.0", "stages.3.downsample.1", "head.norm", "head.fc" } },
};

/* Names of the other program, by parameter of the net. */
struct given { const struct tensor_naming *naming; const struct net *net; char (*names)[128]; };

/* Give the name of a layer to the parameters of which it is. */
static void give(const struct given *given, const char *layer)
{
    static const char *const suffixes[] = { "", ".weight", ".bias", ".running_mean", ".running_var" };
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
        char name[128], ours[TENSOR_NAMING_BYTES];
        snprintf(name, sizeof(name), "%s%s", layer, suffixes[i]);
        const struct parameter *const parameter = tensor_naming_translate(given->naming, name, ours)
                                                      ? net_parameter_find(given->net, ours)
                                                      : NULL;
        if (parameter == NULL)
            continue;
        assert_string_equal(given->names[parameter - given->net->parameters], "");
        memcpy(given->names[parameter - given->net->parameters], name, sizeof(name));
    }
}

static const struct tensor_naming *naming_of(const char *model)
{
    const struct tensor_naming *naming = tensor_namings;
    while (naming->owner != NULL && (naming->model == NULL || strcmp(naming->model, model) != 0))
        naming++;
    assert_non_null(naming->owner);
    return naming;
}

static struct given open_names(const struct network *network)
{
    struct net *net;
    char layer[96];
    assert_int_equal(model_open(&net, network->model, &(const struct model_options){ .dropout = true }), 0);
    struct given given = { naming_of(network->model), net, calloc(net->parameter_count, sizeof(*given.names)) };
    assert_non_null(given.names);
    for (size_t i = 0; network->layers[i] != NULL; i++)
        give(&given, network->layers[i]);
    for (unsigned stage = 0; stage < STAGES; stage++)
        for (unsigned block = 0; block < network->depths[stage]; block++)
            for (size_t i = 0; network->parts[i] != NULL; i++) {
                snprintf(layer, sizeof(layer), "%s%u%s%u.%s", network->stage, network->first + stage, network->block,
                         network->first + block, network->parts[i]);
                give(&given, layer);
            }
    return given;
}

static void close_names(struct given *given)
{
    free(given->names);
    net_close((struct net *)given->net);
}

TEST(every_parameter_has_one_name)
{
    for (size_t i = 0; i < sizeof(networks) / sizeof(*networks); i++) {
        struct given given = open_names(&networks[i]);
        for (uint32_t p = 0; p < given.net->parameter_count; p++)
            if (given.names[p][0] == '\0')
                fail_msg("%s: %s has no name", networks[i].model, given.net->parameters[p].name);
        close_names(&given);
    }
}

TEST(names_are_those_of_the_same_layers)
{
    static const struct { const char *model, *theirs, *ours; } rows[] = {
        { "mobilenet_v2", "blocks.0.0.conv_dw.weight", "features.1.conv.0.0.weight" },
        { "mobilenet_v2", "blocks.1.1.bn3.running_var", "features.3.conv.3.running_var" },
        { "mobilenet_v2", "blocks.6.0.conv_pwl.weight", "features.17.conv.2.weight" },
        { "mobilenet_v3_large", "blocks.2.2.se.conv_expand.bias", "features.6.block.2.fc2.bias" },
        { "mobilenet_v3_large", "blocks.3.0.conv_pwl.weight", "features.7.block.2.0.weight" },
        { "mobilenet_v3_large", "conv_head.bias", "classifier.0.bias" },
        { "efficientnet_b0", "blocks.0.0.bn2.weight", "features.1.0.block.2.1.weight" },
        { "efficientnet_b0", "blocks.5.3.conv_dw.weight", "features.6.3.block.1.0.weight" },
        { "efficientnet_v2_s", "blocks.2.3.conv_exp.weight", "features.3.3.block.0.0.weight" },
        { "efficientnet_v2_s", "blocks.5.14.bn3.bias", "features.6.14.block.3.1.bias" },
        { "regnet_y_1_6gf", "s3.b17.conv2.bn.weight", "trunk_output.block3.block3-16.f.b.1.weight" },
        { "convnext_tiny", "stages.2.blocks.8.gamma", "features.5.8.layer_scale" },
        { "convnext_tiny", "stages.3.downsample.1.weight", "features.6.1.weight" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char ours[TENSOR_NAMING_BYTES];
        assert_true(tensor_naming_translate(naming_of(rows[i].model), rows[i].theirs, ours));
        assert_string_equal(ours, rows[i].ours);
    }
}

/* Namings of several networks. */
TEST(families_have_their_names)
{
    static const struct { const char *theirs, *ours; } rows[] = {
        { "pre_logits.fc1.weight", "classifier.0.weight" },
        { "head.fc.bias", "classifier.6.bias" },
        { "features.denseblock4.denselayer16.norm.2.running_mean", "features.denseblock4.denselayer16.norm2.running_mean" },
        { "features.denseblock1.denselayer1.conv.1.weight", "features.denseblock1.denselayer1.conv1.weight" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char ours[TENSOR_NAMING_BYTES] = "";
        const struct tensor_naming *naming = tensor_namings;
        while (naming->model != NULL || (naming->owner != NULL && !tensor_naming_translate(naming, rows[i].theirs, ours)))
            naming++;
        assert_string_equal(ours, rows[i].ours);
    }
}

TEST(other_names_are_not_translated)
{
    static const char *const names[] = {
        "", "blocks.", "blocks.x.0.conv_pw.weight", "blocks.0.0.conv_pwl.weight", "blocks.1.0.conv_pw.weight.more",
        "blocks.1.0.conv_pwx.weight", "blocks.99999999999999999999.0.conv_pw.weight", "conv_stem2.weight",
        "features.0.0.weight",
    };
    char ours[TENSOR_NAMING_BYTES];
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_false(tensor_naming_translate(naming_of("efficientnet_b0"), names[i], ours));
}

TEST(programs_are_recognised_by_a_name)
{
    static const struct { const char *name, *owner; } rows[] = {
        { "convnext.embeddings.patch_embeddings.weight", "Hugging Face transformers" },
        { "efficientnet.embeddings.convolution.weight", "Hugging Face transformers" },
        { "regnet.embedder.embedder.convolution.weight", "Hugging Face transformers" },
        { "mobilenet_v2.conv_stem.first_conv.convolution.weight", "Hugging Face transformers" },
        { "_blocks.0._depthwise_conv.weight", "efficientnet_pytorch" },
        { "downsample_layers.0.0.weight", "ConvNeXt's authors" },
        { "stem_conv/kernel", "Keras" },
        { "features.0.0.weight", NULL },
        { "layer1.0.conv1.weight", NULL },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *const owner = tensor_naming_stranger(rows[i].name);
        assert_int_equal(owner != NULL, rows[i].owner != NULL);
        assert_true(owner == NULL || strncmp(owner, rows[i].owner, strlen(rows[i].owner)) == 0);
    }
}

/* ---- files ---- */

/* Write a safetensors file of zeros with a prefix before these names; the last `missing` tensors are left out. */
static const char *write_file(const struct given *given, const char *prefix, uint32_t missing)
{
    static char path[512];
    char *header = NULL;
    size_t header_bytes = 0;
    unsigned long long at = 0;
    FILE *const out = open_memstream(&header, &header_bytes);
    assert_non_null(out);
    for (uint32_t i = 0; i + missing < given->net->parameter_count; i++) {
        const struct parameter *const parameter = &given->net->parameters[i];
        fprintf(out, "%s\"%s%s\":{\"dtype\":\"F32\",\"shape\":[", i > 0 ? "," : "{", prefix, given->names[i]);
        for (uint32_t axis = 0; axis < parameter->rank; axis++)
            fprintf(out, "%s%u", axis > 0 ? "," : "", parameter->dims[axis]);
        fprintf(out, "],\"data_offsets\":[%llu,%llu]}", at, at + parameter->count * sizeof(float));
        at += parameter->count * sizeof(float);
    }
    fputc('}', out);
    fclose(out);
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "weights.safetensors"));
    fixture_write_tensors(path, header, header_bytes, at);
    free(header);
    return path;
}

/* All messages, as one text. */
static void join(const struct problems *problems, char *text, size_t text_size)
{
    text[0] = '\0';
    for (size_t i = 0; i < problems->count; i++)
        snprintf(text + strlen(text), text_size - strlen(text), "%s\n", problems->lines[i]);
}

/* Open a file of the names for a net, and compare it with the net. Returns the error, and the messages in text_out. */
static int load(const struct given *given, const char *path, struct net *net, const char *skip, char *text_out,
                size_t text_size)
{
    struct initial_weights *weights = NULL;
    struct settings settings;
    struct problems problems;
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    int rc = initial_weights_open(&weights, path, net, skip, 0, &problems);
    if (rc == 0) {
        assert_ptr_equal(initial_weights_naming(weights), given->naming);
        rc = weights_agree(weights, path, &settings, net, WEIGHTS_TRAINED_ON, &problems);
    }
    join(&problems, text_out, text_size);
    initial_weights_close(weights);
    settings_release(&settings);
    problems_release(&problems);
    return rc;
}

TEST_WITH(files_with_these_names_are_loaded_or_the_network_that_fits_is_named, fixture_folder_make,
          fixture_folder_remove)
{
    for (size_t i = 0; i < sizeof(networks) / sizeof(*networks); i++) {
        struct given given = open_names(&networks[i]);
        struct net *const net = (struct net *)given.net;
        const struct tensor_variant *const variant = &given.naming->variants[0];
        const bool fits = variant->edit == NULL;
        char text[8192];
        const char *const path = write_file(&given, "model.", 0);
        assert_int_equal(load(&given, path, net, "", text, sizeof(text)), fits ? 0 : -EINVAL);
        assert_int_equal(strstr(text, variant->name) != NULL, !fits);
        assert_int_equal(strstr(text, "epsilon 0.001, there") != NULL, !fits);
        for (size_t v = 0; given.naming->variants[v].name != NULL; v++) {
            tensor_variant_apply(&given.naming->variants[v], net);
            assert_int_equal(load(&given, path, net, "", text, sizeof(text)), 0);
        }
        close_names(&given);
    }
}

TEST_WITH(files_without_the_last_layer_or_of_another_network_are_refused, fixture_folder_make, fixture_folder_remove)
{
    struct given given = open_names(&networks[0]);
    struct net *other;
    char text[8192];
    const char *const path = write_file(&given, "", 2);
    assert_int_equal(model_open(&other, "torchvision_resnet18", &(const struct model_options){ .dropout = true }), 0);
    assert_int_equal(load(&given, path, (struct net *)given.net, "", text, sizeof(text)), -EINVAL);
    assert_non_null(strstr(text, "names of timm were translated to torchvision's"));
    assert_non_null(strstr(text, "2 missing in the file: classifier.1.weight, classifier.1.bias"));
    assert_non_null(strstr(text, "model.skip = 'classifier.1.*' loads the rest"));
    assert_int_equal(load(&given, path, (struct net *)given.net, "classifier.1.*", text, sizeof(text)), 0);
    write_file(&given, "", 0);
    assert_int_equal(load(&given, path, other, "", text, sizeof(text)), -EINVAL);
    assert_non_null(strstr(text, "'mobilenet_v2', with the names of timm"));
    net_close(other);
    close_names(&given);
}

TEST_WITH(names_of_others_are_told, fixture_folder_make, fixture_folder_remove)
{
    struct given given = open_names(&networks[5]);
    char text[8192];
    snprintf(given.names[0], sizeof(given.names[0]), "convnext.embeddings.patch_embeddings.weight");
    for (uint32_t i = 1; i < given.net->parameter_count; i++)
        snprintf(given.names[i], sizeof(given.names[i]), "convnext.encoder.%u", i);
    assert_int_equal(load(&given, write_file(&given, "", 0), (struct net *)given.net, "", text, sizeof(text)), -EINVAL);
    assert_non_null(strstr(text, "its names are those of Hugging Face transformers (convnext.embeddings.patch_embedding"
                                 "s.weight), which are not translated"));
    assert_non_null(strstr(text, "torchvision.models.convnext_tiny(weights='DEFAULT').state_dict()"));
    close_names(&given);
}

TESTS_MAIN(NULL, NULL)
