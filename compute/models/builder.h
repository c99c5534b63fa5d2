/* Functions with which the models of this folder are written. Each appends one or a few layers, the first of which
 * reads `from` (a layer index or NET_INPUT), and returns the index of the last layer. Errors show in net_finish. */
#ifndef PIPETRAIN_BUILDER_H
#define PIPETRAIN_BUILDER_H

#include "compute/model.h"

/* The conventions of the program or library that models are taken from: the transform of pixels (net_transform), the
 * initialisers of weights and biases, given the fans of the weights, and batch normalisation. */
struct style {
    float divisor;
    const float *mean, *std;
    struct initializer (*conv)(uint64_t fan_in, uint64_t fan_out);
    struct initializer (*hidden)(uint64_t fan_in, uint64_t fan_out);        /* dense layers except the last */
    struct initializer (*classes)(uint64_t fan_in, uint64_t fan_out);       /* the last one */
    struct initializer (*biases)(uint64_t fan_in, uint64_t fan_out);        /* of all these layers; NULL: 0 */
    struct batch_norm norm;
};

/* tf_cnn_benchmarks of 2023: pixels in [-1, 1]; variance scaling by fan-in for convolutions; truncated normals of
 * variance 2 / inputs for dense layers, 1 / inputs for the last; decay 0.9, epsilon 1e-5. */
extern const struct style style_benchmarks;
/* The other normalisation of tf_cnn_benchmarks (decay 0.999, epsilon 1e-3): before the blocks of v2 residual networks,
 * and everywhere in Inception. */
extern const struct batch_norm norm_without_gamma;
/* Mean and standard deviation of ImageNet's pixels in [0, 1], as in torchvision. */
extern const float torchvision_mean[3], torchvision_std[3];
/* Initialisers of torchvision's models and of models that follow them: normals as He et al. 2015 have them, by fan-out
 * and by fan-in; a std of 0.01; uniform in (-l, l) with l = sqrt(6 / fan_in) (He et al., too), and with
 * l = sqrt(1 / fan_in), which is PyTorch's default for weights and biases. */
struct initializer he_normal_fan_out(uint64_t fan_in, uint64_t fan_out);
struct initializer he_normal_fan_in(uint64_t fan_in, uint64_t fan_out);
struct initializer normal_001(uint64_t fan_in, uint64_t fan_out);
struct initializer he_uniform(uint64_t fan_in, uint64_t fan_out);
struct initializer pytorch_uniform(uint64_t fan_in, uint64_t fan_out);
/* Keras: pixels in [0, 1]; all weights Glorot uniform; decay 0.99, epsilon 1e-3. */
extern const struct style style_keras;

/* A net that is being built, and the settings of its layers. */
struct builder {
    struct net *net;
    const struct model_options *options;
    const struct style *style;
    char prefix[40];            /* prefix of all names: "layer2.0." */
    char name[64];              /* the last name */
};

