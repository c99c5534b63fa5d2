/* Tests of network descriptions: shape rules, the kinds of layers with their parameters and attributes, names, totals,
 * and what is refused. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compute/net.h"
#include "tests/helpers/test.h"

static struct net *net_make(uint32_t channels, uint32_t height, uint32_t width, uint32_t classes)
{
    struct net *net;
    assert_int_equal(net_open(&net, "test", (struct shape){ channels, height, width }, classes), 0);
    return net;
}

static void assert_shape(struct shape shape, uint32_t channels, uint32_t height, uint32_t width)
{
    assert_int_equal(shape.channels, channels);
    assert_int_equal(shape.height, height);
    assert_int_equal(shape.width, width);
}

/* The net refuses the layer, and all that follows, with this word in its message; it is closed. */
static void assert_refused(struct net *net, int64_t result, const char *word)
{
    assert_int_equal(result, -EINVAL);
    assert_non_null(strstr(net_error(net), word));
    assert_int_equal(net_relu(net, "later", NET_INPUT), -EINVAL);
    assert_int_equal(net_finish(net), -EINVAL);
    assert_non_null(strstr(net_error(net), word));
    net_close(net);
}

TEST(same_covers_every_input_with_centred_padding)
{
    for (uint32_t n = 1; n <= 24; n++)
        for (uint32_t k = 1; k <= 7; k++)
            for (uint32_t s = 1; s <= 4; s++) {
                struct net *net = net_make(3, n, 9, 2);
                assert_int_equal(net_conv2d(net, "conv", NET_INPUT, 5, window_square(k, s, PADDING_SAME), true), 0);
                const struct layer *l = &net->layers[0];
                const uint32_t reach = (l->out.height - 1) * s + k;
                assert_int_equal(l->out.height, (n + s - 1) / s);
                assert_int_equal(l->pad_top + l->pad_bottom, reach > n ? reach - n : 0);
                assert_true(l->pad_bottom == l->pad_top || l->pad_bottom == l->pad_top + 1);
                net_close(net);
            }
}

TEST(valid_windows_lie_inside_the_input)
{
    for (uint32_t n = 1; n <= 24; n++)
        for (uint32_t k = 1; k <= 7; k++)
            for (uint32_t s = 1; s <= 4; s++) {
                struct net *net = net_make(3, 9, n, 2);
                const int64_t layer = net_max_pool(net, "pool", NET_INPUT, window_square(k, s, PADDING_VALID));
                const struct layer *l = &net->layers[0];
                assert_int_equal(layer, k <= n && k <= 9 ? 0 : -EINVAL);
                if (layer == 0) {
                    assert_true((l->out.width - 1) * s + k <= n);
                    assert_true(l->out.width * s + k > n);
                    assert_int_equal(l->pad_left + l->pad_right + l->pad_top + l->pad_bottom, 0);
                }
                net_close(net);
            }
}

struct padding_row { uint32_t n, kernel, stride, out, before, after; };

