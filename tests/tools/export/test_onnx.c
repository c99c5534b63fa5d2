/* Exported ONNX models, read back by a reader of protobuf: which nodes, constants and numbers they have, what is
 * refused, and that nothing is left of a file that could not be written. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/netfile/net_file.h"
#include "formats/protobuf.h"
#include "stage/stop.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/export/export_output.h"
#include "tools/export/folded_norm.h"
#include "tools/export/onnx_file.h"
#include "tools/export/onnx_graph.h"

/* ---- networks and weights ---- */

static void fail_at(void *arg, uint32_t line, const char *problem)
{
    (void)arg;
    fail_msg("line %u: %s", line, problem);
}

static struct net *read_net(const char *text)
{
    const struct net_file_sink sink = { fail_at, NULL };
    const struct model_options options = { .dropout = true, .auxiliary = true };
    struct net *net = NULL;
    assert_int_equal(net_file_read(&net, text, strlen(text), &options, &sink), 0);
    return net;
}

/* Number i of a parameter. */
static float number_of(const struct parameter *parameter, size_t i)
{
    const double wave = sin((double)(i + 1) * 1.7 + parameter->kind);
    return (float)(parameter->kind == PARAMETER_RUNNING_VARIANCE ? 1.5 + wave : wave);
}

/* Write a safetensors file with these numbers, or sparse without any. */
static const char *write_weights(const struct net *net, bool has_numbers)
{
    static char path[512];
    char *header = NULL;
    size_t header_bytes = 0;
    uint64_t at = 0;
    FILE *const out = open_memstream(&header, &header_bytes);
    assert_non_null(out);
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        const struct parameter *const parameter = &net->parameters[p];
        fprintf(out, "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[", p > 0 ? ',' : '{', parameter->name);
        for (uint32_t axis = 0; axis < parameter->rank; axis++)
            fprintf(out, "%s%u", axis > 0 ? "," : "", parameter->dims[axis]);
        fprintf(out, "],\"data_offsets\":[%llu,", (unsigned long long)at);
        at += parameter->count * sizeof(float);
        fprintf(out, "%llu]}", (unsigned long long)at);
    }
    fputc('}', out);
    fclose(out);
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "weights.safetensors"));
    fixture_write_tensors(path, header, header_bytes, at);
    FILE *const file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(8 + header_bytes), SEEK_SET), 0);
    for (uint32_t p = 0; has_numbers && p < net->parameter_count; p++)
        for (size_t i = 0; i < net->parameters[p].count; i++) {
            const float number = number_of(&net->parameters[p], i);
            fwrite(&number, sizeof(number), 1, file);
        }
    fclose(file);
    free(header);
    return path;
}

/* Replace number i of a parameter in the file. */
static void change_weight(const char *path, const struct net *net, const char *name, size_t i, float number)
{
    size_t bytes;
    uint64_t after = 0;
    uint32_t p = net->parameter_count;
    uint8_t *const content = fixture_read(path, &bytes);
    while (p-- > 0 && strcmp(net->parameters[p].name, name) != 0)
        after += net->parameters[p].count * sizeof(float);
    assert_true(p < net->parameter_count);
    memcpy(content + bytes - after - (net->parameters[p].count - i) * sizeof(float), &number, sizeof(number));
    fixture_write(path, content, bytes);
    free(content);
}

struct exported {
    struct settings settings;
    struct net *net;
    struct initial_weights *weights;
    struct export_subject subject;
    char path[512];
};

static void open_net(struct exported *exported, struct net *net, bool has_numbers)
{
    struct problems problems;
    *exported = (struct exported){ .net = net };
    problems_init(&problems);
    assert_int_equal(settings_init(&exported->settings), 0);
    const char *const path = write_weights(net, has_numbers);
    assert_int_equal(initial_weights_open(&exported->weights, path, net, NULL, 0, &problems), 0);
    problems_release(&problems);
    snprintf(exported->path, sizeof(exported->path), "%s", fixture_path(folder, "model.onnx"));
    exported->subject = (struct export_subject){
        .settings = &exported->settings, .net = net, .weights = exported->weights, .weights_path = path,
    };
}

static void open_text(struct exported *exported, const char *text)
{
    open_net(exported, read_net(text), true);
}

static void close_exported(struct exported *exported)
{
    initial_weights_close(exported->weights);
    net_close(exported->net);
    settings_release(&exported->settings);
}

