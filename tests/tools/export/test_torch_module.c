/* Tests of the Python module of a network: which classes it has, and that texts of others are only literals in it. */
#include <stdio.h>
#include <string.h>

#include "compute/model.h"
#include "compute/netfile/net_file.h"
#include "stage/text/text_stream.h"
#include "tests/helpers/test.h"
#include "tools/export/python_text.h"
#include "tools/export/torch_module.h"
#include "tools/export/torch_tree.h"

static const struct augment none = { .crop = { [PHASE_EVALUATE] = CROP_NONE } };

static void fail_on_problem(void *arg, uint32_t line, const char *problem)
{
    (void)arg;
    fail_msg("%u: %s", line, problem);
}

/* The caller closes it. */
static struct net *read_net(const char *layers)
{
    const struct model_options options = { .dropout = true, .auxiliary = true };
    const struct net_file_sink sink = { .report = fail_on_problem };
    char text[4096];
    struct net *net;
    snprintf(text, sizeof(text), "model small\nimage 16x16x3\nclasses 4\n%s\nsoftmax_loss loss\n", layers);
    assert_int_equal(net_file_read(&net, text, strlen(text), &options, &sink), 0);
    return net;
}

/* The caller frees it. */
static char *print(const struct torch_module *module)
{
    char *text;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(torch_module_print(module, out), 0);
    assert_int_equal(text_stream_end(out, &text), 0);
    return text;
}

static char *print_net(struct net *net, const char *const *names)
{
    const struct torch_module module = { .net = net, .augment = &none, .names = names };
    char *const text = print(&module);
    net_close(net);
    return text;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in\n%s", part, text);
}

/* Check that the source has all parts, up to NULL. */
static void check_parts(const char *layers, const char *const *parts)
{
    char *const text = print_net(read_net(layers), NULL);
    for (; *parts != NULL; parts++)
        assert_has(text, *parts);
    free(text);
}

#define CHECK(layers, ...) check_parts(layers, (const char *const[]){ __VA_ARGS__, NULL })

/* ---- classes ---- */

TEST(blocks_that_differ_in_numbers_are_one_class_with_these_as_arguments)
{
    CHECK("conv2d a.0.conv filters 8 kernel 3 padding 1 no_bias\nbatch_norm a.0.bn\nrelu a.0.relu\n"
          "conv2d a.1.conv filters 8 kernel 3 padding 1 stride 2 no_bias\nbatch_norm a.1.bn\nrelu a.1.relu\n"
          "global_average mean\ndense fc units classes",
          "# a.0, a.1\nclass ABlock(nn.Module):\n    def __init__(self, channels, stride):\n",
          "        self.conv = nn.Conv2d(channels, 8, 3, stride=stride, padding=1, bias=False)\n"
          "        self.bn = nn.BatchNorm2d(8)\n        self.relu = nn.ReLU()\n",
          "        return self.relu(self.bn(self.conv(x)))\n",
          "        self.a = nn.Sequential(ABlock(3, 1), ABlock(8, 2))\n",
          "        return self.fc(x.flatten(1))\n");
}

TEST(equal_blocks_are_a_loop_and_numbers_that_are_always_equal_one_argument)
{
    CHECK("conv2d stem filters 8 kernel 1\n"
          "repeat 4 as i from 0\nconv2d b.{i}.conv filters 8 kernel 3 padding 1\nadd b.{i}.add from before,start\nend\n"
          "conv2d c.0.up filters 6 kernel 1\nconv2d c.0.conv filters 6 kernel 1 groups 6\n"
          "conv2d c.1.up filters 4 kernel 1\nconv2d c.1.conv filters 4 kernel 1 groups 4\n"
          "dense fc units classes",
          "            *[BBlock() for _ in range(4)],\n", "        y = self.conv(x)\n        return y + x\n",
          "    def __init__(self, channels, channels2):\n",
          "        self.conv = nn.Conv2d(channels2, channels2, 1, groups=channels2)\n",
          "CBlock(8, 6), CBlock(6, 4)");
}

TEST(values_that_are_read_again_keep_their_variables)
{
    CHECK("conv2d a filters 3 kernel 1\nconv2d b filters 3 kernel 1 from image\nadd sum from a,b\n"
          "add last from sum,image\ndense fc units classes",
          "        y = self.a(x)\n        z = self.b(x)\n        y = y + z\n        x = y + x\n");
}