TEST(same_padding_is_asymmetric_where_the_total_is_odd)
{
    static const struct padding_row rows[] = {
        { 32, 3, 2, 16, 0, 1 }, { 16, 3, 2, 8, 0, 1 }, { 112, 3, 2, 56, 0, 1 },
        { 14, 3, 2, 7, 0, 1 }, { 224, 7, 2, 112, 2, 3 }, { 28, 5, 1, 28, 2, 2 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *net = net_make(1, rows[i].n, rows[i].n, 2);
        net_conv2d(net, "conv", NET_INPUT, 1, window_square(rows[i].kernel, rows[i].stride, PADDING_SAME), true);
        const struct layer *l = &net->layers[0];
        assert_shape(l->out, 1, rows[i].out, rows[i].out);
        assert_int_equal(l->pad_top, rows[i].before);
        assert_int_equal(l->pad_bottom, rows[i].after);
        assert_int_equal(l->pad_left, rows[i].before);
        assert_int_equal(l->pad_right, rows[i].after);
        net_close(net);
    }
}

/* conv1 -> relu1 -> pool -> relu2 -> fc1 -> relu3 -> drop -> fc2 -> loss */
static struct net *net_usual(void)
{
    struct net *net = net_make(3, 13, 10, 4);
    net_conv2d(net, "conv1", NET_INPUT, 8, window_square(3, 2, PADDING_SAME), true);
    net_relu(net, "relu1", 0);
    net_max_pool(net, "pool", 1, window_square(2, 2, PADDING_VALID));
    net_relu(net, "relu2", 2);
    net_dense(net, "fc1", 3, 6, true);
    net_relu(net, "relu3", 4);
    net_dropout(net, "drop", 5, 0.5f);
    net_dense(net, "fc2", 6, 4, true);
    net_softmax_loss(net, "loss", 7);
    return net;
}

TEST(shapes_follow_the_layers)
{
    struct net *net = net_usual();
    assert_int_equal(net_finish(net), 0);
    assert_shape(net->layers[0].out, 8, 7, 5);
    assert_shape(net->layers[2].out, 8, 3, 2);
    assert_shape(net->layers[4].in, 8, 3, 2);
    assert_shape(net->layers[4].out, 6, 1, 1);
    assert_shape(net->layers[8].in, 4, 1, 1);
    net_close(net);
}

TEST(parameters_have_pytorch_names_and_shapes)
{
    static const char *const names[] = { "conv1.weight", "conv1.bias", "fc1.weight",
                                         "fc1.bias", "fc2.weight", "fc2.bias" };
    static const uint32_t shapes[][5] = { { 4, 8, 3, 3, 3 }, { 1, 8 }, { 2, 6, 48 }, { 1, 6 }, { 2, 4, 6 }, { 1, 4 } };
    struct net *net = net_usual();
    assert_int_equal(net_finish(net), 0);
    assert_int_equal(net->parameter_count, 6);
    size_t total = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *parameter = &net->parameters[i];
        assert_string_equal(parameter->name, names[i]);
        assert_int_equal(parameter->rank, shapes[i][0]);
        assert_memory_equal(parameter->dims, &shapes[i][1], shapes[i][0] * sizeof(uint32_t));
        total += parameter->count;
    }
    assert_int_equal(net->trainable_count, total);
    assert_int_equal(total, 8 * 27 + 8 + 6 * 48 + 6 + 4 * 6 + 4);
    assert_int_equal(net->layers[4].parameters[PARAMETER_WEIGHT], 2);
    assert_false(layer_is_trained(&net->layers[2]));
    assert_int_equal(net->parameters[0].fan_in, 27);
    assert_int_equal(net->parameters[0].fan_out, 72);
    net_close(net);
}

TEST(macs_count_convolutions_and_dense_layers)
{
    struct net *net = net_usual();
    assert_int_equal(net_finish(net), 0);
    assert_int_equal(net->layers[0].macs, 7 * 5 * 8 * 27);
    assert_int_equal(net->macs, 7 * 5 * 8 * 27 + 48 * 6 + 6 * 4);
    net_close(net);
}

TEST(a_layer_that_nothing_reads_is_refused)
{
    struct net *net = net_make(1, 4, 4, 2);
    net_dense(net, "fc", NET_INPUT, 2, true);
    net_relu(net, "relu", 0);
    net_relu(net, "other", 0);
    net_softmax_loss(net, "loss", 1);
    assert_int_equal(net_finish(net), -EINVAL);
    assert_non_null(strstr(net_error(net), "'other'"));
    net_close(net);
}

TEST(what_does_not_fit_is_refused_and_named)
{
    struct net *net = net_make(3, 8, 8, 10);
    assert_string_equal(net_error(net), "");
    assert_refused(net, net_conv2d(net, "big", NET_INPUT, 4, window_square(9, 1, PADDING_VALID), true), "'big'");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_conv2d(net, "c", NET_INPUT, 0, window_square(3, 1, PADDING_VALID), true), "0 outputs");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_max_pool(net, "still", NET_INPUT, window_square(2, 0, PADDING_SAME)), "stride 0");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_max_pool(net, "none", NET_INPUT, window_square(0, 1, PADDING_SAME)), "0x0 window");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_dropout(net, "all", NET_INPUT, 1.0f), "rate");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_dropout(net, "nan", NET_INPUT, 0.0f / 0.0f), "rate");
    static const float rates[] = { -0.1f, 1.0f, NAN };
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        net = net_make(3, 4, 4, 10);
        assert_refused(net, net_stochastic_depth(net, "deep", NET_INPUT, rates[i]), "stochastic_depth rate");
    }
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_softmax_loss(net, "loss", NET_INPUT), "10 classes");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_relu(net, "relu", 0), "does not exist");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_relu(net, "", NET_INPUT), "name");
}

