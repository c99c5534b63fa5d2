/* The description of a network: a graph of layers with shapes and parameters, no memory, no
 * device. Models build one with the net_* functions; net_finish derives the rest. Layers are
 * in execution order and name what they read by index, so every directed graph that ends in
 * one loss can be described. */
#ifndef PIPETRAIN_NET_H
#define PIPETRAIN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum layer_kind {
    LAYER_CONV2D,
    LAYER_DENSE,
    LAYER_BATCH_NORM,
    LAYER_RELU,
    LAYER_MAX_POOL,
    LAYER_AVERAGE_POOL,     /* padding does not count: the mean of the window's pixels in the image */
    LAYER_DROPOUT,
    LAYER_LOCAL_RESPONSE_NORM,      /* each number divided by a root of its neighbours' squares in other channels */
    LAYER_ADD,              /* the sum of two inputs of the same shape */
    LAYER_CONCAT,           /* the channels of its inputs, one behind the other */
    LAYER_PAD_CHANNELS,     /* every stride-th pixel, with channels of zeros before and behind */
    LAYER_AUXILIARY_LOSS,   /* softmax cross-entropy times a weight, added to the loss; in training only */
    LAYER_SOFTMAX_LOSS,     /* softmax cross-entropy with integer labels; the last layer */
    LAYER_KIND_COUNT
};

/* doc/models.md, "Padding". SAME may be asymmetric: the odd one goes behind. */
enum padding { PADDING_VALID, PADDING_SAME, PADDING_EXPLICIT };

/* A sliding window. */
struct window {
    uint32_t kernel_h, kernel_w, stride_h, stride_w;
    enum padding padding;
    uint32_t top, bottom, left, right;      /* PADDING_EXPLICIT: pixels around the image */
};

static inline struct window window_square(uint32_t kernel, uint32_t stride, enum padding padding)
{
    return (struct window){
        .kernel_h = kernel, .kernel_w = kernel, .stride_h = stride, .stride_w = stride, .padding = padding,
        .top = 0, .bottom = 0, .left = 0, .right = 0 };
}

enum parameter_kind {
    PARAMETER_WEIGHT,
    PARAMETER_BIAS,
    PARAMETER_GAMMA,
    PARAMETER_BETA,
    PARAMETER_RUNNING_MEAN,
    PARAMETER_RUNNING_VARIANCE,
    PARAMETER_KIND_COUNT
};

enum initializer_kind {
    INITIALIZER_CONSTANT,           /* value */
    INITIALIZER_GLOROT_UNIFORM,     /* in (-l, l), l = sqrt(6 / (fan_in + fan_out)); Glorot, Bengio 2010 */
    INITIALIZER_TRUNCATED_NORMAL,   /* std before the tails beyond 2 deviations are drawn again */
    INITIALIZER_NORMAL,             /* std */
    INITIALIZER_UNIFORM,            /* in (-l, l) */
    INITIALIZER_KIND_COUNT
};

struct initializer {
    enum initializer_kind kind;
    float value;                    /* the constant, the std or l */
};

/* The truncated normal whose own std is sqrt(1 / fan_in): "variance scaling" of fan-in. */
struct initializer initializer_variance_scaling(uint64_t fan_in);
/* The normal of std sqrt(2 / fan_out): He et al. 2015, "Delving deep into rectifiers". */
struct initializer initializer_he_normal(uint64_t fan_out);

struct shape { uint32_t channels, height, width; };     /* of one sample */

#define NET_LAYERS_MAX 1024
#define NET_PARAMETERS_MAX (4 * NET_LAYERS_MAX)
#define NET_COUNT_MAX 0x7fffffffu   /* numbers in one sample of a layer, and in one parameter */
#define NET_INPUT UINT32_MAX        /* in layer.inputs: the image */
#define NET_NO_PARAMETER UINT32_MAX
#define NET_CHANNELS_MAX 16u        /* channels of images whose transform differs by channel */

#define LAYER_INPUTS_MAX 8u

