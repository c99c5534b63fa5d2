/* The modules of PyTorch that a network becomes: a tree whose paths are the names of the layers ("layer1.0.conv1"), and
 * for each node of it the kind of module that computes its layers. Main thread only. */
#ifndef PIPETRAIN_TORCH_TREE_H
#define PIPETRAIN_TORCH_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/net.h"

#define TORCH_NONE UINT32_MAX   /* no node, no place */
#define TORCH_IMAGE NET_INPUT   /* the value that is the network's input */

enum torch_kind {
    TORCH_LAYER,                /* the module of a layer; or no module, if the layer is an expression or a parameter */
    TORCH_NAMESPACE,            /* an nn.Module that only holds others */
    TORCH_LIST,                 /* an nn.ModuleList */
    TORCH_SEQUENTIAL,           /* an nn.Sequential */
    TORCH_CLASS,                /* a class of its own; the root is the class of the whole network */
};

/* How the value that a layer reads has to be reshaped: dense layers have values [N, units], all others
 * [N, channels, height, width]. */
enum torch_reshape { RESHAPE_NONE, RESHAPE_FLATTEN, RESHAPE_TO_IMAGE };

/* A word of a name between dots. */
struct torch_node {
    const char *word;           /* not terminated, `bytes` long; "" for the root */
    uint32_t bytes;
    uint32_t parent, child, next;       /* nodes: the first child, the next sibling; in the order of the layers */
    uint32_t place;             /* of the layer whose name ends here */
    uint32_t first, last, count;        /* the places of the layers in this subtree */
    enum torch_kind kind;
    bool is_block;              /* its layers are consecutive, read one value and provide one: */
    uint32_t input, output;
    uint32_t height;            /* number of classes inside of each other in the subtree */
};

/* A layer that computes a value, which has the number of its place. Loss layers have none. */
struct torch_place {
    const struct layer *layer;
    uint32_t node;
    uint32_t inputs[LAYER_INPUTS_MAX];  /* values */
    uint32_t last_reader;       /* place; place_count: it is an output of the network */
    uint32_t readers;
    bool is_needed;             /* for the logits; false: only auxiliary heads need it */
    bool is_flat;               /* it has the shape [N, units] */
};

struct torch_head { uint32_t value; float weight; };    /* an auxiliary loss */

struct torch_tree {
    const struct net *net;      /* borrowed */
    struct torch_place *places;
    struct torch_node *nodes;   /* parents before their children; the root is the first */
    struct torch_head *heads;
    uint32_t place_count, node_count, head_count;
    uint32_t logits;            /* value */
};

/* 0 or -ENOMEM. */
int torch_tree_init(struct torch_tree *tree, const struct net *net);
/* Accepts a tree of zeros. */
void torch_tree_release(struct torch_tree *tree);

bool torch_value_is_flat(const struct torch_tree *tree, uint32_t value);
/* For the input of a layer with one input. */
enum torch_reshape torch_layer_reshapes(const struct torch_tree *tree, uint32_t place);
/* For the input of a node that has a module. */
enum torch_reshape torch_node_reshapes(const struct torch_tree *tree, uint32_t node);
/* Is the node the activation of the convolution or dense layer whose name it extends ("conv1.relu")? Its function is
 * called then, without a module. */
bool torch_node_is_function(const struct torch_tree *tree, uint32_t node);
/* Does the layer compute its value by a module? False: by an expression (add, multiply, concat) or with a parameter
 * (scale). */
bool torch_layer_has_module(const struct layer *layer);
/* Are the children named 0, 1, 2, ...? */
bool torch_node_is_numbered(const struct torch_tree *tree, uint32_t node);
/* Can the word be used as an attribute of a module: is it an identifier, and no name that modules have themselves, nor,
 * if `is_in_layer`, convolutions and other layers of PyTorch? */
bool torch_word_is_attribute(const char *word, uint32_t bytes, bool is_in_layer);
/* The outermost node below `top` and on the way from there to `node`, or `node` itself, that is a block with a module;
 * TORCH_NONE: there is none. */
uint32_t torch_node_find_block(const struct torch_tree *tree, uint32_t top, uint32_t node);

#endif