static int64_t append_grouped(struct net *net, const char *name, uint32_t filters, uint32_t groups)
{
    const struct window window = window_square(3, 1, PADDING_SAME);
    return net_grouped_conv2d(net, name, NET_INPUT, (struct conv2d){ filters, groups, window, false });
}

/* Fans and counts are those of PyTorch's Conv2d. */
TEST(groups_divide_the_weights_and_multiplications_of_a_convolution)
{
    static const uint32_t groups[] = { 1, 2, 3, 4, 6, 12 };
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        struct net *const net = net_make(12, 8, 7, 10);
        assert_int_equal(append_grouped(net, "conv", 24, groups[i]), 0);
        const struct parameter *const weight = &net->parameters[0];
        const struct layer *const layer = &net->layers[0];
        assert_int_equal(layer->out.channels, 24);
        assert_int_equal(weight->dims[0], 24);
        assert_int_equal(weight->dims[1], 12 / groups[i]);
        assert_int_equal(weight->count, 24 * 12 / groups[i] * 9);
        assert_int_equal(weight->fan_in, 12 / groups[i] * 9);
        assert_int_equal(weight->fan_out, 24 * 9);
        assert_int_equal(layer->macs, 24 * 12 / groups[i] * 9 * 8 * 7);
        assert_int_equal(layer_is_depthwise(layer), groups[i] == 12);
        net_close(net);
    }
}

TEST(groups_that_do_not_divide_are_refused_with_the_nearest_that_do)
{
    static const struct { uint32_t channels, filters, groups; const char *problem; } rows[] = {
        { 8, 12, 3, "groups 3 does not divide 8 input channels and 12 filters (2 or 4 would)" },
        { 8, 12, 16, "groups 16 does not divide 8 input channels and 12 filters (4 would)" },
        { 8, 12, 0, "groups 0 does not divide 8 input channels and 12 filters (1 would)" },
        { 960, 960, 7, "(6 or 8 would)" },
        { 7, 9, 2, "(1 would)" },
        { 32, 48, 32, "filters 48 is no multiple of groups 32 (filters 64 or groups 16 would fit)" },
        { 16, 8, 16, "filters 8 is no multiple of groups 16 (filters 16 or groups 8 would fit)" },
        { NET_COUNT_MAX / 2, 2, 2, "groups 2 does not divide 1073741823 input channels and 2 filters (1 would)" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *const net = net_make(rows[i].channels, 1, 1, 10);
        assert_refused(net, append_grouped(net, "grouped", rows[i].filters, rows[i].groups), rows[i].problem);
    }
}

/* A convolution, the pad and a pool on images of so many pixels: those that the refusal asks for, 0 where it fits. */
static uint32_t image_asked_for(uint32_t side, struct window conv, struct window pool)
{
    uint32_t height = 0, width = 0;
    struct net *net = net_make(3, side, side, 10);
    const int64_t first = net_conv2d(net, "conv", NET_INPUT, 4, conv, false);
    if (first >= 0)
        net_max_pool(net, "pool", (uint32_t)net_pad_channels(net, "pad", (uint32_t)first, 6, 2), pool);
    const char *const images = strstr(net_error(net), "on images of");
    assert_true(net_error(net)[0] == '\0' || images != NULL);
    if (images != NULL) {
        assert_int_equal(sscanf(images, "on images of %ux%u or more", &height, &width), 2);
        assert_int_equal(height, width);
    }
    net_close(net);
    return height;
}

TEST(windows_ask_for_the_smallest_image_that_is_sure_to_fit)
{
    for (uint32_t kernel = 1; kernel < 8; kernel++)
        for (uint32_t stride = 1; stride < 4; stride++) {
            const struct window valid = window_square(kernel, stride, PADDING_VALID);
            const struct window same = window_square(kernel, stride, PADDING_SAME);
            assert_int_equal(image_asked_for(1, valid, same), kernel > 1 ? kernel : 0);
            if (kernel == 1)
                continue;
            const uint32_t least = image_asked_for(kernel, valid, valid);
            assert_int_equal(image_asked_for(least, valid, valid), 0);
            assert_int_equal(image_asked_for(least - 1, valid, valid), least);
            assert_int_equal(image_asked_for(image_asked_for(1, same, valid), same, valid), 0);
        }
}

TEST(padding_as_large_as_the_window_is_distinguished)
{
    const struct window window = { 3, 3, 1, 1, PADDING_EXPLICIT, .left = 3 };
    struct net *net = net_make(3, 8, 8, 10);
    assert_refused(net, net_max_pool(net, "pool", NET_INPUT, window),
                   "padding 0,0,3,0 is not smaller than the 3x3 window");
}

TEST(names_are_unique_and_short_enough)
{
    char name[64];
    struct net *net = net_make(3, 8, 8, 10);
    net_relu(net, "twice", NET_INPUT);
    assert_refused(net, net_relu(net, "twice", 0), "this name");
    memset(name, 'x', sizeof(name));
    name[48] = '\0';
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_relu(net, name, NET_INPUT), "too long");
    name[47] = '\0';
    net = net_make(3, 8, 8, 10);
    assert_int_equal(net_dense(net, name, NET_INPUT, 1, true), 0);
    assert_int_equal(strlen(net->parameters[0].name), 47 + strlen(".weight"));
    net_close(net);
}

