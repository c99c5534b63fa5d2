/* Random graphs for tests. Every piece leads from one value to another, and leaves no value that is not read. */
#include <stdio.h>

#include "stage/random.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"

/* A net in the making. */
struct draft {
    struct net *net;
    struct random_key key;
    uint64_t next;
    float dropout;
    char name[24];
};

static uint32_t draw(struct draft *draft, uint32_t below)
{
    return (uint32_t)(random_u64(draft->key, draft->next++) % below);
}

static const char *name_next(struct draft *draft)
{
    snprintf(draft->name, sizeof(draft->name), "layer%u", draft->net->layer_count);
    return draft->name;
}

static struct shape shape_at(const struct draft *draft, uint32_t from)
{
    return from == NET_INPUT ? draft->net->input : draft->net->layers[from].out;
}

/* ---- layers that keep the shape ---- */

static uint32_t grouped_conv(struct draft *draft, uint32_t from, uint32_t filters, struct window window, bool with_bias)
{
    const uint32_t groups = network_groups(draft->net, shape_at(draft, from).channels, filters);
    const struct conv2d how = { filters, groups, window, with_bias };
    return (uint32_t)net_grouped_conv2d(draft->net, name_next(draft), from, how);
}

static uint32_t conv_same(struct draft *draft, uint32_t from)
{
    const struct window window = {
        .kernel_h = 1 + draw(draft, 3),
        .kernel_w = 1 + draw(draft, 3),
        .stride_h = 1,
        .stride_w = 1,
        .padding = PADDING_SAME,
    };
    const bool with_bias = draw(draft, 2) == 0;
    return grouped_conv(draft, from, shape_at(draft, from).channels, window, with_bias);
}

/* A large epsilon: in a small batch a channel may be as good as constant, and whatever is left of
 * it would be blown up. */
static uint32_t norm(struct draft *draft, uint32_t from)
{
    const struct batch_norm how = { .decay = 0.75, .epsilon = 0.05f, .with_gamma = draw(draft, 2) == 0 };
    return (uint32_t)net_batch_norm(draft->net, name_next(draft), from, how);
}

static uint32_t relu(struct draft *draft, uint32_t from)
{
    return (uint32_t)net_relu(draft->net, name_next(draft), from);
}

static uint32_t dropout(struct draft *draft, uint32_t from)
{
    return (uint32_t)net_dropout(draft->net, name_next(draft), from, draft->dropout);
}

/* A large epsilon, because a pixel may have few channels. */
static uint32_t layer_norm(struct draft *draft, uint32_t from)
{
    return (uint32_t)net_layer_norm(draft->net, name_next(draft), from, 0.5f);
}

static uint32_t scale(struct draft *draft, uint32_t from)
{
    return (uint32_t)net_scale(draft->net, name_next(draft), from);
}

static uint32_t stochastic_depth(struct draft *draft, uint32_t from)
{
    return (uint32_t)net_stochastic_depth(draft->net, name_next(draft), from, draft->dropout);
}

static uint32_t average_same(struct draft *draft, uint32_t from)
{
    const struct window window = window_square(1 + draw(draft, 3), 1, PADDING_SAME);
    return (uint32_t)net_average_pool(draft->net, name_next(draft), from, window);
}

/* Sums that are felt, and powers that are not all of one kind. */
static uint32_t response(struct draft *draft, uint32_t from)
{
    const struct local_response_norm how = {
        .size = 1 + 2 * draw(draft, 4), .alpha = 0.5f, .beta = draw(draft, 2) == 0 ? 0.75f : 0.5f, .k = 1,
    };
    return (uint32_t)net_local_response_norm(draft->net, name_next(draft), from, how);
}

static uint32_t add(struct draft *draft, uint32_t left, uint32_t right)
{
    return (uint32_t)net_add(draft->net, name_next(draft), left, right);
}

/* A limit that about a quarter of the numbers above 0 exceed. */
static uint32_t activation(struct draft *draft, uint32_t from)
{
    const enum activation function = (enum activation)draw(draft, ACTIVATION_COUNT);
    return (uint32_t)(function == ACTIVATION_CLIPPED_RELU
                          ? net_clipped_relu(draft->net, name_next(draft), from, 1.2f)
                          : net_activation(draft->net, name_next(draft), from, function));
}

static uint32_t same_layer(struct draft *draft, uint32_t from)
{
    static uint32_t (*const layers[])(struct draft *, uint32_t) = {
        conv_same, conv_same, norm, norm, relu, relu, dropout, average_same, response, layer_norm, scale,
        stochastic_depth, activation, activation,
    };
    return layers[draw(draft, sizeof(layers) / sizeof(layers[0]))](draft, from);
}