/* Write the model. Returns the exit code. */
static int export(struct exported *exported)
{
    struct export_output output;
    int code = export_output_init(&output, exported->path, false);
    if (code == EXIT_CODE_OK)
        code = onnx_file_write(&exported->subject, &output);
    if (code == EXIT_CODE_OK)
        code = export_output_finish(&output);
    export_output_release(&output);
    return code;
}

static size_t file_count(void)
{
    size_t count = 0;
    char command[600];
    snprintf(command, sizeof(command), "ls -A '%s'", folder);
    FILE *const list = popen(command, "r");
    for (int c; list != NULL && (c = fgetc(list)) != EOF;)
        count += c == '\n';
    pclose(list);
    return count;
}

/* ---- reading models ---- */

enum { NAMES_MAX = 8, NODES_MAX = 4 * NET_LAYERS_MAX, CONSTANTS_MAX = 5 * NET_LAYERS_MAX };

struct read_node { char type[32], inputs[NAMES_MAX][ONNX_NAME_BYTES], output[ONNX_NAME_BYTES]; size_t input_count; };
struct read_constant { char name[ONNX_NAME_BYTES]; uint64_t dims[4]; uint32_t rank, type; struct range bytes; };

static struct {
    uint8_t *content;           /* of the file; NULL: a graph without one */
    struct read_node nodes[NODES_MAX];
    struct read_constant constants[CONSTANTS_MAX];
    size_t node_count, constant_count, value_count;
    uint64_t ir_version, opset;
} model;

static void text_of(const struct field *field, char *text, size_t text_size)
{
    const size_t bytes = range_bytes(&field->body);
    assert_int_equal(field->type, WIRE_BYTES);
    assert_true(bytes < text_size);
    memcpy(text, field->body.at, bytes);
    text[bytes] = '\0';
}

static struct field next_field(struct range *range)
{
    struct field field;
    assert_true(take_field(range, &field));
    return field;
}

static void read_node(struct range body)
{
    assert_true(model.node_count < NODES_MAX);
    struct read_node *const node = &model.nodes[model.node_count++];
    *node = (struct read_node){ .input_count = 0 };
    while (range_bytes(&body) > 0) {
        const struct field field = next_field(&body);
        if (field.number == 1) {
            assert_true(node->input_count < NAMES_MAX);
            text_of(&field, node->inputs[node->input_count++], ONNX_NAME_BYTES);
        } else if (field.number == 2)
            text_of(&field, node->output, ONNX_NAME_BYTES);
        else if (field.number == 4)
            text_of(&field, node->type, sizeof(node->type));
    }
}

static void read_constant(struct range body)
{
    assert_true(model.constant_count < CONSTANTS_MAX);
    struct read_constant *const constant = &model.constants[model.constant_count++];
    *constant = (struct read_constant){ .rank = 0 };
    uint64_t count = 1;
    while (range_bytes(&body) > 0) {
        const struct field field = next_field(&body);
        if (field.number == 1) {
            constant->dims[constant->rank++] = field.varint;
            count *= field.varint;
        } else if (field.number == 2)
            constant->type = (uint32_t)field.varint;
        else if (field.number == 8)
            text_of(&field, constant->name, sizeof(constant->name));
        else if (field.number == 9)
            constant->bytes = field.body;
    }
    assert_int_equal(range_bytes(&constant->bytes), count * (constant->type == ONNX_INT64 ? 8 : 4));
}

static void read_graph(struct range body)
{
    while (range_bytes(&body) > 0) {
        const struct field field = next_field(&body);
        if (field.number == 1)
            read_node(field.body);
        else if (field.number == 5)
            read_constant(field.body);
        else
            model.value_count += field.number == 11 || field.number == 12;
    }
}

static void read_opset(struct range body)
{
    while (range_bytes(&body) > 0) {
        const struct field field = next_field(&body);
        if (field.number == 2)
            model.opset = field.varint;
    }
}

static void release_model(void)
{
    free(model.content);
    memset(&model, 0, sizeof(model));
}

static void read_model(const char *path)
{
    size_t bytes;
    release_model();
    model.content = fixture_read(path, &bytes);
    struct range body = { model.content, model.content + bytes };
    while (range_bytes(&body) > 0) {
        const struct field field = next_field(&body);
        if (field.number == 1)
            model.ir_version = field.varint;
        else if (field.number == 7)
            read_graph(field.body);
        else if (field.number == 8)
            read_opset(field.body);
    }
}

