/* The words in which the models of this folder are written. A draft is a net that is being written, with what all its
 * layers have in common. A word appends layers, of which the first reads `from` (a layer or NET_INPUT), and returns the
 * index of the last. What does not fit shows in net_finish. */
#ifndef PIPETRAIN_PARTS_H
#define PIPETRAIN_PARTS_H

#include "compute/model.h"

/* What the models of one source share: the transform of pixels (net_transform), how weights begin, given their fans,
 * and batch normalisation. Biases begin at 0. */
struct style {
    float divisor;
    const float *mean, *std;
    struct initializer (*conv)(uint64_t fan_in, uint64_t fan_out);
    struct initializer (*hidden)(uint64_t fan_in, uint64_t fan_out);        /* dense layers but the last */
    struct initializer (*classes)(uint64_t fan_in, uint64_t fan_out);       /* the last */
    struct batch_norm norm;
};

/* tf_cnn_benchmarks of 2023: pixels in [-1, 1]; convolutions by variance scaling of their fan-in; dense layers
 * truncated normals of variance 2 / inputs, the last 1 / inputs; decay 0.9, epsilon 1e-5. */
extern const struct style style_benchmarks;
/* Its other normalisation: decay 0.999, epsilon 1e-3. In front of the blocks of the v2 residual networks, and
 * everywhere in Inception. */
extern const struct batch_norm norm_without_gamma;
/* Keras: pixels in [0, 1]; all weights Glorot uniform; decay 0.99, epsilon 1e-3. */
extern const struct style style_keras;

struct draft {
    struct net *net;
    const struct model_options *options;
    const struct style *style;
    char prefix[40];            /* in front of every name: "layer2.0." */
    char name[64];              /* the name last made */
};

/* A draft of an empty net, whose transform is that of the style; without a prefix. */
struct draft draft_of(struct net *net, const struct model_options *options, const struct style *style);
/* The same net, where names begin with this behind the prefix of `draft`: a block, a branch. */
struct draft draft_in(const struct draft *draft, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Layers that are called by their places, as PyTorch calls those of a Sequential. */
struct list { struct draft draft, here; uint32_t place; };
/* The draft of the next place, whose layer is called "". */
struct draft *list_next(struct list *list);
/* Channels of what layer `from` makes; 0 after something did not fit. */
uint32_t channels_of(const struct draft *draft, uint32_t from);

/* ---- windows ---- */

static inline struct window window_same(uint32_t kernel, uint32_t stride)
{
    return window_square(kernel, stride, PADDING_SAME);
}

static inline struct window window_valid(uint32_t kernel, uint32_t stride)
{
    return window_square(kernel, stride, PADDING_VALID);
}

/* (kernel - 1) / 2 pixels on every side, as PyTorch's networks have it: SAME with stride 1 and an odd kernel. */
static inline struct window window_centred(uint32_t kernel, uint32_t stride)
{
    const uint32_t side = (kernel - 1) / 2;
    return (struct window){ .kernel_h = kernel, .kernel_w = kernel, .stride_h = stride, .stride_w = stride,
                            .padding = PADDING_EXPLICIT, .top = side, .bottom = side, .left = side, .right = side };
}

/* ---- one layer ---- */

uint32_t part_conv(struct draft *draft, const char *name, uint32_t from, uint32_t filters, struct window window);
uint32_t part_conv_bias(struct draft *draft, const char *name, uint32_t from, uint32_t filters, struct window window);
uint32_t part_dense(struct draft *draft, const char *name, uint32_t from, uint32_t units);      /* with bias */
/* The style's, or another. */
uint32_t part_norm(struct draft *draft, const char *name, uint32_t from);
uint32_t part_norm_as(struct draft *draft, const char *name, uint32_t from, struct batch_norm how);
uint32_t part_relu(struct draft *draft, const char *name, uint32_t from);
uint32_t part_max_pool(struct draft *draft, const char *name, uint32_t from, struct window window);
uint32_t part_average_pool(struct draft *draft, const char *name, uint32_t from, struct window window);
uint32_t part_mean(struct draft *draft, const char *name, uint32_t from);       /* of all pixels of each channel */
uint32_t part_dropout(struct draft *draft, const char *name, uint32_t from, float rate);        /* if options say so */
uint32_t part_local_response_norm(struct draft *draft, const char *name, uint32_t from, struct local_response_norm how);
uint32_t part_pad_channels(struct draft *draft, const char *name, uint32_t from, uint32_t channels, uint32_t stride);
uint32_t part_add(struct draft *draft, const char *name, uint32_t left, uint32_t right);
uint32_t part_concat(struct draft *draft, const char *name, const uint32_t *from, uint32_t count);
void part_auxiliary_loss(struct draft *draft, const char *name, uint32_t from, float weight);
/* Other first values of the weights and biases of a layer, which has both. */
void part_begin(struct draft *draft, uint32_t layer, struct initializer weight, float bias);

/* ---- several layers: conv<number>, bn<number>, relu<number>; fc<number>, fc<number>_relu ---- */

uint32_t part_conv_norm(struct draft *draft, const char *number, uint32_t from, uint32_t filters, struct window window);
uint32_t part_conv_norm_relu(struct draft *draft, const char *number, uint32_t from, uint32_t filters,
                             struct window window);
/* With a bias. */
uint32_t part_conv_relu(struct draft *draft, const char *number, uint32_t from, uint32_t filters, struct window window);
uint32_t part_dense_relu(struct draft *draft, const char *number, uint32_t from, uint32_t units);
/* The end of every model: a dense layer of that name with a unit a class, which is returned, and the loss. */
uint32_t part_classes(struct draft *draft, const char *name, uint32_t from);

#endif