/* `from` itself when the branch has no layers. */
static uint32_t same_branch(struct draft *draft, uint32_t from, uint32_t layers)
{
    for (; layers > 0; layers--)
        from = same_layer(draft, from);
    return from;
}

/* ---- layers that change the shape ---- */

static uint32_t side_draw(struct draft *draft, uint32_t side, uint32_t most)
{
    const uint32_t kernel = 1 + draw(draft, most);
    return kernel < side ? kernel : side;
}

/* Neither square nor symmetric. */
static struct window window_draw(struct draft *draft, struct shape shape)
{
    struct window window = {
        .kernel_h = side_draw(draft, shape.height, 4),
        .kernel_w = side_draw(draft, shape.width, 5),
        .stride_h = 1 + draw(draft, 2),
        .stride_w = 1 + draw(draft, 2),
        .padding = (enum padding)draw(draft, 3),
    };
    if (window.padding == PADDING_EXPLICIT) {
        window.top = draw(draft, window.kernel_h);
        window.bottom = draw(draft, window.kernel_h);
        window.left = draw(draft, window.kernel_w);
        window.right = draw(draft, window.kernel_w);
    }
    return window;
}

static uint32_t conv(struct draft *draft, uint32_t from)
{
    static const uint32_t filters[] = { 1, 4, 8, 16, 17 };
    const struct window window = window_draw(draft, shape_at(draft, from));
    const bool with_bias = draw(draft, 2) == 0;
    return grouped_conv(draft, from, filters[draw(draft, 5)], window, with_bias);
}

static uint32_t max_pool(struct draft *draft, uint32_t from)
{
    const struct window window = window_draw(draft, shape_at(draft, from));
    return (uint32_t)net_max_pool(draft->net, name_next(draft), from, window);
}

static uint32_t average_pool(struct draft *draft, uint32_t from)
{
    const struct window window = window_draw(draft, shape_at(draft, from));
    return (uint32_t)net_average_pool(draft->net, name_next(draft), from, window);
}

static uint32_t pad_channels(struct draft *draft, uint32_t from)
{
    const uint32_t channels = shape_at(draft, from).channels + draw(draft, 6);
    return (uint32_t)net_pad_channels(draft->net, name_next(draft), from, channels, 1 + draw(draft, 2));
}

static uint32_t pad_channels_same(struct draft *draft, uint32_t from)
{
    const uint32_t channels = shape_at(draft, from).channels + draw(draft, 6);
    return (uint32_t)net_pad_channels(draft->net, name_next(draft), from, channels, 1);
}

/* ---- pieces with several ways ---- */

/* One way around up to three layers. */
static uint32_t residual(struct draft *draft, uint32_t from)
{
    const uint32_t branch = same_branch(draft, from, 1 + draw(draft, 3));
    return draw(draft, 2) == 0 ? add(draft, branch, from) : add(draft, from, branch);
}

static uint32_t diamond(struct draft *draft, uint32_t from)
{
    const uint32_t left = same_branch(draft, from, 1 + draw(draft, 3));
    const uint32_t right = same_branch(draft, from, 1 + draw(draft, 2));
    return add(draft, left, right);
}

static uint32_t three_readers(struct draft *draft, uint32_t from)
{
    const uint32_t left = same_branch(draft, from, 1 + draw(draft, 2));
    const uint32_t right = same_branch(draft, from, 1 + draw(draft, 2));
    return add(draft, add(draft, left, from), right);
}

static uint32_t twice(struct draft *draft, uint32_t from)
{
    return add(draft, from, from);
}

/* A value times itself, or times another one of the same shape. */
static uint32_t product(struct draft *draft, uint32_t from)
{
    const uint32_t other = same_branch(draft, from, draw(draft, 3));
    return (uint32_t)net_multiply(draft->net, name_next(draft), from, activation(draft, other));
}

/* Squeeze and excitation of an activation behind a normalisation. */
static uint32_t excitation(struct draft *draft, uint32_t from)
{
    const uint32_t value = activation(draft, norm(draft, conv_same(draft, from)));
    uint32_t at = (uint32_t)net_global_average(draft->net, name_next(draft), value);
    at = activation(draft, conv_same(draft, at));
    at = (uint32_t)net_activation(draft->net, name_next(draft), conv_same(draft, at), ACTIVATION_SIGMOID);
    return draw(draft, 2) == 0 ? (uint32_t)net_multiply(draft->net, name_next(draft), value, at)
                               : (uint32_t)net_multiply(draft->net, name_next(draft), at, value);
}