TEST(sizes_that_overflow_are_refused)
{
    struct net *net = net_make(UINT32_MAX, UINT32_MAX, UINT32_MAX, 10);
    assert_refused(net, net_relu(net, "relu", NET_INPUT), "impossible shape");
    net = net_make(0, 8, 8, 10);
    assert_refused(net, net_relu(net, "relu", NET_INPUT), "impossible shape");
    net = net_make(1024, 64, 64, 10);
    assert_refused(net, net_dense(net, "wide", NET_INPUT, 1u << 20, true), "do not fit (1 to 511 would)");
    net = net_make(1, 64, 64, 10);
    assert_refused(net, net_conv2d(net, "deep", NET_INPUT, 1u << 30,
                   window_square(1, 1, PADDING_SAME), true), "too large");
    net = net_make(64, 64, 64, 10);
    assert_refused(net, net_conv2d(net, "far", NET_INPUT, 2,
                   window_square(UINT32_MAX, 1, PADDING_SAME), true), "'far'");
    net = net_make(64, 64, 64, 10);
    assert_refused(net, net_conv2d(net, "vast", NET_INPUT, 2,
                   window_square(1u << 20, 1, PADDING_SAME), true), "'vast'");
}

TEST(a_net_ends_in_one_loss_and_has_parameters)
{
    struct net *net = net_make(3, 8, 8, 10);
    assert_int_equal(net_finish(net), -EINVAL);
    net_close(net);
    net = net_make(3, 8, 8, 10);
    net_dense(net, "fc", NET_INPUT, 10, true);
    assert_int_equal(net_finish(net), -EINVAL);
    assert_non_null(strstr(net_error(net), "loss"));
    net_close(net);
    net = net_make(3, 8, 8, 10);
    net_dense(net, "fc", NET_INPUT, 10, true);
    net_softmax_loss(net, "loss", 0);
    assert_refused(net, net_dense(net, "fc2", 1, 10, true), "after the loss");
    net = net_make(10, 1, 1, 10);
    net_softmax_loss(net, "loss", NET_INPUT);
    assert_int_equal(net_finish(net), -EINVAL);
    assert_non_null(strstr(net_error(net), "no parameters"));
    net_close(net);
}

TEST(more_layers_than_there_is_room_for_are_refused)
{
    char name[16];
    struct net *net = net_make(1, 2, 2, 2);
    for (uint32_t i = 0; i < NET_LAYERS_MAX; i++) {
        snprintf(name, sizeof(name), "fc%u", i);
        assert_int_equal(net_dense(net, name, i == 0 ? NET_INPUT : i - 1, 2, true), i);
    }
    assert_refused(net, net_softmax_loss(net, "loss", NET_LAYERS_MAX - 1), "too many");
}

static const struct batch_norm usual = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true };

/* ---- windows ---- */

TEST(a_window_may_be_flat_or_tall)
{
    const struct window flat = { .kernel_h = 1, .kernel_w = 7, .stride_h = 1, .stride_w = 2, .padding = PADDING_SAME };
    const struct window tall = { .kernel_h = 5, .kernel_w = 1, .stride_h = 2, .stride_w = 1, .padding = PADDING_VALID };
    struct net *const net = net_make(3, 17, 16, 10);
    assert_int_equal(net_conv2d(net, "flat", NET_INPUT, 6, flat, true), 0);
    assert_int_equal(net_max_pool(net, "tall", 0, tall), 1);
    const struct layer *const layers = net->layers;
    assert_shape(layers[0].out, 6, 17, 8);
    assert_int_equal(layers[0].pad_top + layers[0].pad_bottom, 0);
    assert_int_equal(layers[0].pad_left, 2);
    assert_int_equal(layers[0].pad_right, 3);
    assert_int_equal(net->parameters[0].fan_in, 7 * 3);
    assert_int_equal(net->parameters[0].fan_out, 7 * 6);
    assert_int_equal(net->parameters[0].dims[2], 1);
    assert_int_equal(net->parameters[0].dims[3], 7);
    assert_int_equal(layers[0].macs, 6 * 17 * 8 * 7 * 3);
    assert_shape(layers[1].out, 6, 7, 8);
    net_close(net);
}

