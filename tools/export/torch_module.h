/* Writes a network as a Python module with its nn.Module for PyTorch. Main thread only. */
#ifndef PIPETRAIN_TORCH_MODULE_H
#define PIPETRAIN_TORCH_MODULE_H

#include <stdio.h>

#include "compute/net.h"
#include "formats/safetensors.h"
#include "loader/augment/augment.h"
#include "tools/export/export_subject.h"

export_writer torch_module_write;

/* What the source is written from; borrowed. Texts may contain anything: they are written as literals. */
struct torch_module {
    const struct net *net;
    const struct augment *augment;      /* how images are scaled in evaluation */
    const char *const *names;           /* of all classes, "" for one without a name; NULL: no class has a name */
    /* The tensors of a file, and the same in the same order with the names of the network; NULL: no file. */
    const struct safetensors_index *file, *translated;
};

/* Write the source: the class Network and the functions preprocess, transform (of images with one or three channels)
 * and load. 0 or -ENOMEM. */
int torch_module_print(const struct torch_module *module, FILE *out);

#endif
