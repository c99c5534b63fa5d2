/* The classes of a network for PyTorch as Python source. Main thread only. */
#ifndef PIPETRAIN_TORCH_CODE_H
#define PIPETRAIN_TORCH_CODE_H

#include <stdio.h>

#include "tools/export/torch_tree.h"

/* What the classes use that the source has to define or import before them, as bits. */
enum torch_use {
    USE_FUNCTIONAL = 1 << 0,            /* torch.nn.functional as F */
    USE_ORDERED_DICT = 1 << 1,
    USE_PADDED_CONV = 1 << 2,           /* PaddedConv2d */
    USE_PADDED_MAX_POOL = 1 << 3,       /* PaddedMaxPool2d */
    USE_PADDED_AVERAGE_POOL = 1 << 4,   /* PaddedAvgPool2d */
    USE_NORM_OF_SHIFT = 1 << 5,         /* ShiftedNorm2d */
    USE_FLAT_NORM_OF_SHIFT = 1 << 6,    /* ShiftedNorm1d */
    USE_LAYER_NORM = 1 << 7,            /* LayerNorm2d */
    USE_STOCHASTIC_DEPTH = 1 << 8,      /* StochasticDepth */
    USE_PAD_CHANNELS = 1 << 9,          /* PadChannels */
};

/* The first layer of a kind that torch_code_write does not know; NULL: it knows all layers. */
const struct layer *torch_code_find_unknown(const struct net *net);
/* Write a class for every kind of block, then the class Network; *uses_out has bits of enum torch_use. 0 or -ENOMEM. */
int torch_code_write(const struct torch_tree *tree, FILE *out, unsigned *uses_out);

#endif
