/* Tests of grouped and depthwise convolutions on every backend: against the formula, against finite differences, and of
 * every other backend against the reference, in odd shapes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/helpers/network/network_check.h"
#include "tests/helpers/network/network_distance.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

enum { CLASSES = 4 };

/* A convolution of `filters` filters in `groups` groups on an image of these channels. */
struct grouped { uint32_t channels, height, width, filters, groups; struct window window; bool with_bias; };

#define SQUARE(kernel, stride, side) \
    { kernel, kernel, stride, stride, PADDING_EXPLICIT, side, side, side, side }

static const struct grouped shapes[] = {
    { 8, 7, 5, 8, 8, SQUARE(3, 1, 1), false },              /* depthwise */
    { 8, 9, 6, 8, 8, SQUARE(5, 2, 2), true },
    { 5, 7, 7, 5, 5, SQUARE(3, 2, 1), true },               /* channels that are no multiple of 8 */
    { 17, 6, 5, 17, 17, SQUARE(3, 1, 1), false },
    { 16, 11, 9, 16, 16, SQUARE(7, 1, 3), true },
    { 40, 8, 7, 40, 40, { 3, 5, 2, 1, PADDING_SAME, 0, 0, 0, 0 }, false },
    { 8, 7, 5, 24, 8, SQUARE(3, 1, 1), true },              /* depthwise with a multiplier */
    { 3, 6, 6, 6, 3, SQUARE(3, 2, 1), false },
    { 8, 7, 5, 16, 2, SQUARE(3, 1, 1), true },              /* groups of 4 channels */
    { 32, 5, 6, 64, 8, SQUARE(3, 2, 1), false },
    { 48, 5, 5, 48, 2, SQUARE(3, 1, 1), false },            /* groups of 24 channels */
    { 12, 6, 7, 18, 3, { 2, 3, 1, 2, PADDING_VALID, 0, 0, 0, 0 }, true },
    { 16, 5, 5, 32, 4, SQUARE(1, 1, 0), true },
    { 16, 6, 6, 16, 16, SQUARE(1, 2, 0), false },
    { 1, 6, 5, 3, 1, SQUARE(3, 1, 1), true },               /* one group */
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* The convolution reads the image, or another convolution that needs the gradients of its input. */
static struct net *net_of(const struct grouped *shape, bool is_first)
{
    char name[80];
    snprintf(name, sizeof(name), "%ux%ux%u to %u in %u groups", shape->channels, shape->height, shape->width,
             shape->filters, shape->groups);
    const struct shape image = { shape->channels, shape->height, shape->width };
    struct net *const net = network_net_begin(name, image, CLASSES);
    if (shape->channels <= NET_CHANNELS_MAX)
        net_transform(net, 127.5f, (const float[NET_CHANNELS_MAX]){ 1, 0.5f }, NULL);
    int64_t at = NET_INPUT;
    if (!is_first)
        at = net_conv2d(net, "before", NET_INPUT, shape->channels, window_square(1, 1, PADDING_VALID), true);
    const struct conv2d how = { shape->filters, shape->groups, shape->window, shape->with_bias };
    at = net_grouped_conv2d(net, "grouped", (uint32_t)at, how);
    return network_net_end(net, at);
}

/* Is the net one that the backend supports? A backend may refuse some groups, in words. */
static bool is_supported(const char *backend, const struct net *net, enum precision precision)
{
    const struct backend_spec spec = { .net = net, .precision = precision };
    struct unsupported_reason reason;
    if (backend_find(backend)->supports(&spec, &reason) == 0)
        return true;
    if (strcmp(reason.what, "groups") == 0)
        print_message("%s, %s: %s\n", backend, net->model, reason.why);
    return false;
}

/* ---- the formula ---- */

/* Output value (k, y, x): the sum over the channels of the group of filter k, and over the taps inside of the image. */
static double value_of(const struct layer *layer, const float *in, const float *weights, const uint32_t at[3])
{
    const uint32_t channels = layer->in.channels / layer->groups, filters = layer->out.channels / layer->groups;
    double sum = 0;
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t i = 0; i < layer->kernel_h; i++)
            for (uint32_t j = 0; j < layer->kernel_w; j++) {
                const int64_t y = (int64_t)at[1] * layer->stride_h + i - layer->pad_top;
                const int64_t x = (int64_t)at[2] * layer->stride_w + j - layer->pad_left;
                const size_t from = at[0] / filters * channels + c;
                if (y >= 0 && x >= 0 && y < layer->in.height && x < layer->in.width)
                    sum += (double)in[(from * layer->in.height + (size_t)y) * layer->in.width + (size_t)x] *
                           weights[((at[0] * channels + c) * layer->kernel_h + i) * layer->kernel_w + j];
            }
    return sum;
}

