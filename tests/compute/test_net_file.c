/* Tests of networks as texts: what is read, what is refused and in which words, and that every model comes back. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/netfile/net_file.h"
#include "compute/netfile/net_text.h"
#include "tests/helpers/network/net_compare.h"
#include "tests/helpers/test.h"

#define HEAD "model m\nimage 8x8x3\nclasses 4\n"
#define TAIL "dense fc units classes\nsoftmax_loss loss\n"

/* "LINE: PROBLEM\n" for each. */
struct told { char text[4096]; };

static void tell(void *arg, uint32_t line, const char *problem)
{
    struct told *const told = arg;
    const size_t used = strlen(told->text);
    snprintf(told->text + used, sizeof(told->text) - used, "%u: %s\n", line, problem);
}

static int read_text(struct net **net_out, const char *text, const struct model_options *options, struct told *told)
{
    const struct net_file_sink sink = { tell, told };
    told->text[0] = '\0';
    return net_file_read(net_out, text, strlen(text), options, &sink);
}

static struct net *read_good(const char *text)
{
    struct net *net = NULL;
    struct told told;
    const int rc = read_text(&net, text, &(struct model_options){ .dropout = true }, &told);
    assert_string_equal(told.text, "");
    assert_int_equal(rc, 0);
    return net;
}

static void assert_told(const char *text, const char *problems)
{
    struct net *net = NULL;
    struct told told;
    assert_int_equal(read_text(&net, text, &(struct model_options){ .dropout = true }, &told), -EINVAL);
    assert_null(net);
    assert_string_equal(told.text, problems);
}

static void assert_same(const struct net *a, const struct net *b)
{
    const char *const name = net_difference(a, b);
    if (name != NULL)
        fail_msg("%s: %s is another", a->model, name);
}