TEST(explicit_padding_is_taken_as_it_is)
{
    const struct window window = {
        .kernel_h = 3, .kernel_w = 4, .stride_h = 2, .stride_w = 3, .padding = PADDING_EXPLICIT,
        .top = 1, .bottom = 2, .left = 0, .right = 3,
    };
    struct net *const net = net_make(2, 8, 9, 10);
    assert_int_equal(net_average_pool(net, "pool", NET_INPUT, window), 0);
    const struct layer *const layer = &net->layers[0];
    assert_shape(layer->out, 2, 5, 3);
    assert_int_equal(layer->pad_top, 1);
    assert_int_equal(layer->pad_bottom, 2);
    assert_int_equal(layer->pad_left, 0);
    assert_int_equal(layer->pad_right, 3);
    net_close(net);
}

/* The ordinary "pad 1" of a 3x3 window with stride 2, where SAME would pad only behind. */
TEST(symmetric_padding_can_be_asked_for)
{
    const struct window window = {
        .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .padding = PADDING_EXPLICIT,
        .top = 1, .bottom = 1, .left = 1, .right = 1,
    };
    struct net *const net = net_make(1, 56, 28, 10);
    assert_int_equal(net_conv2d(net, "conv", NET_INPUT, 1, window, false), 0);
    assert_shape(net->layers[0].out, 1, 28, 14);
    net_close(net);
}

TEST(padding_as_wide_as_the_window_is_refused)
{
    for (uint32_t side = 0; side < 4; side++) {
        struct window window = window_square(3, 1, PADDING_EXPLICIT);
        *(uint32_t *[]){ &window.top, &window.bottom, &window.left, &window.right }[side] = 3;
        struct net *const net = net_make(1, 8, 8, 10);
        assert_refused(net, net_max_pool(net, "beyond", NET_INPUT, window), "'beyond'");
    }
}

TEST(a_window_larger_than_the_padded_image_is_refused)
{
    struct window window = window_square(6, 1, PADDING_EXPLICIT);
    window.top = 1;
    struct net *net = net_make(1, 5, 6, 10);
    assert_int_equal(net_average_pool(net, "fits", NET_INPUT, window), 0);
    net_close(net);
    net = net_make(1, 4, 6, 10);
    assert_refused(net, net_average_pool(net, "large", NET_INPUT, window), "'large'");
}

TEST(a_global_average_leaves_one_number_of_each_channel)
{
    struct net *net = net_make(5, 7, 3, 10);
    assert_int_equal(net_global_average(net, "mean", NET_INPUT), 0);
    assert_int_equal(net->layers[0].kind, LAYER_AVERAGE_POOL);
    assert_shape(net->layers[0].out, 5, 1, 1);
    assert_refused(net, net_global_average(net, "none", 7), "does not exist");
}

/* ---- parameters ---- */

TEST(a_convolution_without_bias_has_only_weights)
{
    struct net *const net = net_make(3, 8, 8, 10);
    net_conv2d(net, "conv", NET_INPUT, 4, window_square(3, 1, PADDING_SAME), false);
    assert_int_equal(net->parameter_count, 1);
    assert_true(layer_has(&net->layers[0], PARAMETER_WEIGHT));
    assert_false(layer_has(&net->layers[0], PARAMETER_BIAS));
    assert_true(layer_is_trained(&net->layers[0]));
    net_close(net);
}

struct parameter_row { enum parameter_kind kind; const char *name; bool is_trained, decays; float begins; };