/* The values of the input of the first sample, in C,H,W order. */
static float *image_of(const struct net *net, const uint8_t *pixels)
{
    const struct shape in = net->input;
    float *const image = malloc(shape_count(in) * sizeof(*image));
    assert_non_null(image);
    for (uint32_t c = 0; c < in.channels; c++)
        for (size_t i = 0; i < (size_t)in.height * in.width; i++)
            image[c * in.height * in.width + i] =
                (float)pixels[i * in.channels + c] / net->transform.divisor -
                (net->transform.is_plain ? 0 : net->transform.mean[c]);
    return image;
}

static void assert_formula(struct network *network, const struct backend_input *input)
{
    const struct net *const net = network->net;
    const struct layer *const layer = &net->layers[0];
    const uint32_t dense_weight = net->layers[1].parameters[PARAMETER_WEIGHT];
    float *const values = network_values_before(network, input, dense_weight);
    float *const weights = network_numbers(network, layer->parameters[PARAMETER_WEIGHT]);
    float *const bias = layer_has(layer, PARAMETER_BIAS) ? network_numbers(network, 1) : NULL;
    float *const image = image_of(net, input->pixels);
    for (uint32_t i = 0; i < shape_count(layer->out); i++) {
        const uint32_t at[3] = { i / layer->out.width / layer->out.height, i / layer->out.width % layer->out.height,
                                 i % layer->out.width };
        const double expected = value_of(layer, image, weights, at) + (bias != NULL ? bias[at[0]] : 0);
        if (!(fabs(values[i] - expected) <= 1e-4 * (1 + fabs(expected))))
            fail_msg("%s, %s: value %u is %g instead of %g", network->ops->name, net->model, i, (double)values[i],
                     expected);
    }
    free(values);
    free(weights);
    free(bias);
    free(image);
}

TEST_ON_EACH_BACKEND(every_filter_reads_the_channels_of_its_group)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct network network;
        struct net *const net = net_of(&shapes[i], true);
        if (is_supported(backend, net, PRECISION_FP32)) {
            struct backend_input input = network_input(net, 1, i);
            network_open(&network, backend, net, 1, 1);
            network_draw_weights(&network, i);
            assert_formula(&network, &input);
            network_close(&network);
            network_input_release(&input);
        }
        net_close(net);
    }
}

/* ---- gradients ---- */

TEST(gradients_of_the_reference_are_slopes)
{
    if (!test_device_ops()->host_memory)
        skip();
    for (size_t i = 0; i < SHAPES; i++) {
        struct network network;
        struct net *const net = net_of(&shapes[i], false);
        struct backend_input input = network_input(net, 2, i);
        network_open(&network, "reference", net, 2, 1);
        network_draw_weights(&network, i);
        network_check_slopes(&network, &input, 2, (uint32_t)i);
        network_close(&network);
        network_input_release(&input);
        net_close(net);
    }
}

TEST_ON_EACH_BACKEND(all_gradients_are_those_of_the_reference)
{
    for (size_t i = 0; i < 2 * SHAPES; i++) {
        const struct backend_spec settings = { .local_max = 5, .threads = 1 + (uint32_t)(i % 3), .poison = i % 2 == 0 };
        struct net *const net = net_of(&shapes[i / 2], i % 2 == 0);
        if (is_supported(backend, net, PRECISION_FP32))
            network_check_net(backend, net, settings, i);
        else
            net_close(net);
    }
}