TEST(a_block_with_two_inputs_is_no_class)
{
    CHECK("conv2d a filters 3 kernel 1\nconv2d p.one filters 3 kernel 1\nadd p.add from before,image\n"
          "dense fc units classes",
          "        self.p = nn.Module()\n        self.p.one = nn.Conv2d(3, 3, 1)\n");
}

TEST(auxiliary_heads_are_computed_in_training_only)
{
    CHECK("conv2d a filters 3 kernel 1\ndense side units classes\nauxiliary_loss head weight 0.3\n"
          "dense fc units classes from a",
          "        if self.training:\n            y = self.side(x.flatten(1))\n",
          "            return x, y\n        return x\n",
          "    total += 0.3 * F.cross_entropy(outputs[1], labels)\n");
}

TEST(what_pytorch_has_no_module_for_is_defined)
{
    CHECK("conv2d a filters 4 kernel 3 stride 2 padding same\nbatch_norm a.bn no_gamma decay 0.99\nlayer_norm n\n"
          "scale g\nstochastic_depth d rate 0.1\npad_channels p channels 7 stride 2\ndense fc units classes",
          "class PaddedConv2d(nn.Conv2d):", "pad=(0, 1, 0, 1))", "class ShiftedNorm2d(nn.BatchNorm2d):",
          "momentum=0.01)", "class LayerNorm2d(nn.LayerNorm):", "self.g = nn.Parameter(torch.ones(4, 1, 1))",
          "class StochasticDepth(nn.Module):", "self.p = PadChannels(1, 2, 2)");
}

TEST(dense_layers_and_values_without_pixels_are_reshaped)
{
    CHECK("global_average m\ndense e.0 units 3\nsigmoid e.1\nmultiply s from image,e.1\nconv2d c filters 2 kernel 1\n"
          "dense fc units classes",
          "        y = self.m(x)\n        y = self.e(y.flatten(1))\n        x = x * y[:, :, None, None]\n");
}

/* ---- names ---- */

TEST(names_that_python_or_modules_have_are_reached_by_their_dictionary)
{
    CHECK("conv2d forward filters 3 kernel 1\nconv2d class.1x filters 3 kernel 1\nscale type\n"
          "conv2d a..b filters 3 kernel 1\nconv2d a..c filters 3 kernel 1 from type\nadd s from a..b,before\n"
          "dense fc units 4\nbatch_norm fc.weight\ndense last units classes",
          "        self._modules[\"forward\"] = nn.Conv2d(3, 3, 1)\n", "self._modules[\"class\"] = ",
          "        self._parameters[\"type\"] = nn.Parameter(torch.ones(3, 1, 1))\n",
          "._modules[\"\"]", ".fc._modules[\"weight\"] = nn.BatchNorm1d(4)\n");
}

TEST(an_attribute_is_an_identifier_that_nothing_else_has)
{
    static const char *const no[] = { "", "1", "1x1", "a-b", "_a", "None", "lambda", "train", "zero_grad", "a b" };
    static const char *const yes[] = { "a", "conv1", "Mixed_5b", "relu", "layer_scale" };
    for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
        assert_false(torch_word_is_attribute(no[i], (uint32_t)strlen(no[i]), false));
    for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
        assert_true(torch_word_is_attribute(yes[i], (uint32_t)strlen(yes[i]), true));
    assert_true(torch_word_is_attribute("weight", 6, false));
    assert_false(torch_word_is_attribute("weight", 6, true));
}

/* ---- texts of others ---- */

static void check_literal(const char *text, size_t bytes, const char *expected)
{
    char *literal;
    size_t size;
    FILE *const out = open_memstream(&literal, &size);
    assert_non_null(out);
    python_literal_write(out, text, bytes);
    assert_int_equal(text_stream_end(out, &literal), 0);
    if (expected != NULL)
        assert_string_equal(literal, expected);
    assert_true(size >= 2 && literal[0] == '"' && literal[size - 1] == '"');
    for (size_t i = 1; i + 1 < size; i++) {
        assert_true((unsigned char)literal[i] >= ' ' && literal[i] != '"');
        if (literal[i] == '\\')
            i++;                /* the next character is escaped, and before the end */
        assert_true(i + 1 < size);
    }
    free(literal);
}

TEST(literals_escape_what_ends_or_hides_them)
{
    check_literal("a\"b\\c\nd", 7, "\"a\\\"b\\\\c\\u000ad\"");
    check_literal("L\303\266we", 5, "\"L\303\266we\"");
    check_literal("\342\200\256", 3, "\"\\u202e\"");
    check_literal("\377a\303", 3, "\"\\ufffda\\ufffd\"");
    check_literal("\0", 1, "\"\\u0000\"");
}

