/* The description of a network: a graph of layers with shapes and parameters, without memory or a device. Models
 * build one with the net_* functions, and net_finish completes it. Layers are in execution order and refer to their
 * inputs by index, so that every acyclic graph that ends in one loss can be described. Used by models/ and netfile/,
 * which build networks, and by all that compute, save or describe them. */
#ifndef PIPETRAIN_NET_H
#define PIPETRAIN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum layer_kind {
    LAYER_CONV2D,
    LAYER_DENSE,
    LAYER_BATCH_NORM,
    LAYER_LAYER_NORM,       /* normalises the channels of every pixel */
    LAYER_SCALE,            /* a factor per channel */
    LAYER_RELU,
    LAYER_ACTIVATION,       /* enum activation */
    LAYER_MAX_POOL,
    LAYER_AVERAGE_POOL,     /* the mean of the window's pixels inside the image: padding does not count */
    LAYER_DROPOUT,
    LAYER_STOCHASTIC_DEPTH, /* dropout of whole samples */
    LAYER_LOCAL_RESPONSE_NORM,      /* struct local_response_norm */
    LAYER_ADD,              /* the sum of two inputs of the same shape */
    LAYER_MULTIPLY,         /* the product of two inputs; the second has the shape of the first, or one pixel */
    LAYER_CONCAT,           /* the channels of its inputs, in order */
    LAYER_PAD_CHANNELS,     /* every stride-th pixel, with channels of zeros before and after */
    LAYER_AUXILIARY_LOSS,   /* softmax cross-entropy times a weight, added to the loss; in training only */
    LAYER_SOFTMAX_LOSS,     /* softmax cross-entropy with integer labels; the last layer */
    LAYER_KIND_COUNT,
    /* Only in the share of a net that a tower computes (compute/share.h): */
    LAYER_SEND = LAYER_KIND_COUNT,  /* writes its input to memory outside of the plan, for other towers */
    LAYER_RECEIVE,          /* no inputs: its output is memory that all towers have filled */
    LAYER_PART_LOSS,        /* softmax cross-entropy over all classes, of which its input has a part */
    LAYER_ROW_COUNT         /* of the tables of backends */
};

/* Functions of one number. Their derivatives at the ends of a range, where they have none, are 0. */
enum activation {
    ACTIVATION_CLIPPED_RELU,        /* min(max(x, 0), limit) */
    ACTIVATION_SIGMOID,             /* 1 / (1 + exp(-x)) */
    ACTIVATION_HARD_SIGMOID,        /* min(max(x / 6 + 1/2, 0), 1); Howard et al. 2019, "Searching for MobileNetV3" */
    ACTIVATION_SILU,                /* x * sigmoid(x) */
    ACTIVATION_HARD_SWISH,          /* x * hard_sigmoid(x); Howard et al. 2019 */
    ACTIVATION_GELU,                /* x / 2 * (1 + erf(x / sqrt(2))); Hendrycks, Gimpel 2016 */
    ACTIVATION_COUNT
};

/* doc/models.md, "Padding". SAME may be asymmetric: an odd pixel goes to the bottom or the right. */
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
    INITIALIZER_TRUNCATED_NORMAL,   /* std of the normal; numbers beyond 2 std are drawn again */
    INITIALIZER_NORMAL,             /* std */
    INITIALIZER_UNIFORM,            /* in (-l, l) */
    INITIALIZER_KIND_COUNT
};

struct initializer {
    enum initializer_kind kind;
    float value;                    /* the constant, the std, or l */
};

/* A truncated normal that has std sqrt(1 / fan_in) after truncation: variance scaling by fan-in. */
struct initializer initializer_variance_scaling(uint64_t fan_in);
/* A normal of std sqrt(2 / fan_out): He et al. 2015, "Delving deep into rectifiers". */
struct initializer initializer_he_normal(uint64_t fan_out);

struct shape { uint32_t channels, height, width; };     /* shape of one sample */

#define NET_LAYERS_MAX 1024
#define NET_PARAMETERS_MAX (4 * NET_LAYERS_MAX)
#define NET_COUNT_MAX 0x7fffffffu   /* most numbers in one sample of a layer, and in one parameter */
#define NET_INPUT UINT32_MAX        /* in layer.inputs: the image */
#define NET_NO_PARAMETER UINT32_MAX
#define NET_CHANNELS_MAX 16u        /* most channels of images that have a transform per channel */

#define LAYER_INPUTS_MAX 8u

