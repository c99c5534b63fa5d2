/* Tests of network descriptions: shape rules, names, totals, and what is refused. */
#include <errno.h>
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

static void assert_refused(struct net *net, int64_t result, const char *word)
{
    assert_int_equal(result, -EINVAL);
    assert_non_null(strstr(net_error(net), word));
    assert_int_equal(net_relu(net, "later", NET_INPUT), -EINVAL);
    assert_int_equal(net_finish(net), -EINVAL);
    assert_non_null(strstr(net_error(net), word));
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
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_softmax_loss(net, "loss", NET_INPUT), "10 classes");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_relu(net, "relu", 0), "does not exist");
    net = net_make(3, 8, 8, 10);
    assert_refused(net, net_relu(net, "", NET_INPUT), "name");
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

TEST(padding_as_large_as_the_window_is_told_apart)
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

TESTS_MAIN(NULL, NULL)