static const struct read_constant *find_constant(const char *name)
{
    for (size_t i = 0; i < model.constant_count; i++)
        if (strcmp(model.constants[i].name, name) == 0)
            return &model.constants[i];
    return NULL;
}

static float constant_number(const char *name, size_t i)
{
    float number;
    const struct read_constant *const constant = find_constant(name);
    assert_non_null(constant);
    assert_true((i + 1) * sizeof(number) <= range_bytes(&constant->bytes));
    memcpy(&number, constant->bytes.at + i * sizeof(number), sizeof(number));
    return number;
}

static uint32_t count_nodes(const char *type)
{
    uint32_t count = 0;
    for (size_t i = 0; i < model.node_count; i++)
        count += strcmp(model.nodes[i].type, type) == 0;
    return count;
}

static bool is_output_before(const char *name, size_t node)
{
    for (size_t i = 0; i < node; i++)
        if (strcmp(model.nodes[i].output, name) == 0)
            return true;
    return false;
}

/* Every input of a node exists before it, every output and constant is read and has a name of its own. */
static void check_graph(const char *what)
{
    for (size_t i = 0; i < model.node_count; i++) {
        const struct read_node *const node = &model.nodes[i];
        for (size_t k = 0; k < node->input_count; k++)
            if (strcmp(node->inputs[k], "image") != 0 && find_constant(node->inputs[k]) == NULL &&
                !is_output_before(node->inputs[k], i))
                fail_msg("%s: %s reads %s, which does not exist", what, node->output, node->inputs[k]);
        if (is_output_before(node->output, i) || find_constant(node->output) != NULL)
            fail_msg("%s: there are two values %s", what, node->output);
    }
    for (size_t i = 0; i < model.constant_count; i++)
        if (find_constant(model.constants[i].name) != &model.constants[i])
            fail_msg("%s: there are two constants %s", what, model.constants[i].name);
    assert_true(is_output_before("logits", model.node_count));
    assert_string_equal(model.nodes[model.node_count - 1].output, "probabilities");
}

static const struct parameter *parameter_of(const struct net *net, const char *name)
{
    const struct parameter *const parameter = net_parameter_find(net, name);
    assert_non_null(parameter);
    return parameter;
}

#define TEST_IN_FOLDER(name) TEST_WITH(name, fixture_folder_make, fixture_folder_remove)

/* ---- the tests ---- */

static const char plain[] =
    "model plain\nimage 6x5x3\nclasses 4\ntransform divisor 2 mean 1,2,3 deviation 1,2,4\n"
    "conv2d conv filters 4 kernel 3\nrelu relu\ndropout drop rate 0.5\ndense fc units classes\nsoftmax_loss loss\n";

TEST_IN_FOLDER(a_file_has_the_weights_bit_by_bit)
{
    struct exported exported;
    open_text(&exported, plain);
    change_weight(exported.subject.weights_path, exported.net, "conv.weight", 5, -0.0f);
    change_weight(exported.subject.weights_path, exported.net, "conv.weight", 6, 1e-45f);
    assert_int_equal(export(&exported), EXIT_CODE_OK);
    read_model(exported.path);
    check_graph("plain");
    assert_int_equal(model.ir_version, 8);
    assert_int_equal(model.opset, 13);
    assert_int_equal(model.value_count, 3);
    for (uint32_t p = 0; p < exported.net->parameter_count; p++) {
        const struct parameter *const parameter = &exported.net->parameters[p];
        const struct read_constant *const constant = find_constant(parameter->name);
        assert_non_null(constant);
        assert_int_equal(constant->rank, parameter->rank);
        for (uint32_t axis = 0; axis < parameter->rank; axis++)
            assert_int_equal(constant->dims[axis], parameter->dims[axis]);
        for (size_t i = 0; i < parameter->count; i++)
            if (strcmp(parameter->name, "conv.weight") != 0 || i < 5 || i > 6)
                assert_true(constant_number(parameter->name, i) == number_of(parameter, i));
    }
    assert_true(constant_number("conv.weight", 5) == 0 && signbit(constant_number("conv.weight", 5)));
    assert_true(constant_number("conv.weight", 6) == 1e-45f);
    assert_true(constant_number("/image/divisor", 0) == 2 && constant_number("/image/mean", 2) == 3 &&
                constant_number("/image/deviation", 2) == 4);
    close_exported(&exported);
    release_model();
}