/* y = x / (k + alpha / size * sum of x^2)^beta, the sum over the `size` (odd) channels around that of x, as
 * many as there are: Krizhevsky et al. 2012, section 3.3, with alpha as PyTorch, cuDNN and oneDNN have it. */
struct local_response_norm { uint32_t size; float alpha, beta, k; };

struct layer {
    enum layer_kind kind;
    char name[48];              /* PyTorch-style, unique: "conv1", "pool1", "fc1" */
    uint32_t input_count;
    uint32_t inputs[LAYER_INPUTS_MAX];      /* layer indices or NET_INPUT */
    struct shape in, out;       /* dense: in is what is flattened (C,H,W order), out = {units, 1, 1} */
    uint32_t kernel_h, kernel_w, stride_h, stride_w;            /* conv2d, pools; pad_channels: the strides */
    uint32_t pad_top, pad_bottom, pad_left, pad_right;
    uint32_t channels_before;   /* pad_channels: channels of zeros in front */
    struct local_response_norm response;        /* local_response_norm */
    float loss_weight;          /* auxiliary_loss */
    float rate;                 /* dropout: share of values set to 0, in [0, 1) */
    float epsilon;              /* batch_norm: added to the variance */
    double decay;               /* batch_norm: running = decay * running + (1 - decay) * batch */
    uint32_t parameters[PARAMETER_KIND_COUNT];      /* indices or NET_NO_PARAMETER */
    bool is_frozen;             /* it has trained parameters, and they are frozen, all of them */
    uint64_t macs;              /* multiply-accumulates per sample, forward */
};

struct parameter {
    char name[64];              /* "conv1.weight" */
    enum parameter_kind kind;
    uint32_t layer;
    uint32_t rank, dims[4];     /* conv [out, in, kh, kw], dense [out, in], others [channels] */
    size_t count;               /* product of dims */
    bool is_trained;            /* has a gradient and is updated; else a statistic of the layer */
    bool is_frozen;             /* of what is trained: keeps its numbers, no update touches it */
    bool decays;                /* takes part in weight decay */
    struct initializer initializer;
    uint64_t fan_in, fan_out;   /* conv: kh * kw * channels in and out; dense: inputs and units; else 0 */
};

/* Pixels to the net's input: (pixel / divisor - mean[channel]) / std[channel]. Images of
 * more than NET_CHANNELS_MAX channels have mean 0 and std 1 in all of them. */
struct input_transform {
    float divisor;
    bool is_plain;              /* all means 0, all deviations 1 */
    float mean[NET_CHANNELS_MAX], std[NET_CHANNELS_MAX];
};

struct net {
    char model[48];
    struct shape input;
    struct input_transform transform;
    uint32_t classes;
    uint32_t layer_count, parameter_count;
    struct layer *layers;
    struct parameter *parameters;   /* in layer order, inside a layer in the order of enum parameter_kind */
    size_t trainable_count;     /* numbers in all trained parameters */
    size_t frozen_count;        /* of these, in the frozen ones */
    size_t statistic_count;     /* numbers in all others */
    uint64_t macs;              /* per sample, forward, conv + dense */
    char error[192];            /* of net_error */
};

/* An empty net for images of `input`, whose pixels are divided by 255. 0 or -ENOMEM. */
int net_open(struct net **net_out, const char *model, struct shape input, uint32_t classes);
void net_close(struct net *net);

/* Another transform of the pixels; mean and std (NULL: 0 and 1) have a number per channel
 * of the image and are given after the division. 0, or -EINVAL as below. */
int net_transform(struct net *net, float divisor, const float *mean, const float *std);
/* The same, as it stands in another net or in settings. */
int net_use_transform(struct net *net, const struct input_transform *transform);

/* Each appends a layer that reads `from` (a layer index or NET_INPUT) and returns its
 * index (>= 0), or -EINVAL when it does not fit, with a message from net_error. Names
 * must be unique. After the first failure every call on the net fails with it, so
 * that a model may append all its layers and look only at net_finish. */
