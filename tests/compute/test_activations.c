/* Tests of activations and multiplications on every backend: their values against formulas, their gradients against
 * finite differences, and each backend against the reference, alone, behind a batch normalisation and in blocks with
 * squeeze and excitation. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/network/network_check.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

enum { COUNT = 5, CLASSES = 3 };

/* ---- nets: each is a way in which an activation is used ---- */

/* A net in the making: the last layer, and the activation of all its layers. */
struct draft {
    struct net *net;
    uint32_t last;
    enum activation activation;
    char name[24];
};

static const char *name_next(struct draft *draft)
{
    snprintf(draft->name, sizeof(draft->name), "layer%u", draft->net->layer_count);
    return draft->name;
}

static uint32_t append_activation(struct draft *draft, enum activation activation)
{
    const int64_t layer = activation == ACTIVATION_CLIPPED_RELU
                              ? net_clipped_relu(draft->net, name_next(draft), draft->last, 0.7f)
                              : net_activation(draft->net, name_next(draft), draft->last, activation);
    return draft->last = (uint32_t)layer;
}

static uint32_t activate(struct draft *draft)
{
    return append_activation(draft, draft->activation);
}

static uint32_t conv(struct draft *draft, uint32_t filters, uint32_t kernel, bool with_bias)
{
    return draft->last = (uint32_t)net_conv2d(draft->net, name_next(draft), draft->last, filters,
                                              window_square(kernel, 1, PADDING_SAME), with_bias);
}

/* A large epsilon: in a small batch a channel may be as good as constant. */
static uint32_t norm(struct draft *draft)
{
    const struct batch_norm how = { .decay = 0.75, .epsilon = 0.05f, .with_gamma = draft->net->layer_count % 2 == 0 };
    return draft->last = (uint32_t)net_batch_norm(draft->net, name_next(draft), draft->last, how);
}

static uint32_t add(struct draft *draft, uint32_t right)
{
    return draft->last = (uint32_t)net_add(draft->net, name_next(draft), draft->last, right);
}

static uint32_t multiply(struct draft *draft, uint32_t left, uint32_t right)
{
    return draft->last = (uint32_t)net_multiply(draft->net, name_next(draft), left, right);
}

/* Squeeze and excitation of the last layer. */
static void excite(struct draft *draft, uint32_t hidden, enum activation gate)
{
    const uint32_t from = draft->last, channels = draft->net->layers[from].out.channels;
    draft->last = (uint32_t)net_global_average(draft->net, name_next(draft), from);
    conv(draft, hidden, 1, true);
    activate(draft);
    conv(draft, channels, 1, true);
    append_activation(draft, gate);
    multiply(draft, draft->last, from);
}

static void alone(struct draft *draft)
{
    conv(draft, 17, 3, true);
    activate(draft);
    activate(draft);
    conv(draft, 5, 1, true);
}

static void of_the_image(struct draft *draft)
{
    activate(draft);
    conv(draft, 3, 1, true);
}

static void behind_a_norm(struct draft *draft)
{
    conv(draft, 20, 3, false);
    norm(draft);
    activate(draft);
    conv(draft, 16, 3, false);
    norm(draft);
    activate(draft);
}

/* In training the activation reads a sum. */
static void behind_a_sum(struct draft *draft)
{
    const uint32_t start = conv(draft, 8, 3, true);
    conv(draft, 8, 1, false);
    norm(draft);
    add(draft, start);
    activate(draft);
}

/* The result of the normalisation has another reader. */
static void of_a_norm_that_is_read_twice(struct draft *draft)
{
    conv(draft, 9, 1, false);
    const uint32_t normed = norm(draft);
    activate(draft);
    add(draft, normed);
    norm(draft);
    const uint32_t active = activate(draft);
    conv(draft, 9, 3, true);
    add(draft, active);
}

static void with_excitation(struct draft *draft)
{
    conv(draft, 24, 3, false);
    norm(draft);
    activate(draft);
    excite(draft, 5, ACTIVATION_SIGMOID);
    conv(draft, 11, 1, false);
    norm(draft);
    const uint32_t start = draft->last;
    conv(draft, 11, 1, false);
    norm(draft);
    activate(draft);
    excite(draft, 3, ACTIVATION_HARD_SIGMOID);
    add(draft, start);
}

/* The multiplied value has further readers, and so has the factor. */
static void of_products(struct draft *draft)
{
    const uint32_t start = conv(draft, 10, 3, true), active = activate(draft);
    const uint32_t product = multiply(draft, start, active);
    multiply(draft, product, product);
    draft->last = start;
    const uint32_t mean = draft->last = (uint32_t)net_global_average(draft->net, name_next(draft), start);
    const uint32_t scaled = multiply(draft, product + 1, mean), again = multiply(draft, start, mean);
    draft->last = scaled;
    add(draft, again);
    multiply(draft, draft->last, mean);
}