TEST_IN_FOLDER(the_input_is_transposed_and_converted_only_where_it_has_to_be)
{
    static const struct { enum export_layout layout; enum export_input input; uint32_t transposed, cast; } cases[] = {
        { EXPORT_NCHW, EXPORT_UINT8, 0, 1 }, { EXPORT_NHWC, EXPORT_UINT8, 1, 1 },
        { EXPORT_NCHW, EXPORT_FLOAT, 0, 0 }, { EXPORT_NHWC, EXPORT_FLOAT, 1, 0 },
    };
    struct exported exported;
    open_text(&exported, plain);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        exported.subject.options = (struct export_options){ cases[i].layout, cases[i].input, false };
        assert_int_equal(export(&exported), EXIT_CODE_OK);
        read_model(exported.path);
        check_graph("plain");
        assert_int_equal(count_nodes("Transpose"), cases[i].transposed);
        assert_int_equal(count_nodes("Cast"), cases[i].cast);
        assert_int_equal(unlink(exported.path), 0);
    }
    close_exported(&exported);
    release_model();
}

static const char normed[] =
    "model normed\nimage 6x5x3\nclasses 4\n"
    "conv2d conv filters 4 kernel 3\ndropout drop rate 0.5\nbatch_norm bn epsilon 1e-3\nrelu relu\n"
    "conv2d twice filters 4 kernel 1 no_bias\nbatch_norm twice.bn\nadd sum from twice,twice.bn\nbatch_norm sum.bn\n"
    "dense fc units classes no_bias\nbatch_norm fc.bn no_gamma\nsoftmax_loss loss\n";

/* The number that a folded weight has to be. */
static float folded_weight(const struct net *net, const char *layer, const char *norm, float epsilon, size_t i)
{
    char weight[64], gamma[64], variance[64];
    snprintf(weight, sizeof(weight), "%s.weight", layer);
    snprintf(gamma, sizeof(gamma), "%s.weight", norm);
    snprintf(variance, sizeof(variance), "%s.running_var", norm);
    const struct parameter *const w = parameter_of(net, weight), *const g = net_parameter_find(net, gamma);
    const size_t channel = i / (w->count / w->dims[0]);
    const double scale = g != NULL ? (double)number_of(g, channel) : 1;
    const double spread = (double)number_of(parameter_of(net, variance), channel) + epsilon;
    return (float)(number_of(w, i) * (scale / sqrt(spread)));
}

TEST_IN_FOLDER(batch_normalisation_is_folded_where_it_alone_reads_a_layer)
{
    struct exported exported;
    open_text(&exported, normed);
    assert_int_equal(export(&exported), EXIT_CODE_OK);
    read_model(exported.path);
    check_graph("normed");
    assert_int_equal(count_nodes("BatchNormalization"), 2);
    for (size_t i = 0; i < 4 * 3 * 9; i++)
        assert_true(constant_number("conv.weight", i) == folded_weight(exported.net, "conv", "bn", 1e-3f, i));
    for (size_t i = 0; i < 4 * 48; i++)
        assert_true(constant_number("fc.weight", i) == folded_weight(exported.net, "fc", "fc.bn", 1e-5f, i));
    for (size_t c = 0; c < 4; c++) {
        const double factor = number_of(parameter_of(exported.net, "bn.weight"), c) /
                              sqrt((double)number_of(parameter_of(exported.net, "bn.running_var"), c) + 1e-3f);
        const double centred = (double)number_of(parameter_of(exported.net, "conv.bias"), c) -
                               number_of(parameter_of(exported.net, "bn.running_mean"), c);
        assert_true(constant_number("conv.bias", c) ==
                    (float)(number_of(parameter_of(exported.net, "bn.bias"), c) + centred * factor));
    }
    assert_true(constant_number("twice.weight", 3) == number_of(parameter_of(exported.net, "twice.weight"), 3));
    close_exported(&exported);
    release_model();
}

TEST_IN_FOLDER(no_fold_keeps_all_batch_normalisation)
{
    struct exported exported;
    open_text(&exported, normed);
    exported.subject.options.keeps_norms = true;
    assert_int_equal(export(&exported), EXIT_CODE_OK);
    read_model(exported.path);
    check_graph("normed");
    assert_int_equal(count_nodes("BatchNormalization"), 4);
    assert_true(constant_number("fc.bn/ones", 3) == 1);
    close_exported(&exported);
    release_model();
}