int64_t net_conv2d(struct net *net, const char *name, uint32_t from, uint32_t filters, struct window window,
                   bool with_bias);
int64_t net_dense(struct net *net, const char *name, uint32_t from, uint32_t units, bool with_bias);
/* Over samples and pixels, per channel; training uses the batch's own mean and biased variance,
 * evaluation the running ones, into which the unbiased variance goes (doc/models.md). Without gamma
 * the scale is 1 and no parameter. A double, as little is left of 1 - decay in a float. */
struct batch_norm { double decay; float epsilon; bool with_gamma; };
int64_t net_batch_norm(struct net *net, const char *name, uint32_t from, struct batch_norm how);
int64_t net_relu(struct net *net, const char *name, uint32_t from);
int64_t net_max_pool(struct net *net, const char *name, uint32_t from, struct window window);
int64_t net_average_pool(struct net *net, const char *name, uint32_t from, struct window window);
/* The mean of all pixels of each channel: an average pool of the whole image. */
int64_t net_global_average(struct net *net, const char *name, uint32_t from);
int64_t net_dropout(struct net *net, const char *name, uint32_t from, float rate);
int64_t net_local_response_norm(struct net *net, const char *name, uint32_t from, struct local_response_norm how);
int64_t net_add(struct net *net, const char *name, uint32_t left, uint32_t right);
/* 1 to LAYER_INPUTS_MAX inputs of the same height and width. */
int64_t net_concat(struct net *net, const char *name, const uint32_t *from, uint32_t count);
/* Pixel (y, x) is pixel (y * stride, x * stride) of the input, its channels in the middle of
 * `channels`, the odd one of zeros behind. */
int64_t net_pad_channels(struct net *net, const char *name, uint32_t from, uint32_t channels, uint32_t stride);
/* A second opinion from the middle of the net: training minimises the loss and `weight` times the
 * cross-entropy of these logits. Evaluation leaves out what only this reads. */
int64_t net_auxiliary_loss(struct net *net, const char *name, uint32_t from, float weight);
int64_t net_softmax_loss(struct net *net, const char *name, uint32_t from);

/* How a parameter of layer `layer` begins, in place of Glorot uniform (weights), 0 (biases, beta)
 * and 1 (gamma). 0, or -EINVAL when there is no such parameter. */
int net_initialize(struct net *net, int64_t layer, enum parameter_kind kind, struct initializer initializer);

/* Derive the totals and check the whole; the net is constant afterwards. 0 or -EINVAL. */
int net_finish(struct net *net);
/* How many numbers its largest parameter has; 0 without any. */
size_t net_most_numbers(const struct net *net);
/* Freeze a parameter that is trained: as PyTorch's requires_grad = False, it has its part in forward and in the
 * gradients of others, and keeps its numbers. Statistics of its layer go on. Behind net_finish, before the net is used;
 * training needs one that is left. */
void net_freeze(struct net *net, uint32_t parameter);
/* What the first failed call found wrong, "" when nothing. */
const char *net_error(const struct net *net);

/* As --describe and files of models have it: "conv2d". */
const char *layer_kind_name(enum layer_kind kind);

/* Has the layer numbers that a gradient changes? */
static inline bool layer_is_trained(const struct layer *layer)
{
    return !layer->is_frozen && (layer->parameters[PARAMETER_WEIGHT] != NET_NO_PARAMETER ||
                                 layer->parameters[PARAMETER_BETA] != NET_NO_PARAMETER);
}

/* Does an update change the parameter? */
static inline bool parameter_is_updated(const struct parameter *parameter)
{
    return parameter->is_trained && !parameter->is_frozen;
}

static inline bool layer_has(const struct layer *layer, enum parameter_kind kind)
{
    return layer->parameters[kind] != NET_NO_PARAMETER;
}

static inline size_t shape_count(struct shape shape)
{
    return (size_t)shape.channels * shape.height * shape.width;
}

#endif