/* Layer 0 of 6x4x5 values, which keeps their shape, has these parameters of a number per channel. */
static void assert_parameters(const struct net *net, const struct parameter_row *rows, uint32_t count)
{
    assert_int_equal(net->parameter_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        assert_int_equal(net->layers[0].parameters[rows[i].kind], i);
        assert_int_equal(parameter->kind, rows[i].kind);
        assert_string_equal(parameter->name, rows[i].name);
        assert_int_equal(parameter->is_trained, rows[i].is_trained);
        assert_int_equal(parameter->decays, rows[i].decays);
        assert_int_equal(parameter->initializer.kind, INITIALIZER_CONSTANT);
        assert_true(parameter->initializer.value == rows[i].begins);
        assert_int_equal(parameter->rank, 1);
        assert_int_equal(parameter->count, 6);
    }
    assert_true(layer_is_trained(&net->layers[0]));
    assert_shape(net->layers[0].out, 6, 4, 5);
}

static void check_norm(bool with_gamma, const struct parameter_row *rows, uint32_t count)
{
    struct net *const net = net_make(6, 4, 5, 10);
    const struct batch_norm how = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = with_gamma };
    assert_int_equal(net_batch_norm(net, "bn", NET_INPUT, how), 0);
    assert_parameters(net, rows, count);
    net_close(net);
}

TEST(a_normalisation_has_gamma_beta_and_two_statistics)
{
    static const struct parameter_row rows[] = {
        { PARAMETER_GAMMA, "bn.weight", true, false, 1 },
        { PARAMETER_BETA, "bn.bias", true, false, 0 },
        { PARAMETER_RUNNING_MEAN, "bn.running_mean", false, false, 0 },
        { PARAMETER_RUNNING_VARIANCE, "bn.running_var", false, false, 1 },
    };
    check_norm(true, rows, 4);
    check_norm(false, rows + 1, 3);
}

TEST(a_layer_normalisation_has_gamma_and_beta)
{
    static const struct parameter_row rows[] = {
        { PARAMETER_GAMMA, "ln.weight", true, false, 1 },
        { PARAMETER_BETA, "ln.bias", true, false, 0 },
    };
    struct net *net = net_make(6, 4, 5, 10);
    assert_int_equal(net_layer_norm(net, "ln", NET_INPUT, 1e-6f), 0);
    assert_parameters(net, rows, 2);
    net_close(net);
    static const float epsilons[] = { 0, -1e-6f, NAN, INFINITY };
    for (size_t i = 0; i < sizeof(epsilons) / sizeof(epsilons[0]); i++) {
        net = net_make(6, 4, 5, 10);
        assert_refused(net, net_layer_norm(net, "ln", NET_INPUT, epsilons[i]), "epsilon");
    }
}

/* Its only parameter is a gamma, which is named as the parameter of a PyTorch module is, and decays as there. */
TEST(a_scale_is_a_trained_gamma_that_has_the_name_of_the_layer)
{
    struct net *net = net_make(6, 4, 5, 10);
    assert_int_equal(net_scale(net, "block.layer_scale", NET_INPUT), 0);
    const struct parameter *const gamma = &net->parameters[0];
    assert_string_equal(gamma->name, "block.layer_scale");
    assert_true(gamma->kind == PARAMETER_GAMMA && gamma->is_trained && gamma->decays);
    assert_int_equal(gamma->rank, 3);
    assert_true(gamma->dims[0] == 6 && gamma->dims[1] == 1 && gamma->dims[2] == 1 && gamma->count == 6);
    assert_true(layer_is_trained(&net->layers[0]));
    net_freeze(net, 0);
    assert_false(layer_is_trained(&net->layers[0]));
    net_close(net);
    static const char *const names[] = { "fc.weight", "fc.bias", "bn.running_mean", "bn.running_var" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        net = net_make(6, 4, 5, 10);
        assert_refused(net, net_scale(net, names[i], NET_INPUT), strrchr(names[i], '.'));
    }
}

TEST(weights_and_biases_take_part_in_weight_decay)
{
    struct net *const net = net_make(3, 4, 4, 10);
    net_dense(net, "fc", NET_INPUT, 10, true);
    assert_true(net->parameters[0].decays && net->parameters[0].is_trained);
    assert_true(net->parameters[1].decays && net->parameters[1].is_trained);
    net_close(net);
}

TEST(totals_distinguish_what_is_trained_from_statistics)
{
    struct net *const net = net_make(3, 4, 4, 10);
    net_conv2d(net, "conv", NET_INPUT, 7, window_square(3, 1, PADDING_SAME), false);
    net_batch_norm(net, "bn", 0, usual);
    net_dense(net, "fc", 1, 10, true);
    net_softmax_loss(net, "loss", 2);
    assert_int_equal(net_finish(net), 0);
    assert_int_equal(net->trainable_count, 7 * 27 + 14 + 7 * 16 * 10 + 10);
    assert_int_equal(net->statistic_count, 14);
    net_close(net);
}