/* Numbers above 1e18 are refused, and larger factors need a variance of almost 0. */
static const char tiny[] =
    "model tiny\nimage 6x5x3\nclasses 4\nconv2d conv filters 4 kernel 3\nbatch_norm bn epsilon 1e-30\n"
    "dense fc units classes\nsoftmax_loss loss\n";

static void open_tiny(struct exported *exported, float mean, float weight)
{
    open_text(exported, tiny);
    change_weight(exported->subject.weights_path, exported->net, "bn.weight", 1, 1e18f);
    change_weight(exported->subject.weights_path, exported->net, "bn.running_var", 1, 0);
    change_weight(exported->subject.weights_path, exported->net, "bn.running_mean", 1, mean);
    change_weight(exported->subject.weights_path, exported->net, "conv.weight", 30, weight);
}

TEST_IN_FOLDER(numbers_that_no_float_holds_are_not_folded)
{
    struct exported exported;
    open_tiny(&exported, 1e18f, 1);
    assert_int_equal(export(&exported), EXIT_CODE_OK);
    read_model(exported.path);
    assert_int_equal(count_nodes("BatchNormalization"), 1);
    assert_true(constant_number("conv.weight", 40) == number_of(parameter_of(exported.net, "conv.weight"), 40));
    close_exported(&exported);
    release_model();
}

TEST_IN_FOLDER(a_folded_weight_that_is_too_large_is_refused_and_nothing_is_left)
{
    struct exported exported;
    open_tiny(&exported, 0, 1e18f);
    assert_int_equal(export(&exported), EXIT_CODE_DATA);
    assert_int_equal(file_count(), 1);
    exported.subject.options.keeps_norms = true;
    assert_int_equal(export(&exported), EXIT_CODE_OK);
    close_exported(&exported);
}

TEST_IN_FOLDER(weights_that_are_not_finite_and_variances_below_0_are_refused)
{
    static const struct { const char *name; float number; } cases[] = {
        { "conv.weight", NAN },      { "fc.weight", INFINITY }, { "bn.running_var", -1e-3f },
        { "sum.bn.running_var", -1 }, { "bn.running_mean", NAN }, { "conv.bias", -INFINITY },
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        struct exported exported;
        open_text(&exported, normed);
        exported.subject.options.keeps_norms = i % 2;
        change_weight(exported.subject.weights_path, exported.net, cases[i / 2].name, 1, cases[i / 2].number);
        assert_int_equal(export(&exported), EXIT_CODE_DATA);
        assert_int_equal(file_count(), 1);
        close_exported(&exported);
    }
}

TEST(factors_of_a_subnormal_gamma_and_of_variance_0_are_exact)
{
    const float gamma[] = { 1e-45f, -0.0f, 2 }, beta[] = { 1, -0.0f, 3 }, mean[] = { 1, 0, 5 };
    const float variance[] = { 1, 1, 0 };
    const struct norm_numbers norm = { 3, 0.25f, gamma, beta, mean, variance };
    double factors[3];
    float bias[3], weights[] = { 1, -2, 3, 4, 0.5f, -0.0f };
    folded_norm_factors(&norm, factors);
    assert_true(factors[0] == gamma[0] / sqrt(1.25) && factors[1] == 0 && factors[2] == 4);
    assert_true(folded_norm_bias(&norm, factors, NULL, bias));
    assert_true(bias[0] == 1 && bias[1] == 0 && bias[2] == 3 - 5 * 4);
    assert_true(folded_norm_scale(weights, factors, 3, 2));
    assert_true(weights[0] == (float)(1e-45f / sqrt(1.25)) && weights[4] == 2 && signbit(weights[5]));
}