/* y = x / (k + alpha / size * sum of x^2)^beta. The sum is over the `size` (odd) channels around the channel of x,
 * fewer at the ends: Krizhevsky et al. 2012, section 3.3, with alpha as in PyTorch, cuDNN and oneDNN. */
struct local_response_norm { uint32_t size; float alpha, beta, k; };

struct layer {
    enum layer_kind kind;
    char name[48];              /* PyTorch-style, unique: "conv1", "pool1", "fc1" */
    uint32_t input_count;
    uint32_t inputs[LAYER_INPUTS_MAX];      /* layer indices or NET_INPUT */
    struct shape in, out;       /* dense: `in` is flattened in C,H,W order, out = {units, 1, 1} */
    uint32_t kernel_h, kernel_w, stride_h, stride_w;            /* conv2d, pools; pad_channels: the strides */
    uint32_t pad_top, pad_bottom, pad_left, pad_right;
    uint32_t groups;            /* conv2d: 1 or more, a divisor of both channel counts; others: 0 */
    uint32_t channels_before;   /* pad_channels: channels of zeros before those of the input */
    struct local_response_norm response;        /* local_response_norm */
    enum activation activation;
    float limit;                /* activation: of ACTIVATION_CLIPPED_RELU, above 0 */
    float loss_weight;          /* auxiliary_loss */
    float rate;                 /* dropout: share of values that become 0, in [0, 1); stochastic_depth: of samples */
    float epsilon;              /* batch_norm, layer_norm: added to the variance */
    double decay;               /* batch_norm: running = decay * running + (1 - decay) * batch */
    uint32_t parameters[PARAMETER_KIND_COUNT];      /* indices or NET_NO_PARAMETER */
    bool is_frozen;             /* it has trained parameters, and all of them are frozen */
    uint64_t macs;              /* multiply-accumulates per sample, forward */
};

struct parameter {
    char name[64];              /* "conv1.weight" */
    enum parameter_kind kind;
    uint32_t layer;
    uint32_t rank, dims[4];     /* conv [out, in / groups, kh, kw], dense [out, in], scale [channels, 1, 1], others
                                 * [channels] */
    size_t count;               /* product of dims */
    bool is_trained;            /* the parameter has a gradient and is updated; false: it is a running statistic of the
                                 * layer */
    bool is_frozen;             /* of a trained parameter: it is not updated (net_freeze) */
    bool decays;                /* weight decay applies to it by default */
    struct initializer initializer;
    uint64_t fan_in, fan_out;   /* conv: kh * kw times in / groups and times out, as in PyTorch; dense: inputs and
                                 * units; else 0 */
};

/* The transform of pixels to the input of the net: (pixel / divisor - mean[channel]) / std[channel]. Images of more
 * than NET_CHANNELS_MAX channels have mean 0 and std 1 in all channels. */
struct input_transform {
    float divisor;
    bool is_plain;              /* all means are 0 and all stds 1 */
    float mean[NET_CHANNELS_MAX], std[NET_CHANNELS_MAX];
};

/* Of the share of a net: where its layers and parameters come from. */
struct net_share {
    uint32_t *layers;           /* [layer_count]: index of the layer in the whole net; NET_INPUT: not in it */
    uint32_t *parts;            /* [layer_count]: the part of that layer, from 0 */
    uint32_t *parameters;       /* [parameter_count]: index of the parameter in the whole net */
    size_t *firsts;             /* [parameter_count]: index of its first number in the whole parameter */
    bool *is_part;              /* [parameter_count]: other towers have other parts of the parameter; false: every
                                 * tower has all of it */
};

struct net {
    char model[48];
    struct shape input;
    struct input_transform transform;
    uint32_t classes;
    uint32_t layer_count, parameter_count;
    struct layer *layers;
    struct parameter *parameters;   /* in layer order, within a layer in the order of enum parameter_kind */
    size_t trainable_count;     /* numbers in all trained parameters */
    size_t frozen_count;        /* numbers in frozen parameters, which trainable_count includes */
    size_t statistic_count;     /* numbers in running statistics */
    uint64_t macs;              /* per sample, forward, of convolutions and dense layers */
    char error[192];            /* net_error */
    struct net_share *share;    /* NULL: it is a whole net */
};

/* Open an empty net for images of shape `input`, whose pixels are divided by 255. 0 or -ENOMEM. */
int net_open(struct net **net_out, const char *model, struct shape input, uint32_t classes);
void net_close(struct net *net);