/* Behind a dense layer, before dropout and a pool. */
static void of_vectors(struct draft *draft)
{
    conv(draft, 7, 3, true);
    activate(draft);
    draft->last = (uint32_t)net_max_pool(draft->net, name_next(draft), draft->last, window_square(2, 2, PADDING_SAME));
    draft->last = (uint32_t)net_dropout(draft->net, name_next(draft), draft->last, 0.25f);
    const uint32_t units = draft->last = (uint32_t)net_dense(draft->net, name_next(draft), draft->last, 19, true);
    const uint32_t active = activate(draft);
    draft->last = (uint32_t)net_dropout(draft->net, name_next(draft), active, 0.25f);
    multiply(draft, draft->last, units);
}

/* The multiplied inputs come from the image alone, or one of them does. */
static void of_the_image_itself(struct draft *draft)
{
    const uint32_t mean = draft->last = (uint32_t)net_global_average(draft->net, name_next(draft), NET_INPUT);
    const uint32_t scaled = multiply(draft, NET_INPUT, mean);
    draft->last = mean;
    conv(draft, 3, 1, true);
    const uint32_t gate = append_activation(draft, ACTIVATION_SIGMOID);
    multiply(draft, NET_INPUT, gate);
    multiply(draft, draft->last, scaled);
    activate(draft);
}

static void (*const ways[])(struct draft *draft) = {
    alone,       of_the_image,    behind_a_norm,      behind_a_sum, of_a_norm_that_is_read_twice, with_excitation,
    of_products, of_vectors,      of_the_image_itself,
};

/* Images of odd sizes, of one pixel, and larger than what one thread takes at once. */
static const struct shape images[] = { { 3, 5, 7 }, { 3, 1, 1 }, { 3, 12, 11 }, { 3, 34, 30 } };

static struct net *net_of(uint32_t way, enum activation activation, struct shape image)
{
    struct draft draft = { .last = NET_INPUT, .activation = activation };
    char name[64];
    snprintf(name, sizeof(name), "way %u with %s", way, activation_name(activation));
    draft.net = network_net_begin(name, image, CLASSES);
    ways[way](&draft);
    return network_net_end(draft.net, draft.last);
}

TEST(gradients_of_the_reference_are_the_slopes_of_the_loss)
{
    for (uint32_t way = 0; way < ROWS(ways); way++)
        for (enum activation activation = 0; activation < ACTIVATION_COUNT; activation++) {
            struct net *const net = net_of(way, activation, images[way % 2]);
            struct backend_input input = network_input(net, COUNT, way);
            struct network network;
            network_open(&network, "reference", net, COUNT, 1);
            network_draw_weights(&network, way);
            network_check_slopes(&network, &input, COUNT, way);
            network_close(&network);
            network_input_release(&input);
            net_close(net);
        }
}

/* Only oneDNN has several layouts. Each image is tried with another one in each way. */
static struct backend_spec spec_of(const char *backend, uint32_t way, uint32_t image)
{
    static const enum layout layouts[] = { LAYOUT_AUTO, LAYOUT_NHWC, LAYOUT_NCHW };
    const bool has_layouts = strcmp(backend, "onednn") == 0;
    return (struct backend_spec){ .local_max = COUNT, .threads = 1 + (way + image) % 2,
                                  .layout = has_layouts ? layouts[(way + image) % 3] : LAYOUT_AUTO };
}

TEST_ON_EACH_BACKEND(every_backend_gives_what_the_reference_gives)
{
    for (uint32_t way = 0; way < ROWS(ways); way++)
        for (enum activation activation = 0; activation < ACTIVATION_COUNT; activation++)
            for (uint32_t i = 0; i < ROWS(images); i++)
                if (test_is_long() || (way + activation + i) % 2 == 0)
                    network_check_net(backend, net_of(way, activation, images[i]), spec_of(backend, way, i),
                                      10 * way + i);
}

/* ---- memory ---- */

/* The bytes of values in training, of convolutions with normalisation and ReLU, or with another activation instead. */
static size_t value_bytes_of(const char *backend, bool is_relu)
{
    struct draft draft = { .net = network_net_begin("memory", (struct shape){ 3, 32, 32 }, CLASSES),
                           .last = NET_INPUT, .activation = ACTIVATION_SILU };
    struct backend_needs needs;
    struct network network;
    for (int i = 0; i < 6; i++) {
        conv(&draft, 32, 3, false);
        norm(&draft);
        if (is_relu)
            draft.last = (uint32_t)net_relu(draft.net, name_next(&draft), draft.last);
        else
            activate(&draft);
    }
    struct net *const net = network_net_end(draft.net, draft.last);
    network_open(&network, backend, net, COUNT, 1);
    network_plan(&network, COUNT, true);
    network.ops->needs(network.backend, &needs);
    network_close(&network);
    net_close(net);
    return needs.values;
}