TEST_IN_FOLDER(layers_of_training_and_what_only_they_read_are_left_out)
{
    struct exported exported;
    open_text(&exported, "model aside\nimage 6x5x3\nclasses 4\n"
                         "conv2d conv filters 4 kernel 3\nstochastic_depth depth rate 0.5\n"
                         "conv2d side filters 5 kernel 1\ndense side.fc units classes\nauxiliary_loss aux weight 0.5\n"
                         "dropout drop from depth rate 0.5\nlayer_norm ln\nglobal_average mean\ndense logits units classes\n"
                         "softmax_loss loss\n");
    assert_int_equal(export(&exported), EXIT_CODE_OK);
    read_model(exported.path);
    check_graph("aside");
    assert_int_equal(model.opset, 17);
    assert_int_equal(count_nodes("Gemm"), 1);
    assert_int_equal(count_nodes("GlobalAveragePool"), 1);
    assert_null(find_constant("side.weight"));
    assert_null(find_constant("side.fc.bias"));
    close_exported(&exported);
    release_model();
}

static void read_nodes(const struct onnx_graph *graph)
{
    release_model();
    read_graph((struct range){ graph->nodes.bytes, graph->nodes.bytes + graph->nodes.count });
    for (size_t i = 0; i < graph->constant_count; i++)
        snprintf(model.constants[model.constant_count++].name, ONNX_NAME_BYTES, "%s", graph->constants[i].name);
}

TEST_IN_FOLDER(the_graph_of_every_model_is_complete)
{
    for (const struct model *row = model_table; row->name != NULL; row++) {
        struct net *net;
        struct exported exported;
        struct onnx_graph graph;
        const struct model_options options = { .dropout = true, .auxiliary = true };
        assert_int_equal(model_open(&net, row->name, &options), 0);
        open_net(&exported, net, false);
        assert_int_equal(onnx_graph_init(&graph, &exported.subject), EXIT_CODE_OK);
        read_nodes(&graph);
        check_graph(row->name);
        onnx_graph_release(&graph);
        close_exported(&exported);
    }
    release_model();
}

/* 2.4 GB of weights, all of which are holes of the file. */
TEST_IN_FOLDER(a_model_above_2_gib_is_refused_before_anything_is_written)
{
    struct exported exported;
    open_net(&exported, read_net("model large\nimage 100x100x3\nclasses 20000\ndense fc units classes\nsoftmax_loss loss\n"),
             false);
    assert_int_equal(export(&exported), EXIT_CODE_USAGE);
    assert_int_equal(file_count(), 1);
    close_exported(&exported);
}

TEST_IN_FOLDER(a_limit_of_file_sizes_leaves_nothing)
{
    struct exported exported;
    struct rlimit before;
    open_text(&exported, normed);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 2500; limit += 100) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ limit, before.rlim_max }), 0);
        const int code = export(&exported);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(code, EXIT_CODE_OUTPUT);
        assert_int_equal(file_count(), 1);
    }
    signal(SIGXFSZ, SIG_DFL);
    close_exported(&exported);
}

TEST_IN_FOLDER(only_a_regular_file_is_replaced_and_only_if_that_is_asked_for)
{
    struct export_output output;
    char path[512], link[512], fifo[512];
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "out"));
    snprintf(link, sizeof(link), "%s", fixture_path(folder, "link"));
    snprintf(fifo, sizeof(fifo), "%s", fixture_path(folder, "fifo"));
    fixture_write_text(path, "old");
    assert_int_equal(symlink("out", link), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(export_output_init(&output, path, false), EXIT_CODE_OUTPUT);
    assert_int_equal(export_output_init(&output, link, true), EXIT_CODE_OUTPUT);
    assert_int_equal(export_output_init(&output, fifo, true), EXIT_CODE_OUTPUT);
    assert_int_equal(export_output_init(&output, folder, true), EXIT_CODE_OUTPUT);
    assert_int_equal(export_output_init(&output, "/dev/null", true), EXIT_CODE_OUTPUT);
    assert_int_equal(export_output_init(&output, path, true), EXIT_CODE_OK);
    assert_int_equal(export_output_write(&output, "new", 3), EXIT_CODE_OK);
    export_output_release(&output);
    size_t bytes;
    char *content = (char *)fixture_read(path, &bytes);
    assert_memory_equal(content, "old", 3);
    free(content);
    assert_int_equal(export_output_init(&output, path, true), EXIT_CODE_OK);
    assert_int_equal(export_output_write(&output, "new", 3), EXIT_CODE_OK);
    assert_int_equal(export_output_finish(&output), EXIT_CODE_OK);
    export_output_release(&output);
    content = (char *)fixture_read(path, &bytes);
    assert_memory_equal(content, "new", 3);
    free(content);
    assert_int_equal(file_count(), 3);
}

TESTS_MAIN(NULL, NULL)