/* Replace the transform of pixels; mean and std (NULL: 0 and 1) have a number per channel of the image, in units of
 * pixel / divisor. 0, or -EINVAL as below. */
int net_transform(struct net *net, float divisor, const float *mean, const float *std);
/* The same, with a transform from another net or from settings. */
int net_use_transform(struct net *net, const struct input_transform *transform);

/* Each of these functions appends a layer that reads `from` (a layer index or NET_INPUT) and returns its index (>= 0),
 * or -EINVAL when the layer is invalid there; net_error then returns the message. Names must be unique. After the first
 * error all calls on the net fail with it, so that a model can append all its layers and check only net_finish. */
int64_t net_conv2d(struct net *net, const char *name, uint32_t from, uint32_t filters, struct window window,
                   bool with_bias);
/* The channels of the input and the filters are split into `groups` equal ranges, and each range of filters reads its
 * range of channels only. With as many groups as channels it is a depthwise convolution. */
struct conv2d { uint32_t filters, groups; struct window window; bool with_bias; };
int64_t net_grouped_conv2d(struct net *net, const char *name, uint32_t from, struct conv2d how);
int64_t net_dense(struct net *net, const char *name, uint32_t from, uint32_t units, bool with_bias);
/* Batch normalisation over samples and pixels, per channel. Training uses the mean and biased variance of the batch,
 * evaluation uses the running statistics, which average the unbiased variance (doc/models.md). Without gamma the scale
 * is 1 and not a parameter. decay is a double because 1 - decay would lose most digits in a float. */
struct batch_norm { double decay; float epsilon; bool with_gamma; };
int64_t net_batch_norm(struct net *net, const char *name, uint32_t from, struct batch_norm how);
/* Layer normalisation over the channels of every pixel: gamma * (x - mean) / sqrt(variance + epsilon) + beta, with the
 * biased variance. Ba et al. 2016; over channels as in Liu et al. 2022, "A ConvNet for the 2020s". */
int64_t net_layer_norm(struct net *net, const char *name, uint32_t from, float epsilon);
/* gamma[channel] * x: layer scale, Touvron et al. 2021. The parameter has the name of the layer, with nothing after it,
 * as PyTorch names a parameter that is no module; so the name of the layer must not end like that of another parameter
 * (".weight"). Weight decay applies to it, as in torchvision, whose ConvNeXt exempts only norms. */
int64_t net_scale(struct net *net, const char *name, uint32_t from);
int64_t net_relu(struct net *net, const char *name, uint32_t from);
/* ReLU with an upper limit above 0, as ReLU6. */
int64_t net_clipped_relu(struct net *net, const char *name, uint32_t from, float limit);
int64_t net_activation(struct net *net, const char *name, uint32_t from, enum activation activation);
int64_t net_max_pool(struct net *net, const char *name, uint32_t from, struct window window);
int64_t net_average_pool(struct net *net, const char *name, uint32_t from, struct window window);
/* The mean of all pixels of each channel: an average pool of the whole image. */
int64_t net_global_average(struct net *net, const char *name, uint32_t from);
int64_t net_dropout(struct net *net, const char *name, uint32_t from, float rate);
/* In training all values of a sample are 0 with probability `rate`, else divided by 1 - rate: Huang et al. 2016, "Deep
 * networks with stochastic depth", in the form of torchvision's "row" mode. Samples are drawn as dropout draws element
 * 0 (compute/dropout.h). An identity in evaluation. */
int64_t net_stochastic_depth(struct net *net, const char *name, uint32_t from, float rate);
int64_t net_local_response_norm(struct net *net, const char *name, uint32_t from, struct local_response_norm how);
int64_t net_add(struct net *net, const char *name, uint32_t left, uint32_t right);
/* The product of two inputs of the same shape; or each channel of one input times its number in the other, which has
 * one pixel (squeeze and excitation). That input becomes the second of the layer. */
int64_t net_multiply(struct net *net, const char *name, uint32_t left, uint32_t right);
/* From 1 to LAYER_INPUTS_MAX inputs of the same height and width. */
int64_t net_concat(struct net *net, const char *name, const uint32_t *from, uint32_t count);
/* Output pixel (y, x) is input pixel (y * stride, x * stride), with its channels in the middle of `channels`
 * channels; an odd channel of zeros goes after them. */