/* An inverted residual block, as in MobileNetV2, and a block of ResNeXt: groups between what is fused with them. */
static struct net *block_of(uint32_t channels, uint32_t groups, uint32_t stride, bool with_bias)
{
    const struct window one = window_square(1, 1, PADDING_VALID);
    const struct batch_norm norm = { .decay = 0.75, .epsilon = 0.05f, .with_gamma = true };
    struct net *const net = network_net_begin("block", (struct shape){ 3, 7, 6 }, CLASSES);
    const uint32_t in = (uint32_t)net_conv2d(net, "stem", NET_INPUT, 16, window_square(3, 1, PADDING_SAME), false);
    uint32_t at = (uint32_t)net_conv2d(net, "expand", in, channels, one, false);
    at = (uint32_t)net_relu(net, "expand.relu", (uint32_t)net_batch_norm(net, "expand.bn", at, norm));
    const struct conv2d how = { channels, groups, window_square(3, stride, PADDING_SAME), with_bias };
    at = (uint32_t)net_grouped_conv2d(net, "grouped", at, how);
    at = (uint32_t)net_relu(net, "grouped.relu", (uint32_t)net_batch_norm(net, "grouped.bn", at, norm));
    at = (uint32_t)net_batch_norm(net, "project.bn", (uint32_t)net_conv2d(net, "project", at, 16, one, false), norm);
    if (stride == 1)
        at = (uint32_t)net_add(net, "add", at, in);
    const struct conv2d last = { 16, 16, window_square(5, 1, PADDING_SAME), true };
    at = (uint32_t)net_relu(net, "last.relu", (uint32_t)net_grouped_conv2d(net, "last", at, last));
    return network_net_end(net, net_global_average(net, "mean", at));
}

TEST_ON_EACH_BACKEND(blocks_of_networks_are_those_of_the_reference)
{
    static const struct { uint32_t channels, groups, stride; bool with_bias; } rows[] = {
        { 48, 48, 1, false }, { 21, 21, 2, false }, { 32, 4, 1, true }, { 24, 3, 2, false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *const net = block_of(rows[i].channels, rows[i].groups, rows[i].stride, rows[i].with_bias);
        if (is_supported(backend, net, PRECISION_FP32))
            network_check_net(backend, net, (struct backend_spec){ .local_max = 6, .poison = true, .threads = 2 }, i);
        else
            net_close(net);
    }
}

static void check_precision(const char *backend, enum precision precision)
{
    struct network_distances distances = { 0, 0 };
    for (size_t i = 0; i < 2 * SHAPES; i++) {
        const struct backend_spec settings = { .local_max = 5, .poison = true, .precision = precision };
        struct network network;
        struct net *const net = net_of(&shapes[i / 2], i % 2 == 0);
        if (is_supported(backend, net, precision)) {
            network_open_settings(&network, backend, net, settings);
            network_add_distances(&network, settings.local_max, i, precision, &distances);
            network_close(&network);
        }
        net_close(net);
    }
    if (distances.count > 0)
        network_assert_distances(&distances, precision);
}

TEST_ON_EACH_BACKEND(every_precision_is_near_the_reference)
{
    for (enum precision precision = PRECISION_TF32; precision < PRECISION_COUNT; precision++)
        check_precision(backend, precision);
}

/* ---- weights ---- */

/* Weights are stored in the backend's layout and read back in PyTorch's. */
TEST_ON_EACH_BACKEND(weights_come_back_as_they_were)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct network network;
        struct net *const net = net_of(&shapes[i], true);
        if (is_supported(backend, net, PRECISION_FP32)) {
            network_open(&network, backend, net, 1, 1);
            const struct parameter *const weight = &net->parameters[0];
            float *const plain = malloc(weight->count * sizeof(*plain));
            assert_non_null(plain);
            for (size_t k = 0; k < weight->count; k++)
                plain[k] = (float)k;
            network_write(&network, network.weights, 0, plain);
            memset(plain, 0xff, weight->count * sizeof(*plain));
            network_read(&network, network.weights, 0, plain);
            for (size_t k = 0; k < weight->count; k++)
                assert_true(plain[k] == (float)k);
            free(plain);
            network_close(&network);
        }
        net_close(net);
    }
}

TESTS_MAIN_WITH_TEAMS