/* Up to four ways of different width. */
static uint32_t inception(struct draft *draft, uint32_t from)
{
    uint32_t ways[4];
    const uint32_t count = 1 + draw(draft, 4);
    for (uint32_t k = 0; k < count; k++)
        ways[k] = same_branch(draft, draw(draft, 2) == 0 ? pad_channels_same(draft, from) : from, draw(draft, 2));
    return (uint32_t)net_concat(draft->net, name_next(draft), ways, count);
}

/* What is there, and something new made of it, twice. */
static uint32_t dense_block(struct draft *draft, uint32_t from)
{
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t growth = 1 + draw(draft, 8);
        const uint32_t made = relu(draft, norm(draft, from));
        const uint32_t ways[] = { from, (uint32_t)net_conv2d(draft->net, name_next(draft), made, growth,
                                                             window_square(3, 1, PADDING_SAME), true) };
        from = (uint32_t)net_concat(draft->net, name_next(draft), ways, 2);
    }
    return from;
}

/* A residual block of the CIFAR networks that halves the image. */
static uint32_t shortcut(struct draft *draft, uint32_t from)
{
    const uint32_t channels = shape_at(draft, from).channels + 1 + draw(draft, 5);
    uint32_t at = (uint32_t)net_conv2d(draft->net, name_next(draft), from, channels,
                                       window_square(3, 2, PADDING_SAME), false);
    const uint32_t around = (uint32_t)net_pad_channels(draft->net, name_next(draft), from, channels, 2);
    at = norm(draft, at);
    return relu(draft, add(draft, at, around));
}

/* Evaluation fuses it into convolutions, and the sum is stored in place of `from` if that is not read later. */
static uint32_t residual_block(struct draft *draft, uint32_t from)
{
    uint32_t at = norm(draft, conv_same(draft, relu(draft, norm(draft, conv_same(draft, from)))));
    if (draw(draft, 2) == 0)
        at = stochastic_depth(draft, at);
    return relu(draft, draw(draft, 2) == 0 ? add(draft, at, from) : add(draft, from, at));
}

/* A residual block of ConvNeXt; without the factor or the drop at its end in some cases. */
static uint32_t convnext_block(struct draft *draft, uint32_t from)
{
    uint32_t at = conv_same(draft, layer_norm(draft, conv_same(draft, from)));
    if (draw(draft, 3) > 0)
        at = scale(draft, at);
    if (draw(draft, 3) > 0)
        at = stochastic_depth(draft, at);
    return draw(draft, 2) == 0 ? add(draft, at, from) : add(draft, from, at);
}

static uint32_t piece(struct draft *draft, uint32_t from)
{
    static uint32_t (*const pieces[])(struct draft *, uint32_t) = {
        same_layer,   conv,     conv,    max_pool,      average_pool, pad_channels,
        residual,     residual, diamond, three_readers, twice,        shortcut,
        inception,    dense_block,  residual_block, convnext_block, product,     excitation,
    };
    return pieces[draw(draft, sizeof(pieces) / sizeof(pieces[0]))](draft, from);
}

static void auxiliary_head(struct draft *draft, uint32_t from)
{
    from = (uint32_t)net_dense(draft->net, "auxiliary_classes", from, draft->net->classes, draw(draft, 2) == 0);
    net_auxiliary_loss(draft->net, "auxiliary_loss", from, 0.4f);
}

struct net *network_random_graph(uint32_t seed, float rate)
{
    struct draft draft = { .key = random_key(seed, RANDOM_DRAW, 5), .dropout = rate };
    const uint32_t channels = 1 + draw(&draft, 8), height = 4 + draw(&draft, 8), width = 4 + draw(&draft, 8);
    const uint32_t classes = 2 + draw(&draft, 8);
    const struct shape input = { channels, height, width };
    snprintf(draft.name, sizeof(draft.name), "graph %u", seed);
    assert_int_equal(net_open(&draft.net, draft.name, input, classes), 0);
    uint32_t from = draw(&draft, 4) == 0 ? NET_INPUT : conv(&draft, NET_INPUT);
    for (uint32_t pieces = 1 + draw(&draft, 5); pieces > 0; pieces--)
        from = piece(&draft, from);
    if (draw(&draft, 2) == 0)
        from = (uint32_t)net_global_average(draft.net, "mean", from);
    if (draw(&draft, 3) == 0)
        auxiliary_head(&draft, from);
    from = (uint32_t)net_dense(draft.net, "classes", from, classes, draw(&draft, 2) == 0);
    net_softmax_loss(draft.net, "loss", from);
    net_finish(draft.net);
    assert_string_equal(net_error(draft.net), "");
    return draft.net;
}
