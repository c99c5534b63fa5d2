/* Tests of the kinds of layers: their shapes, parameters and attributes, and what is refused. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "compute/net.h"
#include "tests/helpers/test.h"

static struct net *net_make(uint32_t channels, uint32_t height, uint32_t width)
{
    struct net *net;
    assert_int_equal(net_open(&net, "test", (struct shape){ channels, height, width }, 10), 0);
    return net;
}

static void assert_shape(struct shape shape, uint32_t channels, uint32_t height, uint32_t width)
{
    assert_int_equal(shape.channels, channels);
    assert_int_equal(shape.height, height);
    assert_int_equal(shape.width, width);
}

static void assert_refused(struct net *net, int64_t result, const char *word)
{
    assert_int_equal(result, -EINVAL);
    assert_non_null(strstr(net_error(net), word));
    net_close(net);
}

static const struct batch_norm usual = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true };

/* ---- windows ---- */

TEST(a_window_may_be_flat_or_tall)
{
    const struct window flat = { .kernel_h = 1, .kernel_w = 7, .stride_h = 1, .stride_w = 2, .padding = PADDING_SAME };
    const struct window tall = { .kernel_h = 5, .kernel_w = 1, .stride_h = 2, .stride_w = 1, .padding = PADDING_VALID };
    struct net *const net = net_make(3, 17, 16);
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
    struct net *const net = net_make(2, 8, 9);
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
    struct net *const net = net_make(1, 56, 28);
    assert_int_equal(net_conv2d(net, "conv", NET_INPUT, 1, window, false), 0);
    assert_shape(net->layers[0].out, 1, 28, 14);
    net_close(net);
}

TEST(padding_as_wide_as_the_window_is_refused)
{
    for (uint32_t side = 0; side < 4; side++) {
        struct window window = window_square(3, 1, PADDING_EXPLICIT);
        *(uint32_t *[]){ &window.top, &window.bottom, &window.left, &window.right }[side] = 3;
        struct net *const net = net_make(1, 8, 8);
        assert_refused(net, net_max_pool(net, "beyond", NET_INPUT, window), "'beyond'");
    }
}

TEST(a_window_larger_than_the_padded_image_is_refused)
{
    struct window window = window_square(6, 1, PADDING_EXPLICIT);
    window.top = 1;
    struct net *net = net_make(1, 5, 6);
    assert_int_equal(net_average_pool(net, "fits", NET_INPUT, window), 0);
    net_close(net);
    net = net_make(1, 4, 6);
    assert_refused(net, net_average_pool(net, "large", NET_INPUT, window), "'large'");
}

TEST(a_global_average_leaves_one_number_of_each_channel)
{
    struct net *net = net_make(5, 7, 3);
    assert_int_equal(net_global_average(net, "mean", NET_INPUT), 0);
    assert_int_equal(net->layers[0].kind, LAYER_AVERAGE_POOL);
    assert_shape(net->layers[0].out, 5, 1, 1);
    assert_refused(net, net_global_average(net, "none", 7), "does not exist");
}

/* ---- parameters ---- */

TEST(a_convolution_without_bias_has_only_weights)
{
    struct net *const net = net_make(3, 8, 8);
    net_conv2d(net, "conv", NET_INPUT, 4, window_square(3, 1, PADDING_SAME), false);
    assert_int_equal(net->parameter_count, 1);
    assert_true(layer_has(&net->layers[0], PARAMETER_WEIGHT));
    assert_false(layer_has(&net->layers[0], PARAMETER_BIAS));
    assert_true(layer_is_trained(&net->layers[0]));
    net_close(net);
}

struct parameter_row { enum parameter_kind kind; const char *name; bool is_trained, decays; float begins; };

static void check_norm(bool with_gamma, const struct parameter_row *rows, uint32_t count)
{
    struct net *const net = net_make(6, 4, 5);
    const struct batch_norm how = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = with_gamma };
    assert_int_equal(net_batch_norm(net, "bn", NET_INPUT, how), 0);
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

TEST(weights_and_biases_take_part_in_weight_decay)
{
    struct net *const net = net_make(3, 4, 4);
    net_dense(net, "fc", NET_INPUT, 10, true);
    assert_true(net->parameters[0].decays && net->parameters[0].is_trained);
    assert_true(net->parameters[1].decays && net->parameters[1].is_trained);
    net_close(net);
}

TEST(totals_tell_what_is_trained_from_statistics)
{
    struct net *const net = net_make(3, 4, 4);
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
    struct net *net = net_make(3, 4, 4);
    const int64_t layer = net_dense(net, "fc", NET_INPUT, 10, true);
    assert_int_equal(net->parameters[0].initializer.kind, INITIALIZER_GLOROT_UNIFORM);
    const struct initializer chosen = { INITIALIZER_CONSTANT, 0.1f };
    assert_int_equal(net_initialize(net, layer, PARAMETER_BIAS, chosen), 0);
    assert_int_equal(net->parameters[0].initializer.kind, INITIALIZER_GLOROT_UNIFORM);
    assert_true(net->parameters[1].initializer.value == 0.1f);
    assert_refused(net, net_initialize(net, layer, PARAMETER_GAMMA, chosen), "initialise");
    net = net_make(3, 4, 4);
    assert_refused(net, net_initialize(net, 0, PARAMETER_WEIGHT, chosen), "initialise");
}

/* ---- what a normalisation, a sum and padded channels refuse ---- */