/* The reference fuses nothing. */
TEST_ON_EACH_BACKEND(an_activation_behind_a_normalisation_takes_the_memory_of_a_relu)
{
    if (strcmp(backend, "reference") != 0)
        assert_int_equal(value_bytes_of(backend, false), value_bytes_of(backend, true));
}

/* ---- values ---- */

static double expected_value(enum activation activation, double x)
{
    const double hard = fmin(fmax(x / 6 + 0.5, 0), 1), soft = 1 / (1 + exp(-x));
    const double values[ACTIVATION_COUNT] = {
        [ACTIVATION_CLIPPED_RELU] = fmin(fmax(x, 0), 6), [ACTIVATION_SIGMOID] = soft,
        [ACTIVATION_HARD_SIGMOID] = hard, [ACTIVATION_SILU] = x * soft, [ACTIVATION_HARD_SWISH] = x * hard,
        [ACTIVATION_GELU] = x * erfc(-x * sqrt(0.5)) / 2,
    };
    return values[activation];
}

/* Pixels from -127.5 to 127.5 in steps of `step`, and what an activation makes of them. */
static void check_values(const char *backend, enum activation activation, float step)
{
    uint8_t pixels[256];
    const int32_t label = 1;
    struct net *const net = network_net_begin("values", (struct shape){ 1, 16, 16 }, CLASSES);
    for (int i = 0; i < 256; i++)
        pixels[i] = (uint8_t)i;
    net_transform(net, 1 / step, &(float){ 127.5f * step }, &(float){ 1 });
    network_net_end(net, activation == ACTIVATION_CLIPPED_RELU ? net_clipped_relu(net, "a", NET_INPUT, 6)
                                                               : net_activation(net, "a", NET_INPUT, activation));
    struct network network;
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 3);
    const struct backend_input input = { .pixels = pixels, .labels = &label };
    float *const values = network_values_before(&network, &input, 0);
    for (int i = 0; i < 256; i++) {
        const double x = (i - 127.5) * step, expected = expected_value(activation, x);
        if (!(fabs(values[i] - expected) <= 4e-6 * fabs(expected) + 1e-6 * step))
            fail_msg("%s: %s(%g) is %.9g instead of %.9g", backend, activation_name(activation), x, (double)values[i],
                     expected);
    }
    free(values);
    network_close(&network);
    net_close(net);
}

TEST_ON_EACH_BACKEND(values_are_those_of_the_formulas)
{
    static const float steps[] = { 1.0f / 1024, 1.0f / 32, 1 };
    for (enum activation activation = 0; activation < ACTIVATION_COUNT; activation++)
        for (uint32_t i = 0; i < ROWS(steps); i++)
            check_values(backend, activation, steps[i]);
}

TEST(a_product_of_shapes_that_do_not_fit_is_refused)
{
    static const struct shape others[] = { { 3, 4, 4 }, { 2, 1, 1 }, { 3, 1, 5 }, { 6, 4, 5 } };
    for (uint32_t i = 0; i < ROWS(others); i++)
        for (int first = 0; first < 2; first++) {
            struct net *const net = network_net_begin("products", (struct shape){ 3, 4, 5 }, CLASSES);
            const struct window window = { .kernel_h = 5 - others[i].height, .kernel_w = 6 - others[i].width,
                                           .stride_h = 1, .stride_w = 1, .padding = PADDING_VALID };
            const uint32_t other = (uint32_t)net_conv2d(net, "conv", NET_INPUT, others[i].channels, window, true);
            const uint32_t left = first ? other : NET_INPUT, right = first ? NET_INPUT : other;
            assert_int_equal(net_multiply(net, "product", left, right), -EINVAL);
            assert_non_null(strstr(net_error(net), "layer 'product': multiplies "));
            assert_non_null(strstr(net_error(net), "would fit"));
            net_close(net);
        }
}

TEST(a_limit_that_is_not_above_0_is_refused)
{
    static const float limits[] = { 0, -6, NAN, INFINITY };
    for (uint32_t i = 0; i < ROWS(limits); i++) {
        struct net *const net = network_net_begin("limits", (struct shape){ 3, 4, 5 }, CLASSES);
        assert_int_equal(net_clipped_relu(net, "six", NET_INPUT, limits[i]), -EINVAL);
        assert_non_null(strstr(net_error(net), "layer 'six': limit "));
        net_close(net);
    }
}

TESTS_MAIN_WITH_TEAMS