TEST(any_two_bytes_are_one_literal)
{
    for (unsigned number = 0; number < 65536; number++) {
        const char text[] = { (char)(number >> 8), (char)number };
        check_literal(text, sizeof(text), NULL);
    }
}

TEST(names_of_classes_model_and_layers_stay_inside_of_literals)
{
    static const char *const names[] = { "\"]; import os #", "b\nimport os", "", "\"\"\"" };
    const struct shape image = { 3, 4, 4 };
    struct net *net;
    assert_int_equal(net_open(&net, "\"\"\"\nimport os", image, 4), 0);
    const int64_t conv = net_conv2d(net, "x\"]\nimport os", NET_INPUT, 2, window_square(1, 1, PADDING_VALID), true);
    const int64_t dense = net_dense(net, "fc", (uint32_t)conv, 4, true);
    net_softmax_loss(net, "loss", (uint32_t)dense);
    if (net_finish(net) != 0)
        fail_msg("%s", net_error(net));
    char *const text = print_net(net, names);
    assert_has(text, "MODEL = \"\\\"\\\"\\\"\\u000aimport os\"\n");
    assert_has(text, "CLASSES = [\n    \"\\\"]; import os #\",\n    \"b\\u000aimport os\",\n    \"\",\n"
                     "    \"\\\"\\\"\\\"\",\n]\n");
    assert_has(text, "self._modules[\"x\\\"]\\u000aimport os\"]");
    assert_null(strstr(text, "\nimport os"));
    free(text);
}

/* ---- weights and images ---- */

TEST(renamed_tensors_are_listed_if_the_file_has_other_names)
{
    struct net *const net = read_net("dense fc units classes");
    struct safetensors_tensor theirs[] = { { .name = "module.fc.weight", .rank = 2, .dims = { 4, 768 } },
                                           { .name = "module.fc.bias", .rank = 1, .dims = { 4 } } };
    struct safetensors_tensor ours[] = { { .name = "fc.weight", .rank = 2, .dims = { 4, 768 } },
                                         { .name = "fc.bias", .rank = 1, .dims = { 4 } } };
    const struct safetensors_index file = { .tensors = theirs, .count = 2 }, same = { .tensors = ours, .count = 2 };
    struct torch_module module = { .net = net, .augment = &none, .file = &file, .translated = &same };
    char *text = print(&module);
    assert_has(text, "RENAMED = {\n    \"module.fc.weight\": \"fc.weight\",\n"
                     "    \"module.fc.bias\": \"fc.bias\",\n}\n");
    assert_null(strstr(text, "reshape"));
    free(text);
    ours[0].rank = 4, ours[0].dims[2] = ours[0].dims[3] = 1;
    module.file = &same;
    text = print(&module);
    assert_null(strstr(text, "RENAMED"));
    assert_has(text, "reshape(wanted[name].shape)");
    free(text);
    net_close(net);
}

TEST(images_are_scaled_by_the_rule_of_evaluation)
{
    struct net *const net = read_net("dense fc units classes");
    const struct augment rules[] = {
        { .crop = { [PHASE_EVALUATE] = CROP_AUTO }, .resize = 20, .filter = FILTER_BICUBIC },
        { .crop = { [PHASE_EVALUATE] = CROP_CENTRAL }, .scale = 1.145, .orientation = ORIENTATION_EXIF },
    };
    static const char *const parts[] = { "        image = image.resize([20 * side // shorter for side in image.size], "
                                         "Image.Resampling.BICUBIC)\n",
                                         "    image = ImageOps.exif_transpose(image)\n" };
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        const struct torch_module module = { .net = net, .augment = &rules[i] };
        char *const text = print(&module);
        assert_has(text, parts[i]);
        free(text);
    }
    net_close(net);
}

TEST(every_model_by_name_is_written)
{
    for (const struct model *model = model_table; model->name != NULL; model++) {
        const struct model_options options = { .dropout = true, .auxiliary = true };
        struct net *net;
        assert_int_equal(model_open(&net, model->name, &options), 0);
        char *const text = print_net(net, NULL);
        assert_has(text, "class Network(nn.Module):");
        assert_null(strchr(text, '\1'));
        free(text);
    }
}

TESTS_MAIN(NULL, NULL)