/* A builder without a prefix, for an empty net, in which it sets the transform of the style. */
struct builder builder_of(struct net *net, const struct model_options *options, const struct style *style);
/* A builder for the same net that appends this to the prefix of names, for a block or a branch. */
struct builder builder_within(const struct builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Layers that are named by numbers from 0, as in PyTorch's Sequential. */
struct sequential { struct builder builder, next; uint32_t count; };
/* The builder for the next layer, whose own name is "". */
struct builder *sequential_next(struct sequential *sequential);
/* The output channels of layer `from`; 0 after an error. */
uint32_t builder_channels(const struct builder *builder, uint32_t from);

/* ---- windows ---- */

static inline struct window window_same(uint32_t kernel, uint32_t stride)
{
    return window_square(kernel, stride, PADDING_SAME);
}

static inline struct window window_valid(uint32_t kernel, uint32_t stride)
{
    return window_square(kernel, stride, PADDING_VALID);
}

/* Windows of this kernel and stride 2 that together reach every pixel, the last ones beyond the image: PyTorch's
 * ceil_mode for kernels of 2 and 3. */
static inline struct window window_ceil(uint32_t kernel)
{
    struct window window = window_square(kernel, 2, PADDING_EXPLICIT);
    window.bottom = window.right = 1;
    return window;
}

/* (kernel - 1) / 2 pixels on every side, as in PyTorch's networks: equal to SAME for stride 1 and an odd kernel. */
static inline struct window window_centred(uint32_t kernel, uint32_t stride)
{
    const uint32_t side = (kernel - 1) / 2;
    return (struct window){ .kernel_h = kernel, .kernel_w = kernel, .stride_h = stride, .stride_w = stride,
                            .padding = PADDING_EXPLICIT, .top = side, .bottom = side, .left = side, .right = side };
}

/* ---- one layer ---- */

uint32_t build_conv(struct builder *builder, const char *name, uint32_t from, uint32_t filters, struct window window);
uint32_t build_conv_bias(struct builder *builder, const char *name, uint32_t from, uint32_t filters,
                         struct window window);
/* With groups; without a bias, or with one. */
uint32_t build_grouped_conv(struct builder *builder, const char *name, uint32_t from, struct conv2d how);
uint32_t build_dense(struct builder *builder, const char *name, uint32_t from, uint32_t units);     /* with bias */
/* With the settings of the style, or with others. */
uint32_t build_norm(struct builder *builder, const char *name, uint32_t from);
uint32_t build_norm_with(struct builder *builder, const char *name, uint32_t from, struct batch_norm how);
uint32_t build_layer_norm(struct builder *builder, const char *name, uint32_t from, float epsilon);
/* A factor per channel, initialised to `gamma`. */
uint32_t build_scale(struct builder *builder, const char *name, uint32_t from, float gamma);
uint32_t build_relu(struct builder *builder, const char *name, uint32_t from);
uint32_t build_clipped_relu(struct builder *builder, const char *name, uint32_t from, float limit);
uint32_t build_activation(struct builder *builder, const char *name, uint32_t from, enum activation activation);
uint32_t build_max_pool(struct builder *builder, const char *name, uint32_t from, struct window window);
uint32_t build_average_pool(struct builder *builder, const char *name, uint32_t from, struct window window);
uint32_t build_global_average(struct builder *builder, const char *name, uint32_t from); /* the mean of each channel */
/* Appends nothing, and returns `from`, when the options omit dropout. */
uint32_t build_dropout(struct builder *builder, const char *name, uint32_t from, float rate);
uint32_t build_stochastic_depth(struct builder *builder, const char *name, uint32_t from, float rate);  /* as dropout */
uint32_t build_local_response_norm(struct builder *builder, const char *name, uint32_t from,
                                   struct local_response_norm how);
uint32_t build_pad_channels(struct builder *builder, const char *name, uint32_t from, uint32_t channels,
                            uint32_t stride);
uint32_t build_add(struct builder *builder, const char *name, uint32_t left, uint32_t right);
uint32_t build_multiply(struct builder *builder, const char *name, uint32_t left, uint32_t right);
uint32_t build_concat(struct builder *builder, const char *name, const uint32_t *from, uint32_t count);
void build_auxiliary_loss(struct builder *builder, const char *name, uint32_t from, float weight);
/* Replace the initialisers of a layer that has weights and biases. */
void build_initializers(struct builder *builder, uint32_t layer, struct initializer weight, float bias);

/* ---- several layers: conv<number>, bn<number>, relu<number>; fc<number>, fc<number>_relu ---- */

uint32_t build_conv_norm(struct builder *builder, const char *number, uint32_t from, uint32_t filters,
                         struct window window);
uint32_t build_conv_norm_relu(struct builder *builder, const char *number, uint32_t from, uint32_t filters,
                             struct window window);
/* With a bias. */
uint32_t build_conv_relu(struct builder *builder, const char *number, uint32_t from, uint32_t filters,
                         struct window window);
uint32_t build_dense_relu(struct builder *builder, const char *number, uint32_t from, uint32_t units);
/* The multiple of `divisor` that is nearest to the number of channels, at least one, and at least nine tenths of the
 * number: torchvision's _make_divisible. */
uint32_t build_divisible(uint32_t channels, uint32_t divisor);
/* Squeeze and excitation (Hu et al. 2018): multiplies each channel by a number that two dense layers compute from the
 * means of all channels; they are 1x1 convolutions, fc1 and fc2. hidden: the units of the first; after: its activation
 * (ACTIVATION_COUNT: ReLU); gate: that of the second. */
uint32_t build_excitation(struct builder *builder, uint32_t from, uint32_t hidden, enum activation after,
                          enum activation gate);
/* The end of most models: appends a dense layer of that name with a unit per class, and the loss. Returns the index of
 * the dense layer. */
uint32_t build_classifier(struct builder *builder, const char *name, uint32_t from);

#endif
