/* The description of a network: layers with shapes and parameters, no memory, no
 * device. Models build one with the net_* functions; net_finish derives the rest.
 * Layers are in execution order and name their input by index, so that branches
 * can be described (this program's first models are chains). */
#ifndef PIPETRAIN_NET_H
#define PIPETRAIN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum layer_kind {
    LAYER_CONV2D,
    LAYER_DENSE,
    LAYER_RELU,
    LAYER_MAX_POOL,
    LAYER_DROPOUT,
    LAYER_SOFTMAX_LOSS,     /* softmax cross-entropy with integer labels; the last layer */
    LAYER_KIND_COUNT
};

enum padding { PADDING_VALID, PADDING_SAME };   /* models spec 1.1: SAME may be asymmetric */

enum initializer { INIT_ZERO, INIT_GLOROT_UNIFORM };

struct shape { uint32_t channels, height, width; };     /* of one sample */

#define NET_LAYERS_MAX 1024
#define NET_PARAMETERS_MAX (2 * NET_LAYERS_MAX)
#define NET_COUNT_MAX 0x7fffffffu   /* numbers in one sample of a layer, and in one parameter */
#define NET_INPUT UINT32_MAX        /* layer.input of a layer that reads the image */
#define NET_NO_PARAMETER UINT32_MAX
#define NET_NO_LAYER UINT32_MAX

struct layer {
    enum layer_kind kind;
    char name[48];              /* PyTorch-style, unique: "conv1", "pool1", "fc1" */
    uint32_t input;             /* layer index or NET_INPUT */
    struct shape in, out;       /* dense: in is what is flattened (C,H,W order), out = {units, 1, 1} */
    uint32_t kernel_h, kernel_w, stride_h, stride_w;            /* conv2d, max_pool */
    uint32_t pad_top, pad_bottom, pad_left, pad_right;
    float rate;                 /* dropout: share of values set to 0, in [0, 1) */
    uint32_t weight, bias;      /* parameter indices or NET_NO_PARAMETER */
    /* Derived by net_finish: */
    bool relu;                  /* conv2d, dense: a ReLU layer follows and nothing else reads this output */
    uint32_t folded_into;       /* relu: the layer that does its work, or NET_NO_LAYER */
    uint64_t macs;              /* multiply-accumulates per sample, forward */
};

struct parameter {
    char name[64];              /* "conv1.weight" */
    uint32_t layer;
    uint32_t rank, dims[4];     /* conv [out, in, kh, kw], dense [out, in], bias [out] */
    size_t count;               /* product of dims */
    enum initializer init;
    uint64_t fan_in, fan_out;   /* models spec 1.3 */
};

struct net {
    char model[48];
    struct shape input;
    uint32_t classes;
    uint32_t layer_count, parameter_count;
    struct layer *layers;
    struct parameter *parameters;
    size_t trainable_count;     /* numbers in all parameters */
    uint64_t macs;              /* per sample, forward, conv + dense */
    char error[192];            /* of net_error */
};

/* An empty net for images of `input`. 0 or -ENOMEM. */
int net_open(struct net **net_out, const char *model, struct shape input, uint32_t classes);
void net_close(struct net *net);

/* Each appends a layer that reads `from` (a layer index or NET_INPUT) and returns its
 * index (>= 0), or -EINVAL when it does not fit, with a message from net_error. Names
 * must be unique. After the first failure every call on the net fails with it, so
 * that a model may append all its layers and look only at net_finish. */
int64_t net_conv2d(struct net *net, const char *name, uint32_t from, uint32_t filters, uint32_t kernel,
                   uint32_t stride, enum padding padding);
int64_t net_dense(struct net *net, const char *name, uint32_t from, uint32_t units);
int64_t net_relu(struct net *net, const char *name, uint32_t from);
int64_t net_max_pool(struct net *net, const char *name, uint32_t from, uint32_t window, uint32_t stride,
                     enum padding padding);
int64_t net_dropout(struct net *net, const char *name, uint32_t from, float rate);
int64_t net_softmax_loss(struct net *net, const char *name, uint32_t from);

/* Derive folding and totals and check the whole; the net is constant afterwards. 0 or -EINVAL. */
int net_finish(struct net *net);
/* Does every layer read the one before it? The backends compute chains only. */
bool net_is_chain(const struct net *net);
/* What the first failed call found wrong, "" when nothing. */
const char *net_error(const struct net *net);

static inline size_t shape_count(struct shape shape)
{
    return (size_t)shape.channels * shape.height * shape.width;
}

#endif