TEST(numbers_that_normalise_nothing_are_refused)
{
    static const struct batch_norm rows[] = {
        { -0.1f, 1e-5f, true }, { 1.1f, 1e-5f, true }, { NAN, 1e-5f, true }, { 0.9f, 0, true }, { 0.9f, NAN, false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *const net = net_make(3, 4, 4);
        assert_refused(net, net_batch_norm(net, "bn", NET_INPUT, rows[i]), "'bn'");
    }
}

TEST(a_sum_is_of_two_values_of_one_shape)
{
    struct net *net = net_make(3, 4, 4);
    net_relu(net, "relu", NET_INPUT);
    assert_int_equal(net_add(net, "sum", 0, NET_INPUT), 1);
    assert_int_equal(net->layers[1].input_count, 2);
    assert_int_equal(net->layers[1].inputs[0], 0);
    assert_int_equal(net->layers[1].inputs[1], NET_INPUT);
    assert_int_equal(net_add(net, "twice", 1, 1), 2);
    assert_refused(net, net_add(net, "later", 2, 3), "does not exist");
    net = net_make(3, 4, 4);
    net_max_pool(net, "pool", NET_INPUT, window_square(2, 2, PADDING_VALID));
    assert_refused(net, net_add(net, "uneven", 0, NET_INPUT), "3x4x4");
}

TEST(channels_are_padded_on_both_sides_the_odd_one_behind)
{
    struct net *net = net_make(16, 9, 8);
    assert_int_equal(net_pad_channels(net, "pad", NET_INPUT, 32, 2), 0);
    assert_int_equal(net->layers[0].channels_before, 8);
    assert_shape(net->layers[0].out, 32, 5, 4);
    assert_int_equal(net_pad_channels(net, "odd", 0, 35, 1), 1);
    assert_int_equal(net->layers[1].channels_before, 1);
    assert_shape(net->layers[1].out, 35, 5, 4);
    assert_refused(net, net_pad_channels(net, "fewer", 1, 34, 1), "34 channels");
    net = net_make(16, 9, 8);
    assert_refused(net, net_pad_channels(net, "still", NET_INPUT, 32, 0), "stride 0");
}

/* ---- what brings branches together, and what divides ---- */

TEST(inputs_of_one_size_are_put_one_behind_the_other)
{
    struct net *net = net_make(3, 4, 5);
    net_conv2d(net, "conv", NET_INPUT, 7, window_square(1, 1, PADDING_VALID), false);
    net_max_pool(net, "pool", NET_INPUT, window_square(2, 2, PADDING_VALID));
    assert_int_equal(net_concat(net, "both", (const uint32_t[]){ 0, NET_INPUT, 0 }, 3), 2);
    assert_shape(net->layers[2].out, 17, 4, 5);
    assert_int_equal(net->layers[2].input_count, 3);
    assert_int_equal(net->layers[2].inputs[1], NET_INPUT);
    assert_refused(net, net_concat(net, "uneven", (const uint32_t[]){ 0, 1 }, 2), "2x2 pixels with 4x5");
    net = net_make(3, 4, 5);
    assert_refused(net, net_concat(net, "later", (const uint32_t[]){ NET_INPUT, 0 }, 2), "does not exist");
    net = net_make(3, 4, 5);
    assert_refused(net, net_concat(net, "none", NULL, 0), "0 inputs");
    net = net_make(NET_COUNT_MAX / 2 + 1, 1, 1);
    assert_refused(net, net_concat(net, "all", (const uint32_t[]){ NET_INPUT, NET_INPUT }, 2), "channels are too many");
}

TEST(responses_are_divided_by_what_is_above_0)
{
    static const struct local_response_norm rows[] = {
        { 4, 1, 0.75f, 1 }, { 0, 1, 0.75f, 1 }, { 5, -1, 0.75f, 1 }, { 5, 1, NAN, 1 }, { 5, 1, 0.75f, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *const net = net_make(3, 4, 4);
        assert_refused(net, net_local_response_norm(net, "lrn", NET_INPUT, rows[i]), "'lrn'");
    }
}

TEST(a_dense_layer_without_bias_has_only_weights)
{
    struct net *const net = net_make(3, 4, 4);
    net_dense(net, "fc", NET_INPUT, 10, false);
    assert_int_equal(net->parameter_count, 1);
    assert_int_equal(net->parameters[0].count, 480);
    net_close(net);
}

TEST(nothing_reads_an_auxiliary_loss_and_the_net_goes_on_behind_it)
{
    struct net *net = net_make(3, 4, 4);
    net_dense(net, "fc", NET_INPUT, 10, true);
    assert_int_equal(net_auxiliary_loss(net, "second", 0, 0.4f), 1);
    assert_true(net->layers[1].loss_weight == 0.4f);
    net_softmax_loss(net, "loss", 0);
    assert_int_equal(net_finish(net), 0);
    net_close(net);
    net = net_make(3, 4, 4);
    net_dense(net, "fc", NET_INPUT, 10, true);
    net_auxiliary_loss(net, "second", 0, 1);
    assert_refused(net, net_relu(net, "relu", 1), "reads a loss");
    net = net_make(3, 4, 4);
    net_dense(net, "fc", NET_INPUT, 10, true);
    assert_refused(net, net_auxiliary_loss(net, "second", 0, 0), "weight 0");
    net = net_make(3, 4, 4);
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
    struct net *const net = net_make(3, 4, 4);
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
    struct net *net = net_make(3, 4, 4);
    assert_refused(net, net_transform(net, 0, NULL, NULL), "divides");
    net = net_make(3, 4, 4);
    assert_refused(net, net_transform(net, 1, ones, zero), "divides");
    net = net_make(3, 4, 4);
    assert_refused(net, net_transform(net, 1, nan_, ones), "finite");
    net = net_make(NET_CHANNELS_MAX + 1, 4, 4);
    assert_int_equal(net_transform(net, 1, NULL, NULL), 0);
    assert_refused(net, net_transform(net, 1, ones, NULL), "17 channels");
}

TESTS_MAIN(NULL, NULL)