int64_t net_pad_channels(struct net *net, const char *name, uint32_t from, uint32_t channels, uint32_t stride);
/* An auxiliary head: training minimises the loss plus `weight` times the cross-entropy of these logits. Evaluation
 * omits the layers that only this one reads. */
int64_t net_auxiliary_loss(struct net *net, const char *name, uint32_t from, float weight);
int64_t net_softmax_loss(struct net *net, const char *name, uint32_t from);

/* Set how a parameter of layer `layer` is initialised, instead of Glorot uniform (weights), 0 (biases, beta) and 1
 * (gamma). 0, or -EINVAL when the layer has no such parameter. */
int net_initialize(struct net *net, int64_t layer, enum parameter_kind kind, struct initializer initializer);

/* Compute the totals and check the whole network, which is constant afterwards. 0 or -EINVAL. */
int net_finish(struct net *net);
/* The number count of the largest parameter; 0 without parameters. */
size_t net_most_numbers(const struct net *net);
/* The layer whose input is the embedding of an image: the last dense layer or convolution before the loss, on the way
 * of first inputs. NET_INPUT: there is none, or its input is the image. */
uint32_t net_embedding_layer(const struct net *net);
/* The first layer of a model that has other parameters for images of another size, for which `other` is the same model:
 * a dense layer that reads pixels. NULL: the parameters of both nets are interchangeable. */
const struct layer *net_find_sized(const struct net *net, const struct net *other);
/* NULL: the network has no parameter of that name. */
const struct parameter *net_parameter_find(const struct net *net, const char *name);
/* Freeze a trained parameter, as PyTorch's requires_grad = False does: forward and the gradients of other parameters
 * use it, but it is not updated. The running statistics of its layer still are. After net_finish and before the net
 * is used. Training needs at least one parameter that is not frozen. */
void net_freeze(struct net *net, uint32_t parameter);
/* The message of the first call that failed, "" when none did. */
const char *net_error(const struct net *net);

/* The word for a layer in --describe and in model files: the name of its kind, as "conv2d", or of its activation. */
const char *layer_word(const struct layer *layer);
const char *layer_kind_name(enum layer_kind kind);
const char *activation_name(enum activation activation);

/* Does the layer have parameters that are updated? */
static inline bool layer_is_trained(const struct layer *layer)
{
    return !layer->is_frozen && (layer->parameters[PARAMETER_WEIGHT] != NET_NO_PARAMETER ||
                                 layer->parameters[PARAMETER_GAMMA] != NET_NO_PARAMETER ||
                                 layer->parameters[PARAMETER_BETA] != NET_NO_PARAMETER);
}

/* The stream of random numbers from which dropout draws at this layer: the index of the layer in the whole net, and a
 * stream of its own for each of its parts. */
static inline uint32_t net_random_stream(const struct net *net, uint32_t layer)
{
    const struct net_share *const share = net->share;
    return share == NULL ? layer : share->layers[layer] + NET_LAYERS_MAX * share->parts[layer];
}

/* Is it a part of a parameter of the whole net, of which other towers have the other parts? */
static inline bool parameter_is_part(const struct net *net, uint32_t parameter)
{
    return net->share != NULL && net->share->is_part[parameter];
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

/* Does a convolution give every channel of its input filters of its own, which read no other channel? */
static inline bool layer_is_depthwise(const struct layer *layer)
{
    return layer->groups > 1 && layer->groups == layer->in.channels;
}

/* Is it an average pool of the whole image? It fits images of any size, and has a word of its own in model files. */
static inline bool layer_is_global_average(const struct layer *layer)
{
    return layer->kind == LAYER_AVERAGE_POOL && layer->kernel_h == layer->in.height &&
           layer->kernel_w == layer->in.width && layer->stride_h == 1 && layer->stride_w == 1 &&
           (layer->pad_top | layer->pad_bottom | layer->pad_left | layer->pad_right) == 0;
}

static inline size_t shape_count(struct shape shape)
{
    return (size_t)shape.channels * shape.height * shape.width;
}

/* ---- for netfile/ ---- */

/* Set net_error unless it is set already: later errors are consequences of the first. Returns -EINVAL. */
int net_fail(struct net *net, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Does the shape have at least one number, and no more than NET_COUNT_MAX? */
bool shape_fits(struct shape shape);
/* Does the layer have the padding of PADDING_SAME for its window? */
bool layer_pads_same(const struct layer *layer);
/* How parameters of a kind are initialised unless the model says otherwise. */
struct initializer initializer_default(enum parameter_kind kind);

#endif