TEST(an_initialiser_can_be_chosen_for_each_kind_of_parameter)
{
    struct net *net = net_make(3, 4, 4, 10);
    const int64_t layer = net_dense(net, "fc", NET_INPUT, 10, true);
    assert_int_equal(net->parameters[0].initializer.kind, INITIALIZER_GLOROT_UNIFORM);
    const struct initializer chosen = { INITIALIZER_CONSTANT, 0.1f };
    assert_int_equal(net_initialize(net, layer, PARAMETER_BIAS, chosen), 0);
    assert_int_equal(net->parameters[0].initializer.kind, INITIALIZER_GLOROT_UNIFORM);
    assert_true(net->parameters[1].initializer.value == 0.1f);
    assert_refused(net, net_initialize(net, layer, PARAMETER_GAMMA, chosen), "initialise");
    net = net_make(3, 4, 4, 10);
    assert_refused(net, net_initialize(net, 0, PARAMETER_WEIGHT, chosen), "initialise");
}

/* ---- what a normalisation, a sum and padded channels refuse ---- */

TEST(numbers_that_normalise_nothing_are_refused)
{
    static const struct batch_norm rows[] = {
        { -0.1f, 1e-5f, true }, { 1.1f, 1e-5f, true }, { NAN, 1e-5f, true }, { 0.9f, 0, true }, { 0.9f, NAN, false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *const net = net_make(3, 4, 4, 10);
        assert_refused(net, net_batch_norm(net, "bn", NET_INPUT, rows[i]), "'bn'");
    }
}

TEST(a_sum_is_of_two_values_of_one_shape)
{
    struct net *net = net_make(3, 4, 4, 10);
    net_relu(net, "relu", NET_INPUT);
    assert_int_equal(net_add(net, "sum", 0, NET_INPUT), 1);
    assert_int_equal(net->layers[1].input_count, 2);
    assert_int_equal(net->layers[1].inputs[0], 0);
    assert_int_equal(net->layers[1].inputs[1], NET_INPUT);
    assert_int_equal(net_add(net, "twice", 1, 1), 2);
    assert_refused(net, net_add(net, "later", 2, 3), "does not exist");
    net = net_make(3, 4, 4, 10);
    net_max_pool(net, "pool", NET_INPUT, window_square(2, 2, PADDING_VALID));
    assert_refused(net, net_add(net, "uneven", 0, NET_INPUT), "3x4x4");
}

TEST(channels_are_padded_on_both_sides_the_odd_one_after)
{
    struct net *net = net_make(16, 9, 8, 10);
    assert_int_equal(net_pad_channels(net, "pad", NET_INPUT, 32, 2), 0);
    assert_int_equal(net->layers[0].channels_before, 8);
    assert_shape(net->layers[0].out, 32, 5, 4);
    assert_int_equal(net_pad_channels(net, "odd", 0, 35, 1), 1);
    assert_int_equal(net->layers[1].channels_before, 1);
    assert_shape(net->layers[1].out, 35, 5, 4);
    assert_refused(net, net_pad_channels(net, "fewer", 1, 34, 1), "34 channels");
    net = net_make(16, 9, 8, 10);
    assert_refused(net, net_pad_channels(net, "still", NET_INPUT, 32, 0), "stride 0");
}

/* ---- what brings branches together, and what divides ---- */

TEST(inputs_of_one_size_are_concatenated)
{
    struct net *net = net_make(3, 4, 5, 10);
    net_conv2d(net, "conv", NET_INPUT, 7, window_square(1, 1, PADDING_VALID), false);
    net_max_pool(net, "pool", NET_INPUT, window_square(2, 2, PADDING_VALID));
    assert_int_equal(net_concat(net, "both", (const uint32_t[]){ 0, NET_INPUT, 0 }, 3), 2);
    assert_shape(net->layers[2].out, 17, 4, 5);
    assert_int_equal(net->layers[2].input_count, 3);
    assert_int_equal(net->layers[2].inputs[1], NET_INPUT);
    assert_refused(net, net_concat(net, "uneven", (const uint32_t[]){ 0, 1 }, 2), "2x2 pixels with 4x5");
    net = net_make(3, 4, 5, 10);
    assert_refused(net, net_concat(net, "later", (const uint32_t[]){ NET_INPUT, 0 }, 2), "does not exist");
    net = net_make(3, 4, 5, 10);
    assert_refused(net, net_concat(net, "none", NULL, 0), "0 inputs");
    net = net_make(NET_COUNT_MAX / 2 + 1, 1, 1, 10);
    assert_refused(net, net_concat(net, "all", (const uint32_t[]){ NET_INPUT, NET_INPUT }, 2), "channels are too many");
}

TEST(responses_are_divided_by_what_is_above_0)
{
    static const struct local_response_norm rows[] = {
        { 4, 1, 0.75f, 1 }, { 0, 1, 0.75f, 1 }, { 5, -1, 0.75f, 1 }, { 5, 1, NAN, 1 }, { 5, 1, 0.75f, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *const net = net_make(3, 4, 4, 10);
        assert_refused(net, net_local_response_norm(net, "lrn", NET_INPUT, rows[i]), "'lrn'");
    }
}

TEST(a_dense_layer_without_bias_has_only_weights)
{
    struct net *const net = net_make(3, 4, 4, 10);
    net_dense(net, "fc", NET_INPUT, 10, false);
    assert_int_equal(net->parameter_count, 1);
    assert_int_equal(net->parameters[0].count, 480);
    net_close(net);
}

TEST(nothing_reads_an_auxiliary_loss_and_the_net_continues_after_it)
{
    struct net *net = net_make(3, 4, 4, 10);
    net_dense(net, "fc", NET_INPUT, 10, true);
    assert_int_equal(net_auxiliary_loss(net, "second", 0, 0.4f), 1);
    assert_true(net->layers[1].loss_weight == 0.4f);
    net_softmax_loss(net, "loss", 0);
    assert_int_equal(net_finish(net), 0);
    net_close(net);
    net = net_make(3, 4, 4, 10);
    net_dense(net, "fc", NET_INPUT, 10, true);
    net_auxiliary_loss(net, "second", 0, 1);
    assert_refused(net, net_relu(net, "relu", 1), "reads a loss");
    net = net_make(3, 4, 4, 10);
    net_dense(net, "fc", NET_INPUT, 10, true);
    assert_refused(net, net_auxiliary_loss(net, "second", 0, 0), "weight 0");
    net = net_make(3, 4, 4, 10);
    net_dense(net, "fc", NET_INPUT, 10, true);
    net_auxiliary_loss(net, "second", 0, 1);
    assert_int_equal(net_finish(net), -EINVAL);
    assert_non_null(strstr(net_error(net), "does not end in a loss"));
    net_close(net);
}

/* ---- the transform of pixels ---- */

TEST(pixels_are_divided_by_255_unless_the_net_says_otherwise)
{
    const float mean[3] = { 0.5f, 0.25f, 0 }, std[3] = { 0.2f, 0.3f, 0.4f };
    struct net *const net = net_make(3, 4, 4, 10);
    assert_true(net->transform.divisor == 255 && net->transform.is_plain);
    assert_int_equal(net_transform(net, 2, mean, std), 0);
    assert_false(net->transform.is_plain);
    assert_memory_equal(net->transform.mean, mean, sizeof(mean));
    assert_memory_equal(net->transform.std, std, sizeof(std));
    assert_int_equal(net_transform(net, 2, NULL, std), 0);
    assert_true(net->transform.mean[0] == 0 && net->transform.std[2] == 0.4f);
    net_close(net);
}

TEST(a_transform_that_is_not_finite_is_refused)
{
    const float ones[3] = { 1, 1, 1 }, zero[3] = { 1, 0, 1 }, nan_[3] = { 0, 0, NAN };
    struct net *net = net_make(3, 4, 4, 10);
    assert_refused(net, net_transform(net, 0, NULL, NULL), "divides");
    net = net_make(3, 4, 4, 10);
    assert_refused(net, net_transform(net, 1, ones, zero), "divides");
    net = net_make(3, 4, 4, 10);
    assert_refused(net, net_transform(net, 1, nan_, ones), "finite");
    net = net_make(NET_CHANNELS_MAX + 1, 4, 4, 10);
    assert_int_equal(net_transform(net, 1, NULL, NULL), 0);
    assert_refused(net, net_transform(net, 1, ones, NULL), "17 channels");
}

TESTS_MAIN(NULL, NULL)