static char *write_text(const struct net *net)
{
    char *text = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(net_file_write(net, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void assert_comes_back(const struct net *net)
{
    char *const text = write_text(net);
    struct net *const again = read_good(text);
    assert_same(net, again);
    net_close(again);
    free(text);
}

TEST(every_model_is_printed_and_read_back_to_the_same_graph)
{
    for (const struct model *model = model_table; model->name != NULL; model++)
        for (uint32_t how = 0; how < 4; how++) {
            const struct model_options options = { .classes = (how & 1) != 0 ? 17 : 0, .dropout = (how & 2) != 0,
                                                   .auxiliary = (how & 2) != 0 };
            struct net *net;
            assert_int_equal(model_open(&net, model->name, &options), 0);
            assert_comes_back(net);
            net_close(net);
        }
}

TEST(every_kind_of_layer_can_be_written)
{
    for (enum layer_kind kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        char text[256], problem[256];
        if (kind == LAYER_ACTIVATION)
            continue;           /* its functions have forms of their own */
        snprintf(text, sizeof(text), HEAD "%s x nonsense 1\n" TAIL, layer_kind_name(kind));
        snprintf(problem, sizeof(problem), "4: %s has no 'nonsense'\n", layer_kind_name(kind));
        assert_told(text, problem);
    }
}

TEST(every_activation_can_be_written)
{
    for (enum activation activation = 0; activation < ACTIVATION_COUNT; activation++) {
        char text[256];
        snprintf(text, sizeof(text), HEAD "%s x%s\n" TAIL, activation_name(activation),
                 activation == ACTIVATION_CLIPPED_RELU ? " limit 6" : "");
        struct net *const net = read_good(text);
        assert_int_equal(net->layers[0].kind, LAYER_ACTIVATION);
        assert_int_equal(net->layers[0].activation, activation);
        assert_true(net->layers[0].limit == (activation == ACTIVATION_CLIPPED_RELU ? 6 : 0));
        assert_comes_back(net);
        net_close(net);
    }
}

static float rate_of(const char *number)
{
    char text[256];
    snprintf(text, sizeof(text), HEAD "dropout x rate %s\n" TAIL, number);
    struct net *const net = read_good(text);
    const float rate = net->layers[0].rate;
    assert_comes_back(net);
    net_close(net);
    return rate;
}

TEST(a_number_may_be_a_product_or_quotient)
{
    assert_true(rate_of("0.2*3/16") == (float)(0.2 * 3 / 16));
    assert_true(rate_of("1/4*2") == 0.5f);
    assert_true(rate_of("1/3/3") == (float)(1. / 3 / 3));
    assert_true(rate_of("1e300*1e-300/2") == 0.5f);
    assert_true(rate_of("-0.5*-1") == 0.5f);
    struct net *const net = read_good(HEAD "repeat 3 as i\nconv2d c{i} filters 6*{i}/2 kernel 1\n"
                                      "dropout d{i} rate 0.2*{i}/16\nend\n" TAIL);
    assert_int_equal(net->layers[4].out.channels, 9);
    assert_true(net->layers[5].rate == (float)(0.2 * 3 / 16));
    assert_comes_back(net);
    net_close(net);
}

/* The input with a number per channel becomes the second, whichever comes first in the text. */
TEST(the_inputs_of_multiply_may_come_in_either_order)
{
    struct net *const one = read_good(HEAD "relu x\nglobal_average s\nmultiply m from x,s\n" TAIL);
    struct net *const other = read_good(HEAD "relu x\nglobal_average s\nmultiply m from s,x\n" TAIL);
    assert_same(one, other);
    assert_int_equal(one->layers[2].inputs[1], 1);
    assert_int_equal(one->layers[2].out.height, 8);
    assert_comes_back(one);
    net_close(one);
    net_close(other);
}

TEST(every_layer_has_the_words_of_its_function)
{
    struct net *const read = read_good(
        "model m # of many kinds\nimage 9x8x3\nclasses 4\ntransform divisor 127.5 mean 1 deviation 1,2,3\n\n"
        "conv2d a filters 8 kernel 3x1 stride 2x1 padding 1,0,0,0 no_bias init weight variance_scaling\n"
        "batch_norm b decay 0.997 epsilon 0.001 no_gamma init beta constant 0.1\n"
        "relu c\nlocal_response_norm d size 5 alpha 0.002 beta 0.5 k 2\n"
        "max_pool e kernel 2\naverage_pool f from d kernel 2 padding valid\nconcat g from e,f\n"
        "pad_channels h channels 20 stride 1\nconv2d i filters 20 kernel 1 groups 4 from g "
        "init bias normal 0.5\n"
        "add j from h,before\n"
        "dense k units classes no_bias\nauxiliary_loss l weight 0.4\n"
        "relu j1 limit 4.5 from j\nmultiply j2 from j1,j\nglobal_average m from j2\ndropout n rate 0.25\n"
        "layer_norm o\nscale p init gamma constant 1e-6\nstochastic_depth q rate 0.125\n"
        "layer_norm r epsilon 0.5 init beta constant 0.25\ndense fc units 4\nsoftmax_loss loss\n");
    struct net *made;
    assert_int_equal(net_open(&made, "m", (struct shape){ 3, 9, 8 }, 4), 0);
    net_transform(made, 127.5f, (const float[]){ 1, 1, 1 }, (const float[]){ 1, 2, 3 });
    const struct window tall = { 3, 1, 2, 1, PADDING_EXPLICIT, .top = 1 };
    const int64_t a = net_conv2d(made, "a", NET_INPUT, 8, tall, false);
    net_initialize(made, a, PARAMETER_WEIGHT, initializer_variance_scaling(9));
    const int64_t b = net_batch_norm(made, "b", (uint32_t)a, (struct batch_norm){ 0.997, 0.001f, false });
    net_initialize(made, b, PARAMETER_BETA, (struct initializer){ INITIALIZER_CONSTANT, 0.1f });
    net_relu(made, "c", (uint32_t)b);
    net_local_response_norm(made, "d", 2, (struct local_response_norm){ 5, 0.002f, 0.5f, 2 });
    net_max_pool(made, "e", 3, window_square(2, 2, PADDING_VALID));
    net_average_pool(made, "f", 3, window_square(2, 2, PADDING_VALID));
    net_concat(made, "g", (const uint32_t[]){ 4, 5 }, 2);
    net_pad_channels(made, "h", 6, 20, 1);
    const struct conv2d grouped = { 20, 4, window_square(1, 1, PADDING_VALID), true };
    const int64_t i = net_grouped_conv2d(made, "i", 6, grouped);
    net_initialize(made, i, PARAMETER_BIAS, (struct initializer){ INITIALIZER_NORMAL, 0.5f });
    net_add(made, "j", 7, 8);
    net_dense(made, "k", 9, 4, false);
    net_auxiliary_loss(made, "l", 10, 0.4f);
    net_clipped_relu(made, "j1", 9, 4.5f);
    net_multiply(made, "j2", 12, 9);
    net_global_average(made, "m", 13);
    net_dropout(made, "n", 14, 0.25f);
    net_layer_norm(made, "o", 15, 1e-6f);
    const int64_t p = net_scale(made, "p", 16);
    net_initialize(made, p, PARAMETER_GAMMA, (struct initializer){ INITIALIZER_CONSTANT, 1e-6f });
    net_stochastic_depth(made, "q", 17, 0.125f);
    const int64_t r = net_layer_norm(made, "r", 18, 0.5f);
    net_initialize(made, r, PARAMETER_BETA, (struct initializer){ INITIALIZER_CONSTANT, 0.25f });
    net_softmax_loss(made, "loss", (uint32_t)net_dense(made, "fc", 19, 4, true));
    assert_int_equal(net_finish(made), 0);
    assert_same(made, read);
    assert_comes_back(made);
    net_close(made);
    net_close(read);
}

/* The convolution has 27 numbers in and 72 out, the dense layer 8 and 4; 0.8796 is the std of a standard normal that is
 * truncated at 2. */
TEST(rules_of_fans_are_those_of_keras_and_one_of_torchvision)
{
    const struct { const char *word; enum initializer_kind kind; double conv, dense; } rows[] = {
        { "variance_scaling", INITIALIZER_TRUNCATED_NORMAL, sqrt(1. / 27) / 0.87962566, sqrt(1. / 8) / 0.87962566 },
        { "he_normal", INITIALIZER_TRUNCATED_NORMAL, sqrt(2. / 27) / 0.87962566, sqrt(2. / 8) / 0.87962566 },
        { "he_normal_fan_out", INITIALIZER_NORMAL, sqrt(2. / 72), sqrt(2. / 4) },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[512];
        snprintf(text, sizeof(text), "model m\nimage 3x3x3\nclasses 4\nconv2d a filters 8 kernel 3 init weight %s\n"
                 "dense b units 4 init weight %s\nsoftmax_loss loss\n", rows[i].word, rows[i].word);
        struct net *const net = read_good(text);
        const struct initializer conv = net->parameters[0].initializer, dense = net->parameters[2].initializer;
        assert_int_equal(conv.kind, rows[i].kind);
        assert_int_equal(dense.kind, rows[i].kind);
        assert_true(fabs(conv.value - rows[i].conv) < 1e-6 && fabs(dense.value - rows[i].dense) < 1e-6);
        char *const written = write_text(net);
        snprintf(text, sizeof(text), " init weight %s\n", rows[i].word);
        assert_non_null(strstr(written, text));
        assert_comes_back(net);
        free(written);
        net_close(net);
    }
}

TEST(a_transform_is_set_by_its_own_line_alone)
{
    const struct { const char *text; bool is_set; } rows[] = {
        { HEAD TAIL, false },
        { HEAD "transform divisor 255\n" TAIL, true },
        { HEAD " \ttransform\tmean 1\r\n" TAIL, true },
        { "transform mean 1\n" HEAD TAIL, true },
        { HEAD "# transform mean 1\n" TAIL, false },
        { "model transform\nimage 8x8x3\nclasses 4\n" TAIL, false },
        { HEAD "relu transform1\n" TAIL, false },
        { "", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (net_file_has_transform(rows[i].text, strlen(rows[i].text)) != rows[i].is_set)
            fail_msg("%s", rows[i].text);
}

static uint32_t count_lines(const char *text)
{
    uint32_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* The header is five lines. */
static void assert_printed(const char *model, uint32_t most_lines)
{
    struct net *net;
    assert_int_equal(model_open(&net, model, &(const struct model_options){ .dropout = true }), 0);
    char *const text = write_text(net);
    const uint32_t lines = count_lines(text);
    if (lines > most_lines)
        fail_msg("%s: %u layers are %u lines, more than %u", model, net->layer_count, lines, most_lines);
    free(text);
    net_close(net);
}

TEST(layers_that_repeat_themselves_are_printed_once)
{
    assert_printed("resnet110_v1", 60);
    assert_printed("resnet110_v2", 60);
    assert_printed("densenet100_k12", 50);
    assert_printed("torchvision_resnet152", 120);
}

TEST(a_last_convolution_has_as_many_filters_as_there_are_classes)
{
    struct net *net;
    assert_int_equal(model_open(&net, "squeezenet1_1", &(struct model_options){ .classes = 64, .dropout = true }), 0);
    char *const text = write_text(net);
    assert_non_null(strstr(text, "conv2d features.0 filters 64 "));
    assert_non_null(strstr(text, "conv2d classifier.1 filters classes "));
    free(text);
    net_close(net);
}

static void assert_printed_as(const char *lines, const char *printed)
{
    char text[2048];
    snprintf(text, sizeof(text), HEAD "%s" TAIL, lines);
    struct net *const net = read_good(text);
    char *const written = write_text(net);
    snprintf(text, sizeof(text), HEAD "transform divisor 255\n\n%s" TAIL, printed);
    assert_string_equal(written, text);
    free(written);
    net_close(net);
}

/* What counts is a number that is one more in every turn, everywhere the same; what is read is said as seen from the
 * turn. */
TEST(only_lines_that_differ_in_a_counter_are_a_repeat)
{
    assert_printed_as("relu a7\nrelu a8\nrelu a9\nrelu a10\n", "repeat 4 as i from 7\n    relu a{i}\nend\n");
    assert_printed_as("relu a7\nrelu a8\nrelu a9\n", "relu a7\nrelu a8\nrelu a9\n");
    assert_printed_as("relu a1\nrelu a3\nrelu a5\nrelu a7\n", "relu a1\nrelu a3\nrelu a5\nrelu a7\n");
    assert_printed_as("relu s\nrelu a8\nadd b8 from a8,s\nrelu a9\nadd b9 from a9,s\nrelu a10\nadd b10 from a10,s\n"
                      "relu a11\nadd b11 from a11,s\n",
                      "relu s\nrelu a8\nadd b8 from a8,s\nrepeat 3 as i from 9\n    relu a{i}\n"
                      "    add b{i} from before,s\nend\n");
    assert_printed_as("relu a01\nrelu a02\nrelu a03\nrelu a04\n", "relu a01\nrelu a02\nrelu a03\nrelu a04\n");
    assert_printed_as("relu a1.2\nrelu a2.3\nrelu a3.4\nrelu a4.5\n", "relu a1.2\nrelu a2.3\nrelu a3.4\nrelu a4.5\n");
    assert_printed_as("relu s\nrelu a1\nadd b1 from a1,s\nrelu a2\nadd b2 from a2,b1\nrelu a3\nadd b3 from a3,b2\n",
                      "relu s\nrepeat 3 as i\n    relu a{i}\n    add b{i} from before,start\nend\n");
    assert_printed_as("relu s\nrelu a1\nadd b1 from a1,s\nrelu a2\nadd b2 from a2,s\nrelu a3\nadd b3 from a3,s\n"
                      "relu a4\nadd b4 from a4,s\n",
                      "relu s\nrelu a1\nadd b1 from a1,s\nrepeat 3 as i from 2\n    relu a{i}\n"
                      "    add b{i} from before,s\nend\n");
}

TEST(a_count_is_any_whole_number_from_its_least_to_the_most)
{
    static const struct { const char *text; uint32_t least; bool is_read; } rows[] = {
        { "0", 0, true }, { "0", 1, false }, { "1", 1, true }, { "007", 1, true }, { "2147483646", 1, true },
        { "2147483647", 1, true }, { "2147483648", 1, false }, { "4294967297", 1, false },
        { "18446744073709551617", 1, false }, { "", 0, false }, { "+1", 0, false }, { "-1", 0, false }, { " 1", 0, false },
        { "1 ", 0, false }, { "1x", 0, false }, { ":", 0, false }, { "/", 0, false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint32_t count = 99;
        if (net_read_whole(rows[i].text, rows[i].least, &count) != rows[i].is_read)
            fail_msg("'%s'", rows[i].text);
        if (rows[i].is_read)
            assert_int_equal(count, strtoul(rows[i].text, NULL, 10));
    }
}

TEST(any_float_comes_back)
{
    uint32_t bits = 1;
    for (int i = 0; i < 2000; i++) {
        float number;
        bits = bits * 1664525u + 1013904223u;
        const uint32_t finite = bits % 0x7f800000u;
        memcpy(&number, &finite, sizeof(number));
        struct net *const net = read_good(HEAD TAIL);
        net->parameters[0].initializer = (struct initializer){ INITIALIZER_UNIFORM, number };
        assert_comes_back(net);
        net_close(net);
    }
}

TEST(a_repeat_is_its_lines_so_many_times)
{
    struct net *const short_one = read_good(
        HEAD "conv2d stem filters 8 kernel 3 padding same\n"
        "repeat 2 as s\n repeat 3 as i from 0\n  conv2d b{s}.{i}.conv1 filters 8 kernel 3 padding same\n"
        "  relu b{s}.{i}.relu\n  conv2d b{s}.{i}.conv2 filters 8 kernel {s} padding same\n"
        "  add b{s}.{i}.add from before,start\n end\nend\n" TAIL);
    char text[4096] = HEAD "conv2d stem filters 8 kernel 3 padding same\n", before[48] = "stem";
    for (int s = 1; s <= 2; s++)
        for (int i = 0; i < 3; i++) {
            char name[32];
            snprintf(name, sizeof(name), "b%d.%d", s, i);
            snprintf(text + strlen(text), sizeof(text) - strlen(text),
                     "conv2d %s.conv1 filters 8 kernel 3 padding same\nrelu %s.relu\n"
                     "conv2d %s.conv2 filters 8 kernel %d padding same\nadd %s.add from %s.conv2,%s\n",
                     name, name, name, s, name, name, before);
            snprintf(before, sizeof(before), "%s.add", name);
        }
    strcat(text, TAIL);
    struct net *const long_one = read_good(text);
    assert_int_equal(long_one->layer_count, 1 + 6 * 4 + 2);
    assert_same(long_one, short_one);
    net_close(long_one);
    net_close(short_one);
}

TEST(options_are_those_of_a_model_by_name)
{
    static const char text[] = HEAD "conv2d a filters 2 kernel 1\ndropout b rate 0.5\nrelu c from b\n" TAIL;
    const struct input_transform transform = { .divisor = 2, .is_plain = true };
    struct net *net;
    struct told told;
    assert_int_equal(read_text(&net, text, &(struct model_options){ .classes = 7, .transform = &transform }, &told), 0);
    assert_int_equal(net->classes, 7);
    assert_int_equal(net->layer_count, 4);
    assert_int_equal(net->layers[1].inputs[0], 0);
    assert_int_equal(net->layers[2].out.channels, 7);
    assert_true(net->transform.divisor == 2.0f);
    net_close(net);
}

TEST(all_that_is_wrong_is_reported_with_its_line_and_nothing_that_follows_from_it)
{
    assert_told(HEAD "conv a filters 8 kernel 3\n"                             /* 4 */
                "relu b\nconv2d c filter 8 kernel 3\nrelu d from a\n"           /* 5, 6, 7 */
                "conv2d e from image filters 8 kernel 9\nadd f from e,d\n"      /* 8, 9 */
                "max_pool pool from image kernel 0 stride two\n"                /* 10 */
                "relu h from poll\nrelu h from image\nrelu h\n"                 /* 11, 12, 13 */
                "dropout image rate 0.5\nbatch_norm i from image decay 2\n"     /* 14, 15 */
                "dense j from nothing\n" TAIL,                                  /* 16 */
                "4: there is no layer 'conv' (did you mean 'conv2d'?)\n"
                "6: conv2d has no 'filter' (did you mean 'filters'?)\n"
                "8: layer 'e': a 9x9 window with stride 1x1 does not fit on 8x8 (on images of 9x9 or more it would)\n"
                "10: kernel: '0' is neither a whole number above 0 nor HEIGHTxWIDTH\n"
                "10: stride: 'two' is neither a whole number above 0 nor HEIGHTxWIDTH\n"
                "11: no layer above is called 'poll' (did you mean 'pool'?)\n"
                "12: another layer is called 'h' (line 11)\n13: another layer is called 'h' (line 11)\n"
                "14: 'image' is a reserved word and cannot name a layer\n"
                "15: layer 'i': decay 2 is not in [0, 1], or epsilon 1e-05 is not above 0\n"
                "16: dense needs 'units'\n16: no layer above is called 'nothing'\n");
}

TEST(lines_below_a_mistake_are_checked_where_it_says_nothing_of_their_shapes)
{
    assert_told(HEAD "conv2d a filters 8 kernel 3\ndropout b rate 1.5\nrelu c form 1\nbatch_norm a\n" /* 4 to 7 */
                "max_pool d kernel 7\n" TAIL, /* 8 */
                "5: layer 'b': dropout rate 1.5 is not in [0, 1)\n6: relu has no 'form' (did you mean 'from'?)\n"
                "7: another layer is called 'a' (line 4)\n"
                "8: layer 'd': a 7x7 window with stride 7x7 does not fit on 6x6 (on images of 9x9 or more it would)\n");
    assert_told(HEAD "conv2d a filters 0 kernel 3\ndropout b rate 2\nrelu c\nmax_pool d kernel 99\n" /* 4 to 7 */
                "batch_norm e decay 7 from nothing\n" TAIL, /* 8 */
                "4: filters: '0' is no whole number from 1 to 2147483647\n"
                "5: layer 'b': dropout rate 2 is not in [0, 1)\n8: no layer above is called 'nothing'\n"
                "8: layer 'e': decay 7 is not in [0, 1], or epsilon 1e-05 is not above 0\n");
    assert_told(HEAD "dense a units classes\nauxiliary_loss b weight 1\nrelu c\nrelu d\n" TAIL,
                "6: layer 'c': reads a loss\n");
}

static void assert_line(const char *line, const char *problem)
{
    char text[512], problems[512];
    snprintf(text, sizeof(text), HEAD "conv2d abc filters 8 kernel 3\n%s\n" TAIL, line);
    snprintf(problems, sizeof(problems), "5: %s\n", problem);
    assert_told(text, problems);
}

TEST(every_mistake_in_a_line_has_its_words)
{
    static const struct { const char *line, *problem; } rows[] = {
        { "relu", "the layer's name is missing after 'relu'" },
        { "conv2d filters 8 kernel 3", "the layer's name is missing after 'conv2d'" },
        { "conv2d b kernel 3", "conv2d needs 'filters'" },
        { "relu a,b", "'a,b' is no name of a layer (1 to 47 of A-Z a-z 0-9 . _ -)" },
        { "relu abc", "another layer is called 'abc' (line 4)" },
        { "relu start", "'start' is a reserved word and cannot name a layer" },
        { "relu b from abd", "no layer above is called 'abd' (did you mean 'abc'?)" },
        { "relu b from abc,image", "relu reads 1 layer, not 2" },
        { "relu b from start", "'start' can be used only inside a repeat" },
        { "add b from abc", "add reads 2 layers, not 1" },
        { "add b", "add needs 'from'" },
        { "concat b from image,image,image,image,image,image,image,image,image",
          "from: 'image' names more layers than a layer can read" },
        { "conv2d b filters 12 kernel 1 groups 3",
          "layer 'b': groups 3 does not divide 8 input channels and 12 filters (2 or 4 would)" },
        { "conv2d b filters 12 kernel 1 groups 0", "groups: '0' is no whole number from 1 to 2147483647" },
        { "relu b groups 2", "relu has no 'groups'" },
        { "relu b kernel 3", "relu has no 'kernel'" },
        { "max_pool b kernal 3", "max_pool has no 'kernal' (did you mean 'kernel'?)" },
        { "batch_norm b momentum 0.1", "batch_norm has no 'momentum': decay is the share of the average that stays: "
          "1 - momentum of PyTorch (its 0.1 is decay 0.9), momentum of Keras (its 0.99 is decay 0.99)" },
        { "relu b momentum 0.1", "relu has no 'momentum'" },
        { "max_pool b kernel 3x", "kernel: '3x' is neither a whole number above 0 nor HEIGHTxWIDTH" },
        { "max_pool b kernel", "kernel: the value is missing" },
        { "max_pool b kernel 3 padding 1,1", "padding: '1,1' is none of: valid, same, PIXELS, TOP,BOTTOM,LEFT,RIGHT" },
        { "max_pool b kernel 3 kernel 3", "'kernel' is given twice" },
        { "dropout b rate 1", "layer 'b': dropout rate 1 is not in [0, 1)" },
        { "dropout b rate 1e99", "rate: '1e99' is not a finite number, product or quotient (as 0.2*3/16)" },
        { "dropout b rate 0.5*", "rate: '0.5*' is not a finite number, product or quotient (as 0.2*3/16)" },
        { "dropout b rate 0.5**2", "rate: '0.5**2' is not a finite number, product or quotient (as 0.2*3/16)" },
        { "dropout b rate /2", "rate: '/2' is not a finite number, product or quotient (as 0.2*3/16)" },
        { "dropout b rate 1/0", "rate: '1/0' is not a finite number, product or quotient (as 0.2*3/16)" },
        { "dropout b rate 0/0", "rate: '0/0' is not a finite number, product or quotient (as 0.2*3/16)" },
        { "dropout b rate 1e300*1e300/1e300",
          "rate: '1e300*1e300/1e300' is not a finite number, product or quotient (as 0.2*3/16)" },
        { "dropout b rate 2*3/4", "layer 'b': dropout rate 1.5 is not in [0, 1)" },
        { "dense b units 7/2", "units: '7/2' is no whole number from 1 to 2147483647" },
        { "dense b units 65536*65536", "units: '65536*65536' is no whole number from 1 to 2147483647" },
        { "dense b units 4*", "units: '4*' is no whole number from 1 to 2147483647" },
        { "relu b limit 0", "layer 'b': limit 0 is not above 0 (6 makes a ReLU6)" },
        { "relu b limit six", "limit: 'six' is not a finite number, product or quotient (as 0.2*3/16)" },
        { "silu b limit 6", "silu has no 'limit'" },
        { "activation b", "there is no layer 'activation' (doc/model-files.md lists all)" },
        { "tanh b", "there is no layer 'tanh' (doc/model-files.md lists all)" },
        { "swish b", "there is no layer 'swish' (did you mean 'silu'?)" },
        { "relu6 b", "there is no layer 'relu6' (did you mean 'relu NAME limit 6'?)" },
        { "drop_path b rate 0.1", "there is no layer 'drop_path' (did you mean 'stochastic_depth'?)" },
        { "linear b units 4", "there is no layer 'linear' (did you mean 'dense'?)" },
        { "multiply b from abc", "multiply reads 2 layers, not 1" },
        { "multiply b from abc,image", "layer 'b': multiplies 8x6x6 values by 3x8x8 (8x6x6 or 8x1x1 would fit)" },
        { "dense b units 4294967296", "units: '4294967296' is no whole number from 1 to 2147483647" },
        { "dense b units 4 init gamma constant 1", "layer 'b': has no gamma to initialise" },
        { "dense b units 4 init weights constant 1",
          "init: 'weights' is none of: weight, bias, gamma, beta, running_mean, running_variance" },
        { "dense b units 4 init weight constant", "init: 'constant' is not followed by its number" },
        { "dense b units 4 init weight normal -1", "init: '-1' is below 0" },
        { "dense b units 4 init bias variance_scaling", "layer 'b': only weights have a fan-in or fan-out" },
        { "batch_norm b init running_variance constant -1",
          "layer 'b': a running variance is not below 0: write constant and a number from 0 on" },
        { "batch_norm b init running_variance normal 1",
          "layer 'b': a running variance is not below 0: write constant and a number from 0 on" },
        { "scale b init gamma glorot_uniform", "layer 'b': only weights have a fan-in or fan-out" },
        { "relu b{i}", "there is no counter 'i' here (repeat N as NAME)" },
        { "relu b{i", "'{' is not followed by the name of a counter and '}'" },
        { "relu b{i\tj}", "'{' is not followed by the name of a counter and '}'" },
        { "relu b{}", "'{' is not followed by the name of a counter and '}'" },
        { "end", "end without a repeat" },
        { "repeat 2", "this repeat has no end" },
        { "transform mean 1", "this line must come before the first layer" },
        { "softmax_loss b", "layer 'b': reads 8x6x6 values for 4 classes" },
        { "relu b\x1b[2J", "only a comment may hold the byte 0x1b" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_line(rows[i].line, rows[i].problem);
}

TEST(a_product_names_what_would_fit_the_larger_layer)
{
    assert_told(HEAD "conv2d abc filters 8 kernel 3\ndense d units 4\nmultiply b from d,abc\n" TAIL,
                "6: layer 'b': multiplies 8x6x6 values by 4x1x1 (8x6x6 or 8x1x1 would fit)\n");
    assert_told(HEAD "dense c units 4\ndense d units 5\nmultiply b from c,d\n" TAIL,
                "6: layer 'b': multiplies 5x1x1 values by 4x1x1 (5x1x1 would fit)\n");
}

TEST(a_mistake_in_a_repeat_is_reported_once)
{
    assert_told(HEAD "repeat 4 as i\nrelu r{i}\nconv2d c{i} filters 3 kernel 0\nend\n" TAIL,
                "6: kernel: '0' is neither a whole number above 0 nor HEIGHTxWIDTH\n");
    assert_told(HEAD "repeat 2 as i\nrelu r\nend\n" TAIL,
                "5: every iteration names its layer 'r': put {i} into the name\n");
    assert_told(HEAD "repeat 1000\nend\n" TAIL, "4: repeat: there is no layer to repeat\n");
    assert_told(HEAD "repeat many as i\nrelu r{i}\nend\nrelu r2 from r7\n" TAIL,
                "4: 'repeat' has to be followed by how often, from 1 to 1024\n");
}

TEST(loops_that_would_never_end_are_refused)
{
    char text[2048] = HEAD;
    for (int i = 0; i < 8; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "repeat 1024 as i%d\n", i);
    strcat(text, "relu r{i0}.{i1}.{i2}.{i3}.{i4}.{i5}.{i6}.{i7}\n");
    for (int i = 0; i < 8; i++)
        strcat(text, "end\n");
    assert_told(text, "12: more than 1024 layers\n");
    /* Lines that make no layer cost nothing for ever either. */
    char blank[2048];
    const int used = snprintf(blank, sizeof(blank), HEAD "repeat 1024 as i\nrelu r{i}\n");
    memset(blank + used, '\n', 1000);
    snprintf(blank + used + 1000, sizeof(blank) - (size_t)used - 1000, "end\n" TAIL);
    assert_told(blank, "888: repeats expand to more than 262144 lines, including lines without a layer\n");
    assert_told(HEAD "repeat 2\nrepeat 2\nrepeat 2\nrepeat 2\nrepeat 2\nrepeat 2\nrepeat 2\nrepeat 2\nrepeat 2\n"
                "end\nend\nend\nend\nend\nend\nend\nend\nend\n" TAIL,
                "4: repeat: there is no layer to repeat\n5: repeat: there is no layer to repeat\n"
                "6: repeat: there is no layer to repeat\n7: repeat: there is no layer to repeat\n"
                "8: repeat: there is no layer to repeat\n9: repeat: there is no layer to repeat\n"
                "10: repeat: there is no layer to repeat\n11: repeat: there is no layer to repeat\n"
                "12: repeats are nested more than 8 deep\n");
}

/* What is found while lines are cut, put together, and looked at as a whole. */
TEST(errors_come_in_the_order_of_the_lines)
{
    assert_told(HEAD "relu a kernel 3\nrepeat 2\nrelu b from c\nend\nend\n"          /* 4 to 8 */
                "relu d\x01\nrelu a\nrelu e\x02\nrelu f 7\n" TAIL,                    /* 9 to 12 */
                "4: relu has no 'kernel'\n6: no layer above is called 'c'\n8: end without a repeat\n"
                "9: only a comment may hold the byte 0x01\n10: another layer is called 'a' (line 4)\n"
                "11: only a comment may hold the byte 0x02\n12: relu has no '7'\n");
}

TEST(a_header_that_is_wrong_is_reported_and_the_layers_are_checked)
{
    assert_told("image 8x8\nclasses 4\nclasses 3\nrelu aaa\ncon2d b\nrelu c from aab\n" TAIL,
                "0: the line 'model NAME' is missing\n1: 'image' has to be followed by HEIGHTxWIDTHxCHANNELS\n"
                "3: 'classes' is given twice (first in line 2)\n5: there is no layer 'con2d' (did you mean 'conv2d'?)\n"
                "6: no layer above is called 'aab' (did you mean 'aaa'?)\n");
    assert_told("", "0: the line 'model NAME' is missing\n0: the line 'image HEIGHTxWIDTHxCHANNELS' is missing\n"
                    "0: the line 'classes NUMBER' is missing\n");
    assert_told(HEAD "transform mean 1,2\n" TAIL,
                "4: mean and deviation take one number, or 3: one for each channel\n");
}

TEST(the_graph_as_a_whole_is_checked)
{
    assert_told(HEAD, "0: there are no layers\n");
    assert_told(HEAD "relu a\nrelu b\nrelu c from a\n" TAIL, "5: nothing reads 'b'\n");
    assert_told(HEAD "relu a\n", "4: the last layer must be softmax_loss\n");
    assert_told(HEAD "global_average a\nconv2d c filters 4 kernel 1\nsoftmax_loss l\nrelu r\nrelu s\n",
                "7: layer 'r': comes after the loss\n");
}

TESTS_MAIN(NULL, NULL)
